"""Messages between the counter and its source; a position is `{partition: offset after the last one}`, as in JSON."""

from __future__ import annotations

from dataclasses import dataclass

from backfill_core.protocol.work import StagedFile, WorkKind


@dataclass(frozen=True, slots=True)
class ReadOffsets:
    """Read the records of a partition at the offsets `[start, stop)`, and stage them."""

    work_id: int
    kind: WorkKind
    partition: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class OffsetsRead:
    """`ReadOffsets` is finished."""

    work_id: int
    files: tuple[StagedFile, ...]
