"""Control of a real driver on real tables: the target shows the effect of each acknowledged command."""

import os
import time
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread

import pytest
from support.drivers.background import Running
from support.endings import assert_ending
from support.tables.jobs import job, make_orders
from support.tables.oracle import adds_of, rows_in, seals, violations
from support.tables.other_engine import update

from backfill.control import Client, find
from backfill_api.wire import Command, RescaleCommand
from backfill_core.command_errors import CommandRefusedError
from backfill_core.errors import EXIT_STOPPED

ROWS = 4000
SLOW = 10
"""Rows a second at which the history takes longer than any test waits in its middle."""

BARRIERS = 4
"""Number of barriers without an effect after which a test concludes that there is none."""


@pytest.fixture
def place(spark, tmp_path):
    """A source of orders, a free place for a target, and drivers between them."""

    class Place:
        source, target = str(tmp_path / "source"), str(tmp_path / "target")

        def run(self, **spec):
            barrier = {"barrier": {"intervalMs": 200}}
            return Running(spark, job(self.source, self.target, **barrier, **spec), tmp_path / "state")

        def change(self):
            update(self.source, "id % 10 = 3", amount="amount + 1")

        def rows(self):
            return rows_in(self.target)

        def wrong(self):
            return violations(self.source, self.target, seals(self.target)[-1])

    made = Place()
    make_orders(spark, made.source, ROWS, files=4)
    return made


@contextmanager
def busy_cores(spark, folder):
    """Keep every core of the session busy: a Spark job that is submitted meanwhile runs and cannot end."""
    pipes = [folder / f"core{number}" for number in range(spark.sparkContext.defaultParallelism)]
    for pipe in pipes:
        os.mkfifo(pipe)
    spread = spark.sparkContext.parallelize(pipes, len(pipes))
    task = Thread(target=spread.foreach, args=[Path.read_bytes])
    task.start()
    # Opening waits for the reader, closing lets it go.
    ends = [pipe.open("wb") for pipe in pipes]
    try:
        yield
    finally:
        for end in ends:
            end.close()
        task.join()


class TestAPause:
    """A pause holds the work in its scope; other work continues (R-SNAP-43)."""

    def test_a_pause_of_the_spec_is_in_force_from_the_start(self, place):
        """A user who applies a paused job must not find rows in the target."""
        with place.run(desiredState="Paused") as running:
            began = running.fenced()
            held = running.until(lambda progress: progress.epoch >= began.epoch + BARRIERS)
            sealed = seals(place.target)
            running.command("Resume")
            outcome = running.outcome()

        assert (held.paused, held.quiet, held.rows_done) == ("History", True, 0)
        assert {(seal.state["controls"]["paused"], seal.state["rowsDone"]) for seal in sealed} == {("History", 0)}
        assert (outcome.outcome, outcome.progress.rows_done, place.wrong()) == ("Complete", ROWS, [])

    def test_a_pause_of_all_holds_changes_and_one_of_history_does_not(self, place):
        """The two scopes are two promises to a user."""
        with place.run(after="Follow") as running:
            running.until(lambda progress: progress.caught_up)
            epoch = running.command("Pause", scope="All").epoch
            place.change()
            running.until(lambda progress: progress.head_version == 1)
            held = running.until(lambda progress: progress.epoch >= epoch + BARRIERS)
            consumed = [seal.state["consumed"] for seal in seals(place.target)]
            running.command("Pause", scope="History")
            running.until(lambda progress: progress.consumed_version == 1)
            running.command("Stop")
            outcome = running.outcome()

        assert (held.paused, held.lag_versions, held.changes_done, consumed[-1]) == ("All", 1, 0, 0)
        assert (outcome.outcome, outcome.progress.paused, place.wrong()) == ("Stopped", "History", [])

    def test_a_forced_pause_cancels_a_running_split(self, spark, place, tmp_path):
        """The split cannot end by itself here. Its files are removed, and its rows are read again."""
        with place.run(desiredState="Paused", transform={"where": "true"}) as running:
            running.fenced()
            with busy_cores(spark, tmp_path):
                running.command("Resume")
                running.until(lambda progress: not progress.quiet)
                running.command("Pause", force=True)
                held = running.until(lambda progress: progress.quiet)
            staged = [path for path in Path(place.target).glob("backfill-*/**/*") if path.is_file()]
            running.command("Resume")
            outcome = running.outcome()

        assert (held.paused, held.rows_done, held.splits_done, staged) == ("History", 0, 0, [])
        assert (outcome.outcome, outcome.progress.rows_done, place.wrong()) == ("Complete", ROWS, [])


