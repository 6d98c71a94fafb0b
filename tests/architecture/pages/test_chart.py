"""The chart's README lists every value with a description."""

import pytest
from support.repository import program


@pytest.fixture
def page():
    """The program that writes the page."""
    return program("chart_page")


SCHEMA = {
    "definitions": {"name": {"type": "string"}},
    "properties": {"one": {"type": "object", "properties": {"two": {"$ref": "#/definitions/name"}, "three": {"type": "integer"}}}},
}  # fmt: skip


class TestTheValues:
    """The page takes the description of each value from its comment."""

    def test_values_have_the_comment_of_their_line_or_of_the_line_above(self, page):
        """Lists are long, and a comment behind a list is not visible."""
        text = "# ------- what runs\none:\n  two: a # its # name\n  # how many\n  three: 1\n"

        assert [*page.values(text, SCHEMA)] == [("one.two", "its # name"), ("one.three", "how many")]

    def test_values_without_a_comment_fail_the_build(self, page):
        """Otherwise a reader would only have a name."""
        with pytest.raises(KeyError, match=r"one\.three has no comment"):
            [*page.values("one:\n  two: a # its name\n  three: 1\n", SCHEMA)]
