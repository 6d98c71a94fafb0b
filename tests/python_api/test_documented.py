"""docs/python.md lists all calls of the Python API, and its first example is complete."""

import ast
import re

import pytest
from support.repository import ROOT

import backfill
from backfill import Backfill, errors

PAGE = (ROOT / "docs" / "python.md").read_text()
METHODS = [name for name in vars(Backfill) if not name.startswith("_")]
INTERNAL = {"shown_by", "document", "spec", "job_id", "log_file", "check_sql"}
"""For custom views, or attributes that are read instead of called."""


class TestThePage:
    """Users discover a name that only autocompletion offers by chance."""

    @pytest.mark.parametrize("method", [*sorted({*METHODS, "pause", "resume", "throttle", "stop"} - INTERNAL)])
    def test_the_page_names_every_call(self, method):
        """The page shows it as a user types it, on a job or on the class."""
        assert re.search(rf"(?:job|Backfill)\.{method}\(", PAGE)

    def test_the_page_starts_with_a_complete_example(self):
        """A user can copy it: it imports all names that it uses, and parses."""
        tree = ast.parse(re.search(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)[1])

        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
        assert imported <= set(backfill.__all__)
        assert {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} <= imported | {
            "spark", "job", "plan", "outcome", "print",
        }  # fmt: skip


class TestTheErrors:
    """One module exports all errors, and they are the driver's own classes."""

    def test_a_class_of_the_driver_is_the_same_class(self):
        """An `except` of one catches the other."""
        from backfill_core.errors import SourceNotFoundError

        assert errors.SourceNotFoundError is SourceNotFoundError
        assert all(
            issubclass(getattr(errors, name), errors.BackfillError) for name in dir(errors) if name.endswith("Error")
        )
