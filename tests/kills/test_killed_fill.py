"""A driver that fills a column of a live table is killed before and after a commit; the next one continues, and another engine is the oracle."""

import os
import subprocess
import sys

import pytest
import yaml
from support.tables.jobs import make_kind
from support.tables.oracle import columns_of
from support.tables.other_engine import delete

KILLED = -9
LIMIT_S = 200
ROWS = 900


@pytest.mark.rest
class TestAKilledFill:
    """The commit of a file and the progress of the job are one."""

    def test_a_kill_before_or_after_a_commit_loses_and_doubles_no_row(self, spark, tmp_path):
        """One table for all deaths, because each process takes seconds; a writer hides a row in between."""
        table, file = str(tmp_path / "t"), tmp_path / "job.yaml"
        make_kind(spark, table, "deleted", norm="cast(null AS string)")
        place = {"type": "Delta", "delta": {"path": table}}
        spec = {"source": place, "target": place, "strategy": {"type": "InPlace"}, "verify": "Final"}
        spec |= {"transform": {"set": {"norm": "upper(name)"}}}
        head = {"apiVersion": "backfill.dev/v1alpha1", "kind": "Backfill", "metadata": {"name": "norm"}}
        file.write_text(yaml.safe_dump({**head, "spec": spec}))
        ours = {"BACKFILL_STATE_DIR": str(tmp_path / "state"), "BACKFILL_CORES": "1", "BACKFILL_MEMORY": "1g"}

        def run(**crash):
            return subprocess.run(
                [sys.executable, "-m", "backfill_cli", "run", "-f", str(file)],
                env={**os.environ, **ours, **crash}, capture_output=True, text=True, check=False, timeout=LIMIT_S, start_new_session=True,
            )  # fmt: skip

        def filled():
            return sum(norm is not None for (norm,) in columns_of(table, "norm"))

        assert run(BACKFILL_CRASH_AT="before_fill").returncode == KILLED
        assert filled() == 0
        assert run(BACKFILL_CRASH_AT="after_fill").returncode == KILLED
        half = filled()
        delete(table, "id = 200")
        ended = run()

        rows = columns_of(table, "id", "name", "norm")
        assert ended.returncode == 0, ended.stderr
        assert "RESTORE TABLE to version" in ended.stdout + ended.stderr
        assert 0 < half < ROWS
        assert sorted(number for number, _, _ in rows) == [n for n in range(ROWS) if n % 9 != 4 and n != 200]
        assert all(norm == name.upper() for _, name, norm in rows)
