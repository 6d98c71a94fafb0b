"""The files of a scope: its condition in terms of the target's columns, and a listing that follows the target's log."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote

from backfill_core.errors import ForeignCommit, InvalidSpecError
from backfill_core.file_copies.filters import Condition, columns_of
from backfill_core.file_copies.scope import (
    Effect,
    FileChange,
    Place,
    PlacedFile,
    check_scope,
    effect_of,
    place_of,
    removed_files,
)
from backfill_core.protocol.work import RemovedFile
from backfill_spark.delta.added_files import CommitLine
from backfill_spark.delta.log import LOG_ERRORS, values_at
from backfill_spark.delta.source_file import LoggedValues, SourceFile, values_of
from backfill_spark.file_copies.file_values import FilterColumns
from backfill_spark.log_shipping.file_actions import removal
from backfill_spark.rows.columns import no_rows
from backfill_spark.rows.condition import condition_of
from backfill_spark.rows.row_wise import find_fault
from backfill_spark.sinks.delta.failures import explain_target
from backfill_spark.sinks.delta.foreign_commits import LoggedCommit, logged_commit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from backfill_spark.sinks.delta.table import TargetTable


FIELD = "spec.target.delta.scope"


@dataclass(frozen=True)
class TargetScope:
    """The scope of a job for the columns of its target."""

    spark: SparkSession
    path: str
    text: str
    condition: Condition
    columns: FilterColumns

    @classmethod
    def of(cls, spark: SparkSession, text: str, table: TargetTable) -> Self:
        """Analyze a scope.

        Raises:
            InvalidSpecError: statistics of files cannot decide it; names the expression.
        """
        empty = no_rows(spark, table.schema)
        fault = find_fault(empty, (text,), filters=True)
        if fault is not None:
            raise InvalidSpecError(f"{FIELD} = {text!r}{fault.message}", hint=fault.hint)
        condition = condition_of(empty.where(text))
        columns = FilterColumns.of(condition, table.facts((), ships=True), table.schema)
        check_scope(f"{FIELD} = {text!r}", condition, [column.facts.name for column in columns.columns])
        return cls(spark, table.path, text, condition, columns)

    @property
    def named(self) -> str:
        """The field with its value, for messages."""
        return f"{FIELD} = {self.text!r}"

    @property
    def names(self) -> tuple[str, ...]:
        """Columns of the condition."""
        return tuple(sorted(columns_of(self.condition)))

    def place(self, add: Mapping[str, Any]) -> Place:
        """Return the place of the file of an `add` action."""
        return place_of(self.condition, self.columns.values(SourceFile.of(add)))

    def placed(self, logged: LoggedValues) -> PlacedFile[LoggedValues]:
        """Return a file of the log with its place."""
        return PlacedFile(logged, logged.path, place_of(self.condition, self.columns.of_logged(logged)))

    def listing(self, version: int) -> ScopeListing:
        """Return the files of the scope in a version of the target.

        Raises:
            BackfillError: the log cannot be read.
        """
        try:
            logged = values_at(self.spark, self.path, version, columns=self.columns.physical)
        except LOG_ERRORS as error:
            raise explain_target(error, path=self.path, doing="reading the files of the target") from error
        files = (self.placed(file) for file in logged)
        touching = {unquote(file.path): file for file in files if file.place is not Place.OUTSIDE}
        return ScopeListing(self, version, touching, len(logged))


@dataclass(frozen=True)
class ScopeListing:
    """The files of a scope in one version of the target."""

    scope: TargetScope
    version: int
    touching: Mapping[str, PlacedFile[LoggedValues]]
    """Files that may have rows of the scope, by their decoded path."""

    files: int
    """Number of all files of the target, also those outside of the scope."""

    conflicts: tuple[ForeignCommit, ...] = field(default=())
    """Foreign commits that changed rows of the scope, or the columns of the target, since the first version of the listing."""

    def after(self, version: int, app_id: str) -> ScopeListing:
        """Return the listing of a later version; reads each commit in between.

        Raises:
            BackfillError: a commit cannot be read.
        """
        listing = self
        for number in range(self.version + 1, version + 1):
            commit = logged_commit(self.scope.spark, self.scope.path, number)
            if app_id not in commit.applications:
                listing = listing._with(commit)
        return replace(listing, version=max(version, self.version))

    def _with(self, commit: LoggedCommit) -> ScopeListing:
        columns = self.scope.columns.physical
        added = [
            (self.scope.placed(values_of(add, columns)), bool(add.get("dataChange", True))) for add in commit.added
        ]
        removed = [(self._place_of_removed(remove), bool(remove.get("dataChange", True))) for remove in commit.removed]
        changes = [FileChange(file.place, changed) for file, changed in added]
        changes += [FileChange(place, changed) for place, changed in removed]
        effect = effect_of(changes, changes_columns=commit.changes_columns)
        files = self.files + len(added) - len(removed)
        if effect is Effect.NONE:
            return replace(self, files=files)
        gone = {unquote(remove["path"]) for remove in commit.removed}
        touching = {path: file for path, file in self.touching.items() if path not in gone}
        touching |= {unquote(file.path): file for file, _ in added if file.place is not Place.OUTSIDE}
        conflicts = (*self.conflicts, commit.described) if effect is Effect.CONFLICT else self.conflicts
        return replace(self, touching=touching, files=files, conflicts=conflicts)

    def _place_of_removed(self, remove: Mapping[str, Any]) -> Place:
        """Return the place of a removed file: that of the listing, because most writers log a removal without statistics."""
        listed = self.touching.get(unquote(remove["path"]))
        return Place.OUTSIDE if listed is None else listed.place

    def removed(self) -> list[LoggedValues]:
        """Return the files that the publishing commit removes.

        Raises:
            ScopeNotSeparatedError: a file has rows inside and outside of the scope.
        """
        return removed_files(self.scope.named, list(self.touching.values()), of=self.files)


def removals(files: Sequence[LoggedValues], *, path: str, now_ms: int) -> list[RemovedFile]:
    """Return the removals of files of a target at `path`, for a commit."""
    return [
        RemovedFile(
            f"{path}/{unquote(file.path)}",
            CommitLine(removal(_with_statistics(file), data_change=True, now_ms=now_ms)),
        )
        for file in files
    ]


def _with_statistics(file: LoggedValues) -> str:
    """Return the `add` action of a file with its row count, which readers of removals use; its bounds are left out."""
    action = json.loads(file.action)
    if file.rows is not None:
        action["add"]["stats"] = json.dumps({"numRecords": file.rows})
    return json.dumps(action)
