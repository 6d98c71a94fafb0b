"""The job's own promises, driven by hand: a stop by signal, what is shown in a pause, and when things happened."""

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
from backfill_core.protocol.receipt import Receipt, VnodeMismatch
from backfill_core.protocol.work import ChangesApplied, KeyProven, Verified

LONG = [1_000_000] * 120


def command(revision, what):
    return CommandReceived(1, revision, what)


class TestASignalStopsWithoutARevision:
    """Ctrl-C is no command: a client that sends one at that moment is answered for its own."""

    def test_it_ends_at_a_barrier(self):
        """With nothing under way, resumable."""
        job = HandDriven(*LONG)
        job.let_pass(1.2)
        job.send(StopRequested())
        job.let_pass(3.0)

        assert (job.finish.outcome, job.running, job.acks) == ("Stopped", {}, [])

    def test_what_is_finished_in_time_is_sealed(self):
        """The budget of a stop is there to save what is nearly done."""
        job = HandDriven(*LONG)
        job.let_pass(1.2)
        job.send(StopRequested())
        job.let_pass(0.9)
        job.finish_split()
        job.let_pass(0.2)

        assert job.finish.outcome == "Stopped"
        assert job.view.strategy.rows_done > 0

    def test_the_budget_counts_from_the_press_and_the_end_waits_for_no_barrier(self):
        """Three barriers of a second each would be the whole of what a person waits for."""
        job = HandDriven(*LONG)
        job.let_pass(1.2)
        job.send(StopRequested())
        job.let_pass(0.9)
        assert (job.finish, job.cancelled) == (None, [])

        job.let_pass(0.2)

        assert (job.finish.outcome, len(job.cancelled)) == ("Stopped", 2)

    def test_the_same_revision_stays_free_for_a_command(self):
        """The next revision belongs to the first command; a stop that took it was answered for a pause."""
        job = HandDriven(*LONG)
        job.let_pass(1.2)
        job.send(StopRequested())
        job.send(command(1, Pause()))
        job.let_pass(3.0)

        assert [(ack.revision, ack.outcome) for ack in job.acks] == [(1, "Applied")]
        assert (job.view.controls.revision, job.view.controls.paused) == (1, "History")
        assert job.finish.outcome == "Stopped"

    def test_before_the_fence(self):
        """A press while the attempt starts is not lost."""
        job = HandDriven(*LONG)
        job.send(StopRequested())
        assert job.view.stopping
        job.let_pass(4.0)

        assert job.finish.outcome == "Stopped"

    def test_forced_waits_for_no_barrier(self):
        """Half a second is the bar."""
        job = HandDriven(*LONG)
        job.let_pass(1.2)
        job.send(StopRequested(force=True))
        job.let_pass(0.2)

        assert (job.running, len(job.cancelled)) == ({}, 2)

    def test_asked_again_it_gives_no_more_time(self):
        """An impatient person must not make it slower."""
        job = HandDriven(*LONG)
        job.let_pass(1.2)
        for _ in range(12):
            job.send(StopRequested())
            job.let_pass(0.25)

        assert job.finish.outcome == "Stopped"

    @pytest.mark.parametrize("event", [StopRequested(), command(1, Stop())], ids=["signal", "command"])
    def test_it_says_that_it_is_stopping(self, event):
        """In a field, so that a program need not parse the reason."""
        job = HandDriven(*LONG)
        job.let_pass(1.0)
        assert not job.view.stopping
        job.send(event)
        job.let_pass(1.0)

        assert job.view.stopping


