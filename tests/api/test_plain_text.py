"""A string of another program becomes one line that cannot control a terminal."""

import pytest

from backfill_api.plain_text import printable

CONTROLS = [
    "\x1b", "\n", "\r", "\t", "\x00", "\x07", "\x7f", "\x9b", "\u061c", "\u200b", "\u200e", "\u202e", "\u2028", "\u2029", "\u2066",
    "\ufeff", "\U000e0041", "\ue000",
]  # fmt: skip


class TestControlCharacters:
    """A name or a message cannot control the terminal (escape codes, line breaks, reversed text)."""

    @pytest.mark.parametrize("character", CONTROLS, ids=ascii)
    def test_a_run_of_control_characters_becomes_a_blank(self, character):
        """A job id comes from a file of another user."""
        assert printable(f"a{character}b{character}\n{character}c") == "a b c"

    def test_an_escape_sequence_loses_its_escape(self):
        """The rest is harmless, and shows the attempt."""
        assert printable("a\x1b[2Jb\x9b31mc") == "a [2Jb 31mc"

    @pytest.mark.parametrize(
        "text", ["orders", "订单 münchen", "a\u00a0b", "می\u200cخواهم", "👩\u200d🔧", ""], ids=ascii
    )
    def test_other_text_is_unchanged(self, text):
        """Names of tables are in all languages."""
        assert printable(text) == text
