"""A target that is partitioned by a fraction: equal values have different folders (fault D3)."""

import math
import struct

import numpy as np
import pytest
from arro3.core import Array, Table
from deltalake import write_deltalake
from support.tables.jobs import job
from support.tables.oracle import columns_of

from backfill_spark.driver.attempt import run_driver
from backfill_spark.settings import DriverSettings

VALUES = "CASE WHEN id % 4 = 0 THEN -0.0D WHEN id % 4 = 1 THEN 0.0D WHEN id % 16 = 2 THEN double('NaN') ELSE id % 80 / 8D END"
"""The values have more folders than Spark writes at once; both zeros alternate."""


def exact(value):
    """Return a value so that both zeros differ, and all NaN are one."""
    return None if value is None else "NaN" if math.isnan(value) else struct.pack("d", value).hex()


@pytest.fixture
def run(spark, tmp_path):
    """Runs a job from a table of 400 fractions; returns its outcome and the rows of both sides, by id."""

    def run(kind, **spec):
        source, target = str(tmp_path / "s"), str(tmp_path / "t")
        rows = spark.range(0, 400, 1, 1).selectExpr("id", f"cast({VALUES} AS {kind}) AS p", "id AS n")
        rows.write.format("delta").option("delta.enableChangeDataFeed", "true").save(source)
        if "version" in spec.get("source", {}):
            spark.sql(f"UPDATE delta.`{source}` SET n = -1 WHERE id % 5 < 4")
        backfill = job(source, target, target={"partitionBy": ["p"], **spec.pop("target", {})}, verify="Final", **spec)
        outcome = run_driver(backfill, settings=DriverSettings(state_dir=tmp_path / "state", cores=2), spark=spark)
        sides = (
            sorted((number, exact(p), n) for number, p, n in columns_of(path, "id", "p", "n"))
            for path in (source, target)
        )
        return outcome, *sides

    return run


class TestPartitionsByFractions:
    """A sort treats both zeros as equal, but they have two folders: a sorting task returns to a folder that it has left."""

    @pytest.mark.parametrize("kind", ["double", "float"])
    @pytest.mark.parametrize("mode", ["Append", "Changelog"])
    def test_both_zeros_arrive_among_many_values(self, run, kind, mode):
        """Above `spark.sql.maxConcurrentOutputFileWriters` folders a task sorts its rows."""
        outcome, source, target = run(kind, target={"writeMode": mode})

        assert outcome.reason == "Complete", outcome.message
        assert target == source

    def test_every_kind_of_nan_has_one_folder(self, spark, tmp_path):
        """A NaN has many patterns of bits, and one name."""
        source, target = str(tmp_path / "s"), str(tmp_path / "t")
        nans = np.array([0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8000000000002], dtype=np.uint64).view(np.float64)
        rows = Table.from_pydict({"id": Array.from_numpy(np.arange(90)), "p": Array.from_numpy(np.resize(nans, 90))})
        write_deltalake(source, rows)
        backfill = job(
            source, target, source={"key": []}, target={"partitionBy": ["p"], "writeMode": "Append"}, verify="Final"
        )

        outcome = run_driver(backfill, settings=DriverSettings(state_dir=tmp_path / "state", cores=2), spark=spark)

        assert outcome.reason == "Complete", outcome.message
        assert sorted(number for number, p in columns_of(target, "id", "p") if math.isnan(p)) == list(range(90))

    def test_both_zeros_are_merged(self, run):
        """Delta's own writer sorts, too."""
        outcome, source, target = run("double", source={"version": 0})

        assert outcome.reason == "Complete", outcome.message
        assert target == source

    def test_both_zeros_arrive_part_by_part(self, run):
        """Under a limit, the folders of a split's parts are above those of the partitions."""
        outcome, source, target = run("double", target={"writeMode": "Append"}, throttle={"rowsPerSecond": 200})

        assert outcome.reason == "Complete", outcome.message
        assert target == source
