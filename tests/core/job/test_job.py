"""Guarantees of the job, driven by hand: stops by signal, the status during a pause, and event times."""

import re

import pytest
from support.simulation.hand_driven import WALL_MS, HandDriven

from backfill_core.errors import ChangeFeedExpiredError, DuplicateKeyError, StateMovedError, TransientError
from backfill_core.job.controls import Controls
from backfill_core.job.phase import JobSettings
from backfill_core.protocol.commands import Pause, Resume, Stop, Throttle
from backfill_core.protocol.events import (
    CommandReceived,
    Head,
    PollFailed,
    StopRequested,
    Tick,
    WorkFailed,
    WorkFinished,
)
from backfill_core.protocol.receipt import TableReceipt, VnodeMismatch
from backfill_core.protocol.work import ChangesApplied, KeyProven, Verified

LONG = [1_000_000] * 120


def command(revision, what):
    return CommandReceived(1, revision, what)


class TestASignalStopsWithoutARevision:
    """Ctrl-C is no command: a client that sends a command at that time receives its own answer."""

    def test_a_signal_stops_the_job_at_a_barrier(self):
        """No work is running, and the job can resume."""
        job = HandDriven(*LONG)
        job.let_pass(1.2)
        job.send(StopRequested())
        job.let_pass(3.0)

        assert (job.finish.outcome, job.running, job.acks) == ("Stopped", {}, [])

    def test_a_stop_seals_splits_that_finish_in_time(self):
        """The time budget of a stop saves work that is almost done."""
        job = HandDriven(*LONG)
        job.let_pass(1.2)
        job.send(StopRequested())
        job.let_pass(0.9)
        job.finish_split()
        job.let_pass(0.2)

        assert job.finish.outcome == "Stopped"
        assert job.view.strategy.rows_done > 0

    def test_the_budget_counts_from_the_press_and_the_end_waits_for_no_barrier(self):
        """Three barriers of a second each would take the user's entire waiting time."""
        job = HandDriven(*LONG)
        job.let_pass(1.2)
        job.send(StopRequested())
        job.let_pass(0.9)
        assert (job.finish, job.cancelled) == (None, [])

        job.let_pass(0.2)

        assert (job.finish.outcome, len(job.cancelled)) == ("Stopped", 2)

    def test_a_signal_leaves_the_next_revision_to_a_command(self):
        """The next revision belongs to the first command; a stop that took it once received the answer for a pause."""
        job = HandDriven(*LONG)
        job.let_pass(1.2)
        job.send(StopRequested())
        job.send(command(1, Pause()))
        job.let_pass(3.0)

        assert [(ack.revision, ack.outcome) for ack in job.acks] == [(1, "Applied")]
        assert (job.view.controls.revision, job.view.controls.paused) == (1, "History")
        assert job.finish.outcome == "Stopped"

    def test_a_stop_before_the_fence_is_kept(self):
        """A signal while the attempt starts is not lost."""
        job = HandDriven(*LONG)
        job.send(StopRequested())
        assert job.view.stopping
        job.let_pass(4.0)

        assert job.finish.outcome == "Stopped"

    def test_a_forced_stop_waits_for_no_barrier(self):
        """The limit is half a second."""
        job = HandDriven(*LONG)
        job.let_pass(1.2)
        job.send(StopRequested(force=True))
        job.let_pass(0.2)

        assert (job.running, len(job.cancelled)) == ({}, 2)

    def test_repeated_stops_do_not_extend_the_time(self):
        """Repeated signals must not make the stop slower."""
        job = HandDriven(*LONG)
        job.let_pass(1.2)
        for _ in range(12):
            job.send(StopRequested())
            job.let_pass(0.25)

        assert job.finish.outcome == "Stopped"

    @pytest.mark.parametrize("event", [StopRequested(), command(1, Stop())], ids=["signal", "command"])
    def test_the_view_shows_that_the_job_is_stopping(self, event):
        """A field shows it, so that a program need not parse the reason."""
        job = HandDriven(*LONG)
        job.let_pass(1.0)
        assert not job.view.stopping
        job.send(event)
        job.let_pass(1.0)

        assert job.view.stopping


