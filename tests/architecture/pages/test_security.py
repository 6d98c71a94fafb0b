"""The page on security names the tests that prove its answers."""

import re

import pytest
from support.repository import ROOT

PAGE = (ROOT / "SECURITY.md").read_text()
PARTIES = ("The owner of a source", "The producer of a topic", "A client without a token")
TEST = re.compile(r"\[`(Test\w+)`\]\((tests/[^)]+\.py)\)")


def rows(party):
    """Return the rows of a party's table: threat, answer and tests."""
    section = PAGE.split(f"### {party}\n", 1)[1].split("\n### ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("| ") and not line.startswith("| threat")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


class TestEachParty:
    """Each party has threats, and each threat has an answer with tests."""

    @pytest.mark.parametrize("party", PARTIES)
    def test_each_party_has_threats_with_answers_and_tests(self, party):
        """An answer without a test must state that there is no protection, or name the task of the administrator."""
        threats = rows(party)

        assert len(threats) >= 5
        for threat, answer, tests in threats:
            proven = TEST.findall(tests) != []
            assert proven or (tests == "none" and answer.startswith("Not ")), threat

    def test_each_named_test_exists(self):
        """A class that was renamed proves nothing."""
        for name, path in TEST.findall(PAGE):
            assert re.search(rf"^class {name}\b", (ROOT / path).read_text(), re.MULTILINE), (name, path)
