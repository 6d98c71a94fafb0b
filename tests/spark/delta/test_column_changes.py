"""Lines of a dry run about the columns that a name gets or loses."""

from pyspark.sql.types import ArrayType, DateType, IntegerType, LongType, StringType, StructType

from backfill_spark.delta.column_changes import column_changes

INT = IntegerType()


class TestColumnChanges:
    """A user sees each difference that a reader of the name would meet."""

    def test_new_missing_and_changed_columns_are_listed(self):
        """Delta would refuse such a location; the flip allows it, so the lines replace Delta's error."""
        before = StructType().add("id", INT).add("note", StringType()).add("day", DateType())
        after = StructType().add("day", DateType()).add("id", LongType()).add("part", INT)
        after = after.add("x y", ArrayType(INT))

        assert column_changes(before, after) == [
            "new columns: part int, x y array<int>",
            "columns that disappear: note string",
            "columns with another type: id int -> bigint",
        ]

    def test_equal_columns_need_no_line(self):
        """Their order does not matter to a reader by name."""
        before, after = StructType().add("a", INT).add("b", INT), StructType().add("b", INT).add("a", INT)

        assert column_changes(before, after) == []
