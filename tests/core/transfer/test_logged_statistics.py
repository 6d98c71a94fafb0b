"""Statistics as other writers log them: a reader takes what has the form of Delta, and nothing else ends a job."""

import pytest

from backfill_core.transfer.logged_statistics import LoggedStatistics

NOTHING = LoggedStatistics()


class TestStatistics:
    @pytest.mark.parametrize("text", [None, "", "null", "[]", "5", '"{}"', "{", "not JSON", "[" * 100_000, "1" * 5000])
    def test_that_are_no_object_say_nothing(self, text: str | None) -> None:
        """Spark's own reading of such a text is null."""
        assert LoggedStatistics.of(text) == NOTHING

    @pytest.mark.parametrize("part", ["null", "[]", '"text"', "5"])
    def test_parts_of_another_form_say_nothing(self, part: str) -> None:
        """`nullCount: null` ended a job."""
        text = f'{{"numRecords": 5, "minValues": {part}, "maxValues": {part}, "nullCount": {part}}}'

        assert LoggedStatistics.of(text) == LoggedStatistics(5)

    @pytest.mark.parametrize("count", ["null", "-1", "1.5", '"5"', "true", "{}"])
    def test_counts_of_another_form_say_nothing(self, count: str) -> None:
        """A count that is taken for a number decides which rows a file has."""
        found = LoggedStatistics.of(f'{{"numRecords": {count}, "nullCount": {{"a": {count}, "b": 2}}}}')

        assert (found.rows, found.null_count("a"), found.null_count("b"), found.null_count("c")) == (
            None,
            None,
            2,
            None,
        )

    def test_numbers_are_exact(self) -> None:
        """A float would round them."""
        found = LoggedStatistics.of('{"minValues": {"d": 0.10000000000000000001, "n": 9007199254740993}}')

        assert (str(found.smallest["d"]), found.smallest["n"]) == ("0.10000000000000000001", 9007199254740993)
