"""Files of a live table that are copied, and not decoded."""

import json

from backfill_core.file_copies.copy_modes import PartlyComputed, Projected, of_table
from backfill_core.file_copies.facts import ColumnFacts, Computed, TableFacts, Taken, TransformFacts
from backfill_core.in_place.files import LiveFile
from backfill_spark.delta.source_file import LoggedFile
from backfill_spark.file_copies.file_values import FilterColumns
from backfill_spark.file_copies.planner import JobCopyModes
from backfill_spark.runners.kinds.fill_files import planned_copy

TABLE = TableFacts(
    (
        ColumnFacts("at", "at", '"timestamp"', takes_null=False, is_instant=True),
        ColumnFacts("id", "id", '"long"', takes_null=False),
        ColumnFacts("norm", "norm", '"string"'),
    ),
    partitions=("at",),
)
TRANSFORM = TransformFacts({"at": Taken("at"), "id": Taken("id"), "norm": Computed("norm")})
MODES = JobCopyModes(None, TRANSFORM, TABLE, TABLE, of_table(TRANSFORM, TABLE, TABLE), FilterColumns())


def live_file(partition, statistics):
    """Return a file as a listing has it."""
    add = {"path": "x.parquet", "partitionValues": partition, "size": 9, "modificationTime": 1, "dataChange": True}
    logged = LoggedFile("x.parquet", 9, 3, 0, (), json.dumps({"add": add}), statistics, partition)
    return LiveFile("x.parquet", 9, 3, handle=logged)


class TestAFileOfTheTableItself:
    """A decoded file costs a Spark job of its own, and each new deletion vector costs it again."""

    def test_is_copied_with_its_partition_value_in_any_spelling(self):
        """Writers before Delta 4 log a timestamp without a zone; what it means is the same before and after."""
        for value in ("2024-06-01 12:00:00", "__HIVE_DEFAULT_PARTITION__", None):
            copy = planned_copy(MODES, live_file({"at": value}, '{"numRecords":3}'))

            assert copy is not None
            assert (copy.partition, copy.mode) == (
                {"at": value},
                PartlyComputed(Projected((), ("at", "norm")), ("norm",)),
            )

    def test_is_copied_without_null_counts(self):
        """Its columns are NOT NULL in the table already, also beyond those with statistics."""
        assert planned_copy(MODES, live_file({"at": "2024-06-01T12:00:00.000000Z"}, '{"numRecords":3}')) is not None

    def test_is_decoded_without_a_row_count(self):
        """Computed columns are joined by the number of rows."""
        assert planned_copy(MODES, live_file({"at": None}, None)) is None
