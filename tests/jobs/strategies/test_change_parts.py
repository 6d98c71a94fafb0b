"""A version that changes every row is merged in parts of its keys; delta-rs, which shares no code with the project, reads the target."""

import itertools
import time

import pytest
from support.crashes.drivers import LastingJava, Start
from support.tables.jobs import job, make_orders, write_yaml
from support.tables.logs import actions_in, commit_of, commits_of
from support.tables.oracle import columns_of, seals, violations

from backfill_core.errors import NotFinishedError
from backfill_spark.driver.attempt import run_driver
from backfill_spark.driver.offline_verify import verify_offline
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.settings import DriverSettings

ROWS, CHUNK, GONE = 7_200, 1_200, 10
NOTE = ", ".join(f"md5(cast(id * 30 + {number} AS string))" for number in range(30))
"""Long notes: few rows have several parts of a MiB, the smallest size."""

KILLED = -9
LIMIT_S = 300
SPEC = {
    "source": {"version": 0}, "strategy": {"type": "Snapshot", "snapshot": {"changePartMebibytes": 1}}, "verify": "Final",
}  # fmt: skip


def overwrite(spark, source):
    """Replace all rows in one version: other notes, without a tenth of the ids, and with as many new ones."""
    rows = spark.read.format("delta").load(source).where(f"id % {GONE} != 3")
    new = spark.range(ROWS, ROWS + ROWS // GONE, 1, 1).selectExpr(
        "id", "1L AS customer", "2D AS amount", "'' AS note", "'new' AS status"
    )
    replaced = rows.unionByName(new).selectExpr("id", "customer", "amount", f"concat({NOTE}) AS note", "status")
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


def driver_until(spark, folder, file, point):
    """Start a driver in a separate process, which dies at a crash point."""
    return LastingJava(Start(file, folder / "state", folder / "driver.log", point), spark)


def check_killed(driver, folder):
    """Check that a driver dies at its crash point."""
    assert driver.wait(LIMIT_S) == KILLED, (folder / "driver.log").read_text()


def check_each_version(source, target, last_id=2 * ROWS):
    """Check that each MERGE leaves each key as of one of both versions, and that the new ones only grow; return all seals.

    `last_id` is the largest id that was copied before the first MERGE.
    """
    old, new = ({key: note for key, note in notes_at(source, version).items() if key <= last_id} for version in (0, 1))
    states, versions = seals(target), merges(target)
    parts = [seal.progress["parts"] for seal in states if "parts" in seal.progress]
    count = len(parts[0]["cuts"]) + 1
    assert count > 2
    assert [part["done"] for part in parts] == sorted(part["done"] for part in parts)
    assert {seal.progress["consumed"] for seal in states if "parts" in seal.progress} == {0}
    assert len(versions) == count
    changed, held = old.items() ^ new.items(), []
    for version in versions:
        rows = notes_at(target, version)
        assert all(rows.get(key) in (old.get(key), new.get(key)) for key in old.keys() | new.keys() | rows.keys())
        held.append({key for key, _ in changed if rows.get(key) == new.get(key) and old.get(key) != new.get(key)})
    assert all(before < after for before, after in itertools.pairwise(held))
    assert len(held[0]) < 0.6 * len(held[-1])
    assert held[-1] == {key for key, _ in changed}
    return states


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

        check_killed(driver_until(spark, tmp_path, file, "after_merge:2"), tmp_path)

        assert len(merges(target)) == 2
        with pytest.raises(NotFinishedError, match=r"2 of \d parts of the changes up to version 1"):
            verify_offline(job(source, target, **SPEC), settings=settings, spark=spark)

        outcome = run_driver(job(source, target, **SPEC), settings=settings, spark=spark)

        assert (outcome.reason, outcome.receipt.equal, outcome.receipt.rows) == ("Complete", True, ROWS)
        assert violations(source, target, check_each_version(source, target)[-1]) == []


class TestWhileRowsAreStillToBeRead:
    """Arrangement merges the changes of the rows up to its position in parts, and reads the other rows afterwards."""

    def test_a_kill_between_parts_of_a_round_moves_no_position(self, spark, tmp_path):
        """R-PART-1 to R-PART-5, R-ARR-42: the first driver stops in the copy, the next one dies after the MERGE of the second part."""
        source, target, file = str(tmp_path / "orders"), str(tmp_path / "copy"), tmp_path / "job.yaml"
        spec = {
            "strategy": {"type": "Arrangement", "arrangement": {"changePartMebibytes": 1, "chunkRows": CHUNK}}, "verify": "Final",
        }  # fmt: skip
        settings, stop = DriverSettings(state_dir=tmp_path / "state", cores=2), StopSignal()
        make_orders(spark, source, ROWS, files=4)
        write_yaml(file, source, target, **spec)
        run_driver(
            job(source, target, **spec, throttle={"rowsPerSecond": CHUNK}), settings=settings, stop=stop, spark=spark,
            observe=lambda progress: stop.ask(force=True) if progress.rows_done >= 4 * CHUNK else None,
        )  # fmt: skip
        reached = str(seals(target)[-1].progress["positions"])
        last_id = max(notes_at(target, None))
        assert 4 * CHUNK <= last_id + 1 < ROWS
        overwrite(spark, source)

        check_killed(driver_until(spark, tmp_path, file, "after_merge:2"), tmp_path)

        assert len(merges(target)) == 2
        outcome = run_driver(job(source, target, **spec), settings=settings, spark=spark)

        assert (outcome.reason, outcome.receipt.equal, outcome.receipt.rows) == ("Complete", True, ROWS)
        states = check_each_version(source, target, last_id)
        assert {str(seal.progress["positions"]) for seal in states if "parts" in seal.progress} == {reached}
        assert violations(source, target, states[-1]) == []


class TestAChainThatHasCaughtUp:
    """RearrangedChain continues a batch in parts although it has caught up, and takes no newer version."""

    def test_a_kill_between_parts_repeats_no_part(self, spark, tmp_path):
        """R-PART-2 to R-PART-5, R-CHAIN-2: a driver that follows dies after its second part; the next one ends with the last part."""
        source, target, file = str(tmp_path / "orders"), str(tmp_path / "copy"), tmp_path / "job.yaml"
        spec = {
            "strategy": {"type": "RearrangedChain", "rearrangedChain": {"changePartMebibytes": 1}}, "verify": "Final",
        }  # fmt: skip
        make_orders(spark, source, ROWS, files=4)
        write_yaml(file, source, target, after="Follow", **spec)
        driver = driver_until(spark, tmp_path, file, "after_merge:2")
        deadline_s = time.monotonic() + LIMIT_S
        while not any(seal.progress["phase"] == "Forwarding" for seal in seals(target)):
            assert time.monotonic() < deadline_s
            assert driver.wait(0.2) is None, (tmp_path / "driver.log").read_text()
        overwrite(spark, source)
        check_killed(driver, tmp_path)
        assert len(merges(target)) == 2

        settings = DriverSettings(state_dir=tmp_path / "state", cores=2)
        outcome = run_driver(job(source, target, **spec), settings=settings, spark=spark)

        assert (outcome.reason, outcome.receipt.equal, outcome.receipt.rows) == ("Complete", True, ROWS)
        assert violations(source, target, check_each_version(source, target)[-1]) == []
