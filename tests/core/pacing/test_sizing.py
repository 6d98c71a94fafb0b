"""Splits: how large, and what they are made of."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backfill_core.pacing.sizing import BatchSizer, SplitSizer, split_span, tapered
from backfill_core.positions.file_ranges import file_ranges
from backfill_core.protocol.work import FileRange

files = st.lists(st.integers(0, 9), min_size=1, max_size=12)


@st.composite
def lines_with_gap(draw: st.DrawFn) -> tuple[list[int], tuple[int, int]]:
    prefix = [0, *itertools.accumulate(draw(files))]
    ends = sorted((draw(st.integers(0, prefix[-1])), draw(st.integers(0, prefix[-1]))))
    return prefix, (ends[0], ends[1])


def sizer(rows: int = 1000) -> SplitSizer:
    return SplitSizer(target_s=4.0, rows=rows, rows_min=100, rows_max=1_000_000)


class TestASplitTakesItsTargetTime:
    """Seconds per split, not fractions: small splits cost a third of the speed (measured)."""

    @given(st.floats(100, 200_000))
    def test_converges_for_any_speed(self, rows_per_s: float) -> None:
        """From a bad first guess, in few steps."""
        one = sizer()
        for _ in range(40):
            one = one.observe(one.rows_per_split, one.rows_per_split / rows_per_s)
        assert one.rows_per_split == pytest.approx(min(4.0 * rows_per_s, 1_000_000), rel=0.01)

    @given(st.lists(st.tuples(st.integers(0, 10**7), st.floats(0, 1000)), max_size=30))
    def test_changes_at_most_twofold_and_stays_in_bounds(self, measured: list[tuple[int, float]]) -> None:
        """One odd measurement (a cold cache, a long pause) must not make a split of an hour."""
        one = sizer()
        for rows, seconds in measured:
            after = one.observe(rows, seconds)
            assert one.rows_per_split / 2 - 1 <= after.rows_per_split <= one.rows_per_split * 2 + 1
            assert 100 <= after.rows_per_split <= 1_000_000
            one = after

    @pytest.mark.parametrize(("rows", "seconds"), [(0, 1.0), (100, 0.0), (-1, 1.0), (100, -1.0)])
    def test_learns_nothing_from_nothing(self, rows: int, seconds: float) -> None:
        """A split of deleted rows only, or one answered within the same tick."""
        assert sizer().observe(rows, seconds) == sizer()


class TestCuttingTheLine:
    """R-SNAP-37: splits tile the row index; no row twice, none left out."""

    @given(lines_with_gap(), st.integers(-1, 30), st.booleans())
    def test_starts_with_the_gap_and_stays_in_it(
        self, line: tuple[list[int], tuple[int, int]], wanted: int, exact: bool
    ) -> None:
        """Progress is made whatever is asked for."""
        prefix, gap = line
        split = split_span(prefix, gap, wanted, exact=exact)
        if gap[0] == gap[1]:
            assert split is None
        else:
            assert split is not None
            assert split[0] == gap[0] < split[1] <= gap[1]

    @given(lines_with_gap(), st.integers(1, 30))
    def test_exact_has_just_so_many_rows(self, line: tuple[list[int], tuple[int, int]], wanted: int) -> None:
        """R-SNAP-41, R-SNAP-42: a limit is met by cutting inside files, down to a single row."""
        prefix, gap = line
        split = split_span(prefix, gap, wanted, exact=True)
        if split is not None:
            assert split[1] - split[0] == min(wanted, gap[1] - gap[0])

    @given(lines_with_gap(), st.integers(1, 30))
    def test_otherwise_ends_at_the_end_of_a_file_or_of_the_gap(
        self, line: tuple[list[int], tuple[int, int]], wanted: int
    ) -> None:
        """Whole files need no hashing of every row, and their row count is exact."""
        prefix, gap = line
        split = split_span(prefix, gap, wanted, exact=False)
        if split is not None:
            assert split[1] in prefix or split[1] == gap[1]
            ends = [min(end, gap[1]) for end in prefix if end > gap[0]]
            assert abs(split[1] - split[0] - wanted) == min(abs(end - gap[0] - wanted) for end in ends)

    @given(files, st.lists(st.tuples(st.integers(1, 12), st.booleans()), min_size=1, max_size=5))
    def test_cutting_again_and_again_tiles_the_line(self, rows: list[int], how: list[tuple[int, bool]]) -> None:
        """The limit may come and go while the snapshot is being read."""
        prefix = [0, *itertools.accumulate(rows)]
        at, order = 0, itertools.cycle(how)
        for _ in range(prefix[-1]):
            if at == prefix[-1]:
                break
            wanted, exact = next(order)
            split = split_span(prefix, (at, prefix[-1]), wanted, exact=exact)
            assert split is not None
            assert split[0] == at
            at = split[1]
        assert at == prefix[-1]

    def test_worked_example(self) -> None:
        """Files of 3, 0, 4 and 2 rows."""
        prefix = [0, 3, 3, 7, 9]
        assert split_span(prefix, (0, 9), 5, exact=False) == (0, 3)
        assert split_span(prefix, (0, 9), 6, exact=False) == (0, 7)
        assert split_span(prefix, (0, 9), 7, exact=False) == (0, 7)
        assert split_span(prefix, (0, 9), 1, exact=False) == (0, 3)
        assert split_span(prefix, (1, 9), 1, exact=False) == (1, 3)
        assert split_span(prefix, (3, 6), 100, exact=False) == (3, 6)
        assert split_span(prefix, (2, 9), 5, exact=True) == (2, 7)


class TestPieces:
    """What a split reads, by file."""

    @given(lines_with_gap())
    def test_cover_the_interval_exactly(self, line: tuple[list[int], tuple[int, int]]) -> None:
        """In path order, each row once, no file without rows."""
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

    def test_worked_example(self) -> None:
        """Files of 3, 0, 4 and 2 rows: the empty one is left out."""
        prefix = [0, 3, 3, 7, 9]
        assert file_ranges(prefix, 2, 8) == (FileRange(0, 2, 3, 3), FileRange(2, 0, 4, 4), FileRange(3, 0, 1, 2))
        assert [file_range.whole for file_range in file_ranges(prefix, 2, 8)] == [False, True, False]
        assert file_ranges(prefix, 3, 3) == file_ranges(prefix, 9, 9) == file_ranges([0], 0, 0) == ()


class TestTheLastSplitsAreSmaller:
    """So that all slots end together; but a split has a cost of its own."""

    def test_one_slot_never_takes_what_two_could_share(self) -> None:
        """With 3 splits' worth left for two slots, a usual one would leave one slot idle at the end."""
        assert tapered(1000, 3000, slots=2) == 750

    def test_the_tail_is_short(self) -> None:
        """Halving down to nothing, ten small splits cost more than an idle second."""
        left, splits = 4000, []
        while left > 0:
            splits.append(min(left, tapered(1000, left, slots=2)))
            left -= splits[-1]
        assert splits == [1000, 750, 563, 422, 333, 333, 333, 266]

    @given(st.integers(1, 10**9), st.integers(1, 10**10), st.integers(1, 16))
    def test_is_never_more_than_usual(self, usual: int, left: int, slots: int) -> None:
        """The usual size is what a rate, a pause and the memory were promised."""
        assert tapered(usual, left, slots=slots) <= usual