class TestACommandThatTheDriverDoesNotTake:
    """The driver answers at once, and the job does not change."""

    def test_a_command_of_a_client_with_another_token_is_refused(self, place, tmp_path):
        """A new driver has another token than its predecessor."""
        with place.run(desiredState="Paused") as running:
            running.fenced()
            address = find(tmp_path / "state", "default/job").address
            with pytest.raises(CommandRefusedError) as refused:
                Client(replace(address, token="of another driver"), tmp_path / "state").apply(Command(type="Resume"), 1)
            held = running.until(lambda progress: True)

        assert_ending(refused.value, "CommandRefused")
        assert held.paused == "History"


class TestAReceiptInTheMiddle:
    """The receipt describes the rows that are sealed at its barrier."""

    def test_a_receipt_of_the_snapshot_compares_the_rows_that_are_done(self, place):
        """The source has newer versions: its new rows and rows that are not copied yet must not count."""
        place.change()
        with place.run(source={"version": 0}, throttle={"rowsPerSecond": SLOW}) as running:
            running.until(lambda progress: progress.rows_done)
            running.command("Verify")
            running.until(lambda progress: running.receipt() is not None)
            receipt = running.receipt()
            running.command("Throttle", rows_per_second=None)
            outcome = running.outcome()

        rows = {seal.version: seal.state["rowsDone"] for seal in seals(place.target)}
        assert (receipt.source_version, receipt.mismatches) == (0, ())
        assert 0 < receipt.rows == rows[receipt.target_version] < ROWS
        assert (outcome.outcome, place.wrong()) == ("Complete", [])


class TestALimit:
    """A limit holds for the requested time."""

    def test_a_limit_with_an_expiry_ends_by_itself(self, place):
        """The whole job would take half an hour with this limit."""
        with place.run(desiredState="Paused") as running:
            running.fenced()
            running.command("Throttle", rows_per_second=2, for_seconds=1)
            running.command("Resume")
            outcome = running.outcome()

        limited = [seal.state for seal in seals(place.target) if seal.state["controls"].get("rowsPerSecond") == 2]
        assert limited
        assert all(state["rowsDone"] < 20 for state in limited)
        assert "rowsPerSecond" not in seals(place.target)[-1].state["controls"]
        assert (outcome.outcome, outcome.progress.throttle_rows_per_second, place.wrong()) == ("Complete", None, [])

    def test_a_limit_of_bytes_outlives_its_attempt(self, place):
        """The state has it, as a limit of rows: two rows a second, of files that are copied by parts."""
        slow = 2 * sum(add["size"] for add in adds_of(place.source).values()) // ROWS
        with place.run(desiredState="Paused") as running:
            running.fenced()
            running.command("Throttle", bytes_per_second=slow)
            running.command("Resume")
            limited = running.until(lambda progress: progress.rows_done)
            running.command("Stop")
            stopped = running.outcome()
        with place.run(desiredState="Paused") as running:
            again = running.fenced()
            running.command("Throttle", rows_per_second=None)
            outcome = running.outcome()

        assert (limited.throttle_bytes_per_second, limited.throttle_rows_per_second) == (slow, None)
        assert limited.reason == f"throttled to {slow:,} bytes/s by command (revision 1)"
        assert (stopped.outcome, again.throttle_bytes_per_second) == ("Stopped", slow)
        assert all(
            seal.state["rowsDone"] < ROWS / 4
            for seal in seals(place.target)
            if seal.state["controls"].get("bytesPerSecond")
        )
        assert (outcome.outcome, outcome.progress.throttle_bytes_per_second, place.wrong()) == ("Complete", None, [])


class TestLimitsOfASpec:
    """A spec limits a job until a time, and automatically; no command is sent."""

    def test_a_job_keeps_to_its_automatic_limit_until_the_manual_one_ends(self, place):
        """Nothing is read before `until`; afterwards the automatic limit is in force, and the reason contains it."""
        began_s = time.time()
        with place.run(desiredState="Paused") as running:
            running.fenced()
            running.command("Stop")
            running.outcome()
        until_s = int(time.time() + 10 + 2 * (time.time() - began_s))  # the next start takes about as long
        until = f"{datetime.fromtimestamp(until_s, UTC):%Y-%m-%dT%H:%M:%SZ}"
        auto = {"commitSeconds": 60, "floor": SLOW, "ceiling": SLOW}
        with place.run(throttle={"rowsPerSecond": 0, "until": until, "auto": auto}) as running:
            held = running.until(lambda progress: progress.throttle_until)
            reading = running.until(lambda progress: progress.rows_done)
            read_s = time.time()
            running.command("Stop")
            outcome = running.outcome()

        assert (held.throttle_rows_per_second, held.throttle_until, held.rows_done) == (0, until, 0)
        assert (reading.throttle_rows_per_second, reading.throttle_until) == (None, None)
        assert read_s >= until_s
        assert reading.auto_rows_per_second == SLOW
        assert reading.reason.startswith(f"limited to {SLOW} rows/s by throttle.auto")
        assert reading.rows_done < ROWS / 2
        assert (outcome.outcome, place.wrong()) == ("Stopped", [])


