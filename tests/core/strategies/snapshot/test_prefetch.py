"""Reading ahead of a limit (ADR 0026): no file is read twice, and every second has its rows."""

import itertools
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.simulation.hand_driven import STEP_S, HandDriven

from backfill_core.errors import TransientError
from backfill_core.job.phase import JobSettings
from backfill_core.pacing.row_costs import RowCosts
from backfill_core.pacing.throttle import TokenBucket
from backfill_core.phases.prefetch import SEGMENTS_PER_S, SNAP_S, PrefetchBuffer, segment_boundaries, segments_of
from backfill_core.protocol.commands import Pause, Resume, Throttle
from backfill_core.protocol.events import CommandReceived, StopRequested, Tick, WorkFailed
from backfill_core.protocol.work import ReadSplit, StagedFile, StagedMode

FILE = 312_500
RATES = [100_000, 500_000, 2_000_000]


class Reader:
    """Finishes the splits of a job, oldest first, at a total rate of `rows_per_s`."""

    def __init__(self, job, rows_per_s):
        self.job, self.rows_per_s = job, rows_per_s
        self.credit = 0.0
        self.watch()

    def watch(self):
        """Restart the observation."""
        self.since_s, self.first, self.ahead_max = self.job.now_s, len(self.job.begun), 0

    @property
    def seen(self):
        """Splits that were begun since the restart."""
        return self.job.begun[self.first :]

    @property
    def seals(self):
        """Rows of each seal since the restart."""
        return [rows for at_s, rows in self.job.sealed if at_s > self.since_s]

    def let_pass(self, seconds, *, late=None):
        """Let time pass in steps; `late` returns the extra duration of a step."""
        end_s = self.job.now_s + seconds
        while self.job.now_s < end_s - 1e-9:
            step_s = STEP_S + (late() if late else 0.0)
            self.job.now_s += step_s
            self.credit = self.credit + step_s * self.rows_per_s if self.job.running else 0.0
            while self.job.running and self.credit >= self._size:
                self.credit -= self._size
                self.job.finish_split()
            self.job.send(Tick())
            self.ahead_max = max(self.ahead_max, self._ahead)

    @property
    def _size(self):
        work = self.job.running[min(self.job.running)]
        return work.stop - work.start

    @property
    def _ahead(self):
        begun = [split for split in self.job.begun if split.work_id not in self.job.cancelled]
        return sum(split.stop - split.start for split in begun) - sum(rows for _, rows in self.job.sealed)


def limited(rate, *, files=(FILE,) * 400, reads=4.0, mode=StagedMode.DECODED, **settings):
    """Return a job that has been under a limit for a while, and its reader."""
    job = HandDriven(*files, settings=JobSettings(**settings), mode=mode)
    job.send(CommandReceived(1, 1, Throttle(rate)))
    # Splits that began without a limit are not tested here.
    Reader(job, 5e6).let_pass(5.0)
    reader = Reader(job, reads * rate)
    reader.let_pass(10.0)
    reader.watch()
    return job, reader


