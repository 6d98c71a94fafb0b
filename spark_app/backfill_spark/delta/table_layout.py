"""The layout of a table for commits: columns with statistics, partitions, and write contexts for `add` actions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backfill_core.file_copies.bounds import Path
from backfill_spark.delta.partition_values import instant, partition_of
from backfill_spark.jvm.gateway import items


@dataclass(frozen=True, slots=True)
class StatisticsColumn:
    """A column with statistics in the table's log."""

    path: Path
    """Physical names from the outermost field to the column."""

    kind: str
    """Type of the column in the notation of the log."""

    java: Any
    """Kernel's `Column`."""


class Layout:
    """Schema facts of the table that statistics and write contexts need."""

    def __init__(self, txn: Any, kernel: Any, engine: Any, jvm: Any) -> None:
        """Read the layout from a started transaction that will not be committed; all four arguments are Java objects."""
        self._kernel, self._jvm = kernel, jvm
        self._schema = txn.getSchema(engine)
        self.partition_columns = tuple(items(txn.getPartitionColumns(engine)))
        state = txn.getTransactionState(engine)
        self.physical_schema = kernel.internal.data.TransactionStateRow.getPhysicalSchema(state)
        null_values = jvm.java.util.HashMap()
        for name in self.partition_columns:
            null_values.put(name, kernel.expressions.Literal.ofNull(self._schema.get(name).getDataType()))
        context = kernel.Transaction.getWriteContext(engine, state, null_values)
        self._directory, self.statistics_columns = context.getTargetDirectory(), context.getStatisticsColumns()
        self._types_of_kernel = kernel.internal.types.DataTypeJsonSerDe
        self._schema_text = str(self._types_of_kernel.serializeStructType(self.physical_schema))
        self._schemas = {frozenset[Path](): self.physical_schema}
        self.columns = tuple(self._statistics_columns())
        # Physical names are unique; a logical name may equal the physical name of another column that was renamed.
        fields = [self.physical_schema.at(self._schema.indexOf(name)) for name in self.partition_columns]
        self._types = {field.getName(): field.getDataType() for field in fields}
        self._instants = {name for name, kind in self._types.items() if str(kind.toString()) == "timestamp"}
        self._texts = {name for name, kind in self._types.items() if str(kind.toString()).startswith("string")}

    def _statistics_columns(self) -> Iterator[StatisticsColumn]:
        kinds = dict(_leaves(json.loads(self._schema_text)))
        for index in range(self.statistics_columns.size()):
            column = self.statistics_columns.get(index)
            path = tuple(str(name) for name in column.getNames())
            if path in kinds:
                yield StatisticsColumn(path, kinds[path], column)

    def schema_without(self, paths: frozenset[Path], kind: str) -> Any:
        """Return the physical schema as Kernel's `StructType`, with another type (`kind`) at some paths."""
        schema = self._schemas.get(paths)
        if schema is None:
            text = json.dumps(_retyped(json.loads(self._schema_text), paths, kind))
            schema = self._schemas[paths] = self._types_of_kernel.deserializeStructType(text)
        return schema

    def partition_of(self, path: str) -> tuple[tuple[str, str | None], ...]:
        """Return the partition values of a staged file in the log's format, by physical column name."""
        return tuple(
            (name, text if text is None or name not in self._instants else instant(text))
            for name, text in partition_of(path, tuple(self._types), self._texts)
        )

    def write_context(self, partition: Sequence[tuple[str, str | None]]) -> Any:
        """Return a write context that creates the actions of files of one partition.

        Kernel's own context requires typed values. Its parser depends on the JVM's time zone, and supports no year after 9999. String
        values are logged unchanged, which is also the format of Delta's own writer.
        """
        literal = self._kernel.expressions.Literal
        values = self._jvm.java.util.HashMap()
        for name, text in partition:
            values.put(name, literal.ofNull(self._types[name]) if text is None else literal.ofString(text))
        return self._kernel.internal.DataWriteContextImpl(self._directory, values, self.statistics_columns)


def _leaves(struct: Mapping[str, Any], above: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield the path and the type of each column of a schema, except those in lists and maps."""
    for field in struct["fields"]:
        path, kind = (*above, field["name"]), field["type"]
        if isinstance(kind, str):
            yield path, kind
        elif kind["type"] == "struct":
            yield from _leaves(kind, path)


def _retyped(struct: Mapping[str, Any], paths: frozenset[Path], kind: str, above: Path = ()) -> dict[str, Any]:
    fields = []
    for field in struct["fields"]:
        path, field_type = (*above, field["name"]), field["type"]
        if path in paths:
            field_type = kind
        elif not isinstance(field_type, str) and field_type["type"] == "struct":
            field_type = _retyped(field_type, paths, kind, path)
        fields.append({**field, "type": field_type})
    return {**struct, "fields": fields}
