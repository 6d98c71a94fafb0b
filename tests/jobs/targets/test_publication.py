"""Rows of a job become visible in one commit: once they are complete, or once they are verified (ADR 0041)."""

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable
from support.endings import assert_ending
from support.publication import added_files, rows_at
from support.tables.jobs import job, make_kind, make_orders
from support.tables.oracle import seals, violations
from support.tables.other_engine import insert

from backfill_core.errors import NotRepairableError, TargetChangedError, VerificationFailedError
from backfill_core.job.state import JobState
from backfill_spark.driver.attempt import run_driver
from backfill_spark.driver.offline_verify import verify_offline
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.repair.repair import repair_target
from backfill_spark.settings import DriverSettings

ROWS = 2_000


@pytest.fixture
def place(spark, tmp_path):
    """A source of orders, and a target that a job fills."""

    class Place:
        source, target = str(tmp_path / "source"), str(tmp_path / "target")
        settings = DriverSettings(state_dir=tmp_path / "state", cores=2)
        seen = []

        def run(self, publish, observe=lambda _: None, stop=None, **spec):
            backfill = self.backfill(publish, **spec)
            return run_driver(backfill, settings=self.settings, observe=observe, spark=spark, stop=stop)

        def backfill(self, publish, **spec):
            target = {"publish": publish, **spec.pop("target", {})}
            return job(self.source, self.target, **{"verify": "Final", "target": target, **spec})

        def verified(self, publish):
            """Return receipt and examples of `backfill verify --explain`."""
            backfill = self.backfill(publish)
            receipt, examples, _ = verify_offline(backfill, settings=self.settings, explain=True, spark=spark)
            return receipt, examples

        def wrong(self):
            return violations(self.source, self.target, seals(self.target)[-1])

        def watched(self, progress):
            self.seen.append((rows_at(self.target), progress.rows_done))

        def state(self):
            return JobState.decode(json.dumps(seals(self.target)[-1].state))

        def stopped(self, publish, **spec):
            """Run until a part of the rows is staged, and stop there."""
            stop = StopSignal()

            def watch(progress):
                if progress.rows_done:
                    stop.ask(force=False)

            ended = self.run(publish, observe=watch, stop=stop, throttle={"rowsPerSecond": 1_000}, **spec)
            assert ended.outcome == "Stopped", ended.message
            assert self.state().publication.parts
            assert rows_at(self.target) == 0

    Place.seen = []
    return Place()


class TestRowsThatBecomeVisibleTogether:
    """Another engine sees no row before the commit that shows all of them."""

    def test_readers_see_nothing_before_the_rows_are_verified_and_then_everything(self, spark, place):
        """A limit makes many commits, so parts of the manifest are joined; an insert during the copy follows the publication."""
        make_orders(spark, place.source, ROWS, files=4)
        inserted = []

        def watch(progress):
            place.watched(progress)
            if progress.rows_done and not inserted:
                inserted.append(1)
                insert(place.source, "SELECT id + 100000 AS id, customer, amount, note, status FROM now WHERE id < 20")

        ended = place.run(
            "WhenVerified", observe=watch, throttle={"rowsPerSecond": 600}, target={"partitionBy": ["status"]}
        )

        assert (ended.outcome, ended.message) == ("Complete", "")
        assert ended.receipt.equal
        assert place.wrong() == []
        counts = [rows_at(place.target, version) for version in range(DeltaTable(place.target).version() + 1)]
        shown = next(version for version, rows in enumerate(counts) if rows)
        assert counts[shown:] == sorted(counts[shown:])
        assert (counts[shown], counts[-1]) == (ROWS, ROWS + 20)
        assert sum(added_files(place.target)[:shown]) == 0
        assert any(done and not rows for rows, done in place.seen)
        assert not list(Path(place.target).glob("backfill-*/_manifest"))

    def test_a_replica_with_deletion_vectors_and_mapped_columns_is_verified_before_it_is_visible(self, spark, place):
        """The receipt reads the copies with their vectors and physical names; Spark is the other reader of such a table."""
        make_kind(spark, place.source, "renamed")
        spark.sql(f"DELETE FROM delta.`{place.source}` WHERE id % 10 = 3")

        ended = place.run("WhenVerified", strategy={"type": "Replica"}, verify="None", source={"key": []})

        assert (ended.outcome, ended.message) == ("Complete", "")
        assert ended.receipt.equal
        copied, expected = (spark.read.format("delta").load(path) for path in (place.target, place.source))
        assert copied.columns == expected.columns
        assert (ended.receipt.rows, copied.count(), copied.exceptAll(expected).count()) == (810, 810, 0)

    def test_a_stopped_job_resumes_from_its_manifest(self, spark, place):
        """The next attempt reads only the rows that no part names, and removes no file of a part."""
        make_orders(spark, place.source, ROWS, files=4)
        place.stopped("WhenComplete")
        staged = place.state().rows_done

        ended = place.run("WhenComplete", observe=place.watched)

        assert (ended.outcome, ended.message) == ("Complete", "")
        assert min(done for _, done in place.seen) >= staged
        assert place.wrong() == []


