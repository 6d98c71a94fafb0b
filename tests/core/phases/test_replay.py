"""Replay, driven by hand: only a poll after the copy is durable may end the catch-up."""

import itertools

from backfill_core.phases.change_batch import ChangeMode, RunningBatch
from backfill_core.phases.replay import Replay
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import Head, SourcePolled
from backfill_core.protocol.strategy import Permits

NOW = Now(1.0, 1000)
OPEN = Permits(history=True, changes=True, checks=True, epoch=Epoch(1, 1), first_id=1)


class TestPollsThatAreForgotten:
    """R-SNAP-29: the rule holds for every strategy that replays, whatever it copied before."""

    def test_polls_before_the_durable_commit_do_not_end_the_catch_up(self):
        """A commit that is retried for seconds becomes durable late, and the source has newer versions by then."""
        replay = Replay(3, mode=ChangeMode.STAGED, follow=False, batch_target_s=10.0)
        replay.forget_polls()
        replay.poll(SourcePolled(Head(5, 0), fresh=True))
        replay.propose(OPEN, itertools.count(1), NOW, dirty=False)
        assert isinstance(replay.batch, RunningBatch)
        early = replay.batch.batch.whole

        replay.seal(NOW)

        assert early
        assert not replay.batch.batch.whole
