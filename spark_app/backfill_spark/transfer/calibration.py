"""How fast files are copied here: some are, into a folder of this machine that is removed again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from backfill_core.protocol.work import FileRange
from backfill_spark.delta.added_files import Statistics
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.source import SupportsFiles
from backfill_spark.transfer.file_transfer import FileTransfer, PlannedCopy
from backfill_spark.transfer.job_ways import JobWays

if TYPE_CHECKING:
    from backfill_spark.driver.job_context import OpenedJob

TIMES = 2
"""The second time counts: a cold JVM is slow."""


def copied_rows_per_s(job: OpenedJob, ways: JobWays, files: Sequence[FileRange], folder: str) -> float | None:
    """Return the rows a second of one thread that copies some files into an empty folder; None: none of them is copied."""
    pairs, _ = ways.split(files)
    if not pairs:
        return None
    planned = [one for _, one in pairs]
    rows, seconds = sum(one.rows for one in planned), 0.0
    for attempt in range(TIMES):
        began_s = time.monotonic()
        FileTransfer(
            job.spark, source=ability(job.source, SupportsFiles).path, target=folder, measure=_unmeasured(planned)
        ).copy(planned, str(attempt), check=lambda: None)
        seconds = time.monotonic() - began_s
    return rows / seconds


def _unmeasured(planned: Sequence[PlannedCopy]) -> Callable[[str, bool], Statistics]:
    """Return what stands for the committer of a target that may not be there yet: files have the rows that their logs say."""
    rows = {one.file.name: one.rows for one in planned}
    return lambda path, _: Statistics(0, rows[path.rpartition("/")[2]], None)
