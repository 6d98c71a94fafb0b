"""A driver is killed while it stages rows, and before and after the commit that makes them visible. The next one resumes."""

import os
import subprocess
import sys

import pytest
from support.publication import added_files, rows_at
from support.tables.jobs import make_orders, write_yaml
from support.tables.oracle import seals, violations

ROWS = 2_000
KILLED = -9
LIMIT_S = 200
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

    @staticmethod
    def driver(folder, file, point):
        ours = {"BACKFILL_STATE_DIR": str(folder / "state"), "BACKFILL_CORES": "1", "BACKFILL_MEMORY": "1g"}
        crash = {} if point is None else {"BACKFILL_CRASH_AT": point}
        return subprocess.run(
            [sys.executable, "-m", "backfill_spark", "-f", str(file)],
            env={**os.environ, **ours, **crash}, capture_output=True, text=True, check=False, timeout=LIMIT_S, start_new_session=True,
        )  # fmt: skip
