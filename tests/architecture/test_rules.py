"""Every rule of the executor that this strategy ports is cited by a test, or listed with the reason why it cannot apply."""

import re

import pytest
from support.repository import CORE, ROOT

README = CORE / "strategies" / "snapshot" / "README.md"
RULES = [f"R-SNAP-{number}" for number in range(1, 49)]
TESTS = [path for path in (ROOT / "tests").rglob("*.py") if path.parent.name != "architecture"]
CITED = {rule for path in TESTS for rule in re.findall(r"R-SNAP-\d+", path.read_text())}


def reasons():
    """Return the rules of the README's table with their reasons; a row may name several."""
    rows = [row.strip("| ").split("|", 1) for row in README.read_text().splitlines() if row.startswith("| R-SNAP-")]
    return {rule: row[1].strip() for row in rows for rule in re.findall(r"R-SNAP-\d+", row[0])}


class TestTheRules:
    """Nothing of the specification was forgotten in silence."""

    @pytest.mark.parametrize("rule", RULES)
    def test_a_rule_is_tested_or_explained(self, rule):
        """A test that cites it, or a sentence in the strategy's README."""
        assert rule in CITED or rule in reasons()

    def test_a_reason_is_a_sentence(self):
        """`n/a` explains nothing."""
        assert {rule: reason for rule, reason in reasons().items() if len(reason.split()) < 4} == {}

    def test_no_rule_is_invented(self):
        """A mistyped number would count as a citation of nothing."""
        assert (CITED | set(reasons())) - set(RULES) == set()
