"""Fills columns of a live table: executes the steps that the core decides on, and checks every row at the end.

The log holds the whole progress. A killed process leaves files that no commit names; the next one removes them, and continues.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Event
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from backfill_core.errors import BackfillError
from backfill_core.in_place.conflicts import Replacement
from backfill_core.in_place.files import LiveFile
from backfill_core.in_place.rounds import (
    CommitStaged,
    Filled,
    InPlaceRounds,
    ListFiles,
    StageFiles,
    WaitUntil,
)
from backfill_spark.crash_points import crash_point
from backfill_spark.delta.source_file import SourceFile
from backfill_spark.delta.types import quoted
from backfill_spark.file_copies.copied_files import PlannedCopy
from backfill_spark.in_place.delta.actions import FilledCopy, with_vector
from backfill_spark.in_place.delta.commits import EPOCH_BITS
from backfill_spark.in_place.delta.live_table import FillRequest, LiveTable
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.opening.failures import explain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAIT_MAX_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class FillProgress:
    """Progress of a running job."""

    version: int
    """Newest version that the job has seen."""

    rounds: int
    files_filled: int
    rows_filled: int
    """Visible rows of the filled files."""

    files_lost: int
    """Staged files that foreign commits made useless."""

    files_left: int
    rows_left: int


@dataclass(frozen=True, slots=True)
class FillReceipt:
    """Result of a job, checked at one version."""

    version: int
    """Version without a file to do."""

    undo_version: int
    """Version before the first change of the job; RESTORE to it also undoes the changes of other writers."""

    rows: int
    """Rows of the version."""

    rows_wrong: int
    """Rows in scope whose value differs from the expression."""

    progress: FillProgress


def fill_in_place(
    spark: SparkSession,
    request: FillRequest,
    *,
    check: Callable[[], None] = lambda: None,
    report: Callable[[FillProgress], None] = lambda _: None,
) -> FillReceipt:
    """Fill columns of a table until no file is left to do, and compare each row with the expressions.

    Args:
        spark: The session.
        request: The table and the expressions.
        check: Called often; an exception that it raises ends the job, and a later call continues it.
        report: Called after each commit.

    Raises:
        BackfillError: see `LiveTable` and `InPlaceCommitter`.
    """
    return _Fill(spark, request, check, report).run()


class _Fill:
    """One attempt."""

    def __init__(
        self,
        spark: SparkSession,
        request: FillRequest,
        check: Callable[[], None],
        report: Callable[[FillProgress], None],
    ) -> None:
        self._spark, self._request, self._check, self._report = spark, request, check, report
        self._table = LiveTable(spark, request)
        self._table.check_sample()
        self._undo = self._table.version
        self._rounds = InPlaceRounds(self._table.scope)
        self._attempt = self._work = 0
        self._epoch = 1

    def run(self) -> FillReceipt:
        """Execute steps until the end."""
        self._attempt = self._table.committer.begin_attempt()
        with suppress(BackfillError, *JAVA_ERRORS):  # the next attempt, or VACUUM, removes them
            self._table.sink.remove_orphans(self._attempt)
        receipt: FillReceipt | None = None
        while receipt is None:
            self._check()
            table = self._table
            try:
                receipt = self._step()
            except JAVA_ERRORS as error:
                sides = (table.sink, table.transform, table.source)
                raise explain(error, self._spark, "filling the columns", *sides) from error
        return receipt

    def _step(self) -> FillReceipt | None:
        """Execute one step; return the receipt after the last one."""
        match self._rounds.next_step(_now_ms()):
            case ListFiles():
                version, files = self._table.listed()
                self._rounds.listed(version, files, _now_ms())
            case StageFiles() as batch:
                self._rounds.staged(batch, self._staged(batch.files))
            case CommitStaged() as step:
                self._commit(step)
            case WaitUntil(at_ms=at_ms):
                Event().wait(min(WAIT_MAX_S, max(0, at_ms - _now_ms()) / 1000))
            case Filled(version=version):
                return self._receipt(version)
        return None

    # ------------------------------------------------------------------ staging
    def _staged(self, files: Sequence[LiveFile]) -> list[Replacement]:
        self._work += 1
        planned: dict[str, PlannedCopy] = {}
        for file in files:
            copy = self._table.planned(self._source_file(file))
            if copy is not None:
                # The commit names the table's own vector, so that the copy needs none.
                planned[file.path] = replace(copy, file=replace(copy.file, vector=None))
        folder = self._table.sink.folder_of(self._attempt, self._work)
        done = self._table.copier.copy(list(planned.values()), folder, check=self._check)
        copied = {copy.planned.file.path: copy.staged for copy in done.copied}
        return [
            Replacement(file, handle=FilledCopy((copied[file.path],), self._action(file)))
            if file.path in copied
            else self._decoded(file, number)
            for number, file in enumerate(files)
        ]

    def _decoded(self, file: LiveFile, number: int) -> Replacement:
        """Write the visible rows of a file again; only a commit that leaves its deletion vector unchanged fits them."""
        self._check()
        table, action = self._table, self._action(file)
        rows = table.transform.apply(table.source.rows_of([action], table.version))
        paths = table.sink.stage_of(rows, f"d{number}", attempt=self._attempt, work_id=self._work)
        files = table.committer.with_lines(table.committer.measure(paths))
        return Replacement(file, keeps_order=False, handle=FilledCopy(files, action))

    def _source_file(self, file: LiveFile) -> SourceFile:
        logged = self._table.files[file.path]
        return SourceFile.of({**json.loads(self._action(file))["add"], "stats": logged.statistics})

    def _action(self, file: LiveFile) -> str:
        """Return the `add` action of a file with its current deletion vector, without statistics."""
        return with_vector(self._table.files[file.path].action, file.vector)

    # ------------------------------------------------------------------ committing
    def _commit(self, step: CommitStaged) -> None:
        crash_point("before_fill")
        txn_version = (self._attempt << EPOCH_BITS) + self._epoch
        version, foreign = self._table.committer.replace(txn_version, step.files, after=step.version)
        crash_point("after_fill")
        self._epoch += 1
        result = self._rounds.committed(version, foreign, _now_ms())
        for lost in result.lost:
            assert isinstance(lost.handle, FilledCopy)
            self._table.sink.discard([file.path for file in lost.handle.files])
        self._run_hooks()
        if foreign.relaid:
            self._table = LiveTable(self._spark, self._request)
        self._report(self._progress(version))

    def _run_hooks(self) -> None:
        try:
            self._table.committer.run_hooks()
        except BackfillError:
            return  # checksums and checkpoints only speed up reads; the next commit tries again

    def _progress(self, version: int) -> FillProgress:
        rounds = self._rounds
        return FillProgress(
            version,
            rounds.rounds,
            rounds.files_filled,
            rounds.rows_filled,
            rounds.files_lost,
            rounds.files_left,
            rounds.rows_left,
        )

    # ------------------------------------------------------------------ the receipt
    def _receipt(self, version: int) -> FillReceipt:
        """Compute every row of a version again, and count the rows that would change."""
        table, select = self._table, self._table.transform.select or ()
        outputs = dict(zip(table.schema.names, select, strict=True))
        same = F.lit(True)
        for name in table.scope.columns:
            same = same & F.col(quoted(name)).eqNullSafe(F.expr(outputs[name]))
        compared = table.source.at(version)
        counts = compared.agg(F.count(F.lit(1)).alias("rows"), F.count_if(~same).alias("wrong")).first()
        assert counts is not None
        return FillReceipt(version, self._undo, int(counts["rows"]), int(counts["wrong"]), self._progress(version))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
