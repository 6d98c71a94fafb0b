"""Feature of the target that only states of jobs need: it leaves with the last state, so that every writer can use the table.

One log entry, because Delta's own statement takes a second or more, during which neither table accepts writes.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from backfill_core.source_fence.fence import LogEntry, Open, Request, TableHead, feature_entry
from backfill_core.switch_over.mark import OPERATION

STATE_FEATURE: Final = "domainMetadata"
"""Table feature that a job's state needs, and that some writers lack."""

NEEDED_BY: Final = frozenset({"clustering", "rowTracking"})
"""Features that need it too."""


def unneeded_step(head: TableHead, request: Request, domains: Collection[str]) -> Open | LogEntry:
    """Return that the target keeps its features, or the log entry that removes the feature of states.

    Args:
        head: Newest version of the target.
        request: The request.
        domains: Names of its metadata domains, of any writer; the feature stays if there is one.
    """
    features = {*head.protocol.features}
    if domains or STATE_FEATURE not in features or features & NEEDED_BY or head.protocol.writer_features is None:
        return Open(head.version)
    return feature_entry(head, request, OPERATION, STATE_FEATURE)