class TestTheRateIsExact:
    """R-SNAP-41: the rate is at most 2 % off over ten seconds, and 10 % in any second."""

    @pytest.mark.parametrize("rate", RATES)
    def test_the_rate_is_exact_when_the_reader_is_fast_enough(self, rate):
        """A user sets a rate to get that rate in each second."""
        _, reader = limited(rate)
        reader.let_pass(20.0)

        assert reader.seals == [pytest.approx(rate, rel=0.05)] * 20
        assert sum(reader.seals) == pytest.approx(20 * rate, rel=0.005)

    @pytest.mark.parametrize("rate", RATES)
    @pytest.mark.parametrize("seed", range(5))
    def test_the_rate_is_exact_when_barriers_are_late_and_slow_reads_bunch(self, rate, seed):
        """Barriers are late by up to 80 ms; the extra rows of a late barrier belong to its extra time."""
        job, reader = limited(rate, reads=1.5)
        chance = Random(seed)
        reader.let_pass(20.0, late=lambda: chance.choice([0.0, 0.0, 0.0, 0.03]))

        times = [reader.since_s, *(at_s for at_s, _ in job.sealed if at_s > reader.since_s)]
        for (before_s, at_s), rows in zip(itertools.pairwise(times[1:]), reader.seals[1:], strict=False):
            assert rows == pytest.approx(rate * (at_s - before_s), rel=0.12)
        assert sum(reader.seals[1:]) == pytest.approx(rate * (times[-1] - times[1]), rel=0.01)

    @pytest.mark.parametrize("rate", RATES)
    def test_a_slow_reader_determines_the_rate(self, rate):
        """A barrier never admits more than the bucket and half a segment, and no row is lost."""
        _, reader = limited(rate, reads=0.7)
        reader.let_pass(20.0)

        assert sum(reader.seals) == pytest.approx(0.7 * 20 * rate, abs=FILE + rate / 2)
        assert all(rows <= (1.1 + 0.5 / SEGMENTS_PER_S) * rate for rows in reader.seals)

    @pytest.mark.parametrize("rate", RATES)
    def test_few_copied_files_are_cut_under_a_limit(self, rate):
        """A cut file is decoded: there are half as many cuts as for decoded files, and none for files below a fifth of
        a second."""
        cuts = {}
        for mode, second, ten_seconds in ((StagedMode.DECODED, 0.11, 0.011), (StagedMode.WHOLE, 0.19, 0.02)):
            _, reader = limited(rate, mode=mode)
            reader.let_pass(20.0)
            assert reader.seals == [pytest.approx(rate, rel=second)] * 20
            assert sum(reader.seals[:10]) == pytest.approx(10 * rate, rel=ten_seconds)
            cuts[mode] = sum(at % FILE != 0 for split in reader.seen for at in split.boundaries)

        assert cuts[StagedMode.WHOLE] <= 0.6 * cuts[StagedMode.DECODED]
        assert (cuts[StagedMode.WHOLE] == 0) == (rate == 2_000_000)

    @pytest.mark.parametrize("rate", [1000, 500_000])
    def test_the_rate_is_exact_when_barriers_are_rare(self, rate):
        """Each barrier is charged for all of its seconds; reading ahead would need ten seconds of rows, so it is off."""
        job = HandDriven(*(FILE,) * 400, settings=JobSettings(interval_s=10.0), reads_ahead=False)
        job.send(CommandReceived(1, 1, Throttle(rate)))
        reader = Reader(job, 5e6)
        reader.let_pass(60.0)
        reader.watch()
        reader.let_pass(60.0)

        assert sum(reader.seals) == pytest.approx(60 * rate, rel=0.02)

    @pytest.mark.parametrize("rate", RATES)
    def test_no_file_is_read_twice(self, rate):
        """This is the purpose of reading ahead."""
        _, reader = limited(rate)
        reader.let_pass(20.0)
        files = [file_range.file for work in reader.seen for file_range in work.ranges]

        assert len(files) == len(set(files))
        assert all(file_range.whole for work in reader.seen for file_range in work.ranges)

    def test_a_barrier_that_cannot_seal_loses_no_rows(self):
        """Only every third barrier seals, or a commit is slow: the bucket holds the rows of one second."""
        _, reader = limited(500_000, commit_every=3)
        reader.let_pass(30.0)

        assert reader.seals[:9] == [pytest.approx(1_500_000, rel=0.02)] * 9


class TestReadingAheadIsBounded:
    """Staged files cost storage before they are visible, and are read again after a crash."""

    @pytest.mark.parametrize("rate", RATES)
    @pytest.mark.parametrize("reads", [0.7, 1.5, 100.0])
    def test_at_most_two_seconds_and_two_splits_are_read_ahead(self, rate, reads):
        """The buffer must not grow with the rate of the storage."""
        _, reader = limited(rate, reads=reads)
        reader.let_pass(20.0)

        assert reader.ahead_max <= 2 * rate + 2 * max(FILE, 1.5 * rate)

    def test_both_slots_read_while_a_split_waits_for_its_barrier(self):
        """At a limit near the reader's maximum, an idle slot misses the limit."""
        job, _ = limited(300_000)
        Reader(job, 1.0).let_pass(1.0)

        assert len(job.running) == 2

    def test_two_splits_are_read_at_a_time(self):
        """A third reader would take a core from the two."""
        job, _ = limited(2_000_000)
        Reader(job, 0).let_pass(20.0)

        assert len(job.running) == 2

    def test_a_file_of_more_than_ten_seconds_is_cut(self):
        """A whole file would fill the buffer for too long."""
        _, reader = limited(500_000, files=(5_000_001,) * 100)
        reader.let_pass(10.0)

        assert {split.stop - split.start for split in reader.seen} == {250_000}
        assert reader.seals == [500_000] * 10

    def test_files_of_all_sizes_are_all_read(self):
        """Files are read as ranges and as a whole: each second has at most its rows, and each row is read once."""
        files = [6_000_000, *[FILE] * 20, 40, 0, 3_000_000, 1_900_000, *[1000] * 500] * 2
        job, reader = limited(500_000, files=files)
        reader.let_pass(120.0)

        assert job.view.strategy.phase == "Live"
        assert job.view.strategy.rows_done == sum(files)
        assert all(rows <= 1.2 * 500_000 for rows in reader.seals)