class TestAHeldHistoryTellsNoTime:
    """A pause is no slowness: it has no rate and no end, and afterwards it never was."""

    @pytest.mark.parametrize("hold", [Pause(), Pause(everything=True), Throttle(0)], ids=["History", "All", "rate 0"])
    def test_no_rate_and_no_end_while_held(self, hold):
        """An ETA that stood still in a pause was believed."""
        job = HandDriven(*LONG)
        job.let_pass(30.0, split_s=2.0)
        assert job.view.strategy.rows_per_s > 0
        assert job.view.course.eta is not None
        job.send(command(1, hold))
        job.let_pass(1.5)

        assert (job.view.strategy.rows_per_s, job.view.course.eta) == (0.0, None)

    def test_the_time_of_a_pause_does_not_count(self):
        """After a night's pause the job is as fast as before it."""
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
        """Nothing was slow before anything was read."""
        job = HandDriven(*LONG)
        job.send(command(1, Pause()))
        job.let_pass(100.0)
        job.send(command(2, Resume()))
        job.let_pass(30.0, split_s=2.0)

        assert job.view.strategy.rows_per_s > job.view.strategy.rows_done / 50


class TestItSaysWhoSetWhatIsInForce:
    """A user who finds it slow must know where to change it: in the file, or by another command."""

    def test_a_limit(self):
        """That of the file has no revision, and is back in force when a command's ends."""
        job = HandDriven(*LONG, controls=Controls().under_spec(None, 5_000))
        job.let_pass(1.2)
        assert job.view.reason == "throttled to 5,000 rows/s by the spec"
        job.send(command(2, Throttle(7_000)))
        job.let_pass(1.2)
        assert job.view.reason == "throttled to 7,000 rows/s by command (revision 2)"
        job.send(command(3, Resume()))
        job.let_pass(1.2)
        assert "revision 3" not in job.view.reason

    def test_how_long_a_limit_lasts(self):
        """No user reads 5329 s as an hour and a half (faults U19 to U29)."""
        job = HandDriven(*LONG)
        job.send(command(1, Throttle(7_000, 5_400)))
        job.let_pass(1.2)
        assert re.search(r"for 1 h (29|30) min more$|for 1 h 30 min more$", job.view.reason), job.view.reason

    def test_a_pause(self):
        """A pause of the spec is lifted in the file, not by a command."""
        job = HandDriven(*LONG, controls=Controls().under_spec("History", None))
        job.let_pass(1.2)
        assert job.view.reason == "the snapshot is paused by the spec"

    def test_and_what_goes_on_meanwhile(self):
        """A MERGE that runs in a pause of the snapshot is no work that ends; in a pause of everything it is."""
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
    """Ages are what an alarm is made of."""

    def test_the_newest_seal(self):
        """The fence is the first."""
        job = HandDriven(*LONG)
        assert job.view.sealed_ms == WALL_MS
        job.let_pass(1.5)
        job.finish_split()
        job.let_pass(1.0)

        assert job.view.sealed_ms == WALL_MS + 2000

    def test_the_newest_receipt(self):
        """It is stored with its time, so that a later attempt can tell it too."""
        job = HandDriven(settings=JobSettings(verify_final=True))
        job.let_pass(0.9)
        receipt = Receipt(3, 1, 1, 0, 256, "ab", (VnodeMismatch(1, 1, 0),), 0.5)
        job.send(WorkFinished(Verified(1, receipt)))

        assert job.view.receipt.verified_ms == WALL_MS + round(job.now_s * 1000)