class TestAHeldHistoryTellsNoTime:
    """A pause is not slowness: it has no rate and no end, and it does not count afterwards."""

    @pytest.mark.parametrize("hold", [Pause(), Pause(everything=True), Throttle(0)], ids=["History", "All", "rate 0"])
    def test_a_held_job_has_no_rate_and_no_eta(self, hold):
        """Users once believed an ETA that did not change during a pause."""
        job = HandDriven(*LONG)
        job.let_pass(30.0, split_s=2.0)
        assert job.view.strategy.rows_per_s > 0
        assert job.view.course.eta is not None
        job.send(command(1, hold))
        job.let_pass(1.5)

        assert (job.view.strategy.rows_per_s, job.view.course.eta) == (0.0, None)

    def test_the_time_of_a_pause_does_not_count(self):
        """After a night's pause the job is as fast as before."""
        job = HandDriven(*LONG)
        job.let_pass(30.0, split_s=4.0)
        before, before_s = job.view.strategy, job.view.course.eta.seconds
        job.send(command(1, Pause()))
        job.let_pass(300.0)
        job.send(command(2, Resume()))
        job.let_pass(20.0, split_s=4.0)

        after = job.view.strategy
        assert after.rows_done > before.rows_done
        assert after.rows_per_s == pytest.approx(before.rows_per_s, rel=0.35)
        assert job.view.course.eta.seconds == pytest.approx(before_s, rel=0.5)

    def test_a_job_that_begins_paused_counts_from_its_resume(self):
        """Nothing was slow before the first read."""
        job = HandDriven(*LONG)
        job.send(command(1, Pause()))
        job.let_pass(100.0)
        job.send(command(2, Resume()))
        job.let_pass(30.0, split_s=2.0)

        assert job.view.strategy.rows_per_s > job.view.strategy.rows_done / 50


class TestItSaysWhoSetWhatIsInForce:
    """A user of a slow job must know where to change the limit: in the spec or by another command."""

    def test_the_reason_names_the_origin_of_a_limit(self):
        """The limit of the spec has no revision and is in force again when the command's limit ends."""
        job = HandDriven(*LONG, controls=Controls().under_spec(None, 5_000))
        job.let_pass(1.2)
        assert job.view.reason == "throttled to 5,000 rows/s by the spec"
        job.send(command(2, Throttle(7_000)))
        job.let_pass(1.2)
        assert job.view.reason == "throttled to 7,000 rows/s by command (revision 2)"
        job.send(command(3, Resume()))
        job.let_pass(1.2)
        assert "revision 3" not in job.view.reason

    def test_the_reason_shows_how_long_a_limit_lasts(self):
        """No user reads 5329 s as an hour and a half (faults U19 to U29)."""
        job = HandDriven(*LONG)
        job.send(command(1, Throttle(7_000, 5_400)))
        job.let_pass(1.2)
        assert re.search(r"for 1 h (29|30) min more$|for 1 h 30 min more$", job.view.reason), job.view.reason

    def test_the_reason_names_the_origin_of_a_pause(self):
        """The user ends a pause of the spec in the spec, not by a command."""
        job = HandDriven(*LONG, controls=Controls().under_spec("History", None))
        job.let_pass(1.2)
        assert job.view.reason == "the snapshot is paused by the spec"

    def test_the_reason_shows_work_that_continues_during_a_pause(self):
        """A running MERGE continues during a pause of the snapshot; during a pause of everything it is ending."""
        job = HandDriven(1_000_000)
        job.head = Head(4, WALL_MS)
        job.let_pass(1.2)
        while job.running:
            job.finish_split()
            job.send(Tick())
        job.let_pass(3.0)
        assert len(job.batches) == 1
        job.ends_when_cancelled = False
        job.send(command(1, Pause()))
        job.let_pass(1.2)
        held = job.view.reason
        job.send(command(2, Pause(everything=True)))
        job.let_pass(1.2)

        merging = "merging the changes of version 4"
        assert held == f"the snapshot is paused by command (revision 1); {merging}"
        assert job.view.reason == "everything is paused by command (revision 2); work under way is ending"


class TestWhenThingsHappened:
    """Alarms depend on ages."""

    def test_the_view_has_the_time_of_the_newest_seal(self):
        """The fence is the first seal."""
        job = HandDriven(*LONG)
        assert job.view.sealed_ms == WALL_MS
        job.let_pass(1.5)
        job.finish_split()
        job.let_pass(1.0)

        assert job.view.sealed_ms == WALL_MS + 2000

    def test_the_view_has_the_time_of_the_newest_receipt(self):
        """The receipt is stored with its time, so that a later attempt can report it too."""
        job = HandDriven(settings=JobSettings(verify_final=True))
        job.let_pass(0.9)
        receipt = TableReceipt(3, 1, 1, 0, 256, "ab", (VnodeMismatch(1, 1, 0),), 0.5)
        job.send(WorkFinished(Verified(1, receipt)))

        assert job.view.receipt.verified_ms == WALL_MS + round(job.now_s * 1000)


