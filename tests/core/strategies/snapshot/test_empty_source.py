"""The edges of the snapshot strategy, driven by hand."""

import pytest

from backfill_core.pacing.throttle import TokenBucket
from backfill_core.protocol.clock import Now
from backfill_core.protocol.events import Head
from backfill_core.protocol.strategy import Permits, WorkIds
from backfill_core.strategies.snapshot.strategy import Pinned, SnapshotSettings, SnapshotStrategy

OPEN = Permits(history=True, changes=True, at_barrier=True)
NOW = Now(1.0, 1000)


def strategy(*rows, merges=True):
    return SnapshotStrategy(Pinned(3, 0, "t", "f", rows, sum(rows)), SnapshotSettings(merges=merges, filtered=False))


class TestNothingPending:
    """R-SNAP-32: with nothing pending after the snapshot the log phase is skipped."""

    def test_an_empty_source_is_complete_after_one_look_and_one_seal(self):
        """An empty table is a job like others, and must end."""
        empty = strategy()
        empty.on_head(Head(3, 0), fresh=True)
        bucket, work = empty.next_work(NOW, OPEN, TokenBucket.full(None, 0.0), WorkIds(1, 1))
        _, commit = empty.prepare_commit(NOW, bucket, WorkIds(1, 1), release_all=True, may_merge=True)
        empty.on_sealed(NOW)

        assert work == ()
        assert (commit.files, commit.dirty) == ((), True)
        assert empty.complete
        assert empty.to_json()["phase"] == "Live"

    def test_a_head_that_was_seen_before_the_phase_began_proves_nothing(self):
        """R-SNAP-29: finished only when nothing is pending, and that must be looked at anew."""
        empty = strategy()
        empty.on_head(Head(3, 0), fresh=False)
        empty.prepare_commit(NOW, TokenBucket.full(None, 0.0), WorkIds(1, 1), release_all=True, may_merge=True)
        empty.on_sealed(NOW)

        assert not empty.complete


class TestWorkInFlightIsBounded:
    """R-SNAP-40: a barrier never waits behind a queue of splits."""

    def test_two_splits_at_a_time(self):
        """More splits would delay a pause, and fewer would leave cores idle."""
        busy, ids = strategy(*[100_000] * 50), WorkIds(1, 1)
        bucket, first = busy.next_work(NOW, OPEN, TokenBucket.full(None, 0.0), ids)
        _, second = busy.next_work(NOW, OPEN, bucket, ids)

        assert (len(first), len(second)) == (2, 0)

    @pytest.mark.parametrize(
        ("rate", "slices"), [(1, 1), (1000, 1), (50_000, 1), (99_999, 1), (100_000, 2), (500_000, 2)]
    )
    def test_a_small_quota_is_one_slice(self, rate, slices):
        """Each slice reads its whole file, so that cutting 50,000 rows in two reads twice as much."""
        busy = strategy(*[3_125_000] * 64)
        _, work = busy.next_work(NOW, OPEN, TokenBucket.full(rate, NOW.mono_s), WorkIds(1, 1))

        assert [one.stop - one.start for one in work] == [rate // slices] * slices
        assert all(len(one.segments) == 1 for one in work)

    def test_nothing_starts_against_the_gate(self):
        """A paused job must not begin new reads."""
        shut = Permits(history=False, changes=False, at_barrier=True)

        assert strategy(10).next_work(NOW, shut, TokenBucket.full(None, 0.0), WorkIds(1, 1))[1] == ()
