"""Bars, sparklines and maps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_api.status.receipt import mismatch_map
from backfill_console.bars import DONE, OPEN, PARTIAL, bar, grid_cells, show_grid, sparkline, vnode_map

PARTS = st.floats(0, 1, exclude_min=True, exclude_max=True)


def drawn(segments):
    """Return the text of segments."""
    return "".join(segment.text for segment in segments)


class TestABar:
    """A bar never shows more than its number."""

    @given(PARTS, st.integers(2, 200))
    def test_only_a_finished_bar_is_full_and_only_an_empty_one_is_empty(self, done, columns):
        """99.9 % is not the end, and one row of a billion is a beginning."""
        shown = drawn(bar(done, columns))

        assert len(shown) == columns
        assert shown.count(PARTIAL) == 1
        assert abs(shown.count(DONE) / columns - done) <= 1 / columns

    def test_the_ends_are_exact(self):
        """Both are states that users wait for."""
        assert drawn(bar(1.0, 5)) == DONE * 5
        assert drawn(bar(0.0, 5)) == OPEN * 5


class TestAGrid:
    @given(st.lists(st.integers(0, 100), max_size=64))
    def test_the_cells_are_those_of_the_grid_with_roles(self, grid):
        """Colour and character show the same."""
        cells = grid_cells(grid)

        assert drawn(cells) == show_grid(grid)
        assert {segment.role for segment in cells if "█" in segment.text} <= {"done"}
        assert {segment.role for segment in cells if "·" in segment.text} <= {"open"}


class TestASparkline:
    @pytest.mark.parametrize(
        ("samples", "shown"),
        [((), ""), ((5,), ""), ((0, 0, 0), ""), ((0, 50, 100), "▁▄▇"), ((1, 2, 3, 100, 100), "▁▇▇")],
    )
    def test_only_several_samples_are_a_course(self, samples, shown):
        """One sample is no course; the newest ones stay where there is no room."""
        assert sparkline(samples, 3) == shown


class TestAMap:
    @given(st.integers(1, 5000), st.data())
    def test_a_cell_differs_if_any_of_its_vnodes_does(self, vnodes, data):
        """256 cells stand for all vnodes, in their order."""
        different = data.draw(st.sets(st.integers(0, vnodes - 1), max_size=5))
        rows = vnode_map(mismatch_map(different, vnodes))
        cells = "".join(rows)

        assert [len(row) for row in rows] == [16] * 16
        assert {at for at, cell in enumerate(cells) if cell == "×"} == {vnode * 256 // vnodes for vnode in different}

    def test_a_receipt_of_an_earlier_version_has_no_map(self):
        """A map without differences would be a claim."""
        assert vnode_map("") == []
