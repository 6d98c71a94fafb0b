"""Rows that a user sees of a job that fills a column."""

from backfill_core.in_place.conflicts import Replacement
from backfill_core.in_place.files import FillScope, LiveFile
from backfill_core.in_place.work import FilesFilled, LiveFilesListed
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import LimitSet, Sealed, WorkFinished
from backfill_core.protocol.strategy import Permits, Pinned
from backfill_core.strategies.in_place.strategy import InPlaceStrategy

NOW, SCOPE = Now(1_000.0, 1_000_000), FillScope("tag", ("norm",))
BYTES = 2**30
"""Bytes of a file, so that each batch has one."""


def permits(number):
    """Return permission for work, with its number."""
    return Permits(True, True, False, Epoch(1, number), number, False)


class TestFilesWithoutARowCount:
    """Statistics are optional: a table may be converted without them."""

    def test_are_under_the_limit_of_rows(self):
        """The rows of the whole table are counted at the start, so those of a file are about its share of the bytes."""
        strategy = InPlaceStrategy(Pinned(7, 0, "table", "", (), 400, bytes=(40, 40)), SCOPE, None, conflicts_max=2)
        strategy.on(LimitSet(100, 1.0), NOW)
        [listing] = strategy.propose(permits(1), NOW)
        files = tuple(LiveFile(path, 40, None) for path in "xy")
        strategy.on(WorkFinished(LiveFilesListed(listing.work_id, 7, files, SCOPE)), NOW)
        [batch] = strategy.propose(permits(2), NOW)
        staged = tuple(Replacement(file) for file in batch.files)
        strategy.on(WorkFinished(FilesFilled(batch.work_id, staged)), NOW)

        assert len(batch.files) == 1
        assert strategy.propose(permits(3), Now(NOW.mono_s + 0.5, NOW.wall_ms + 500)) == ()
        assert strategy.view(NOW).rows_total == 400


class TestTheRowsThatAreFilled:
    """A user waits for them, so they are never too many."""

    def test_are_unchanged_by_a_commit_whose_answer_is_lost(self):
        """Nothing is known of the files that are left, which does not mean that none is."""
        strategy = InPlaceStrategy(Pinned(7, 0, "table", "", (), 200), SCOPE, None, conflicts_max=2)
        [listing] = strategy.propose(permits(1), NOW)
        files = tuple(LiveFile(path, BYTES, 100) for path in "xy")
        strategy.on(WorkFinished(LiveFilesListed(listing.work_id, 7, files, SCOPE)), NOW)
        [batch] = strategy.propose(permits(2), NOW)
        staged = tuple(Replacement(file) for file in batch.files)
        strategy.on(WorkFinished(FilesFilled(batch.work_id, staged)), NOW)
        assert strategy.prepare_commit(Epoch(1, 3), permits(3), NOW).removed

        strategy.on(Sealed(3, 8, 0.1, None), NOW)

        assert strategy.view(NOW).rows_done == strategy.stored.rows_done == 0
