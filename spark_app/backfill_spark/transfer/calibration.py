"""How fast files are copied here: some are, into a folder of this machine that is removed again.

Of files that are grafted the copied columns are timed and the computed ones, one after the other, as a job has them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from backfill_core.protocol.work import FileRange
from backfill_core.transfer.ways import Grafted
from backfill_spark.delta.added_files import Statistics
from backfill_spark.delta.statistics.footer_statistics import CopiedFile
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.source import SupportsFiles, SupportsPin
from backfill_spark.rows.columns import quoted
from backfill_spark.transfer.file_transfer import FileTransfer, PlannedCopy
from backfill_spark.transfer.job_ways import JobWays

if TYPE_CHECKING:
    from backfill_spark.driver.job_context import OpenedJob

TIMES = 2
"""The second time counts: a cold JVM is slow."""


def copied_rows_per_s(job: OpenedJob, ways: JobWays, files: Sequence[FileRange], folder: str) -> float | None:
    """Return the rows a second of one thread that copies some files into an empty folder; None: they are decoded."""
    pairs, _ = ways.split(files)
    if not pairs:
        return None
    planned = [_copied_part(one) for _, one in pairs]
    rows, seconds = sum(one.rows for one in planned), 0.0
    for attempt in range(TIMES):
        began_s = time.monotonic()
        transfer = FileTransfer(
            job.spark, source=ability(job.source, SupportsFiles).path, target=folder, measure=_unmeasured(planned)
        )
        if transfer.copy(planned, str(attempt), check=lambda: None).left:
            return None
        seconds = time.monotonic() - began_s
    return rows / (seconds + _computed_s(job, ways, [one for one, _ in pairs], folder))


def _copied_part(planned: PlannedCopy) -> PlannedCopy:
    way = planned.way
    return replace(planned, way=way.taken) if isinstance(way, Grafted) else planned


def _computed_s(job: OpenedJob, ways: JobWays, files: Sequence[FileRange], folder: str) -> float:
    """Return the seconds in which the computed columns of some files are written; 0: there are none."""
    if not isinstance(ways.best, Grafted):
        return 0.0
    computed = job.transform.project(ability(job.source, SupportsPin).read(files))
    chosen, seconds = computed.select(*map(quoted, ways.best.computed)), 0.0
    for attempt in range(TIMES):
        began_s = time.monotonic()
        chosen.write.parquet(f"{folder}/computed{attempt}")
        seconds = time.monotonic() - began_s
    return seconds


def _unmeasured(planned: Sequence[PlannedCopy]) -> Callable[[str, CopiedFile], Statistics]:
    """Return what stands for the committer of a target that may not be there yet: files have the rows that their logs say."""
    rows = {one.file.name: one.rows for one in planned}
    return lambda path, _: Statistics(0, rows[path.rpartition("/")[2]], None)
