"""Statistics as other writers log them: a reader accepts the form of Delta, and no other form ends a job."""

import pytest

from backfill_core.file_copies.logged_statistics import LoggedStatistics

NOTHING = LoggedStatistics()


class TestStatistics:
    """Malformed statistics of other writers are ignored."""

    @pytest.mark.parametrize("text", [None, "", "null", "[]", "5", '"{}"', "{", "not JSON", "[" * 100_000, "1" * 5000])
    def test_statistics_that_are_no_object_are_ignored(self, text: str | None) -> None:
        """Spark reads such a string as null."""
        assert LoggedStatistics.of(text) == NOTHING

    @pytest.mark.parametrize("part", ["null", "[]", '"text"', "5"])
    def test_parts_of_another_form_are_ignored(self, part: str) -> None:
        """`nullCount: null` once ended a job."""
        text = f'{{"numRecords": 5, "minValues": {part}, "maxValues": {part}, "nullCount": {part}}}'

        assert LoggedStatistics.of(text) == LoggedStatistics(5)

    @pytest.mark.parametrize("count", ["null", "-1", "1.5", '"5"', "true", "{}"])
    def test_counts_of_another_form_are_ignored(self, count: str) -> None:
        """A count decides which rows a file has, so only a number is accepted."""
        statistics = LoggedStatistics.of(f'{{"numRecords": {count}, "nullCount": {{"a": {count}, "b": 2}}}}')

        assert (
            statistics.rows,
            statistics.null_count("a"),
            statistics.null_count("b"),
            statistics.null_count("c"),
        ) == (
            None,
            None,
            2,
            None,
        )

    def test_logged_numbers_are_exact(self) -> None:
        """A float would round them."""
        statistics = LoggedStatistics.of('{"minValues": {"d": 0.10000000000000000001, "n": 9007199254740993}}')

        assert (str(statistics.smallest["d"]), statistics.smallest["n"]) == ("0.10000000000000000001", 9007199254740993)


class TestRowCount:
    """The row count alone equals that of the whole statistics."""

    @pytest.mark.parametrize(
        "text",
        [
            '{"numRecords":12,"minValues":{"a":1}}',
            '{"numRecords":12}',
            '{"numRecords": 12}',
            '{"minValues":{"numRecords":3},"numRecords":12}',
            '{"numRecords":12.5,"nullCount":{}}',
            '{"numRecords":"12"}',
            f'{{"numRecords":{2**60}}}',
            f'{{"numRecords":{10**30}}}',
            "",
            None,
        ],
    )
    def test_the_count_equals_that_of_the_whole_statistics(self, text):
        """The order and the spaces of other writers differ from those of Delta."""
        assert LoggedStatistics.of_rows(text).rows == LoggedStatistics.of(text).rows
