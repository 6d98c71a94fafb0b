"""The fence of an attempt: what the core asks for first, and what it does when it is refused."""

import pytest

from backfill_core.errors import FencedError, StateMovedError, TransientError
from backfill_core.job.job import Job
from backfill_core.job.phase import JobSettings
from backfill_core.job.state import JobState
from backfill_core.protocol.actions import Finish, Seal
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import txn_version
from backfill_core.protocol.events import SealFailed, Tick
from backfill_core.protocol.strategy import Opened, Pinned
from backfill_core.strategies.snapshot.params import SnapshotSettings
from backfill_core.strategies.snapshot.strategy import SnapshotStrategy

START = Now(0.0, 0)


def new_job():
    pinned = Pinned(version=0, timestamp_ms=0, table_id="t", fingerprint="f", rows=(10, 10), rows_live=20)
    state = JobState("ns/job", "hash", attempt=3, epoch=7, strategy="Snapshot", driver="ab12")
    return Job(
        state, SnapshotStrategy(Opened(pinned), SnapshotSettings(merges=True, filtered=False)), JobSettings(), START
    )


def seals_of(actions):
    return [action for action in actions if isinstance(action, Seal)]


class TestTheFence:
    """The first commit of an attempt is empty, and nothing starts before it is durable."""

    def test_is_the_first_action_and_the_only_seal_that_fences(self):
        """An older attempt must be locked out before any work begins."""
        fence, *others = seals_of(new_job().start(START))

        assert others == []
        assert (fence.fences, fence.files, fence.txn_version) == (True, (), txn_version(3, 8))
        assert JobState.decode(fence.state).driver == "ab12"

    def test_ends_the_attempt_at_once_when_the_state_moved(self):
        """Sealing the old state again can only be wrong: it must be read again."""
        job = new_job()
        fence = seals_of(job.start(START))[0]

        actions = job.on(SealFailed(fence.epoch, StateMovedError("moved")), Now(0.1, 100))
        assert [type(action) for action in actions] == [Finish]
        assert isinstance(actions[0].error, StateMovedError)

    def test_ends_the_attempt_when_a_newer_one_has_sealed(self):
        """Two attempts that both go on would write every row twice."""
        job = new_job()
        fence = seals_of(job.start(START))[0]

        assert isinstance(job.on(SealFailed(fence.epoch, FencedError("newer")), Now(0.1, 100))[-1], Finish)

    def test_is_the_step_that_is_shown_when_the_attempt_ends_in_it(self):
        """The last look says how far the attempt came: a copy that never began must not be shown."""
        job = new_job()
        fence = seals_of(job.start(START))[0]
        before = job.view(Now(0.1, 100)).course.at
        job.on(SealFailed(fence.epoch, FencedError("newer")), Now(0.1, 100))

        assert job.view(Now(0.1, 100)).course.at == before == "Start"

    @pytest.mark.parametrize("times", [1, 3])
    def test_is_tried_again_when_the_storage_was_away(self, times):
        """An outage at the start is no reason to lose the attempt."""
        job, now = new_job(), Now(0.0, 0)
        fence = seals_of(job.start(START))[0]
        for _ in range(times):
            assert seals_of(job.on(SealFailed(fence.epoch, TransientError("away")), now)) == []
            now = Now(job.wake_at_s(), now.wall_ms + 1000)
            assert seals_of(job.on(Tick(), now)) == [fence]
