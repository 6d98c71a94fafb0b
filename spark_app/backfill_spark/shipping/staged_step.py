"""What a step of the source comes to in a target, staged: copies, files under other vectors, and what goes."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from backfill_core.errors import SourceDamagedError, TargetChangedError, UnsupportedTargetFeatureError
from backfill_core.log_shipping.actions import FileAdded
from backfill_core.log_shipping.target_files import Copy, OtherVector, Removal, TargetFiles, TargetStep
from backfill_core.positions.source_names import folder_of
from backfill_core.protocol.work import FileWay, RemovedFile, StagedFile
from backfill_core.transfer.copy_digest import CopyDigest, statistics_digest
from backfill_core.transfer.ways import Decoded
from backfill_spark.delta.added_files import CommitLine
from backfill_spark.delta.source_file import SourceFile
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.source import SupportsLog
from backfill_spark.shipping.file_actions import removal, with_fields
from backfill_spark.transfer.file_transfer import MadeCopy, PlannedCopy

if TYPE_CHECKING:
    from backfill_spark.ports.work import WorkContext
    from backfill_spark.transfer.job_ways import JobWays

VECTORS_HINT = "Run ALTER TABLE … SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true') on the target, then start the job again."


def stage_step(
    step: TargetStep, version: int, context: WorkContext
) -> tuple[tuple[StagedFile, ...], tuple[RemovedFile, ...]]:
    """Copy what came, and return what the commit takes in and out; a file under another vector is in both.

    Args:
        step: What the target needs.
        version: Of the source, after the step.
        context: Of the work.

    Raises:
        TargetChangedError: the target has no file of one that it must have been made of.
        UnsupportedTargetFeatureError: the target takes no deletion vectors.
        SourceDamagedError, AccountingError: a file is not what the source's log says.
    """
    ways = context.copies.ways
    _check_found(step, context)
    _check_kept(step, ways, context)
    step = _made_anew(step, ways)
    copies, decoded = _planned(step, ways)
    _check_vectors(step, ways, context)
    vectors = [vector for one in step.vectors if (vector := _logged(one.source).vector) is not None]
    done = context.copy_files(copies, vectors=vectors)
    by_path = {one.file.path: one for one in step.copies}
    decoded += [by_path[one.file.path] for one in done.left]
    # What Spark writes is logged as a change of data: then what it replaces must be one too.
    changes = any(not one.data_change for one in decoded)
    files = [_flagged(one.staged, changes or by_path[one.planned.file.path].data_change) for one in done.copied]
    for one in decoded:
        files += _decoded(one, version, context)
    files += _under_other_vectors(step.vectors, changes, context)
    gone = [(one.file, one.data_change) for one in step.removals]
    gone += [(one.file, one.data_change) for one in step.vectors]
    now_ms = time.time_ns() // 1_000_000
    removed = tuple(
        RemovedFile(
            context.copies.staged_path(unquote(file.path)),
            CommitLine(removal(file.action, data_change=changes or changed, now_ms=now_ms)),
        )
        for file, changed in gone
    )
    return (*files, *done.beside), removed


def _check_found(step: TargetStep, context: WorkContext) -> None:
    # Of a file whose rows the filter leaves out there is none.
    if step.missing and context.job.transform.where is None:
        more = f" and of {len(step.missing) - 1} more" if len(step.missing) > 1 else ""
        raise TargetChangedError(
            f"{context.job.sink.path} has no file that was made of {step.missing[0]} of the source{more}.",
            hint="Others took it out, or rewrote it: start a new job on a new target.",
        )


def check_known(files: TargetFiles, path: str) -> None:
    """Refuse a target with files of which the source's log says nothing: its readers see rows that the source has not.

    Raises:
        TargetChangedError: names one.
    """
    if files.strangers:
        more = f" and {len(files.strangers) - 1} more" if len(files.strangers) > 1 else ""
        raise TargetChangedError(
            f"{path} has the file {files.strangers[0]}{more}, which was made of no file of the source.",
            hint="Others wrote to it: start a new job on a new target.",
        )


def _check_kept(step: TargetStep, ways: JobWays, context: WorkContext) -> None:
    """Refuse a file of the source that has other bytes or another partition than when it was copied, under its name."""
    for file, one in step.kept:
        source = _logged(one)
        what = file.misfit(
            one, ways.partition(source), same_bytes=_digest_of(json.loads(file.action)["add"]) is not None
        )
        if what is not None:
            raise SourceDamagedError(
                f"{source.below} of the source {context.job.source.path} has {what}.",
                hint="Another program gave the name to another file: start a new job on a new target.",
            )


def _check_vectors(step: TargetStep, ways: JobWays, context: WorkContext) -> None:
    if not ways.target.vectors and any(one.source.vector is not None for one in step.vectors):
        raise UnsupportedTargetFeatureError(
            f"rows of the source are deleted by deletion vectors, and {context.job.sink.path} takes none.",
            hint=VECTORS_HINT,
        )


def _planned(step: TargetStep, ways: JobWays) -> tuple[list[PlannedCopy], list[Copy]]:
    """Return what is copied, and what is decoded."""
    copies: list[PlannedCopy] = []
    decoded: list[Copy] = []
    for one in step.copies:
        planned = ways.planned(_logged(one.file))
        if isinstance(planned, PlannedCopy):
            copies.append(planned)
        elif isinstance(planned, Decoded):
            decoded.append(one)
    return copies, decoded


def _made_anew(step: TargetStep, ways: JobWays) -> TargetStep:
    """Return a step that makes those files anew which another vector does not change in place."""
    kept = tuple(one for one in step.vectors if _stays(_logged(one.source), ways))
    others = [one for one in step.vectors if one not in kept]
    removals = (*step.removals, *(Removal(one.file, one.data_change) for one in others))
    copies = (*step.copies, *(Copy(one.source, one.data_change) for one in others))
    return replace(step, vectors=kept, removals=removals, copies=copies)


def _stays(source: SourceFile, ways: JobWays) -> bool:
    """May its copy get its vector? One of another folder is not copied; under another one there may be rows that the filter leaves out."""
    if source.is_elsewhere:
        return False
    return ways.transform.condition is None or isinstance(ways.planned(source), PlannedCopy)


def _decoded(one: Copy, version: int, context: WorkContext) -> tuple[StagedFile, ...]:
    job = context.job
    rows = job.transform.apply(ability(job.source, SupportsLog).rows_of([one.file.action], version))
    return context.stage(rows, what=f"the file {one.file.path} of the source", folder=folder_of(one.file.path, "0"))


def _flagged(file: StagedFile, data_change: bool) -> StagedFile:
    """Return a copy with an action that says whether data changes."""
    assert isinstance(file.handle, CommitLine)
    return replace(file, handle=CommitLine(with_fields(file.handle.text, dataChange=data_change)))


def _under_other_vectors(vectors: Sequence[OtherVector], changes: bool, context: WorkContext) -> list[StagedFile]:
    adds = [json.loads(one.file.action)["add"] for one in vectors]
    made = [
        MadeCopy(_logged(one.source), unquote(one.file.path), whole=_digest_of(add) is not None)
        for one, add in zip(vectors, adds, strict=True)
    ]
    told = context.copies.statistics(made)
    return [
        _under_other_vector(one, add, copy, stats.text, changes or one.data_change, context)
        for one, add, copy, stats in zip(vectors, adds, made, told, strict=True)
    ]


def _under_other_vector(
    one: OtherVector, add: Mapping[str, Any], made: MadeCopy, stats: str | None, data_change: bool, context: WorkContext
) -> StagedFile:
    digest, vector = _digest_of(add), made.file.vector
    copied = {} if digest is None else replace(digest, statistics=statistics_digest(stats)).tags
    if vector is not None and not vector.is_inline:
        vector = vector.in_folder(context.folder)
    line = with_fields(
        one.file.action,
        stats=stats,
        deletionVector=None if vector is None else dict(vector.fields),
        tags={**(add.get("tags") or {}), **copied} or None,
        dataChange=data_change,
    )
    path = context.copies.staged_path(made.below)
    return StagedFile(path, add["size"], one.source.live_rows, CommitLine(line), way=FileWay.WHOLE)


def _digest_of(add: Mapping[str, Any]) -> CopyDigest | None:
    """Return the digest of a file of the target; None: it was not copied whole."""
    return CopyDigest.of_tags(add.get("tags"))


def _logged(file: FileAdded) -> SourceFile:
    return SourceFile.of(json.loads(file.action)["add"])