class TestBatchesOfChanges:
    """As many versions as the target allows, and never so few that only the cost of a MERGE is paid."""

    @staticmethod
    def lag_after(batches, fixed_s, each_s, made_per_s, *, lag):
        sizer, seconds = BatchSizer(10, 32, 4096), 0.0
        for _ in range(batches):
            took = int(min(sizer.versions, max(1, lag)))
            seconds = fixed_s + each_s * took
            sizer, lag = sizer.observe(took, seconds), lag - took + made_per_s * seconds
        return lag, seconds

    @example(fixed_s=8.47, each_s=0.05, busy=0.3)  # the first batch takes the target, nearly all of it overhead
    @given(fixed_s=st.floats(0.1, 60), each_s=st.floats(0.05, 0.5), busy=st.floats(0.0, 0.3))
    def test_a_job_converges_whenever_its_cluster_can(self, fixed_s, each_s, busy):
        """Also where one MERGE takes longer than the target, which once made batches of one version each."""
        lag, _ = self.lag_after(1500, fixed_s, each_s, busy / each_s, lag=5000)

        # What comes while one batch of all there is runs, several times over.
        assert lag <= 6 * (fixed_s + 1) * busy / each_s / (1 - busy) + 6

    @given(fixed_s=st.floats(0.1, 3), each_s=st.floats(0.001, 0.5))
    def test_a_batch_takes_about_the_target_where_a_merge_is_cheap(self, fixed_s, each_s):
        """A batch of minutes would delay every command."""
        _, seconds = self.lag_after(60, fixed_s, each_s, 0, lag=10**9)

        assert seconds <= max(10, 3 * (fixed_s + each_s)) * 2

    def test_one_slow_batch_is_no_reason_to_stay_small(self):
        """Small batches pay the fixed cost of a MERGE again and again."""
        sizer = BatchSizer(10, 32, 4096).observe(32, 60).observe(32, 60)
        for _ in range(20):
            sizer = sizer.observe(sizer.versions, 6)

        assert sizer.versions == 4096

    def test_the_first_says_what_a_version_costs_until_there_is_another(self):
        """It runs on a cold JVM."""
        one = BatchSizer(10, 32, 4096).observe(3, 44.0)

        assert one.version_s == pytest.approx(44 / 3)
        assert one.observe(5, 5.0).version_s == pytest.approx(1)
