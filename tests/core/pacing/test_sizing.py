"""Splits: their size and their parts."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backfill_core.pacing.sizing import BatchSizer, SplitSizer, split_span, tapered
from backfill_core.positions.file_ranges import FileRange, file_ranges

files = st.lists(st.integers(0, 9), min_size=1, max_size=12)


@st.composite
def lines_with_gap(draw: st.DrawFn) -> tuple[list[int], tuple[int, int]]:
    prefix = [0, *itertools.accumulate(draw(files))]
    ends = sorted((draw(st.integers(0, prefix[-1])), draw(st.integers(0, prefix[-1]))))
    return prefix, (ends[0], ends[1])


def sizer(rows: int = 1000) -> SplitSizer:
    return SplitSizer(target_s=4.0, rows=rows, rows_min=100, rows_max=1_000_000)


class TestASplitTakesItsTargetTime:
    """A split takes seconds, not fractions: small splits cost a third of the speed (measured)."""

    @given(st.floats(100, 200_000))
    def test_the_size_converges_for_any_speed(self, rows_per_s: float) -> None:
        """It converges from a bad first guess in a few steps."""
        current = sizer()
        for _ in range(40):
            current = current.observe(current.rows_per_split, current.rows_per_split / rows_per_s)
        assert current.rows_per_split == pytest.approx(min(4.0 * rows_per_s, 1_000_000), rel=0.01)

    @given(st.lists(st.tuples(st.integers(0, 10**7), st.floats(0, 1000)), max_size=30))
    def test_the_size_changes_at_most_twofold_and_stays_in_bounds(self, measured: list[tuple[int, float]]) -> None:
        """One outlier (a cold cache, a long pause) must not make a split of an hour."""
        current = sizer()
        for rows, seconds in measured:
            after = current.observe(rows, seconds)
            assert current.rows_per_split / 2 - 1 <= after.rows_per_split <= current.rows_per_split * 2 + 1
            assert 100 <= after.rows_per_split <= 1_000_000
            current = after

    @pytest.mark.parametrize(("rows", "seconds"), [(0, 1.0), (100, 0.0), (-1, 1.0), (100, -1.0)])
    def test_a_split_without_rows_or_time_changes_no_size(self, rows: int, seconds: float) -> None:
        """A split may have only deleted rows, or end within the same tick."""
        assert sizer().observe(rows, seconds) == sizer()


class TestCuttingTheLine:
    """R-SNAP-37: splits tile the row index: no row is in two splits, and no row is left out."""

    @given(lines_with_gap(), st.integers(-1, 30), st.booleans())
    def test_a_split_starts_with_the_gap_and_stays_in_it(
        self, line: tuple[list[int], tuple[int, int]], requested: int, exact: bool
    ) -> None:
        """The job makes progress for any requested size."""
        prefix, gap = line
        split = split_span(prefix, gap, requested, exact=exact)
        if gap[0] == gap[1]:
            assert split is None
        else:
            assert split is not None
            assert split[0] == gap[0] < split[1] <= gap[1]

    @given(lines_with_gap(), st.integers(1, 30))
    def test_an_exact_split_has_the_requested_number_of_rows(
        self, line: tuple[list[int], tuple[int, int]], requested: int
    ) -> None:
        """R-SNAP-41, R-SNAP-42: the job meets a limit by cutting files, down to a single row."""
        prefix, gap = line
        split = split_span(prefix, gap, requested, exact=True)
        if split is not None:
            assert split[1] - split[0] == min(requested, gap[1] - gap[0])

    @given(lines_with_gap(), st.integers(1, 30))
    def test_an_inexact_split_ends_at_the_end_of_a_file_or_of_the_gap(
        self, line: tuple[list[int], tuple[int, int]], requested: int
    ) -> None:
        """Whole files need no hash of every row, and their row count is exact."""
        prefix, gap = line
        split = split_span(prefix, gap, requested, exact=False)
        if split is not None:
            assert split[1] in prefix or split[1] == gap[1]
            ends = [min(end, gap[1]) for end in prefix if end > gap[0]]
            assert abs(split[1] - split[0] - requested) == min(abs(end - gap[0] - requested) for end in ends)

    @given(files, st.lists(st.tuples(st.integers(1, 12), st.booleans()), min_size=1, max_size=5))
    def test_repeated_cuts_tile_the_line(self, rows: list[int], how: list[tuple[int, bool]]) -> None:
        """The limit may change while the job reads the snapshot."""
        prefix = [0, *itertools.accumulate(rows)]
        at, order = 0, itertools.cycle(how)
        for _ in range(prefix[-1]):
            if at == prefix[-1]:
                break
            requested, exact = next(order)
            split = split_span(prefix, (at, prefix[-1]), requested, exact=exact)
            assert split is not None
            assert split[0] == at
            at = split[1]
        assert at == prefix[-1]

    def test_splits_follow_the_worked_example(self) -> None:
        """The files have 3, 0, 4 and 2 rows."""
        prefix = [0, 3, 3, 7, 9]
        assert split_span(prefix, (0, 9), 5, exact=False) == (0, 3)
        assert split_span(prefix, (0, 9), 6, exact=False) == (0, 7)
        assert split_span(prefix, (0, 9), 7, exact=False) == (0, 7)
        assert split_span(prefix, (0, 9), 1, exact=False) == (0, 3)
        assert split_span(prefix, (1, 9), 1, exact=False) == (1, 3)
        assert split_span(prefix, (3, 6), 100, exact=False) == (3, 6)
        assert split_span(prefix, (2, 9), 5, exact=True) == (2, 7)


class TestPieces:
    """File ranges describe the reads of a split."""

    @given(lines_with_gap())
    def test_file_ranges_cover_the_interval_exactly(self, line: tuple[list[int], tuple[int, int]]) -> None:
        """Ranges are in path order, with each row once and without empty files."""
        prefix, (start, stop) = line
        rows = [
            prefix[file_range.file] + offset
            for file_range in file_ranges(prefix, start, stop)
            for offset in range(file_range.start, file_range.stop)
        ]
        assert rows == list(range(start, stop))
        for file_range in file_ranges(prefix, start, stop):
            assert (
                0
                <= file_range.start
                < file_range.stop
                <= file_range.of
                == prefix[file_range.file + 1] - prefix[file_range.file]
            )

    def test_file_ranges_follow_the_worked_example(self) -> None:
        """The files have 3, 0, 4 and 2 rows; the empty file is left out."""
        prefix = [0, 3, 3, 7, 9]
        assert file_ranges(prefix, 2, 8) == (FileRange(0, 2, 3, 3), FileRange(2, 0, 4, 4), FileRange(3, 0, 1, 2))
        assert [file_range.whole for file_range in file_ranges(prefix, 2, 8)] == [False, True, False]
        assert file_ranges(prefix, 3, 3) == file_ranges(prefix, 9, 9) == file_ranges([0], 0, 0) == ()


class TestTheLastSplitsAreSmaller:
    """Smaller splits let all slots end together, but each split has a fixed cost."""

    def test_one_slot_leaves_rows_for_the_other(self) -> None:
        """A normal split would leave one slot idle at the end, if 3 splits of rows are left for two slots."""
        assert tapered(1000, 3000, slots=2) == 750

    def test_few_small_splits_come_at_the_end(self) -> None:
        """If sizes halved down to zero, ten small splits would cost more than an idle second."""
        left, splits = 4000, []
        while left > 0:
            splits.append(min(left, tapered(1000, left, slots=2)))
            left -= splits[-1]
        assert splits == [1000, 750, 563, 422, 333, 333, 333, 266]

    @given(st.integers(1, 10**9), st.integers(1, 10**10), st.integers(1, 16))
    def test_a_tapered_split_is_never_larger_than_normal(self, usual: int, left: int, slots: int) -> None:
        """Rate, pause and memory depend on the normal size."""
        assert tapered(usual, left, slots=slots) <= usual


class TestBatchesOfChanges:
    """A batch has as many versions as the target time allows, and enough to outweigh the cost of a MERGE."""

    @staticmethod
    def lag_after(batches, fixed_s, each_s, made_per_s, *, lag):
        sizer, seconds = BatchSizer(10, 32, 4096), 0.0
        for _ in range(batches):
            took = int(min(sizer.versions, max(1, lag)))
            seconds = fixed_s + each_s * took
            sizer, lag = sizer.observe(took, seconds), lag - took + made_per_s * seconds
        return lag, seconds

    @example(fixed_s=8.47, each_s=0.05, busy=0.3)  # the first batch takes the target time, almost all of it overhead
    @given(fixed_s=st.floats(0.1, 60), each_s=st.floats(0.05, 0.5), busy=st.floats(0.0, 0.3))
    def test_a_job_converges_whenever_its_cluster_can(self, fixed_s, each_s, busy):
        """The case includes a MERGE that takes longer than the target time, which once made batches of one version."""
        lag, _ = self.lag_after(1500, fixed_s, each_s, busy / each_s, lag=5000)

        # The versions that arrive during one batch of all versions, several times over.
        assert lag <= 6 * (fixed_s + 1) * busy / each_s / (1 - busy) + 6

    @given(fixed_s=st.floats(0.1, 3), each_s=st.floats(0.001, 0.5))
    def test_a_batch_takes_about_the_target_where_a_merge_is_cheap(self, fixed_s, each_s):
        """A batch of minutes would delay every command."""
        _, seconds = self.lag_after(60, fixed_s, each_s, 0, lag=10**9)

        assert seconds <= max(10, 3 * (fixed_s + each_s)) * 2

    def test_batches_grow_again_after_slow_ones(self):
        """Small batches pay the fixed cost of a MERGE again and again."""
        sizer = BatchSizer(10, 32, 4096).observe(32, 60).observe(32, 60)
        for _ in range(20):
            sizer = sizer.observe(sizer.versions, 6)

        assert sizer.versions == 4096

    def test_the_first_batch_measures_a_version_only_until_the_second(self):
        """The first batch runs on a cold JVM."""
        first = BatchSizer(10, 32, 4096).observe(3, 44.0)

        assert first.version_s == pytest.approx(44 / 3)
        assert first.observe(5, 5.0).version_s == pytest.approx(1)