class TestTheKeyIsProvenBetweenTheSnapshotAndTheChanges:
    """ADR 0011: a MERGE would hide two rows with one key, so no MERGE runs before the proof."""

    def copied(self, **settings):
        job = HandDriven(1_000_000, settings=JobSettings(**settings), proves_key=True)
        job.head = Head(4, WALL_MS)
        job.let_pass(1.2)
        assert job.proofs == []
        while job.running:
            job.finish_split()
            job.send(Tick())
        return job

    def test_changes_wait_for_the_key_proof(self):
        """The first MERGE would hide duplicates from the key check."""
        job = self.copied()
        job.let_pass(5.0)
        assert [proof.target_version for proof in job.proofs] == [job.seals]
        assert job.batches == []
        assert "each key" in job.view.reason

        job.send(WorkFinished(KeyProven(job.proofs[0].work_id)))
        job.let_pass(2.0)
        assert len(job.batches) == len(job.proofs) == 1

    def test_two_rows_with_one_key_end_the_job(self):
        """A job whose key is not unique must never be Complete."""
        job = self.copied()
        job.send(WorkFailed(job.proofs[0].work_id, DuplicateKeyError("doubled")))

        assert (job.finish.outcome, job.finish.error.reason) == ("Failed", "KeyNotUnique")

    def test_a_failed_key_proof_is_repeated(self):
        """An outage of the storage proves nothing about the key."""
        job = self.copied()
        job.send(WorkFailed(job.proofs[0].work_id, TransientError("away")))
        job.let_pass(5.0)

        assert len(job.proofs) == 2
        assert job.batches == []

    def test_a_pause_of_everything_holds_the_key_proof(self):
        """A pause of everything includes the check, which runs after the pause."""
        job = self.copied()
        job.send(command(1, Pause(everything=True, force=True)))
        job.let_pass(5.0)
        assert job.cancelled == [job.proofs[0].work_id]

        job.send(command(2, Resume()))
        job.let_pass(2.0)
        assert len(job.proofs) == 2

    def test_a_job_without_a_key_proof_runs_none(self):
        """A job that does not need the check must not pay for it."""
        job = HandDriven(1000)
        job.let_pass(1.2)
        job.finish_split()
        job.let_pass(2.0)

        assert (job.proofs, job.finish.outcome) == ([], "Complete")


class TestAMergeThatNobodyKnowsOf:
    """A MERGE with an unknown result is neither retried nor awaited: the next attempt reads the state first."""

    def test_a_merge_with_an_unknown_result_ends_the_attempt(self):
        """Applying the MERGE a second time could write its rows twice."""
        job = HandDriven(1000, follow=True)
        job.head = Head(4, WALL_MS)
        job.let_pass(1.2)
        job.finish_split()
        job.let_pass(3.0)
        job.send(WorkFailed(job.batches[0].work_id, StateMovedError("may be in the target")))

        assert isinstance(job.finish.error, StateMovedError)


class TestTheSourceIsAskedWhetherItKeepsWhatIsNeeded:
    """A throttled copy that takes days must not discover at its end that the next version is gone."""

    def test_retention_is_checked_at_the_start_and_at_every_tenth_barrier(self):
        """This is often enough to warn in time, and rare enough to cost almost nothing."""
        job = HandDriven(*LONG)
        job.let_pass(25.0, split_s=1.0)

        assert job.looks[0].kept_after == 3
        checks = [look.kept_after for look in job.looks[1:]]
        assert [checks.index(3), checks[checks.index(3) + 1 :].index(3)] == [9, 9]
        assert set(checks) == {3, None}

    def test_a_deleted_version_ends_the_job(self):
        """Further copying would only delay the same end."""
        job = HandDriven(*LONG)
        job.let_pass(1.2)
        job.send(PollFailed(ChangeFeedExpiredError("version 4 is gone")))

        assert job.finish.error.reason == "ChangeFeedExpired"


class TestASourceThatIsFasterThanTheJob:
    """port.md 5.1: the job reports a source that is faster than the job with both rates, also after it had caught up
    once."""

    def following(self):
        job = HandDriven(1000, follow=True)
        job.let_pass(1.2)
        job.finish_split()
        job.let_pass(3.0)
        assert job.view.strategy.caught_up
        return job

    def step(self, job, *, made_per_s, each_s):
        """Apply one batch at `each_s` seconds per version, while the source makes `made_per_s` versions per second."""
        job.let_pass(2.0)
        batch = job.batches[-1]
        seconds = each_s * (batch.upto - batch.after)
        job.head = Head(job.head.position + round(made_per_s * seconds), job.now.wall_ms + round(1000 * seconds))
        job.let_pass(seconds)
        job.send(WorkFinished(ChangesApplied(batch.work_id, 5)))

    def test_a_source_that_is_too_fast_is_reported_with_both_rates(self):
        """The user sees by how much the job is too slow."""
        job = self.following()
        job.head = Head(100, job.now.wall_ms)
        for _ in range(15):
            self.step(job, made_per_s=1, each_s=20.0)

        assert job.view.strategy.non_convergent
        (warning,) = job.view.strategy.warnings
        assert warning.code == "NonConvergent"
        assert "the source makes 0.93 versions/s, 0.046 are applied" in warning.message

    def test_a_job_that_keeps_pace_has_no_lag(self):
        """The next batch takes the versions that arrive while a batch runs."""
        job = self.following()
        job.head = Head(10, job.now.wall_ms)
        for _ in range(30):
            self.step(job, made_per_s=1, each_s=0.8)

        assert not job.view.strategy.non_convergent
        assert job.view.strategy.warnings == ()
