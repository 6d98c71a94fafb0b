"""Computes columns of files of a live table, and stages copies of the files with them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from backfill_core.file_copies.copy_modes import PARTLY_COMPUTED_ROWS_MIN, Copying, of_file
from backfill_core.file_copies.facts import FileFacts
from backfill_core.file_copies.unknown_columns import kept_of_files
from backfill_core.in_place.conflicts import Replacement
from backfill_core.in_place.files import LiveFile
from backfill_core.in_place.work import FilesFilled, FillFiles
from backfill_spark.crash_points import crash_point
from backfill_spark.delta.stored_values import StoredValues
from backfill_spark.file_copies.copied_files import Copied, PlannedCopy
from backfill_spark.file_copies.planner import JobCopyModes
from backfill_spark.in_place.delta.actions import action_now, source_file
from backfill_spark.jvm.errors import JAVA_ERRORS, row_failure, whole_text
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.committer import CompletesEntries
from backfill_spark.ports.source import SupportsFiles
from backfill_spark.runners.runner import WorkRunner
from backfill_spark.work.context import WorkContext


def _run(work: FillFiles, context: WorkContext) -> FilesFilled:
    crash_point("before_stage")
    committer, modes = ability(context.tables.committer, CompletesEntries), context.copies.modes
    planned = [copy for copy in (planned_copy(modes, file) for file in work.files) if copy is not None]
    hidden = frozenset(file.path for file in work.files if file.vector is not None)
    copies = {copy.planned.file.path: copy.staged for copy in _copied(planned, hidden, context)}
    replacements = [
        Replacement(file, files=committer.with_lines([copies[file.path]]))
        if file.path in copies
        else _decoded(work, file, number, context)
        for number, file in enumerate(work.files)
    ]
    crash_point("after_stage")
    return FilesFilled(work.work_id, tuple(replacements))


def _copied(planned: Sequence[PlannedCopy], hidden: Collection[str], context: WorkContext) -> Sequence[Copied]:
    """Copy files, and return the copies; a file that is left out must be decoded.

    A copy also has values of rows that a deletion vector hides. If a value cannot be computed, perhaps of such a row, the files with
    `hidden` rows are left out: decoding computes only the rows that readers see.
    """
    visible = [copy for copy in planned if copy.file.path not in hidden]
    try:
        return context.copy_files(planned).copied
    except JAVA_ERRORS as error:
        if len(visible) == len(planned) or not _is_of_a_row(error):
            raise
    return context.copy_files(visible).copied


def _is_of_a_row(error: Exception) -> bool:
    """Return True if an expression fails for a row, or yields a null that the table does not allow."""
    return row_failure(error) is not None or StoredValues.raised(whole_text(error))


def planned_copy(modes: JobCopyModes, live: LiveFile) -> PlannedCopy | None:
    """Return the copy of a file; `None` if it must be decoded.

    Small files are copied too, although decoding would cost less: only a copy can take a deletion vector that a writer adds. The table
    has the copied values already, so neither the spelling of a partition value nor a null in a column that is NOT NULL is a reason.
    """
    file, table = source_file(live), replace(modes.table, partitions=())
    rows, _ = file.counts(())
    known = None if rows is None else max(rows, PARTLY_COMPUTED_ROWS_MIN)
    nulls = dict.fromkeys((column.physical for column in table.columns), 0)
    facts = FileFacts(known, nulls, is_elsewhere=file.is_elsewhere)
    mode = of_file(modes.best, modes.transform, table, modes.target, facts)
    if rows is None or not isinstance(mode, Copying):
        return None
    return PlannedCopy(file, mode, file.partition, rows, kept_of_files(modes.table, modes.transform))


def _decoded(work: FillFiles, file: LiveFile, number: int, context: WorkContext) -> Replacement:
    """Write the visible rows of a file again; only a commit that leaves its deletion vector unchanged fits them."""
    context.check()
    tables = context.tables
    rows = ability(tables.source, SupportsFiles).rows_of([action_now(file)], work.version)
    staged = context.stage(tables.transform.apply(rows), what=f"file {file.path}", folder=f"d{number}")
    return Replacement(file, keeps_order=False, files=ability(tables.committer, CompletesEntries).with_lines(staged))


RUNNER = WorkRunner("FillFiles", FillFiles, _run)
