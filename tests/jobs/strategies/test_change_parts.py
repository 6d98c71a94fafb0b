"""A version that changes every row is merged in parts of its keys; delta-rs, which shares no code with the project, reads the target."""

import itertools
import os
import subprocess
import sys

import pytest
from support.drivers.shared_java import address_of
from support.tables.jobs import job, make_orders, write_yaml
from support.tables.logs import actions_in, commit_of, commits_of
from support.tables.oracle import columns_of, seals, violations

from backfill_core.errors import NotFinishedError
from backfill_spark.driver.attempt import run_driver
from backfill_spark.driver.offline_verify import verify_offline
from backfill_spark.settings import DriverSettings

ROWS, GONE = 120_000, 10
KILLED = -9
SPEC = {
    "source": {"version": 0}, "strategy": {"type": "Snapshot", "snapshot": {"changePartMebibytes": 1}}, "verify": "Final",
}  # fmt: skip


def overwrite(spark, source):
    """Replace all rows in one version: other notes, without a tenth of the ids, and with as many new ones."""
    rows = spark.read.format("delta").load(source).where(f"id % {GONE} != 3")
    new = spark.range(ROWS, ROWS + ROWS // GONE, 1, 1).selectExpr(
        "id", "1L AS customer", "2D AS amount", "md5(cast(id AS string)) AS note", "'new' AS status"
    )
    replaced = rows.unionByName(new).selectExpr("id", "customer", "amount", "reverse(note) AS note", "status")
    replaced.coalesce(2).write.format("delta").mode("overwrite").save(source)


def notes_at(table, version):
    """Return the note of each id at a version, read by delta-rs."""
    rows = columns_of(table, "id", "note", version=version)
    notes = dict(rows)
    assert len(notes) == len(rows)
    return notes


def merges(target):
    """Return the versions of a target that MERGEs made."""
    return [
        version
        for version in commits_of(target)
        if any(action.get("commitInfo", {}).get("operation") == "MERGE" for action in actions_in(commit_of(target, version)))
    ]  # fmt: skip


class TestAVersionThatChangesEveryRow:
    """R-PART-1 to R-PART-6: a kill loses one part, and no reader sees a key twice or between two versions."""

    @pytest.mark.always
    def test_a_kill_between_parts_repeats_no_part_and_loses_no_change(self, spark, tmp_path):
        """The driver dies after the MERGE of the second part, which no commit has recorded yet."""
        source, target, file = str(tmp_path / "orders"), str(tmp_path / "copy"), tmp_path / "job.yaml"
        make_orders(spark, source, ROWS, files=4)
        overwrite(spark, source)
        write_yaml(file, source, target, **SPEC)
        settings = DriverSettings(state_dir=tmp_path / "state", cores=2)

        died = self.driver(spark, tmp_path, file, "after_merge:2")

        assert died.returncode == KILLED, died.stdout
        assert len(merges(target)) == 2
        with pytest.raises(NotFinishedError, match=r"2 of \d parts of the changes up to version 1"):
            verify_offline(job(source, target, **SPEC), settings=settings, spark=spark)

        outcome = run_driver(job(source, target, **SPEC), settings=settings, spark=spark)

        assert (outcome.reason, outcome.receipt.equal, outcome.receipt.rows) == ("Complete", True, ROWS)
        self.check_each_version(source, target)

    @staticmethod
    def driver(spark, tmp_path, file, point):
        ours = {"BACKFILL_STATE_DIR": str(tmp_path / "state"), "BACKFILL_CORES": "2", "BACKFILL_CRASH_AT": point}
        return subprocess.run(
            [sys.executable, "-m", "support.drivers.shared_java", str(file)], text=True, check=False, timeout=300,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **address_of(spark), **ours}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    @staticmethod
    def check_each_version(source, target):
        """Check that each version has each key as of one of both versions, and that the new ones only grow."""
        old, new, states = notes_at(source, 0), notes_at(source, 1), seals(target)
        parts = [seal.progress["parts"] for seal in states if "parts" in seal.progress]
        count = len(parts[0]["cuts"]) + 1
        assert count > 3
        assert [part["done"] for part in parts] == sorted(part["done"] for part in parts)
        assert {seal.progress["consumed"] for seal in states if "parts" in seal.progress} == {0}
        assert len(merges(target)) == count
        changed = old.items() ^ new.items()
        held = []
        for version in merges(target):
            rows = notes_at(target, version)
            assert all(rows.get(key) in (old.get(key), new.get(key)) for key in old.keys() | new.keys())
            held.append({key for key, _ in changed if rows.get(key) == new.get(key) and old.get(key) != new.get(key)})
        assert all(before < after for before, after in itertools.pairwise(held))
        assert max(map(len, held[:1])) < len(held[-1]) / 2
        assert held[-1] == {key for key, _ in changed}
        assert violations(source, target, states[-1]) == []