class TestAPauseIsNoWindfall:
    """A pause discards rows that were read ahead, and they are read again: nothing is owed, and no file waits without a
    commit."""

    def test_a_pause_seals_no_more_rows(self):
        """An acknowledged pause must hold at once."""
        job, reader = limited(500_000)
        job.send(CommandReceived(1, 2, Pause()))
        reader.let_pass(2.0)
        assert sum(reader.seals) <= 500_000
        reader.watch()
        job.send(CommandReceived(1, 3, Resume()))
        reader.let_pass(10.0)

        assert 8.5 * 500_000 <= sum(reader.seals) <= 10.2 * 500_000

    def test_a_long_pause_saves_no_rows(self):
        """Time in a pause earns no rows."""
        job, reader = limited(500_000)
        job.send(CommandReceived(1, 2, Pause()))
        reader.let_pass(100.0)
        job.send(CommandReceived(1, 3, Resume()))
        reader.watch()
        reader.let_pass(10.0)

        assert sum(reader.seals) <= 10.2 * 500_000
        assert all(rows <= 1.2 * 500_000 for rows in reader.seals)

    def test_a_short_failure_saves_no_rows(self):
        """The job holds for a short time and continues at the same pace."""
        job, reader = limited(500_000)
        failed = job.running.pop(min(job.running))
        job.send(WorkFailed(failed.work_id, TransientError("storage is away")))
        reader.let_pass(10.0)

        assert all(rows <= 1.2 * 500_000 for rows in reader.seals)
        assert sum(reader.seals) >= 8 * 500_000

    def test_a_stop_does_not_wait_for_rows_that_were_read_ahead(self):
        """A stop is quick, and its rows are read again later."""
        job, reader = limited(500_000)
        reader.let_pass(3.5)
        job.send(StopRequested())
        reader.let_pass(3.0)

        assert job.finish.outcome == "Stopped"
        assert job.view.strategy.rows_done == sum(rows for _, rows in job.sealed)

    def test_a_forced_pause_cancels_splits_and_reads_them_again(self):
        """Cancelled rows must be read again, each once."""
        job, reader = limited(500_000, files=(FILE,) * 60)
        job.send(CommandReceived(1, 2, Pause(force=True)))
        reader.let_pass(1.0)
        assert job.running == {}
        job.send(CommandReceived(1, 3, Resume()))
        reader.let_pass(60.0)

        assert job.view.strategy.rows_done == 60 * FILE


