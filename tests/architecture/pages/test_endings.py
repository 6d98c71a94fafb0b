"""A test on real components provokes each reason of docs/errors.md, and asserts its hint and its retry class too."""

import ast
import re
import tomllib
from functools import cache

from support.repository import ROOT

PAGE = ROOT / "docs" / "errors.md"
BY_STEP = ROOT / "tests" / "spark" / "driver" / "test_errors_by_step.py"
RAISED = ROOT / "build-tools" / "raised.toml"
WITHOUT_THE_REAL_THING = ("api", "architecture", "core", "simulation", "support")


def reasons_of_the_page():
    """Return the reasons that the page explains, of runs and of commands, and of each step."""
    page = PAGE.read_text()
    return {
        *re.findall(r"^\| `(\w+)` \| \d+ \|", page, re.MULTILINE),
        *re.findall(r"\| `(\w+)` \|$", page, re.MULTILINE),
    }


def asserted(tree):
    """Yield the reasons that calls of `assert_ending` name."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "assert_ending":
            yield call.args[1]


@cache
def provoked():
    """Return the reasons that tests outside the core assert, each as a literal or as a row of the table of steps."""
    reasons = set()
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        if file.relative_to(ROOT / "tests").parts[0] in WITHOUT_THE_REAL_THING:
            continue
        if "assert_ending" in (text := file.read_text()):
            named = asserted(ast.parse(text))
            reasons |= {reason.value for reason in named if isinstance(reason, ast.Constant)}
    if any(ast.unparse(reason) == "ROWS[row]" for reason in asserted(ast.parse(BY_STEP.read_text()))):
        steps = tomllib.loads(RAISED.read_text()).values()
        reasons |= {reason for rows in steps for _, reason in rows.values()}
    return reasons


class TestEveryReason:
    """A test meets every reason of the page before a user does."""

    def test_every_reason_is_provoked_by_a_test(self):
        """A reason is a promise about the end of a run and the options of its user."""
        assert sorted(reasons_of_the_page() - provoked()) == []

    def test_every_reason_of_a_test_is_on_the_page(self):
        """A test of a renamed reason asserts nothing about the new one."""
        assert sorted(provoked() - reasons_of_the_page()) == []
