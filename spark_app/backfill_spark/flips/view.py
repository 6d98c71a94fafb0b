"""Flip of a view in Spark's own catalog: the view selects from another folder, by one change of the metastore.

`ALTER VIEW … AS` and not `CREATE OR REPLACE VIEW`: Spark implements the second by two changes, a DROP and a CREATE. Between them
the name does not exist, and the comment, the properties and the owner of the view are lost.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from backfill_api.spec.switch import FlipSpec
from backfill_core.errors import InvalidSpecError
from backfill_spark.delta.catalog_entry import CatalogEntry, entry_of, folder_of, reading_catalog, statement_session
from backfill_spark.delta.column_changes import columns_lines
from backfill_spark.delta.location import one_spelling, quoted_name
from backfill_spark.jvm.gateway import java, java_session
from backfill_spark.ports.flip import FlipPlugin, Previous

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPE = "View"
FIELD = "spec.switch.flip.name"
FOLDERS = "delta"
"""Schema of Spark's names for tables that have only a folder."""

OF_THE_METASTORE = ("transient_lastDdlTime",)
"""Properties that the metastore sets itself."""

NOT_PLAIN = "Define the view as SELECT * FROM the table, or change it yourself with flip type None or Command."


class ViewFlip:
    """Runs `ALTER VIEW … AS SELECT * FROM delta.…`. Undo restores all that the catalog stores of the view."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        """Read nothing yet.

        Args:
            spark: Session whose catalog has the name.
            name: Name of a view that selects all columns of one Delta table.
        """
        self._spark, self._name = spark, name

    def describe(self, source: str, target: str) -> list[str]:
        """Return the statement, the text that undo restores, and how the columns of the view change."""
        entry = self._entry()
        return [
            _statement(entry.name, target),
            f"undo: restore the view {entry.name} AS {_text(entry)}",
            *columns_lines(self._spark, source, target),
        ]

    def points_to(self) -> str | None:
        """Return the location of the table from which the view selects."""
        return self._folder(self._entry())

    def current(self) -> Previous:
        """Return text, columns and properties."""
        return self._definition(self._entry())

    def flip(self, to_path: str) -> Previous:
        """Change the text, unless the view selects from the folder."""
        entry = self._entry()
        if self._folder(entry) != one_spelling(self._spark, to_path, field=FIELD):
            with reading_catalog(FIELD, self._name):
                statement_session(self._spark).sql(_statement(entry.name, to_path))
        return self._definition(entry)

    def undo(self, previous: Previous) -> None:
        """Restore text, columns and properties in one change."""
        entry = self._entry()
        if self._definition(entry) == previous:
            return
        with reading_catalog(FIELD, self._name):
            _restore(self._spark, entry, previous)

    def _entry(self) -> CatalogEntry:
        entry = entry_of(self._spark, self._name, field=FIELD)
        if not entry.is_view:
            raise InvalidSpecError(f"{FIELD}: {self._name!r} is a table.", hint="Set spec.switch.flip.type: HiveTable.")
        return entry

    def _folder(self, entry: CatalogEntry) -> str | None:
        """Return the location of the table from which a view selects.

        Raises:
            InvalidSpecError: the view is more than `SELECT * FROM` one table of a folder or of Spark's own catalog.
        """
        parts = _selected_table(self._spark, entry)
        if parts is None:
            raise InvalidSpecError(
                f"{FIELD}: the view {self._name!r} is more than SELECT * FROM a table.", hint=NOT_PLAIN
            )
        if len(parts) == 2 and parts[0].lower() == FOLDERS:
            return one_spelling(self._spark, parts[1], field=FIELD)
        table = entry_of(self._spark, quoted_name(parts), field=FIELD)
        if table.is_view:
            raise InvalidSpecError(
                f"{FIELD}: the view {self._name!r} selects from another view, {table.name}.", hint=NOT_PLAIN
            )
        return folder_of(self._spark, table, field=FIELD)

    def _definition(self, entry: CatalogEntry) -> Previous:
        pairs = java(self._spark).scala.jdk.javaapi.CollectionConverters.asJava(entry.metadata.properties())
        properties = {str(name): str(pairs[name]) for name in pairs if name not in OF_THE_METASTORE}
        return Previous(
            TYPE,
            {
                "text": _text(entry),
                "originalText": str(entry.metadata.viewOriginalText().get()),
                "schema": str(entry.metadata.schema().json()),
                "properties": json.dumps(properties, sort_keys=True),
            },
        )


def _text(entry: CatalogEntry) -> str:
    return str(entry.metadata.viewText().get())


def _statement(name: str, path: str) -> str:
    return f"ALTER VIEW {name} AS SELECT * FROM {quoted_name([FOLDERS, path])}"


def _selected_table(spark: SparkSession, entry: CatalogEntry) -> list[str] | None:
    """Return the parts of the name in `SELECT * FROM name`, with schema; `None` if a view has another text, or renames columns."""
    metadata = entry.metadata
    shown = [str(name) for name in metadata.schema().fieldNames()]
    if _strings(metadata.viewQueryColumnNames()) not in ([], shown):
        return None
    plan = java_session(spark).sessionState().sqlParser().parsePlan(_text(entry))
    if str(plan.nodeName()) != "Project" or plan.projectList().size() != 1:
        return None
    star, relation = plan.projectList().head(), plan.child()
    is_star = str(star.nodeName()) == "UnresolvedStar" and star.target().isEmpty()
    if not is_star or str(relation.nodeName()) != "UnresolvedRelation" or not relation.options().isEmpty():
        return None
    parts = _strings(relation.multipartIdentifier())
    return [*_strings(metadata.viewCatalogAndNamespace()), *parts] if len(parts) == 1 else parts


def _strings(values: Any) -> list[str]:
    return [str(values.apply(index)) for index in range(values.size())]


def _restore(spark: SparkSession, entry: CatalogEntry, previous: Previous) -> None:
    """Change a view by the call of the catalog that `ALTER VIEW` makes, with each stored field."""
    jvm, metadata, stored = java(spark), entry.metadata, previous.definition
    converters = jvm.scala.jdk.javaapi.CollectionConverters
    present = converters.asJava(metadata.properties())
    kept = {name: str(present[name]) for name in OF_THE_METASTORE if name in present}
    pairs = jvm.java.util.HashMap()
    for name, value in {**json.loads(stored["properties"]), **kept}.items():
        pairs.put(name, value)
    changed = {
        "schema": jvm.org.apache.spark.sql.types.DataType.fromJson(stored["schema"]),
        "properties": getattr(jvm.scala.collection.immutable.Map, "from")(converters.asScala(pairs)),
        "viewText": jvm.scala.Option.apply(stored["text"]),
        "viewOriginalText": jvm.scala.Option.apply(stored["originalText"]),
    }
    java_session(spark).sessionState().catalog().alterTable(_copy(metadata, changed))


def _copy(value: Any, changed: dict[str, Any]) -> Any:
    """Return a copy of a Scala case class with other values in some fields."""
    names = [str(value.productElementName(index)) for index in range(value.productArity())]
    return value.copy(*(changed.get(name, value.productElement(index)) for index, name in enumerate(names)))


def _open(spark: SparkSession, spec: FlipSpec) -> ViewFlip:
    assert spec.name is not None
    return ViewFlip(spark, spec.name)


FLIP = FlipPlugin(TYPE, _open)
