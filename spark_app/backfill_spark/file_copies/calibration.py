"""Measures the copy speed: copies some files into a temporary folder.

For files with computed columns, the copied and the computed columns are timed one after the other, as in a job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from backfill_core.file_copies.copy_modes import PartlyComputed
from backfill_core.positions.file_ranges import FileRange
from backfill_spark.delta.added_files import Statistics
from backfill_spark.delta.statistics.footer_statistics import CopiedFile
from backfill_spark.delta.types import quoted
from backfill_spark.file_copies.copied_files import PlannedCopy
from backfill_spark.file_copies.copier import FileTransfer
from backfill_spark.file_copies.planner import JobCopyModes
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.source import SupportsFiles, SupportsPin

if TYPE_CHECKING:
    from backfill_spark.opening.tables import Tables

TIMES = 2
"""Number of runs; only the last one is timed, because a cold JVM is slow."""


def copied_rows_per_s(tables: Tables, modes: JobCopyModes, files: Sequence[FileRange], folder: str) -> float | None:
    """Return the rows per second of one thread that copies some files into an empty folder; `None` if they are decoded."""
    pairs, _ = modes.split(files)
    if not pairs:
        return None
    planned = [_copied_part(copy) for _, copy in pairs]
    rows, seconds = sum(copy.rows for copy in planned), 0.0
    for attempt in range(TIMES):
        began_s = time.monotonic()
        transfer = FileTransfer(
            tables.spark, source=ability(tables.source, SupportsFiles).path, target=folder, measure=_unmeasured(planned)
        )
        if transfer.copy(planned, str(attempt), check=lambda: None).left:
            return None
        seconds = time.monotonic() - began_s
    return rows / (seconds + _computed_s(tables, modes, [file for file, _ in pairs], folder))


def _copied_part(planned: PlannedCopy) -> PlannedCopy:
    mode = planned.mode
    return replace(planned, mode=mode.taken) if isinstance(mode, PartlyComputed) else planned


def _computed_s(tables: Tables, modes: JobCopyModes, files: Sequence[FileRange], folder: str) -> float:
    """Return the seconds that writing the computed columns of some files takes; 0 if there are none."""
    if not isinstance(modes.best, PartlyComputed):
        return 0.0
    computed = tables.transform.project(ability(tables.source, SupportsPin).read(files))
    chosen, seconds = computed.select(*map(quoted, modes.best.computed)), 0.0
    for attempt in range(TIMES):
        began_s = time.monotonic()
        chosen.write.parquet(f"{folder}/computed{attempt}")
        seconds = time.monotonic() - began_s
    return seconds


def _unmeasured(planned: Sequence[PlannedCopy]) -> Callable[[str, CopiedFile], Statistics]:
    """Return a stand-in for the committer of a target that may not exist yet; it returns the row counts of the source's log."""
    rows = {copy.file.name: copy.rows for copy in planned}
    return lambda path, _: Statistics(0, rows[path.rpartition("/")[2]], None)
