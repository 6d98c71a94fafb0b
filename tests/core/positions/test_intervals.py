"""`IntervalSet` against the set of integers that it represents."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_core.positions.intervals import IntervalSet

LINE = 40

spans = st.tuples(st.integers(0, LINE), st.integers(0, LINE)).map(lambda pair: (min(pair), max(pair)))
steps = st.lists(spans, max_size=12)


def members(intervals: IntervalSet) -> set[int]:
    return {number for start, stop in intervals.spans for number in range(start, stop)}


def built(changes: list[tuple[int, int]]) -> tuple[IntervalSet, set[int]]:
    intervals, model = IntervalSet(), set[int]()
    for start, stop in changes:
        intervals, model = intervals.add(start, stop), model | set(range(start, stop))
    return intervals, model


class TestASetOfRows:
    """Completed rows are a set, so any order of splits gives the same state."""

    @given(steps)
    def test_the_intervals_equal_the_naive_set_after_any_changes(self, changes: list[tuple[int, int]]) -> None:
        """Every other property follows from this one."""
        intervals, model = built(changes)
        assert members(intervals) == model
        assert intervals.size == len(model)

    @given(steps)
    def test_the_intervals_are_sorted_disjoint_and_coalesced(self, changes: list[tuple[int, int]]) -> None:
        """The stored form is unique and has the minimum number of spans."""
        intervals, _ = built(changes)
        assert all(start < stop for start, stop in intervals.spans)
        assert all(left[1] < right[0] for left, right in pairwise(intervals.spans))
        assert len(intervals) == len(intervals.spans)

    @given(st.permutations([(0, 3), (3, 7), (7, 8), (20, 30), (10, 20)]))
    def test_the_order_of_splits_does_not_matter(self, order: list[tuple[int, int]]) -> None:
        """R-SNAP-37: splits are sealed as they finish, not as they were cut."""
        intervals = IntervalSet()
        for start, stop in order:
            intervals = intervals.add(start, stop)
        assert intervals.spans == ((0, 8), (10, 30))

    def test_an_empty_interval_adds_nothing(self) -> None:
        """A split of only deleted rows has an interval; a split of an empty file has none."""
        intervals = IntervalSet().add(2, 5)
        assert intervals.add(9, 9) == intervals
        assert intervals.add(4, 1) == intervals


class TestWhatIsMissing:
    """The next split starts at the first gap, so gaps must be exact."""

    @given(steps, spans)
    def test_gaps_are_the_complement(self, changes: list[tuple[int, int]], window: tuple[int, int]) -> None:
        """A row in no gap that is not done would never be read; a row in both would be duplicated (R-SNAP-37)."""
        intervals, model = built(changes)
        start, stop = window
        missing = set(range(start, stop)) - model
        assert members(intervals.gaps(start, stop)) == missing

    @given(steps, spans)
    def test_the_first_gap_is_the_lowest(self, changes: list[tuple[int, int]], window: tuple[int, int]) -> None:
        """Filling the lowest gap first keeps the number of spans small."""
        intervals, _ = built(changes)
        gaps = intervals.gaps(*window).spans
        assert intervals.first_gap(*window) == (gaps[0] if gaps else None)

    def test_an_empty_line_has_no_gap(self) -> None:
        """An empty source is complete at once."""
        assert IntervalSet().first_gap(0, 0) is None


class TestTheStoredForm:
    """Later releases read the state in the target, so it is checked and not trusted."""

    @given(steps)
    def test_the_stored_form_survives_a_round_trip(self, changes: list[tuple[int, int]]) -> None:
        """A job resumes from exactly the sealed state."""
        intervals, _ = built(changes)
        assert IntervalSet.from_json(intervals.to_json()) == intervals

    @pytest.mark.parametrize(
        "value",
        [
            [[5, 9], [1, 3]],
            [[1, 5], [4, 9]],
            [[1, 5], [5, 9]],
            [[3, 3]],
            [[4, 2]],
            [[1]],
            [[1, 2, 3]],
            [["1", "2"]],
            [[1.0, 2.5]],
            [[False, True]],
            [3, 4],
            {"1": 2},
            None,
        ],
        ids=str,
    )
    def test_a_malformed_stored_form_is_refused(self, value: Any) -> None:
        """A damaged state must stop the job, not duplicate rows."""
        with pytest.raises(ValueError, match="not an interval set"):
            IntervalSet.from_json(value)
