"""What a barrier waits for: nothing; and what a pause of history leaves alone."""

from __future__ import annotations

from dataclasses import replace

from support.simulation.hand_driven import HandDriven

from backfill_core.errors import TargetChangedError
from backfill_core.job.controls import HISTORY, Controls
from backfill_core.job.state import JobState
from backfill_core.protocol.actions import Durable
from backfill_core.protocol.commands import Pause, Throttle, VerifyNow
from backfill_core.protocol.events import CommandReceived, Tick, WorkFinished
from backfill_core.protocol.work import ChangesApplied


class TestABarrierWaitsForNoWork:
    """An executor that let a split hold its barriers stalled every command behind it."""

    def test_a_command_is_acknowledged_while_a_split_runs(self) -> None:
        """R-SNAP-40: the split here never ends; the user is answered at the next barrier all the same."""
        job = HandDriven(1_000_000, 1_000_000)
        job.let_pass(1.1)
        job.send(CommandReceived(1, 1, Throttle(400_000)))
        job.let_pass(1.1)

        assert job.running
        assert [ack.outcome for ack in job.acks] == ["Applied"]

    def test_what_is_finished_is_committed_while_another_split_runs(self) -> None:
        """Else one slow file would keep the rows of all others from the readers of the target."""
        job = HandDriven(1_000_000, 1_000_000)
        job.let_pass(0.1)
        job.finish_split()
        job.let_pass(1.1)

        assert job.running
        assert sum(rows for _, rows in job.sealed) > 0


class TestABarrierGoesBeforeRows:
    """A barrier and rows of history may be ready at the same time."""

    def test_a_pause_goes_before_a_split_that_its_barrier_admits(self) -> None:
        """R-SNAP-40: under a limit each barrier admits rows; the one that brings a pause must not."""
        job = HandDriven(1_000_000, controls=Controls().under_spec(None, 5_000))
        job.let_pass(1.1)
        assert len(job.begun) == 1
        job.finish_split()
        job.send(CommandReceived(1, 1, Pause()))
        job.let_pass(1.1)

        assert [ack.outcome for ack in job.acks] == ["Applied"]
        assert len(job.begun) == 1


class TestACommandBesideAMerge:
    """ADR 0004: it was answered after the MERGE, 44.7 s later with a first one on a cold JVM."""

    @staticmethod
    def merging() -> HandDriven:
        job = HandDriven(1000)
        job.head = replace(job.head, position=job.head.position + 1)
        job.let_pass(1.2)
        job.finish_split()
        job.let_pass(2.0)
        assert len(job.batches) == 1
        return job

    def test_is_in_a_state_alone(self) -> None:
        """The rows are what they were, and the same MERGE is announced; nothing else is committed meanwhile."""
        job = self.merging()
        before = JobState.decode(job.states[-1])
        job.send(CommandReceived(1, 1, Throttle(7)))
        job.let_pass(3.0)
        after = JobState.decode(job.states[-1])

        assert [ack.outcome for ack in job.acks] == ["Applied"]
        assert (job.commits[-1].beside, job.commits[-1].files) == (
            Durable(job.states[-2], job.commits[-2].txn_version),
            (),
        )
        assert (after.progress, after.controls.rows_per_s) == (before.progress, 7)
        assert "merging" in after.progress
        assert len(job.states) == len({one.epoch for one in job.commits})
        job.send(WorkFinished(ChangesApplied(job.batches[0].work_id, 5)))
        assert job.commits[-1].beside is None
        assert job.commits[-1].txn_version > job.commits[-2].txn_version

    def test_goes_with_the_next_commit_where_the_merge_is_quicker(self) -> None:
        """A state that knows nothing of it would be wrong."""
        job = self.merging()
        job.refused = TargetChangedError("it has landed")
        job.send(CommandReceived(1, 1, Throttle(7)))
        job.let_pass(1.1)
        assert (job.acks, job.commits[-1].beside is None) == ([], False)
        job.refused = None
        job.send(WorkFinished(ChangesApplied(job.batches[0].work_id, 5)))

        assert [ack.outcome for ack in job.acks] == ["Applied"]
        assert job.commits[-1].beside is None
        assert JobState.decode(job.states[-1]).controls.rows_per_s == 7

    def test_that_asks_for_a_receipt_waits(self) -> None:
        """It is taken of what a commit holds."""
        job = self.merging()
        seals = job.seals
        job.send(CommandReceived(1, 1, VerifyNow()))
        job.let_pass(3.0)

        assert (job.seals, job.acks) == (seals, [])


class TestAPauseOfHistory:
    """R-SNAP-43: it spares the source and the cluster; what is complete stays fresh."""

    def test_lets_changes_go_on(self) -> None:
        """The copy is done; the pause that was meant for it must not let the target age."""
        job = HandDriven(1000, follow=True)
        job.let_pass(0.2)
        job.finish_split()
        job.let_pass(2.2)
        job.send(CommandReceived(1, 1, Pause()))
        job.let_pass(1.1)
        assert job.view.controls.paused == HISTORY

        job.head = replace(job.head, position=job.head.position + 1)
        job.let_pass(2.2)
        job.send(Tick())

        assert len(job.batches) == 1
