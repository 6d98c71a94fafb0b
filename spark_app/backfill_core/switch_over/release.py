"""The entries with which a job leaves a target that users write to, and returns to it after an undo: one entry each.

While they are written neither table accepts writes. Between the end of the job's state and the entry that stores the source's folder,
the mark in the source refuses a new copy; the name still points to the source.
"""

from __future__ import annotations

from collections.abc import Collection

from backfill_core.source_fence.fence import LogEntry, Open, Request, TableHead
from backfill_core.switch_over.mark import lift_step
from backfill_core.switch_over.source_name import Pointing, point_step, pointing, unpoint_step, unpointed
from backfill_core.switch_over.state_feature import unneeded_step


def leave_step(head: TableHead, request: Request, source: str, domains: Collection[str]) -> Pointing | LogEntry:
    """Return that the target stores the source's folder and has no feature of states, or the log entry for both.

    Args:
        head: Newest version of the target, which has no state of the job.
        request: The request.
        source: Folder of the source.
        domains: Names of the target's metadata domains; see `unneeded_step`.
    """
    entry = unneeded_step(pointing(head, source), request, domains)
    return entry if isinstance(entry, LogEntry) else point_step(head, request, source)


def return_step(head: TableHead, request: Request) -> Open | LogEntry:
    """Return that the target has neither a fence of the job nor a folder of a source, or the log entry that removes both.

    The name points to the source already, so a later command needs no folder.

    Raises:
        SwitchBlockedError: see `lift_step`.
    """
    entry = lift_step(unpointed(head), request, None)
    return entry if isinstance(entry, LogEntry) else unpoint_step(head, request)
