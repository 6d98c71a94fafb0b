"""Values as a Delta table stores them: staged files get the same changes and checks as an ordinary write of Delta (ADR 0006).

A partition is a folder whose name is the value. An empty string has no such name, so a write of Spark stores null. A replica keeps it,
because it has the partition values of its source (`in_folders`). Two other strings have no folder name either: Spark's own name for
null, and a string with a NUL. Spark would store null for the first and fail at the second.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from backfill_core.errors import BackfillError, KeyInvalidError, TargetSchemaMismatchError
from backfill_spark.delta.partition_values import ESCAPE, NULL_PARTITION
from backfill_spark.jvm.errors import RAISED_BY_US

NULL_FOUND = f"{RAISED_BY_US}null in column "
NO_FOLDER = f"{RAISED_BY_US}no folder for column "
NOT_NULL_HINT = "Give it a value in spec.transform (select, set), for example with coalesce, or exclude such rows (where, setWhere)."

_RAISED = re.compile(f"({re.escape(NULL_FOUND)}|{re.escape(NO_FOLDER)})" + r"(\d+)")


@dataclass(frozen=True)
class StoredValues:
    """Guards for the columns of one table; `key` columns must not be null, even if the table allows nulls."""

    schema: StructType
    partitions: tuple[str, ...]
    key: tuple[str, ...] = ()
    keeps_empty_texts: bool = False
    """See `TableFacts.keeps_empty_texts`."""

    def is_partition_text(self, field: StructField) -> bool:
        """Return True for a partition column of strings."""
        return field.name in self.partitions and isinstance(field.dataType, StringType)

    def stored(self, field: StructField, column: Column) -> Column:
        """Return a column as the table stores it: an empty string in a partition is null; a value without a folder name raises."""
        if not self.is_partition_text(field):
            return column
        unfit = (column == NULL_PARTITION) | column.contains("\0")
        raised = F.raise_error(F.lit(f"{NO_FOLDER}{self.schema.names.index(field.name)}"))
        return F.when(unfit, raised).otherwise(column if self.keeps_empty_texts else F.nullif(column, F.lit("")))

    def in_folders(self, field: StructField, column: Column) -> Column:
        """Return a stored column in the form of folder names; see `partition_values.ESCAPE`."""
        if not self.is_partition_text(field):
            return column
        return F.when((column == "") | column.startswith(ESCAPE), F.concat(F.lit(ESCAPE), column)).otherwise(column)

    def _folder_hint(self, field: StructField) -> str:
        if self.keeps_empty_texts:  # a replica has the partitions of its source
            return "Replace such values in spec.transform.select, or use another strategy."
        return f"Replace such values in spec.transform.select, or leave {field.name!r} out of spec.target.delta.partitionBy."

    def guarded(self, field: StructField, column: Column) -> Column:
        """Return a stored column that raises at a null if the table or its key does not allow nulls."""
        if field.nullable and field.name not in self.key:
            return column
        raised = F.raise_error(F.lit(f"{NULL_FOUND}{self.schema.names.index(field.name)}"))
        return F.when(column.isNull(), raised).otherwise(column)

    @staticmethod
    def raised(text: str) -> bool:
        """Return True if a guard raised the exception with this message."""
        return _RAISED.search(text) is not None

    def explain(self, text: str) -> BackfillError:
        """Return the error for the message of an exception that a guard `raised`."""
        match = _RAISED.search(text)
        assert match is not None
        field = self.schema[int(match[2])]
        if match[1] == NO_FOLDER:
            return TargetSchemaMismatchError(
                f"a value of the partition column {field.name!r} cannot be the name of a folder: {NULL_PARTITION}, or a string "
                "with a NUL.",
                hint=self._folder_hint(field),
            )
        if field.nullable:
            return KeyInvalidError(
                f"the key column {field.name!r} is null in a row of the source"
                f"{' (an empty string, in a partition column)' if self.is_partition_text(field) else ''}.",
                hint="Choose another key, or exclude such rows with spec.transform.where.",
            )
        return TargetSchemaMismatchError(
            f"column {field.name!r} of the target must not be null, and the transform yields a null.",
            hint=NOT_NULL_HINT,
        )
