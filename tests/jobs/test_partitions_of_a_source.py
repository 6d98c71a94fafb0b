"""A whole job reports the finished rows by partition of its source, and leaves a run in the history of the machine."""

from collections import Counter
from itertools import starmap

from support.tables.jobs import job

from backfill_spark.control.history import recorded_runs
from backfill_spark.driver.attempt import run_driver
from backfill_spark.settings import DriverSettings

VALUES = "array('a b', 'c%d', 'e/f=g', 'ü', NULL)"


class TestAPartitionedSource:
    """The names are those of columns and values, also if the log has other names."""

    def test_each_partition_is_listed_with_all_of_its_rows_at_the_end(self, spark, tmp_path):
        """A person asks first by day. With column mapping, the log has physical names."""
        source = str(tmp_path / "s")
        rows = spark.sql(f"SELECT id, {VALUES}[cast(least(id % 7, 4) AS int)] AS p, id % 2 AS half FROM range(300)")
        options = {"delta.columnMapping.mode": "name", "delta.enableChangeDataFeed": "true"}
        rows.repartition(3).write.format("delta").options(**options).partitionBy("half", "p").save(source)
        backfill = job(source, str(tmp_path / "t"), verify="Final", barrier={"intervalMs": 200})

        outcome = run_driver(backfill, settings=DriverSettings(cores=2, state_dir=tmp_path / "state"), spark=spark)

        counts = Counter(starmap(name_of, rows.select("half", "p").collect()))
        shown = {part.partition: part for part in outcome.progress.partitions}
        assert {name: part.rows_total for name, part in shown.items()} == counts
        assert all((part.rows_done, part.files_done) == (part.rows_total, part.files_total) for part in shown.values())
        assert [part.rows_total for part in outcome.progress.partitions] == sorted(counts.values(), reverse=True)
        [run] = recorded_runs(tmp_path / "state")
        assert (run.job_id, run.outcome, run.receipt, run.rows_done) == (backfill.job_id, "Complete", "Equal", 300)
        assert run.start <= run.end


def name_of(half, value):
    escaped = {None: "__HIVE_DEFAULT_PARTITION__", "c%d": "c%25d", "e/f=g": "e%2Ff=g"}
    return f"half={half}/p={escaped.get(value, value)}"
