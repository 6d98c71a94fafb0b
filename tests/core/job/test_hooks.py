"""Hooks of past commits that fail: users are warned, and the job goes on."""

from support.simulation.hand_driven import HandDriven

from backfill_core.errors import TransientError
from backfill_core.protocol.events import HooksRan


class TestACheckpointThatFails:
    """Readers of the target replay more and more commits, so users must know (fault B1)."""

    def test_warns_until_one_succeeds(self):
        """A store that was away for a moment leaves no warning behind."""
        job = HandDriven(10)
        job.send(HooksRan(TransientError("the store is away.")))

        [warning] = job.view.warnings
        assert warning.code == "CheckpointFailed"
        assert "the store is away." in warning.message
        job.send(HooksRan(None))
        assert job.view.warnings == ()

    def test_does_not_end_the_job(self):
        """Rows are durable without a checkpoint."""
        job = HandDriven(10)
        job.send(HooksRan(TransientError("the store is away.")))
        job.let_pass(3.0)

        assert job.finish is None or job.finish.error is None
