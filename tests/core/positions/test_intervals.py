"""`IntervalSet` against the set of integers it stands for."""

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


def members(one: IntervalSet) -> set[int]:
    return {number for start, stop in one.spans for number in range(start, stop)}


def built(changes: list[tuple[int, int]]) -> tuple[IntervalSet, set[int]]:
    one, model = IntervalSet(), set[int]()
    for start, stop in changes:
        one, model = one.add(start, stop), model | set(range(start, stop))
    return one, model


class TestASetOfRows:
    """What is done is a set of rows, so any order of splits ends in the same state."""

    @given(steps)
    def test_equals_the_naive_set_after_any_changes(self, changes: list[tuple[int, int]]) -> None:
        """Every other property follows from this one."""
        one, model = built(changes)
        assert members(one) == model
        assert one.size == len(model)

    @given(steps)
    def test_is_sorted_disjoint_and_coalesced(self, changes: list[tuple[int, int]]) -> None:
        """The stored form has no two spellings, and as few spans as can be."""
        one, _ = built(changes)
        assert all(start < stop for start, stop in one.spans)
        assert all(left[1] < right[0] for left, right in pairwise(one.spans))
        assert len(one) == len(one.spans)

    @given(st.permutations([(0, 3), (3, 7), (7, 8), (20, 30), (10, 20)]))
    def test_order_of_splits_does_not_matter(self, order: list[tuple[int, int]]) -> None:
        """R-SNAP-37: splits are sealed as they finish, not as they were cut."""
        one = IntervalSet()
        for start, stop in order:
            one = one.add(start, stop)
        assert one.spans == ((0, 8), (10, 30))

    def test_an_empty_interval_adds_nothing(self) -> None:
        """A split of only deleted rows has an interval, one of an empty file has none."""
        one = IntervalSet().add(2, 5)
        assert one.add(9, 9) == one
        assert one.add(4, 1) == one


class TestWhatIsMissing:
    """The next split starts at the first gap, so gaps must be exact."""

    @given(steps, spans)
    def test_gaps_are_the_complement(self, changes: list[tuple[int, int]], window: tuple[int, int]) -> None:
        """A row in no gap and not done would never be read; one in both would be doubled (R-SNAP-37)."""
        one, model = built(changes)
        start, stop = window
        missing = set(range(start, stop)) - model
        assert members(one.gaps(start, stop)) == missing

    @given(steps, spans)
    def test_first_gap_is_the_lowest(self, changes: list[tuple[int, int]], window: tuple[int, int]) -> None:
        """Filling the lowest gap first keeps the number of spans small."""
        one, _ = built(changes)
        gaps = one.gaps(*window).spans
        assert one.first_gap(*window) == (gaps[0] if gaps else None)

    def test_an_empty_line_has_no_gap(self) -> None:
        """An empty source is complete at once."""
        assert IntervalSet().first_gap(0, 0) is None


class TestTheStoredForm:
    """The state in the target is read by later releases, so it is checked and not trusted."""

    @given(steps)
    def test_comes_back_as_it_went(self, changes: list[tuple[int, int]]) -> None:
        """What is sealed is what is resumed."""
        one, _ = built(changes)
        assert IntervalSet.from_json(one.to_json()) == one

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
    def test_refuses_what_it_never_writes(self, value: Any) -> None:
        """A damaged state must stop the job, not double rows."""
        with pytest.raises(ValueError, match="not an interval set"):
            IntervalSet.from_json(value)
