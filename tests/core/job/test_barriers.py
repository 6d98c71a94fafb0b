"""A barrier waits for no work, and a pause of history leaves changes running."""

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
    """An executor that let a split delay its barriers once stalled every later command."""

    def test_a_command_is_acknowledged_while_a_split_runs(self) -> None:
        """R-SNAP-40: the split never ends, but the user still receives an answer at the next barrier."""
        job = HandDriven(1_000_000, 1_000_000)
        job.let_pass(1.1)
        job.send(CommandReceived(1, 1, Throttle(400_000)))
        job.let_pass(1.1)

        assert job.running
        assert [ack.outcome for ack in job.acks] == ["Applied"]

    def test_a_finished_split_is_committed_while_another_split_runs(self) -> None:
        """One slow file must not hide the rows of all other files from readers of the target."""
        job = HandDriven(1_000_000, 1_000_000)
        job.let_pass(0.1)
        job.finish_split()
        job.let_pass(1.1)

        assert job.running
        assert sum(rows for _, rows in job.sealed) > 0


class TestABarrierGoesBeforeRows:
    """A barrier and rows of history may be ready at the same time, and the barrier goes first."""

    def test_a_pause_goes_before_a_split_that_its_barrier_admits(self) -> None:
        """R-SNAP-40: under a limit each barrier admits rows; the barrier that brings a pause must not."""
        job = HandDriven(1_000_000, controls=Controls().under_spec(None, 5_000))
        job.let_pass(1.1)
        assert len(job.begun) == 1
        job.finish_split()
        job.send(CommandReceived(1, 1, Pause()))
        job.let_pass(1.1)

        assert [ack.outcome for ack in job.acks] == ["Applied"]
        assert len(job.begun) == 1


class TestACommandBesideAMerge:
    """ADR 0004: a command was once answered only after the MERGE, 44.7 s later with the first MERGE on a cold JVM."""

    @staticmethod
    def merging() -> HandDriven:
        job = HandDriven(1000)
        job.head = replace(job.head, position=job.head.position + 1)
        job.let_pass(1.2)
        job.finish_split()
        job.let_pass(2.0)
        assert len(job.batches) == 1
        return job

    def test_a_command_during_a_merge_is_committed_in_a_state_only(self) -> None:
        """The rows are unchanged, and the state announces the same MERGE; the commit contains nothing else."""
        job = self.merging()
        before = JobState.decode(job.states[-1])
        job.send(CommandReceived(1, 1, Throttle(7)))
        job.let_pass(3.0)
        after = JobState.decode(job.states[-1])

        assert [ack.outcome for ack in job.acks] == ["Applied"]
        assert (job.commits[-1].state_only_after, job.commits[-1].files) == (
            Durable(job.states[-2], job.commits[-2].txn_version),
            (),
        )
        assert (after.progress, after.controls.rows_per_s) == (before.progress, 7)
        assert "merging" in after.progress
        assert len(job.states) == len({commit.epoch for commit in job.commits})
        job.send(WorkFinished(ChangesApplied(job.batches[0].work_id, 5)))
        assert job.commits[-1].state_only_after is None
        assert job.commits[-1].txn_version > job.commits[-2].txn_version

    def test_a_command_joins_the_next_commit_if_the_merge_is_quicker(self) -> None:
        """A state without the finished MERGE would be wrong."""
        job = self.merging()
        job.refused = TargetChangedError("it has landed")
        job.send(CommandReceived(1, 1, Throttle(7)))
        job.let_pass(1.1)
        assert (job.acks, job.commits[-1].state_only_after is None) == ([], False)
        job.refused = None
        job.send(WorkFinished(ChangesApplied(job.batches[0].work_id, 5)))

        assert [ack.outcome for ack in job.acks] == ["Applied"]
        assert job.commits[-1].state_only_after is None
        assert JobState.decode(job.states[-1]).controls.rows_per_s == 7

    def test_a_command_for_a_receipt_waits_for_the_merge(self) -> None:
        """A receipt covers the content of a commit."""
        job = self.merging()
        seals = job.seals
        job.send(CommandReceived(1, 1, VerifyNow()))
        job.let_pass(3.0)

        assert (job.seals, job.acks) == (seals, [])


class TestAPauseOfHistory:
    """R-SNAP-43: a pause of history spares the source and the cluster, and completed rows stay current."""

    def test_a_pause_of_history_lets_changes_continue(self) -> None:
        """The copy is done; a pause meant for the copy must not let the target become stale."""
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