class TestAStop:
    """The attempt ends at a barrier; the next one begins where it ended."""

    def test_a_stopped_job_resumes_from_its_last_seal(self, place):
        """R-SNAP-37: the state includes all copied rows, and no row is copied again."""
        with place.run(throttle={"rowsPerSecond": SLOW}) as running:
            running.until(lambda progress: progress.rows_done)
            running.command("Stop")
            stopped = running.outcome()
        last = seals(place.target)[-1]
        rows = place.rows()
        place.change()
        with place.run() as running:
            outcome = running.outcome()

        assert (stopped.outcome, stopped.exit_code) == ("Stopped", EXIT_STOPPED)
        assert 0 < rows == last.state["rowsDone"] == stopped.progress.rows_done < ROWS
        fence = seals(place.target, last.version)[0].state
        assert (fence["attempt"], fence["snapshot"]["done"]) == (2, last.state["snapshot"]["done"])
        assert (outcome.outcome, outcome.progress.rows_done, place.wrong()) == ("Complete", ROWS, [])


class TestAWidth:
    """A command changes how many splits are read at the same time, and a later attempt keeps the width."""

    def test_a_width_outlives_its_attempt_and_yields_to_an_edited_spec(self, place):
        """The target has the rows of its source, whatever the width was."""
        with place.run(desiredState="Paused") as running:
            before = running.fenced()
            running.command("Rescale", max_in_flight=5)
            wide = running.until(lambda progress: progress.max_in_flight == 5)
            running.command("Stop")
            running.outcome()
        with place.run(desiredState="Paused") as running:
            again = running.fenced()
            running.command("Stop")
            running.outcome()
        with place.run(strategy={"type": "Snapshot", "snapshot": {"maxInFlight": 3}}) as running:
            outcome = running.outcome()

        assert (before.max_in_flight, wide.revision, again.max_in_flight) == (2, 1, 5)
        assert (outcome.outcome, outcome.progress.max_in_flight, place.wrong()) == ("Complete", 3, [])

    def test_a_target_duration_is_in_force_and_a_value_without_an_effect_is_refused(self, place, tmp_path):
        """The splits of a Snapshot have no number of rows, and this driver has no executors."""
        with place.run(desiredState="Paused") as running:
            before = running.fenced()
            running.command("Rescale", max_in_flight=1, split_target_seconds=9)
            after = running.until(lambda progress: progress.split_target_seconds == 9)
            for value in ("chunk_rows", "executors"):
                command = Command(type="Rescale", rescale=RescaleCommand(max_in_flight=7, **{value: 5}))
                ack = find(tmp_path / "state", "default/job").command(command, wait_s=30)
                assert (ack.outcome, "of this job cannot change" in ack.message) == ("Refused", True)
            running.command("Resume")
            outcome = running.outcome()

        assert (before.split_target_seconds, before.chunk_rows, before.executors) == (4, None, None)
        assert (after.max_in_flight, outcome.progress.max_in_flight) == (1, 1)
        assert (outcome.outcome, outcome.progress.split_target_seconds, place.wrong()) == ("Complete", 9, [])

    def test_chunks_have_the_rows_of_the_command(self, place):
        """With the rows of the spec there would be forty chunks."""
        small = {"type": "Arrangement", "arrangement": {"chunkRows": 100, "maxReadAmplification": 1000}}
        with place.run(desiredState="Paused", strategy=small) as running:
            before = running.fenced()
            running.command("Rescale", chunk_rows=1000)
            running.command("Resume")
            outcome = running.outcome()

        assert (before.chunk_rows, outcome.progress.chunk_rows) == (100, 1000)
        assert 4 <= outcome.progress.splits_done <= 8
        assert (outcome.outcome, place.wrong()) == ("Complete", [])