class TestTheLimitMayChangeAtAnyTime:
    """A split keeps the way of charging with which it began: no row is lost or charged twice."""

    @pytest.mark.parametrize("last", [None, 400_000])
    @settings(max_examples=30)
    @given(
        changes=st.lists(
            st.tuples(st.sampled_from([None, 0, 500, 120_000, 500_000, 3_000_000]), st.integers(0, 60)), max_size=8
        )
    )
    def test_every_row_is_sealed_once(self, last, changes):
        """A change of the limit falls between any two steps of a split."""
        job = HandDriven(*[FILE, 3_000_000, 10, FILE, FILE] * 4)
        reader = Reader(job, 3e6)
        for revision, (rate, twentieths) in enumerate([*changes, (last, 0)], 1):
            job.send(CommandReceived(1, revision, Throttle(rate)))
            reader.let_pass(twentieths * STEP_S)
        for _ in range(30):  # at the limit the copy takes a third of this
            reader.let_pass(10.0)
            if job.view.strategy.rows_done == job.view.strategy.rows_total:
                break

        assert job.view.strategy.rows_done == sum(rows for _, rows in job.sealed) == 4 * (3_000_010 + 3 * FILE)

    @pytest.mark.parametrize(("before", "after"), [(500_000, 200_000), (200_000, 1_000_000), (500_000, 20_000)])
    def test_a_new_limit_holds_for_the_buffer_of_the_old_one(self, before, after):
        """The buffer of the old limit is sealed or repaid at the pace of the new one."""
        job, reader = limited(before)
        job.send(CommandReceived(1, 2, Throttle(after)))
        Reader(job, 4e6).let_pass(60.0)

        assert sum(reader.seals) == pytest.approx(60 * after, rel=0.02, abs=2.2 * max(after, before))

    @pytest.mark.parametrize("low", [1, 500, 0])
    def test_a_short_low_limit_has_no_lasting_effect(self, low):
        """An accidental command that is reverted must not cost the night."""
        job, reader = limited(500_000)
        job.send(CommandReceived(1, 2, Throttle(low)))
        reader.let_pass(4.0)
        job.send(CommandReceived(1, 3, Throttle(500_000)))
        reader.let_pass(6.0)
        reader.watch()
        reader.let_pass(10.0)

        assert sum(reader.seals) == pytest.approx(5_000_000, rel=0.02)

    def test_a_lifted_limit_holds_no_rows_back(self):
        """A removed limit must not slow the next second."""
        job, reader = limited(500_000)
        job.send(CommandReceived(1, 2, Throttle(None)))
        reader.let_pass(1.1)

        assert reader.seals[0] > 1_000_000

    def test_a_limit_of_zero_reads_no_rows(self):
        """Reads at a limit of zero would only load the source."""
        job, reader = limited(500_000)
        job.send(CommandReceived(1, 2, Throttle(0)))
        reader.let_pass(3.0)
        done = job.view.strategy.rows_done
        reader.let_pass(20.0)

        assert (job.running, job.view.strategy.rows_done) == ({}, done)


class TestTheCuts:
    """Cuts are at future barriers: parts have at most half a second of rows, and no tiny parts arise."""

    PREFIX = [0, *itertools.accumulate([FILE] * 20)]

    @given(st.sampled_from(RATES), st.integers(0, 19), st.integers(1, 4), st.integers(-10_000_000, 10_000_000))
    def test_parts_have_a_minimum_and_a_maximum_size(self, rate, first, files, barrier):
        """Large segments miss the rate, and small segments cost a file each."""
        span = (self.PREFIX[first], self.PREFIX[min(20, first + files)])
        boundaries = segment_boundaries(self.PREFIX, span, rate, barrier=barrier + 0.5)
        sizes = [stop - start for start, stop in itertools.pairwise((span[0], *boundaries, span[1]))]

        assert all(size <= rate * (1 / SEGMENTS_PER_S + 2 * SNAP_S) + 1 for size in sizes)
        assert all(size >= min(rate * SNAP_S, FILE) for size in sizes)

    def test_a_cut_is_at_the_barrier(self):
        """Rows due at a barrier must be ready at that barrier."""
        assert segment_boundaries(self.PREFIX, (0, FILE), 500_000, barrier=170_000) == (170_000,)

    def test_the_border_of_a_near_file_is_used(self):
        """No file is cut for a tiny part."""
        assert segment_boundaries(self.PREFIX, (0, 2 * FILE), 500_000, barrier=320_000) == (70_000, FILE, 570_000)

    def test_the_buffer_is_admitted_from_its_front_up_to_the_bucket(self):
        """Half a segment is enough; the next one begins with the debt."""
        split = ReadSplit(1, (), 0, 400, 1, (100, 200, 300))
        files = [StagedFile(str(segment), 1, 100, segment=segment) for segment in range(4)]
        buffer = PrefetchBuffer().add(segments_of(split, files, RowCosts([0, 400]), filtered=False))
        buffer, bucket, admitted = buffer.admit(TokenBucket(1000, 1.0, 260.0, 0.0), 0.0)

        assert [segment.stop for segment in admitted] == [100, 200, 300]
        assert bucket.tokens == -40
        assert (buffer.rows, buffer.segments[0].last) == (100, True)
