"""Staging of one step of the source for the target: copies, files with new deletion vectors, and removals."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from backfill_core.errors import SourceDamagedError, TargetChangedError, UnsupportedTargetFeatureError
from backfill_core.file_copies.copy_digest import CopyDigest, statistics_digest
from backfill_core.file_copies.copy_modes import Decoded
from backfill_core.log_shipping.actions import FileAdded
from backfill_core.log_shipping.target_files import OtherVector, Removal, TargetCopy, TargetFiles, TargetStep
from backfill_core.positions.source_names import folder_of
from backfill_core.protocol.work import RemovedFile, StagedFile, StagedMode
from backfill_spark.delta.added_files import CommitLine
from backfill_spark.delta.source_file import SourceFile
from backfill_spark.file_copies.copied_files import FilteredFile, MadeCopy, PlannedCopy
from backfill_spark.log_shipping.file_actions import removal, with_fields
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.source import SupportsLog

if TYPE_CHECKING:
    from backfill_spark.file_copies.planner import JobCopyModes
    from backfill_spark.work.context import WorkContext

VECTORS_HINT = "Run ALTER TABLE … SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true') on the target, then start the job again."


def stage_step(
    step: TargetStep, version: int, context: WorkContext
) -> tuple[tuple[StagedFile, ...], tuple[RemovedFile, ...]]:
    """Copy new files, and return the commit's added and removed files; a file with a new vector is in both.

    Args:
        step: The changes that the target needs.
        version: The source's version after the step.
        context: Context of the work.

    Raises:
        TargetChangedError: the target lacks the copy of a source file.
        UnsupportedTargetFeatureError: the target does not support deletion vectors.
        SourceDamagedError, AccountingError: a file differs from the source's log.
    """
    modes = context.copies.modes
    _check_present(step, context)
    _check_kept(step, modes, context)
    step, sources = _with_new_copies(step, context)
    copies, decoded = _planned(step, modes)
    _check_vectors(step, modes, context)
    unchanged = [file.source.vector for file in sources if file.failing is None and file.source.vector is not None]
    done = context.copy_files(copies, vectors=unchanged)
    hidden, hiding = context.hide_rows(sources)
    by_path = {copy.file.path: copy for copy in step.copies}
    decoded += [by_path[planned.file.path] for planned in done.left]
    # Spark logs its files as a data change, so the files that they replace must be logged as one too.
    changes = any(not copy.data_change for copy in decoded)
    files = [_flagged(file.staged, changes or by_path[file.planned.file.path].data_change) for file in done.copied]
    for copy in decoded:
        files += _decoded(copy, version, context)
    files += _with_new_vectors(step.vectors, hidden, changes, context)
    gone = [(removed.file, removed.data_change) for removed in step.removals]
    gone += [(file.file, file.data_change) for file in step.vectors]
    now_ms = time.time_ns() // 1_000_000
    removed = tuple(
        RemovedFile(
            context.copies.staged_path(unquote(file.path)),
            CommitLine(removal(file.action, data_change=changes or changed, now_ms=now_ms)),
        )
        for file, changed in gone
    )
    return (*files, *done.vector_files, *hiding), removed


def _check_present(step: TargetStep, context: WorkContext) -> None:
    # With a filter, files without matching rows have no copy.
    if step.missing and context.tables.transform.where is None:
        more = f" and of {len(step.missing) - 1} more" if len(step.missing) > 1 else ""
        raise TargetChangedError(
            f"{context.tables.sink.path} has no copy of {step.missing[0]} of the source{more}.",
            hint="Another writer removed or rewrote it: start a new job on a new target.",
        )


def check_known(files: TargetFiles, path: str) -> None:
    """Reject a target with files that were not made from a source file: readers would see rows that the source lacks.

    Raises:
        TargetChangedError: names one such file.
    """
    if files.foreign_files:
        more = f" and {len(files.foreign_files) - 1} more" if len(files.foreign_files) > 1 else ""
        raise TargetChangedError(
            f"{path} has the file {files.foreign_files[0]}{more}, which was not made from a file of the source.",
            hint="Another writer added it: start a new job on a new target.",
        )


def _check_kept(step: TargetStep, modes: JobCopyModes, context: WorkContext) -> None:
    """Reject a source file whose size or partition changed under the same name since it was copied."""
    for file, added in step.kept:
        source = _logged(added)
        what = file.misfit(
            added, modes.partition(source), same_bytes=_digest_of(json.loads(file.action)["add"]) is not None
        )
        if what is not None:
            raise SourceDamagedError(
                f"{source.below} of the source {context.tables.source.path} has {what}.",
                hint="Another program replaced the file under its name: start a new job on a new target.",
            )


def _check_vectors(step: TargetStep, modes: JobCopyModes, context: WorkContext) -> None:
    if not modes.target.vectors and any(file.source.vector is not None for file in step.vectors):
        raise UnsupportedTargetFeatureError(
            f"rows of the source are deleted by deletion vectors, which {context.tables.sink.path} does not support.",
            hint=VECTORS_HINT,
        )


def _planned(step: TargetStep, modes: JobCopyModes) -> tuple[list[PlannedCopy], list[TargetCopy]]:
    """Return the files to copy, and the files to decode."""
    copies: list[PlannedCopy] = []
    decoded: list[TargetCopy] = []
    for copy in step.copies:
        planned = modes.planned(_logged(copy.file))
        if isinstance(planned, PlannedCopy):
            copies.append(planned)
        elif isinstance(planned, Decoded):
            decoded.append(copy)
    return copies, decoded


def _with_new_copies(step: TargetStep, context: WorkContext) -> tuple[TargetStep, tuple[FilteredFile, ...]]:
    """Return a step that copies again the files whose existing copies cannot take the new vector.

    The second result has the source files of the step's remaining vectors, in their order.
    """
    modes = context.copies.modes
    planned = [_planned_vector(_logged(file.source), modes) for file in step.vectors]
    filtered = context.copies.filtered([file for file in planned if isinstance(file, PlannedCopy)])
    by_path = {copy.file.path: copy.filtered for copy in filtered.copies}
    by_path |= {file.path: FilteredFile(file) for file in planned if isinstance(file, SourceFile)}
    kept = tuple(file for file in step.vectors if file.source.path in by_path)
    replaced = [file for file in step.vectors if file.source.path not in by_path]
    removals = (*step.removals, *(Removal(file.file, file.data_change) for file in replaced))
    copies = (*step.copies, *(TargetCopy(file.source, file.data_change) for file in replaced))
    step = replace(step, vectors=kept, removals=removals, copies=copies)
    return step, tuple(by_path[file.source.path] for file in kept)


def _planned_vector(source: SourceFile, modes: JobCopyModes) -> SourceFile | PlannedCopy | None:
    """Return the file whose existing copy can take the file's new vector, planned if a filter decides; `None` if it cannot.

    Files in another folder are not copied. With a filter, the new vector may expose rows that the filter excludes.
    """
    if source.is_elsewhere:
        return None
    if modes.transform.condition is None:
        return source
    planned = modes.planned(source)
    return planned if isinstance(planned, PlannedCopy) else None


def _decoded(copy: TargetCopy, version: int, context: WorkContext) -> tuple[StagedFile, ...]:
    tables = context.tables
    rows = tables.transform.apply(ability(tables.source, SupportsLog).rows_of([copy.file.action], version))
    return context.stage(rows, what=f"the file {copy.file.path} of the source", folder=folder_of(copy.file.path, "0"))


def _flagged(file: StagedFile, data_change: bool) -> StagedFile:
    """Return a copy whose action has the given `dataChange`."""
    assert isinstance(file.handle, CommitLine)
    return replace(file, handle=CommitLine(with_fields(file.handle.text, dataChange=data_change)))


def _with_new_vectors(
    vectors: Sequence[OtherVector], sources: Sequence[SourceFile], changes: bool, context: WorkContext
) -> list[StagedFile]:
    adds = [json.loads(file.file.action)["add"] for file in vectors]
    made = [
        MadeCopy(source, unquote(file.file.path), whole=_digest_of(add) is not None)
        for file, source, add in zip(vectors, sources, adds, strict=True)
    ]
    statistics = context.copies.statistics(made)
    return [
        _with_new_vector(file, add, copy, stats.text, changes or file.data_change, context)
        for file, add, copy, stats in zip(vectors, adds, made, statistics, strict=True)
    ]


def _with_new_vector(
    file: OtherVector,
    add: Mapping[str, Any],
    made: MadeCopy,
    stats: str | None,
    data_change: bool,
    context: WorkContext,
) -> StagedFile:
    digest, vector = _digest_of(add), made.file.vector
    copied = {} if digest is None else replace(digest, statistics=statistics_digest(stats)).tags
    if vector is not None and not vector.is_inline:
        vector = vector.in_folder(context.folder)
    line = with_fields(
        file.file.action,
        stats=stats,
        deletionVector=None if vector is None else dict(vector.fields),
        tags={**(add.get("tags") or {}), **copied} or None,
        dataChange=data_change,
    )
    path = context.copies.staged_path(made.below)
    rows = (file.source.rows or 0) - made.file.deleted
    return StagedFile(path, add["size"], rows, CommitLine(line), mode=StagedMode.WHOLE)


def _digest_of(add: Mapping[str, Any]) -> CopyDigest | None:
    """Return the digest of a target file; `None` if it was not copied whole."""
    return CopyDigest.of_tags(add.get("tags"))


def _logged(file: FileAdded) -> SourceFile:
    return SourceFile.of(json.loads(file.action)["add"])
