"""The condition for rows that differ is SQL for a query of the target, and has a bounded length."""

from backfill_core.protocol.receipt import CONDITION_CHARACTERS_MAX, mismatch_condition


class TestTheCondition:
    """It hashes the key as the receipt does."""

    def test_names_the_vnodes(self):
        """Their number is that of the receipt."""
        assert mismatch_condition(("id",), 256, (0, 215)) == "pmod(xxhash64(`id`), 256) IN (0, 215)"

    def test_quotes_columns(self):
        """A name may contain anything."""
        assert "xxhash64(`a``b`, `c d`)" in mismatch_condition(("a`b", "c d"), 16, (1,))

    def test_is_empty_if_nothing_differs(self):
        """An empty list would be no SQL."""
        assert mismatch_condition(("id",), 256, ()) == ""

    def test_has_the_first_vnodes_of_many(self):
        """Rows of a hundred vnodes are enough to find a cause."""
        text = mismatch_condition(("id",), 32768, range(30_000, 32_000))

        assert text.endswith("30099)")
        assert len(text) <= CONDITION_CHARACTERS_MAX

    def test_is_empty_if_the_names_are_too_long(self):
        """A part of a condition would select other rows."""
        assert mismatch_condition(("x" * CONDITION_CHARACTERS_MAX,), 256, (1,)) == ""
