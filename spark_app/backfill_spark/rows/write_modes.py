"""Conversion of source rows into target rows: one object for each `writeMode`, from frames to frames."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructType

from backfill_spark.rows.changes import (
    EPOCH,
    OP,
    REMOVALS,
    VERSION,
    append_rows,
    changelog_rows,
    net_changes,
    snapshot_rows,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from backfill_spark.rows.transform import Transform


class WriteMode(ABC):
    """One `writeMode`."""

    name: ClassVar[str]
    """Its spelling in the spec."""

    merges: ClassVar[bool] = False
    """True if the target holds one row per key. Then changes are merged, and the key must be unique and without nulls."""

    columns: ClassVar[tuple[str, ...]] = ()
    """Columns that the mode adds after those of the transform."""

    def target_schema(self, schema: StructType) -> StructType:
        """Return the columns of a target whose transform yields `schema`."""
        return schema

    def history_rows(self, rows: DataFrame, *, epoch: int, version: int) -> DataFrame:
        """Return transformed rows of the pinned version as rows to stage. Lazy."""
        del epoch, version
        return rows

    @abstractmethod
    def change_rows(
        self,
        changes: DataFrame,
        transform: Transform,
        *,
        key: tuple[str, ...],
        epoch: int,
        within: Column | None = None,
    ) -> DataFrame:
        """Return row changes of the source as net changes to merge, or as rows to stage; see `merges`.

        `within` is a condition on columns of the source. Each image that does not satisfy it is left out.
        """

    def sign(self) -> Column | None:
        """Return the count of a target row in a receipt, 1 or -1; `None` if every row counts 1."""
        return None


class Upsert(WriteMode):
    """The target is the transformed source, with one row per key."""

    name = "Upsert"
    merges = True

    def change_rows(
        self,
        changes: DataFrame,
        transform: Transform,
        *,
        key: tuple[str, ...],
        epoch: int,
        within: Column | None = None,
    ) -> DataFrame:
        """Return the last image of each key; see `net_changes`."""
        del epoch
        return net_changes(changes, transform, key, within)


class Append(WriteMode):
    """The target gets every new row; the source must be append-only."""

    name = "Append"

    def change_rows(
        self,
        changes: DataFrame,
        transform: Transform,
        *,
        key: tuple[str, ...],
        epoch: int,
        within: Column | None = None,
    ) -> DataFrame:
        """Return the inserted rows, transformed; see `append_rows`. Runs a job."""
        del key, epoch
        rows = append_rows(changes)
        return transform.apply(rows if within is None else rows.where(within))


class Changelog(WriteMode):
    """The target gets every row change, as an insert, a delete or the images of an update."""

    name = "Changelog"
    columns = (OP, EPOCH, VERSION)

    def target_schema(self, schema: StructType) -> StructType:
        """Return the columns of the transform, then `_op`, `_epoch` and `_version`."""
        result = StructType(list(schema.fields))
        return result.add(OP, StringType()).add(EPOCH, LongType()).add(VERSION, LongType())

    def history_rows(self, rows: DataFrame, *, epoch: int, version: int) -> DataFrame:
        """Return the rows as inserts; see `snapshot_rows`."""
        return snapshot_rows(rows, epoch=epoch, version=version)

    def change_rows(
        self,
        changes: DataFrame,
        transform: Transform,
        *,
        key: tuple[str, ...],
        epoch: int,
        within: Column | None = None,
    ) -> DataFrame:
        """Return every image that passes the filter; see `changelog_rows`."""
        return changelog_rows(changes, transform, key=key, epoch=epoch, within=within)

    def sign(self) -> Column | None:
        """Return -1 for removals, so that the sums are those of the table after all changes."""
        return F.when(F.col(OP).isin(*REMOVALS), -1).otherwise(1)


UPSERT, APPEND, CHANGELOG = Upsert(), Append(), Changelog()
_MODES = {mode.name: mode for mode in (UPSERT, APPEND, CHANGELOG)}


def write_mode(name: str) -> WriteMode:
    """Return the mode that a spec names."""
    return _MODES[name]
