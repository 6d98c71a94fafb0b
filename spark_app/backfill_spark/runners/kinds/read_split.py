"""Stages file ranges of the pinned version: copies the files that need no decoding, reads and transforms the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from backfill_core.phases.accounting import check_read
from backfill_core.positions.file_ranges import FileRange
from backfill_core.positions.source_names import folder_of
from backfill_core.protocol.work import ReadSplit, SplitStaged, StagedFile
from backfill_spark.crash_points import crash_point
from backfill_spark.opening.shipping import ships
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.source import SupportsFiles, SupportsPin
from backfill_spark.runners.runner import WorkRunner
from backfill_spark.work.context import WorkContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _run(work: ReadSplit, context: WorkContext) -> SplitStaged:
    tables, source = context.tables, ability(context.tables.source, SupportsPin)
    crash_point("before_stage")
    if ships(tables.spec):
        files = _stage_by_file(work, context)
    elif work.boundaries:
        files = _stage_segments(work, context)
    else:
        files = _stage_whole_files(work, context)
    crash_point("after_stage")
    if not tables.transform.where and all(part.whole for part in work.ranges):
        read = sum(file.rows for file in files)
        check_read(_what(work), read=read, promised=source.live_rows(work.ranges))
    return SplitStaged(work.work_id, files)


def _stage_by_file(work: ReadSplit, context: WorkContext) -> tuple[StagedFile, ...]:
    """Copy or decode file by file: the folder of a staged file identifies its source file."""
    source, staged = context.tables.source, list[StagedFile]()
    assert isinstance(source, SupportsFiles)
    assert isinstance(source, SupportsPin)
    for segment, (planned, rest) in enumerate(context.copies.split_parts(work.segment_ranges)):
        files, refused = context.copy(planned)
        left = [*rest, *refused]
        for part, logged in zip(left, source.source_files([part.file for part in left]), strict=True):
            folder = folder_of(logged.path, f"{part.start}")
            files += context.stage(_history(work, context, source.read([part])), what=_what(work), folder=folder)
        staged += [replace(file, segment=segment) for file in files]
    return tuple(staged)


def _stage_whole_files(work: ReadSplit, context: WorkContext) -> tuple[StagedFile, ...]:
    """Decode first, and then copy, because a write empties the folder of the work."""
    modes = context.copies.modes
    planned, rest = context.copies.split(work.ranges)
    files = _decoded(work, context, rest) if rest else ()
    copied, refused = context.copy(planned)
    return _decoded(work, context, modes.included(work.ranges)) if refused else (*files, *copied)


def _decoded(work: ReadSplit, context: WorkContext, ranges: Sequence[FileRange]) -> tuple[StagedFile, ...]:
    rows = ability(context.tables.source, SupportsPin).read(ranges)
    return context.stage(_history(work, context, rows), what=_what(work))


def _stage_segments(work: ReadSplit, context: WorkContext) -> tuple[StagedFile, ...]:
    """Copy the files that lie in one segment, and decode the remaining ranges of all segments in one job.

    Parts of a file are defined by a hash of their rows, for every job that reads them; so all parts of such a file are decoded.
    Decoding comes first, because a write empties the folder of the work. Files are copied together, except those with a
    deletion vector: a file of vectors is committed or discarded with its segment.
    """
    modes = context.copies.modes
    split = context.copies.split_parts(work.segment_ranges)
    staged = [*_decoded_segments(work, context, [rest for _, rest in split])]
    plain = [
        (segment, pair) for segment, (planned, _) in enumerate(split) for pair in planned if not pair[1].has_vector
    ]
    copied, refused = context.copy([pair for _, pair in plain])
    if not refused:
        staged += [replace(file, segment=segment) for (segment, _), file in zip(plain, copied, strict=True)]
        for segment, (planned, _) in enumerate(split):
            with_vectors = [pair for pair in planned if pair[1].has_vector]
            files, refused = context.copy(with_vectors, segment=segment)
            staged += [replace(file, segment=segment) for file in files]
            if refused:
                break
    if refused:
        return _decoded_segments(work, context, [modes.included(ranges) for ranges in work.segment_ranges])
    return tuple(staged)


def _decoded_segments(
    work: ReadSplit, context: WorkContext, parts: Sequence[Sequence[FileRange]]
) -> tuple[StagedFile, ...]:
    """Stage some ranges of each segment in one job, with the same files as one job per segment."""
    if not any(parts):
        return ()
    read, label = ability(context.tables.source, SupportsPin).read_segments(parts)
    return context.stage_segments(_history(work, context, read, label), label=label, what=_what(work))


def _history(work: ReadSplit, context: WorkContext, rows: DataFrame, *labels: str) -> DataFrame:
    tables = context.tables
    return tables.mode.history_rows(
        tables.transform.apply(rows, *labels), epoch=work.epoch, version=tables.pinned.version
    )


def _what(work: ReadSplit) -> str:
    return f"rows {work.start} to {work.stop} of the snapshot"


RUNNER = WorkRunner("ReadSplit", ReadSplit, _run)
