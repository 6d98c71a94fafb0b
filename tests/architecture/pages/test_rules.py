"""A test cites every rule of the ported executors, or the rule has the reason why it cannot apply."""

import pytest
from support.repository import program

page = program("rules")
SECTIONS = page.sections()
CITED = page.citations()
TESTED = {rule for rule, cited in CITED.items() if cited.tests}
CODED = {rule for rule, cited in CITED.items() if cited.code}
RULES = {rule for section in SECTIONS for rule in section.rules}
BUILT = [(rule, section) for section in SECTIONS if section.built for rule in section.rules]
NUMBERS = {"ARR": 43, "SNAP": 48, "CHAIN": 16, "SRC": 44, "PROG": 8, "PART": 6}


class TestTheRules:
    """No rule of the specification is left out silently."""

    def test_all_rules_are_listed(self):
        """Every check below would miss a rule that is not in the list."""
        assert {f"R-{kind}-{number + 1}" for kind, last in NUMBERS.items() for number in range(last)} == RULES

    @pytest.mark.parametrize(("rule", "section"), BUILT, ids=[rule for rule, _ in BUILT])
    def test_a_rule_of_a_built_strategy_is_tested_or_explained(self, rule, section):
        """A test of the strategy cites the rule (one of a reference machine does not count), or the rule has a reason."""
        assert rule in {*section.reasons, *TESTED}, (
            f"cite it in a test of {section.title}, or give the reason in its README"
        )

    @pytest.mark.parametrize(("rule", "section"), BUILT, ids=[rule for rule, _ in BUILT])
    def test_a_rule_of_a_built_strategy_has_its_place_in_the_code(self, rule, section):
        """A reader who looks up a rule finds the code that follows it."""
        assert rule in {*section.reasons, *CODED}, (
            f"cite it in the code of {section.title}, or give the reason in its README"
        )

    def test_no_rule_is_invented(self):
        """A mistyped number would count as a citation of nothing."""
        given = {rule for path in page.READMES.glob("*/README.md") for rule, _ in page.reasons_of(path.read_text())}

        assert (set(CITED) | given) - RULES == set()

    def test_a_reason_is_a_sentence(self):
        """`n/a` explains nothing."""
        reasons = {rule: reason for section in SECTIONS for rule, reason in section.reasons.items()}

        assert {rule: reason for rule, reason in reasons.items() if len(reason.split()) < 4} == {}


class TestACitation:
    """Short forms count too: otherwise half of the citations would be lost."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("R-SNAP-7: it goes on", ["R-SNAP-7"]),
            ("(R-ARR-13, 17 and 21)", ["R-ARR-13", "R-ARR-17", "R-ARR-21"]),
            ("R-SNAP-3/5/24, R-CHAIN-2", ["R-SNAP-3", "R-SNAP-5", "R-SNAP-24", "R-CHAIN-2"]),
            ("R-SRC-12 to 14 and 17", ["R-SRC-12", "R-SRC-13", "R-SRC-14", "R-SRC-17"]),
            ("R-SNAP-23 to R-SNAP-25, R-ARR-2", ["R-SNAP-23", "R-SNAP-24", "R-SNAP-25", "R-ARR-2"]),
            ("the rule of R-SRC", []),
        ],
    )
    def test_a_citation_is_read_in_full(self, text, expected):
        """A citation has the id of its executor, then one number or several."""
        assert page.ids(text) == expected

    def test_a_citation_counts_only_in_the_name_or_the_docstring_of_a_test(self):
        """A helper or a comment once cited rules that no test asserts (fault M6)."""
        module = '''
"""R-SRC-1."""
RULE = "R-SRC-2"
class TestIt:
    """R-SRC-3."""
    def test_it(self):  # R-SRC-4
        """R-SRC-5."""
        assert RULE, "R-SRC-6"
def helper():
    """R-SRC-7."""
'''
        assert [rule for text in page.tested(module) for rule in page.ids(text)] == ["R-SRC-5"]
