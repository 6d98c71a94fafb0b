"""Folder of the source that a target has replaced: the target stores it from the flip until an undo.

The mark is in the source's log, and the name of the source may point to the target. So a later command needs the folder before it can
read the mark. Without a mark in that folder no switch-over is under way, and the folder tells that one was completed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from backfill_core.source_fence.fence import LogEntry, Open, Request, TableHead, property_entry
from backfill_core.source_fence.table_protocol import SWITCHED_FROM
from backfill_core.switch_over.mark import OPERATION


@dataclass(frozen=True, slots=True)
class Pointing:
    """The target stores the folder of its source."""

    source: str


def source_behind(named: TableHead, *, target: str) -> str:
    """Return the folder of a source that a spec gives by its name.

    Args:
        named: Newest version of the table to which the name points.
        target: Path of the target.
    """
    if named.path != target:
        return named.path
    return named.properties.get(SWITCHED_FROM) or named.path


def pointing(head: TableHead, source: str) -> TableHead:
    """Return a target that stores the folder of its source."""
    return _with_properties(head, {**head.properties, SWITCHED_FROM: source})


def unpointed(head: TableHead) -> TableHead:
    """Return a target that stores no folder of a source."""
    return _with_properties(head, {name: value for name, value in head.properties.items() if name != SWITCHED_FROM})


def point_step(head: TableHead, request: Request, source: str) -> Pointing | LogEntry:
    """Return that the target stores the folder of its source, or the log entry that stores it."""
    if head.properties.get(SWITCHED_FROM) == source:
        return Pointing(source)
    properties = pointing(head, source).properties
    return property_entry(head, request, OPERATION, properties, {"job": request.job, "source": source})


def unpoint_step(head: TableHead, request: Request) -> Open | LogEntry:
    """Return that the target stores no folder of a source, or the log entry that removes it."""
    if SWITCHED_FROM not in head.properties:
        return Open(head.version)
    return property_entry(head, request, OPERATION, unpointed(head).properties, {"job": request.job})


def _with_properties(head: TableHead, properties: Mapping[str, str]) -> TableHead:
    return replace(head, metadata={**head.metadata, "configuration": dict(properties)})