class TestTheKeyIsProvenBetweenTheSnapshotAndTheChanges:
    """ADR 0011: a MERGE would hide two rows with one key, so none runs before."""

    def copied(self, **settings):
        job = HandDriven(1_000_000, settings=JobSettings(**settings), proves_key=True)
        job.head = Head(4, WALL_MS)
        job.let_pass(1.2)
        assert job.proofs == []
        while job.running:
            job.finish_split()
            job.send(Tick())
        return job

    def test_changes_wait_for_it(self):
        """The first MERGE would hide what the key check looks for."""
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

    def test_one_that_could_not_be_made_is_made_again(self):
        """An outage of the storage says nothing about the key."""
        job = self.copied()
        job.send(WorkFailed(job.proofs[0].work_id, TransientError("away")))
        job.let_pass(5.0)

        assert len(job.proofs) == 2
        assert job.batches == []

    def test_a_pause_of_everything_holds_it(self):
        """Everything means everything; the check is made after the pause."""
        job = self.copied()
        job.send(command(1, Pause(everything=True, force=True)))
        job.let_pass(5.0)
        assert job.cancelled == [job.proofs[0].work_id]

        job.send(command(2, Resume()))
        job.let_pass(2.0)
        assert len(job.proofs) == 2

    def test_a_job_that_does_not_ask_has_none(self):
        """A job that does not need the check must not pay for it."""
        job = HandDriven(1000)
        job.let_pass(1.2)
        job.finish_split()
        job.let_pass(2.0)

        assert (job.proofs, job.finish.outcome) == ([], "Complete")


class TestAMergeThatNobodyKnowsOf:
    """Neither tried again nor waited for: the next attempt reads the state first."""

    def test_ends_the_attempt(self):
        """Applying it a second time could write its rows twice."""
        job = HandDriven(1000, follow=True)
        job.head = Head(4, WALL_MS)
        job.let_pass(1.2)
        job.finish_split()
        job.let_pass(3.0)
        job.send(WorkFailed(job.batches[0].work_id, StateMovedError("may be in the target")))

        assert isinstance(job.finish.error, StateMovedError)


class TestTheSourceIsAskedWhetherItKeepsWhatIsNeeded:
    """A copy of days under a limit must not learn at its end that the next version is gone."""

    def test_at_the_start_and_at_every_tenth_barrier(self):
        """Often enough to warn in time, seldom enough to cost nothing."""
        job = HandDriven(*LONG)
        job.let_pass(25.0, split_s=1.0)

        assert job.looks[0].kept_after == 3
        asked = [look.kept_after for look in job.looks[1:]]
        assert [asked.index(3), asked[asked.index(3) + 1 :].index(3)] == [9, 9]
        assert set(asked) == {3, None}

    def test_what_is_gone_ends_the_job(self):
        """Copying on would only delay the same end."""
        job = HandDriven(*LONG)
        job.let_pass(1.2)
        job.send(PollFailed(ChangeFeedExpiredError("version 4 is gone")))

        assert job.finish.error.reason == "ChangeFeedExpired"


class TestASourceThatIsFasterThanTheJob:
    """port.md 5.1: said with both rates, also after the job had caught up once."""

    def following(self):
        job = HandDriven(1000, follow=True)
        job.let_pass(1.2)
        job.finish_split()
        job.let_pass(3.0)
        assert job.view.strategy.caught_up
        return job

    def step(self, job, *, made_per_s, each_s):
        """One batch takes so long a version, and so many versions come meanwhile."""
        job.let_pass(2.0)
        batch = job.batches[-1]
        seconds = each_s * (batch.upto - batch.after)
        job.head = Head(job.head.position + round(made_per_s * seconds), job.now.wall_ms + round(1000 * seconds))
        job.let_pass(seconds)
        job.send(WorkFinished(ChangesApplied(batch.work_id, 5)))

    def test_is_named_with_both_rates(self):
        """The user sees by how much the job is too slow."""
        job = self.following()
        job.head = Head(100, job.now.wall_ms)
        for _ in range(15):
            self.step(job, made_per_s=1, each_s=20.0)

        assert job.view.strategy.non_convergent
        (warning,) = job.view.strategy.warnings
        assert warning.code == "NonConvergent"
        assert "the source makes 0.93 versions/s, 0.046 are applied" in warning.message

    def test_keeping_pace_is_no_lag(self):
        """What comes while a batch runs is taken by the next one."""
        job = self.following()
        job.head = Head(10, job.now.wall_ms)
        for _ in range(30):
            self.step(job, made_per_s=1, each_s=0.8)

        assert not job.view.strategy.non_convergent
        assert job.view.strategy.warnings == ()
