"""Checks of an attempt before it resumes, and before it reports a complete copy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from backfill_core.errors import AccountingError, StateMismatchError
from backfill_core.phases.copy_replay import CopyReplayStrategy
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import Head, LimitSet, Sealed, SourcePolled, WorkFinished
from backfill_core.protocol.strategy import Opened, Permits, Pinned
from backfill_core.protocol.work import ApplyChanges, SplitStaged, StagedFile
from backfill_core.strategies.snapshot.params import SnapshotSettings
from backfill_core.strategies.snapshot.stored import SnapshotStored
from backfill_core.strategies.snapshot.strategy import snapshot

PINNED = Pinned(3, 0, "table", "files", (100, 100), 200)
SETTINGS = SnapshotSettings(merges=True, filtered=False)
NOW = Now(1.0, 1000)
PERMITS = Permits(history=True, changes=True, checks=True, epoch=Epoch(1, 1), first_id=1)


def copied(rows: int) -> CopyReplayStrategy[SnapshotStored]:
    """Return a strategy that has handed over all splits, which contained this number of rows."""
    strategy = snapshot(Opened(PINNED), SETTINGS)
    strategy.on(LimitSet(None, 1.0), NOW)
    (work,) = strategy.propose(PERMITS, NOW)
    strategy.on(WorkFinished(SplitStaged(work.work_id, (StagedFile("a", 1, rows),))), NOW)
    strategy.prepare_commit(Epoch(1, 1), PERMITS, NOW)
    return strategy


class TestAPinnedVersion:
    """R-SNAP-8: every row of history belongs to the pinned version."""

    def stored(self) -> SnapshotStored:
        """Return the state that an attempt with the same files stored."""
        return snapshot(Opened(PINNED), SETTINGS).stored

    def test_a_pinned_version_of_the_same_files_is_resumed(self) -> None:
        """A restart with the same files is accepted."""
        snapshot(Opened(PINNED), SETTINGS, self.stored())

    def test_a_completely_copied_version_is_not_read_again(self) -> None:
        """R-SNAP-7: the first version that is not consumed comes next, whatever the job had pinned."""
        behind = replace(copied(200).stored, consumed=5)
        strategy = snapshot(Opened(replace(PINNED, version=5)), SETTINGS, behind)
        strategy.on(LimitSet(None, 1.0), NOW)
        strategy.on(SourcePolled(Head(7, 0)), NOW)

        assert strategy.propose(PERMITS, NOW) == ()
        assert strategy.prepare_commit(Epoch(1, 1), PERMITS, NOW).announces
        strategy.on(Sealed(1, 1, 0.1), NOW)
        (work,) = strategy.propose(PERMITS, NOW)
        assert isinstance(work, ApplyChanges)
        assert (work.after, work.upto) == (5, 7)

    def test_a_pinned_version_of_other_files_is_refused(self) -> None:
        """A recreated table under the same path has other row numbers in the row index."""
        other = replace(PINNED, fingerprint="others")

        with pytest.raises(StateMismatchError, match="differ from those at the start of the job"):
            snapshot(Opened(other), SETTINGS, self.stored())


class TestACompleteCopy:
    """The source's own metadata decides about completeness, not the number of rows read."""

    def test_a_copy_with_all_rows_continues(self) -> None:
        """The number of rows is correct."""
        assert copied(200).status.failure is None

    @pytest.mark.parametrize("rows", [199, 201])
    def test_a_copy_with_fewer_or_more_rows_than_the_version_ends_the_job(self, rows: int) -> None:
        """A reader that skipped a file, or read one twice, must not get a passing receipt."""
        assert isinstance(copied(rows).status.failure, AccountingError)
