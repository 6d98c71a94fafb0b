"""What a barrier waits for: nothing; and what a pause of history leaves alone."""

from __future__ import annotations

from dataclasses import replace

from support.simulation.hand_driven import HandDriven

from backfill_core.job.controls import HISTORY
from backfill_core.protocol.commands import Pause, Throttle
from backfill_core.protocol.events import CommandReceived, Tick


class TestABarrierWaitsForNoWork:
    """R-SNAP-40: an executor that let a split hold its barriers stalled every command behind it."""

    def test_a_command_is_acknowledged_while_a_split_runs(self) -> None:
        """The split here never ends; the user is answered at the next barrier all the same."""
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
