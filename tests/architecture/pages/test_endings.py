"""Each reason of docs/errors.md is provoked by a test on the real thing, which asserts its hint and its retry class too."""

import ast
import re
import tomllib

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
    """Yield what calls of `assert_ending` name as the reason."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "assert_ending":
            yield call.args[1]


def provoked():
    """Return the reasons that tests outside of the core assert, each by a literal or by its row of the table of steps."""
    found = set()
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        if file.relative_to(ROOT / "tests").parts[0] not in WITHOUT_THE_REAL_THING:
            named = asserted(ast.parse(file.read_text()))
            found |= {reason.value for reason in named if isinstance(reason, ast.Constant)}
    if any(ast.unparse(reason) == "ROWS[row]" for reason in asserted(ast.parse(BY_STEP.read_text()))):
        steps = tomllib.loads(RAISED.read_text()).values()
        found |= {reason for rows in steps for _, reason in rows.values()}
    return found


class TestEveryReason:
    """Of the page is met in a test before a user meets it."""

    def test_is_provoked_by_a_test(self):
        """A reason is a promise about what a run ends with, and what its user can do."""
        assert sorted(reasons_of_the_page() - provoked()) == []

    def test_that_a_test_names_is_on_the_page(self):
        """A test of a reason that was renamed asserts nothing about the new one."""
        assert sorted(provoked() - reasons_of_the_page()) == []
