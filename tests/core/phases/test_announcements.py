"""An announced MERGE always has the number of the next transaction."""

from __future__ import annotations

from backfill_core.phases.change_batch import ChangeMode
from backfill_core.phases.replay import Replay
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import Head, SourcePolled


class TestAnAnnouncement:
    """The target silently skips a MERGE whose number is below that of a later commit."""

    def test_an_announcement_is_repeated_under_a_later_epoch(self) -> None:
        """A commit came in between: its number is above the announced one."""
        replay = Replay(3, mode=ChangeMode.MERGED, follow=False, batch_target_s=1.0)
        replay.poll(SourcePolled(Head(5, 0), fresh=True))
        replay.announce(Epoch(1, 4))

        replay.announce(Epoch(1, 6))

        assert replay.announced is not None
        assert replay.announced.txn == Epoch(1, 6).txn_version
