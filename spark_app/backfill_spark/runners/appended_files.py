"""Staging of the files that versions of an append-only source added, by copying them; Spark jobs cost twenty times as much."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from backfill_core.file_copies.copy_modes import Decoded, Excluded
from backfill_core.protocol.work import StagedFile
from backfill_spark.delta.source_file import SourceFile
from backfill_spark.file_copies.copied_files import PlannedCopy
from backfill_spark.ports.source import SupportsAppends
from backfill_spark.work.context import WorkContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_Added = tuple[int, str]
"""The version of a file, and its `add` action."""


def stage_appended(after: int, upto: int, context: WorkContext) -> tuple[StagedFile, ...] | None:
    """Copy the files of the versions `(after, upto]`, and decode those that cannot be copied.

    Without files, or if the filter excludes all of them, nothing is staged and no Spark job runs. Returns `None` if none of
    them can be copied, or if a version did more than add rows.

    Raises:
        SourceDamagedError, AccountingError: a file differs from the source's log.
    """
    source, modes = context.tables.source, context.copies.modes
    if not isinstance(source, SupportsAppends):
        return None
    added = source.appended(after, upto)
    if added is None:
        return None
    planned = [(file, modes.planned(SourceFile.of(json.loads(file[1])["add"]))) for file in added]
    if all(isinstance(mode, Excluded) for _, mode in planned):
        return ()
    copies = [mode for _, mode in planned if isinstance(mode, PlannedCopy)]
    # Only footers show which files have values of a dropped column.
    if not copies or modes.table.drops:
        return None
    filtered = context.copies.filtered(copies)
    mostly_failing = {copy.file.path for copy in filtered.decoded}
    what = f"the files of versions {after + 1} to {upto}"
    # Decoded first: a write empties the folder of the work.
    decoded = _decoded(
        [file for file, mode in planned if isinstance(mode, Decoded) or _path(mode) in mostly_failing],
        what,
        source,
        context,
    )
    done = context.copy_files(filtered.copies)
    if done.left:
        return _decoded([file for file, mode in planned if not isinstance(mode, Excluded)], what, source, context)
    return (*decoded, *done.staged)


def _path(mode: PlannedCopy | Decoded | Excluded) -> str | None:
    return mode.file.path if isinstance(mode, PlannedCopy) else None


def _decoded(
    added: Sequence[_Added], what: str, source: SupportsAppends, context: WorkContext
) -> tuple[StagedFile, ...]:
    if not added:
        return ()
    versions = sorted({version for version, _ in added})
    frames: list[DataFrame] = [
        source.rows_of([action for version, action in added if version == number], number) for number in versions
    ]
    return context.stage(context.tables.transform.apply(reduce(_union, frames)), what=what)


def _union(first: DataFrame, second: DataFrame) -> DataFrame:
    return first.unionAll(second)