class TestATargetThatDoesNotFit:
    """The job ends by name, and none of its rows is visible."""

    def test_a_damaged_staged_file_is_found_before_it_is_visible(self, spark, place):
        """Another staged file in its place has other rows: the receipt differs."""
        make_orders(spark, place.source, ROWS, files=4)
        place.stopped("WhenVerified")
        file = next(Path(place.target).glob("backfill-*/a*/s*/**/*.parquet"))
        rows = spark.read.parquet(str(file)).selectExpr("id", "customer", "amount + 1 AS amount", "note", "status")
        rows.coalesce(1).write.parquet(f"{place.target}-other")
        file.write_bytes(next(Path(f"{place.target}-other").glob("*.parquet")).read_bytes())
        Path(file.parent, f".{file.name}.crc").unlink(missing_ok=True)

        refused = place.run("WhenVerified")

        assert refused.error is not None
        assert isinstance(refused.error, VerificationFailedError | TargetChangedError), refused.error
        assert "backfill release --force" in refused.hint
        with pytest.raises(NotRepairableError, match="publish is WhenVerified, and the rows of the job are staged"):
            repair_target(place.backfill("WhenVerified"), settings=place.settings, spark=spark)
        assert rows_at(place.target) == 0

    @pytest.mark.parametrize("publish", ["WhenComplete", "WhenVerified"])
    def test_a_lost_staged_file_ends_the_job_with_the_remedy(self, spark, place, publish):
        """Its rows count as done, so no later attempt would stage them again. A new target is not needed."""
        make_orders(spark, place.source, ROWS, files=4)
        place.stopped(publish)
        next(Path(place.target).glob("backfill-*/a*/s*/**/*.parquet")).unlink()

        refused = place.run(publish)

        assert_ending(refused, "TargetChanged")
        assert "staged files are gone or changed" in refused.message
        assert "backfill release" in refused.hint
        assert rows_at(place.target) == 0

    def test_a_damaged_manifest_ends_the_job_with_the_remedy(self, spark, place):
        """A part without its last line could publish a part of the rows."""
        make_orders(spark, place.source, ROWS, files=4)
        place.stopped("WhenComplete")
        for part in Path(place.target).glob("backfill-*/_manifest/*.jsonl"):
            part.write_text(part.read_text().replace('"sha256":"', '"sha256":"0'))
            part.with_name(f".{part.name}.crc").unlink(missing_ok=True)

        refused = place.run("WhenComplete")
        assert_ending(refused, "TargetChanged")
        assert "is damaged" in refused.message
        assert rows_at(place.target) == 0

    def test_rows_of_another_writer_end_the_job_and_it_continues_once_they_are_gone(self, spark, place):
        """The promise is a target of the job's rows; the staged rows are not copied again."""
        make_orders(spark, place.source, ROWS, files=4)
        place.stopped("WhenComplete")
        spark.sql(f"INSERT INTO delta.`{place.target}` SELECT 7, 1, 2.0D, 'x', 'new'")

        refused = place.run("WhenComplete")
        assert_ending(refused, "TargetChanged")
        assert "has rows of another writer" in refused.message
        assert rows_at(place.target) == 1

        spark.sql(f"DELETE FROM delta.`{place.target}` WHERE id = 7")
        assert place.run("WhenComplete").outcome == "Complete"
        assert rows_at(place.target) == ROWS


class TestAVerificationBeforeThePublication:
    """`backfill verify` of a stopped job compares the staged rows, and shows none of them."""

    def test_staged_rows_are_compared_and_stay_hidden(self, spark, place):
        """The target's version holds no row, so a receipt of it would say nothing."""
        make_orders(spark, place.source, ROWS, files=4)
        place.stopped("WhenComplete")
        staged, version = place.state().rows_done, DeltaTable(place.target).version()

        equal, examples = place.verified("WhenComplete")

        assert (equal.equal, equal.complete, equal.rows, examples) == (True, False, staged, [])
        assert (rows_at(place.target), DeltaTable(place.target).version()) == (0, version)
