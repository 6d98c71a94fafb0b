"""Names and messages in a line: their columns on a terminal, control characters, and ASCII form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_console.segments import (
    ASCII,
    Segment,
    ascii_line,
    cut,
    cut_at_word,
    line,
    whole_parts,
    width_of,
    wrapped,
)

TEXTS = st.text(st.characters(categories=("L", "N", "P", "S", "Z", "M")), max_size=60)


class TestWidths:
    """Columns are counted as a terminal counts them."""

    @pytest.mark.parametrize(
        ("text", "columns"), [("abc", 3), ("订单", 4), ("é", 1), ("e\u0301", 1), ("▶ ✔", 3), ("", 0)]
    )
    def test_wide_and_combining_characters_are_counted(self, text, columns):
        """A Chinese table name would move the right border of each line."""
        assert width_of(text) == columns

    @given(TEXTS, st.integers(1, 40))
    def test_no_cut_text_is_wider_than_its_room(self, text, columns):
        """A line that wraps is drawn twice."""
        for shown in (cut(text, columns), cut_at_word(text, columns), *wrapped(text, max(2, columns))):
            assert width_of(shown) <= max(2, columns)

    @given(TEXTS, st.integers(2, 40))
    def test_wrapping_loses_only_blanks(self, text, columns):
        """A reason is evidence: all of it is shown where there is room."""
        assert "".join(wrapped(text, columns)).replace(" ", "") == text.replace(" ", "")

    def test_a_value_is_cut_outside_parentheses(self):
        """`until 22:10 (override` looks like a defect."""
        value = "100,000 rows/s until 22:10 (override, anna)"

        assert whole_parts(value, 40) == "100,000 rows/s until 22:10"
        assert whole_parts(value, 43) == value


class TestAscii:
    """`--ascii` draws the same lines."""

    def test_each_symbol_has_a_character_of_the_same_width(self):
        """Columns stay aligned."""
        assert all(
            width_of(chr(symbol)) == len(ASCII[symbol] if isinstance(ASCII[symbol], str) else "x") for symbol in ASCII
        )

    @given(TEXTS)
    def test_any_line_becomes_ascii_of_the_same_width(self, text):
        """Names may contain any character."""
        shown = ascii_line(line(Segment(text, "strong")))

        assert shown.text.isascii()
        assert shown.width == width_of(text)
