"""What a Python program can call is on one page, and the page's first example is whole."""

import ast
import re

import pytest
from support.repository import ROOT

import backfill
from backfill import Backfill, errors

PAGE = (ROOT / "docs" / "python.md").read_text()
METHODS = [name for name in vars(Backfill) if not name.startswith("_")]
INTERNAL = {"shown_by", "document", "spec", "job_id", "log_file", "check_sql"}
"""For views of one's own, and looked at rather than called."""


class TestThePage:
    """A name that only autocompletion knows is found by chance."""

    @pytest.mark.parametrize("method", [*sorted({*METHODS, "pause", "resume", "throttle", "stop"} - INTERNAL)])
    def test_names_every_call(self, method):
        """As it is typed, on a job or on the class."""
        assert re.search(rf"(?:job|Backfill)\.{method}\(", PAGE)

    def test_begins_with_an_example_that_needs_nothing_else(self):
        """It can be copied: it imports all that it uses, and parses."""
        tree = ast.parse(re.search(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)[1])

        imported = {one.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for one in node.names}
        assert imported <= set(backfill.__all__)
        assert {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} <= imported | {
            "spark", "job", "plan", "outcome", "print",
        }  # fmt: skip


class TestTheErrors:
    """One module has them all, and they are the driver's own classes."""

    def test_a_class_of_the_driver_is_the_same_class(self):
        """An `except` of one catches the other."""
        from backfill_core.errors import SourceNotFoundError

        assert errors.SourceNotFoundError is SourceNotFoundError
        assert all(
            issubclass(getattr(errors, name), errors.BackfillError) for name in dir(errors) if name.endswith("Error")
        )
