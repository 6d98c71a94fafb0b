"""The fence of an attempt: the core requests it first and handles its rejection."""

import pytest

from backfill_core.errors import FencedError, StateMovedError, TargetChangedError, TransientError
from backfill_core.job.job import Job
from backfill_core.job.phase import JobSettings
from backfill_core.job.state import JobState
from backfill_core.protocol.actions import Finish, Seal
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import txn_version
from backfill_core.protocol.events import SealFailed, Tick
from backfill_core.protocol.receipt import TableReceipt
from backfill_core.protocol.strategy import Opened, Pinned
from backfill_core.strategies.snapshot.params import SnapshotSettings
from backfill_core.strategies.snapshot.strategy import snapshot

START = Now(0.0, 0)


def new_job(*, verify_final=False, **state):
    pinned = Pinned(version=0, timestamp_ms=0, table_id="t", fingerprint="f", rows=(10, 10), rows_live=20)
    state = JobState("ns/job", "hash", attempt=3, epoch=7, strategy="Snapshot", driver="ab12", **state)
    return Job(
        state,
        snapshot(Opened(pinned), SnapshotSettings(merges=True, filtered=False)),
        JobSettings(verify_final=verify_final),
        START,
    )


def seals_of(actions):
    return [action for action in actions if isinstance(action, Seal)]


class TestTheFence:
    """The first commit of an attempt is empty, and nothing starts before the commit is durable."""

    def test_the_fence_is_the_first_action_and_the_only_seal_that_fences(self):
        """The fence must lock out an older attempt before any work begins."""
        fence, *later = seals_of(new_job().start(START))

        assert later == []
        assert (fence.fences, fence.files, fence.txn_version) == (True, (), txn_version(3, 8))
        assert JobState.decode(fence.state).driver == "ab12"

    def test_the_attempt_ends_at_once_when_the_state_moved(self):
        """Sealing the old state again can only be wrong: the state must be read again."""
        job = new_job()
        fence = seals_of(job.start(START))[0]

        actions = job.on(SealFailed(fence.epoch, StateMovedError("moved")), Now(0.1, 100))
        assert [type(action) for action in actions] == [Finish]
        assert isinstance(actions[0].error, StateMovedError)

    def test_the_attempt_ends_when_a_newer_one_has_sealed(self):
        """Two attempts that both continue would write every row twice."""
        job = new_job()
        fence = seals_of(job.start(START))[0]

        assert isinstance(job.on(SealFailed(fence.epoch, FencedError("newer")), Now(0.1, 100))[-1], Finish)

    def test_the_last_view_shows_the_start_when_the_fence_fails(self):
        """The last view shows how far the attempt came; it must not show a copy that never began."""
        job = new_job()
        fence = seals_of(job.start(START))[0]
        before = job.view(Now(0.1, 100)).course.at
        job.on(SealFailed(fence.epoch, FencedError("newer")), Now(0.1, 100))

        assert job.view(Now(0.1, 100)).course.at == before == "Start"

    def test_a_refresh_ends_when_another_writer_changed_its_target(self):
        """The commit has no files to compare again: waiting for another comparison would never end."""
        receipt = TableReceipt(0, 4, 6, 0, 8, "", (), 0.1)
        job = new_job(verify_final=True, finished=True, receipt=receipt)
        fence = seals_of(job.start(START))[0]

        assert fence.compared is None
        actions = job.on(SealFailed(fence.epoch, TargetChangedError("compacted", newest=5)), Now(0.1, 100))
        assert [type(action) for action in actions] == [Finish]
        assert isinstance(actions[0].error, TargetChangedError)

    @pytest.mark.parametrize("times", [1, 3])
    def test_the_fence_is_retried_after_a_storage_outage(self, times):
        """An outage at the start is no reason to lose the attempt."""
        job, now = new_job(), Now(0.0, 0)
        fence = seals_of(job.start(START))[0]
        for _ in range(times):
            assert seals_of(job.on(SealFailed(fence.epoch, TransientError("away")), now)) == []
            now = Now(job.wake_at_s(), now.wall_ms + 1000)
            assert seals_of(job.on(Tick(), now)) == [fence]
