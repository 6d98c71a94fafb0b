"""Work that a stop waits for and work that it cancels: a user who pressed Ctrl-C is waiting."""

import pytest
from support.simulation.hand_driven import WALL_MS, HandDriven

from backfill_core.job.phase import JobSettings
from backfill_core.protocol.actions import Seal
from backfill_core.protocol.commands import Pause, Stop, VerifyNow
from backfill_core.protocol.events import CommandReceived, Head, StopRequested, Tick, WorkFinished
from backfill_core.protocol.work import ChangesApplied


def merging(**settings):
    """A job with a running MERGE that does not end when it is cancelled."""
    job = HandDriven(1000, settings=JobSettings(**settings))
    job.head = Head(4, WALL_MS)
    job.let_pass(1.2)
    job.finish_split()
    job.let_pass(2.0)
    assert len(job.batches) == 1
    job.ends_when_cancelled = False
    return job


class TestAProofIsNotWaitedFor:
    """A proof changes nothing and restarts from its beginning, so a stop does not give it another second."""

    @pytest.mark.parametrize(
        "stop", [StopRequested(), CommandReceived(1, 1, Stop(force=True))], ids=["press", "command"]
    )
    def test_a_stop_does_not_wait_for_the_last_receipt(self, stop):
        """The next run takes the receipt again, so a stop need not wait."""
        job = HandDriven(settings=JobSettings(verify_final=True))
        job.let_pass(1.2)
        assert job.view.verifying
        job.send(stop)

        assert (job.finish.outcome, len(job.cancelled)) == ("Stopped", 1)

    def test_a_stop_does_not_wait_for_a_requested_receipt(self):
        """The copy that runs at the same time still gets its second."""
        job = HandDriven(*[1_000_000] * 20)
        job.let_pass(1.2)
        job.send(CommandReceived(1, 1, VerifyNow()))
        job.let_pass(1.0)
        assert job.view.verifying
        job.send(StopRequested())
        assert (len(job.cancelled), len(job.running), job.finish) == (1, 2, None)
        job.let_pass(1.1)

        assert (len(job.cancelled), job.finish.outcome) == (3, "Stopped")

    def test_a_stop_does_not_wait_for_the_key_proof(self):
        """The key check of a large table takes minutes; a stop takes a second."""
        job = HandDriven(1_000_000, proves_key=True)
        job.head = Head(4, WALL_MS)
        job.let_pass(1.2)
        while job.running:
            job.finish_split()
            job.send(Tick())
        assert len(job.proofs) == 1
        job.send(StopRequested())

        assert (job.finish.outcome, job.cancelled) == ("Stopped", [job.proofs[0].work_id])

    def test_a_pause_gives_the_key_proof_time(self):
        """A user who pauses the job resumes it later and may need the result then."""
        job = HandDriven(1_000_000, proves_key=True)
        job.head = Head(4, WALL_MS)
        job.let_pass(1.2)
        while job.running:
            job.finish_split()
            job.send(Tick())
        job.send(CommandReceived(1, 1, Pause(everything=True)))
        job.let_pass(0.9)

        assert job.cancelled == []


class AskedInEachCommit(HandDriven):
    """A job whose process gets another request to stop while a commit is under way, as from a callback that sees each progress."""

    request: StopRequested | None = None

    def _execute(self, actions):
        for action in actions:
            if isinstance(action, Seal) and self.request is not None:
                self.send(self.request)
            super()._execute((action,))


class TestARepeatedStop:
    """The first request is enough; each barrier for another one would be one more commit."""

    @pytest.mark.parametrize("request_", [StopRequested(), StopRequested(force=True)], ids=["stop", "forced stop"])
    def test_a_stop_that_is_repeated_during_each_commit_ends_the_job(self, request_):
        """Commits to a slow store take longer than the time between two reports of progress: such a job never stopped."""
        job = AskedInEachCommit(1_000_000)
        job.let_pass(1.2)
        job.request = request_
        job.send(request_)
        seals = job.seals
        job.let_pass(3.0)

        assert job.finish is not None
        assert job.finish.outcome == "Stopped"
        assert job.seals <= seals + 1


class TestAMergeThatDoesNotEnd:
    """Delta commits a MERGE atomically. Its number informs the next attempt, as after a kill."""

    def test_a_merge_is_abandoned_two_budgets_after_the_stop(self):
        """A user who stops a job must not wait minutes for a MERGE."""
        job = merging()
        seals = job.seals
        job.send(StopRequested())
        job.let_pass(0.9)
        assert job.cancelled == []
        job.let_pass(0.2)
        assert (job.cancelled, job.finish) == ([job.batches[0].work_id], None)
        job.let_pass(1.0)

        assert (job.finish.outcome, job.seals) == ("Stopped", seals)

    def test_a_merge_that_ends_in_time_is_sealed(self):
        """The final state reports the content of the target if possible."""
        job = merging()
        seals = job.seals
        job.send(StopRequested())
        job.let_pass(1.5)
        job.send(WorkFinished(ChangesApplied(job.batches[0].work_id, 5)))
        job.let_pass(0.1)

        assert (job.finish.outcome, job.view.changes_done, job.seals > seals) == ("Stopped", 5, True)

    @pytest.mark.parametrize("command", [Stop(), Pause(everything=True)], ids=["stop", "pause"])
    def test_a_command_is_sealed_while_the_merge_runs(self, command):
        """An acknowledgement confirms durability and waits for no MERGE."""
        job = merging()
        seals = job.seals
        job.send(StopRequested())
        job.send(CommandReceived(1, 1, command))
        job.let_pass(5.0)

        assert (job.finish.outcome, [ack.outcome for ack in job.acks]) == ("Stopped", ["Applied"])
        assert job.seals == seals + 1

    def test_a_command_that_waits_for_its_seal_keeps_the_job_running(self):
        """A receipt covers a commit of rows."""
        job = merging()
        job.send(StopRequested())
        job.send(CommandReceived(1, 1, VerifyNow()))
        job.let_pass(5.0)
        assert (job.finish, job.acks) == (None, [])
        job.send(WorkFinished(ChangesApplied(job.batches[0].work_id, 5)))
        job.let_pass(0.1)

        assert (job.finish.outcome, [ack.outcome for ack in job.acks]) == ("Stopped", ["Applied"])
