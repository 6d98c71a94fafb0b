"""Flip of a table's name in Spark's own catalog: the name gets another location, in one change of the metastore."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backfill_api.spec.switch import FlipSpec
from backfill_core.errors import InvalidSpecError
from backfill_spark.delta.catalog_entry import CatalogEntry, entry_of, folder_of, reading_catalog, statement_session
from backfill_spark.delta.column_changes import columns_lines
from backfill_spark.delta.location import one_spelling
from backfill_spark.delta.types import sql_text
from backfill_spark.ports.flip import FlipPlugin, Previous

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPE = "HiveTable"
FIELD = "spec.switch.flip.name"
ANY_SCHEMA = "spark.databricks.delta.alterLocation.bypassSchemaCheck"
"""Delta's setting that allows a location whose columns differ; for one statement."""


class HiveTableFlip:
    """Runs `ALTER TABLE … SET LOCATION`. Comment, owner and properties of the name stay."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        """Read nothing yet.

        Args:
            spark: Session whose catalog has the name.
            name: Name of a Delta table.
        """
        self._spark, self._name = spark, name

    def describe(self, source: str, target: str) -> list[str]:
        """Return both statements, and how the columns of the name change."""
        name = self._entry().name
        return [
            _statement(name, target),
            f"undo: {_statement(name, source)}",
            *columns_lines(self._spark, source, target),
        ]

    def points_to(self) -> str | None:
        """Return the location of the table."""
        return folder_of(self._spark, self._entry(), field=FIELD)

    def current(self) -> Previous:
        """Return the location, as the catalog spells it."""
        return Previous(TYPE, {"location": self._entry().location or ""})

    def flip(self, to_path: str) -> Previous:
        """Change the location, unless the name has it."""
        entry = self._entry()
        before = Previous(TYPE, {"location": entry.location or ""})
        if folder_of(self._spark, entry, field=FIELD) != one_spelling(self._spark, to_path, field=FIELD):
            self._set(entry, to_path)
        return before

    def undo(self, previous: Previous) -> None:
        """Restore the location."""
        entry = self._entry()
        if entry.location != previous.definition["location"]:
            self._set(entry, previous.definition["location"])

    def _set(self, entry: CatalogEntry, location: str) -> None:
        session = statement_session(self._spark)
        session.conf.set(ANY_SCHEMA, "true")
        with reading_catalog(FIELD, self._name):
            session.sql(_statement(entry.name, location))

    def _entry(self) -> CatalogEntry:
        entry = entry_of(self._spark, self._name, field=FIELD)
        if entry.is_view:
            raise InvalidSpecError(f"{FIELD}: {self._name!r} is a view.", hint="Set spec.switch.flip.type: View.")
        if entry.provider != "delta":
            raise InvalidSpecError(
                f"{FIELD}: {self._name!r} is a table of format {entry.provider or 'hive'}.", hint="Name a Delta table."
            )
        return entry


def _statement(name: str, location: str) -> str:
    return f"ALTER TABLE {name} SET LOCATION {sql_text(location)}"


def _open(spark: SparkSession, spec: FlipSpec) -> HiveTableFlip:
    assert spec.name is not None
    return HiveTableFlip(spark, spec.name)


FLIP = FlipPlugin(TYPE, _open)
