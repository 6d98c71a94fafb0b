"""Measures the copy speed: copies some files into a temporary folder.

For files with computed columns, the copied and the computed columns are timed one after the other, as in a job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from backfill_core.file_copies.copy_modes import PartlyComputed
from backfill_core.file_copies.hidden_rows import Outcome, outcome
from backfill_core.positions.file_ranges import FileRange
from backfill_spark.delta.added_files import Statistics
from backfill_spark.delta.source_file import SourceFile
from backfill_spark.delta.statistics.footer_statistics import CopiedFile
from backfill_spark.delta.types import quoted
from backfill_spark.file_copies.copied_files import PlannedCopy
from backfill_spark.file_copies.copier import FileTransfer
from backfill_spark.file_copies.hidden_rows import failing_rows
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
    judged_s = _judged_s(tables, modes, [copy.file for _, copy in pairs if copy.is_unfiltered])
    return rows / (seconds + judged_s + _computed_s(tables, modes, [file for file, _ in pairs], folder))


def hidden_rows(tables: Tables, modes: JobCopyModes, files: Sequence[int], *, rows_max: int) -> int:
    """Return about how many failing rows copies of some files would hide, from files with at most about `rows_max` rows.

    Args:
        tables: The tables of the plan.
        modes: Copy modes of the files.
        files: Indexes of files with rows.
        rows_max: Number of rows for which the filter is evaluated.
    """
    total, sample, sampled = 0, list[PlannedCopy](), 0
    for copy in modes.unfiltered(files):
        visible = copy.rows - copy.file.deleted
        total += visible
        if not sample or sampled + visible <= rows_max:
            sample.append(copy)
            sampled += visible
    if not sampled or modes.source is None or tables.transform.where is None:
        return 0
    failing = failing_rows(tables.spark, modes.source, tables.transform.where, [copy.file for copy in sample])
    kept = 0
    for copy, rows in zip(sample, failing, strict=True):
        count, visible = 0 if rows is None else rows.rows, copy.rows - copy.file.deleted
        kept += count if outcome(copy.file.path, visible=visible, failing=count) is Outcome.HIDE else 0
    return round(kept * total / sampled)


def _copied_part(planned: PlannedCopy) -> PlannedCopy:
    mode = planned.mode
    part = mode.taken if isinstance(mode, PartlyComputed) else mode
    return replace(planned, mode=part, is_unfiltered=False)


def _judged_s(tables: Tables, modes: JobCopyModes, files: Sequence[SourceFile]) -> float:
    """Return the seconds that the filter of some files takes; 0 if there are none."""
    seconds, where = 0.0, tables.transform.where
    for _ in range(TIMES) if files and modes.source is not None and where is not None else ():
        assert modes.source is not None
        assert where is not None
        began_s = time.monotonic()
        list(failing_rows(tables.spark, modes.source, where, files))
        seconds = time.monotonic() - began_s
    return seconds


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
