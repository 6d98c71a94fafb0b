"""A driver is killed while it stages rows, and before and after the commit that makes them visible. The next one resumes."""

import os
import subprocess
import sys

import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import functions as F
from support.publication import added_files, rows_at
from support.tables.jobs import make_orders, write_yaml
from support.tables.oracle import seals, violations

ROWS = 2_000
KILLED = -9
LIMIT_S = 200
SCOPE = "id >= 1000"
POINTS = ("after_seal_commit:3", "before_publish", "after_publish")


@pytest.mark.rest
class TestAKilledPublication:
    """Readers see no row or all rows after a kill at any point."""

    def test_kills_around_the_publication_lose_and_double_nothing(self, spark, tmp_path):
        """The driver of one job is killed at each point. The next attempt resumes from the manifest, or finds the publication."""
        source, target, file = str(tmp_path / "orders"), str(tmp_path / "copy"), tmp_path / "job.yaml"
        make_orders(spark, source, ROWS, files=4)
        write_yaml(
            file, source, target, target={"publish": "WhenVerified"}, verify="Final", throttle={"rowsPerSecond": 900}
        )
        seen = []
        for point in POINTS:
            assert self.driver(tmp_path, file, point).returncode == KILLED
            seen.append(rows_at(target))

        done = self.driver(tmp_path, file, None)

        assert done.returncode == 0, done.stdout[-2000:]
        assert seen == [0, 0, ROWS]
        assert [count for count in added_files(target) if count] == [sum(added_files(target))]
        assert violations(source, target, seals(target)[-1]) == []

    def test_kills_around_the_replacement_of_a_part_lose_and_double_nothing(self, spark, tmp_path):
        """The rows of the scope are the old ones or the new ones, and those of others stay."""
        source, target, file = str(tmp_path / "orders"), str(tmp_path / "copy"), tmp_path / "job.yaml"
        make_orders(spark, source, ROWS, files=4)
        for first in (0, 1_000):
            rows = spark.read.format("delta").load(source).where(f"id >= {first} AND id < {first + 1_000}")
            rows.withColumn("note", F.lit("old")).coalesce(1).write.format("delta").mode("append").save(target)
        write_yaml(
            file, source, target, transform={"where": SCOPE}, target={"publish": "WhenVerified", "scope": SCOPE},
            verify="Final",
        )  # fmt: skip
        seen = []
        for point in ("before_publish", "after_publish"):
            assert self.driver(tmp_path, file, point).returncode == KILLED
            seen.append(self.old_rows(target))

        done = self.driver(tmp_path, file, None)

        assert done.returncode == 0, done.stdout[-2000:]
        assert [*seen, self.old_rows(target)] == [(2_000, 2_000), (1_000, 2_000), (1_000, 2_000)]
        assert len([count for count in added_files(target) if count]) == 3

    @staticmethod
    def old_rows(path):
        """Return the number of old rows and of all rows."""
        query = "SELECT count(*) FILTER (WHERE note = 'old') AS old, count(*) AS n FROM t"
        rows = QueryBuilder().register("t", DeltaTable(path)).execute(query).read_all()
        return rows["old"][0].as_py(), rows["n"][0].as_py()

    @staticmethod
    def driver(folder, file, point):
        ours = {"BACKFILL_STATE_DIR": str(folder / "state"), "BACKFILL_CORES": "1", "BACKFILL_MEMORY": "1g"}
        crash = {} if point is None else {"BACKFILL_CRASH_AT": point}
        return subprocess.run(
            [sys.executable, "-m", "backfill_spark", "-f", str(file)],
            env={**os.environ, **ours, **crash}, capture_output=True, text=True, check=False, timeout=LIMIT_S, start_new_session=True,
        )  # fmt: skip
