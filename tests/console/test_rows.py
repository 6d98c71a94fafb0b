"""Tables of names, numbers and messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_console.rows import aligned
from backfill_console.segments import width_of

CELLS = st.text(max_size=12)


class TestTheTable:
    """A line for each row; only the last column is cut."""

    def test_columns_are_aligned_by_their_width_on_a_terminal(self):
        """A Chinese name takes two columns for each character."""
        assert aligned(["NAME", "N", "WHY"], [["订单", "5", "x"], ["a", "12", ""]], right=frozenset({"N"})) == [
            "NAME   N  WHY",
            "订单   5  x",
            "a     12",
        ]

    @given(st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=4), st.integers(30, 80))
    def test_any_text_stays_in_its_row(self, rows, columns):
        """A message of several lines would break the table."""
        lines = aligned(["A", "B", "C"], rows, columns=columns)

        assert len(lines) == len(rows) + 1
        assert all("\n" not in line and "\x1b" not in line for line in lines)
        assert all(width_of(line) <= max(columns, 24 + 2 + 24 + 2 + 20) for line in lines)

    @pytest.mark.parametrize(("ascii_only", "end"), [(False, "…"), (True, "...")])
    def test_a_cut_is_marked(self, ascii_only, end):
        """The reader must know that there is more."""
        [_, row] = aligned(["A", "WHY"], [["x", "because " * 9]], columns=30, ascii_only=ascii_only)

        assert row.endswith(end)
        assert width_of(row) == 30
