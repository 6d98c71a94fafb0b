"""The layout of a table, as a commit needs it: columns of statistics, partitions, and how an `add` action is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backfill_spark.delta.partition_values import instant, partition_of


class Layout:
    """Schema facts of the table that statistics and write contexts need."""

    def __init__(self, txn: Any, kernel: Any, engine: Any, jvm: Any) -> None:
        """Ask a transaction that was begun and will not be committed; all four are Java's."""
        self._kernel, self._jvm = kernel, jvm
        self._schema = txn.getSchema(engine)
        self.partition_columns = tuple(txn.getPartitionColumns(engine))
        state = txn.getTransactionState(engine)
        self.physical_schema = kernel.internal.data.TransactionStateRow.getPhysicalSchema(state)
        nothing = jvm.java.util.HashMap()
        for name in self.partition_columns:
            nothing.put(name, kernel.expressions.Literal.ofNull(self._schema.get(name).getDataType()))
        context = kernel.Transaction.getWriteContext(engine, state, nothing)
        self._directory, self.statistics_columns = context.getTargetDirectory(), context.getStatisticsColumns()
        # Physical names stay unique; a logical one may be the physical one of another column, renamed since.
        fields = [self.physical_schema.at(self._schema.indexOf(name)) for name in self.partition_columns]
        self._types = {field.getName(): field.getDataType() for field in fields}
        self._instants = {name for name, kind in self._types.items() if str(kind.toString()) == "timestamp"}

    def partition_of(self, path: str) -> tuple[tuple[str, str | None], ...]:
        """Return the partition values of a staged file as the log has them, by physical column name."""
        return tuple(
            (name, text if text is None or name not in self._instants else instant(text))
            for name, text in partition_of(path, tuple(self._types))
        )

    def write_context(self, partition: Sequence[tuple[str, str | None]]) -> Any:
        """Return what makes actions of files of one partition.

        Kernel's own takes typed values; to type a text it asks the JVM's zone, and it knows no year beyond 9999. As a text a
        value is logged as it is, and that is the form of Delta's own writer.
        """
        literal = self._kernel.expressions.Literal
        values = self._jvm.java.util.HashMap()
        for name, text in partition:
            values.put(name, literal.ofNull(self._types[name]) if text is None else literal.ofString(text))
        return self._kernel.internal.DataWriteContextImpl(self._directory, values, self.statistics_columns)
