"""What is generated is fresh, and what a user can meet is explained."""

import subprocess
import sys

import pytest
from support.house import ROOT

from backfill_core import errors

PAGE = (ROOT / "docs" / "errors.md").read_text()
CLASSES = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.BackfillError) and kind is not errors.BackfillError
]


class TestGeneratedFiles:
    """Nobody edits them, so nobody's edit is lost."""

    def test_they_are_fresh(self):
        """`make docs` writes them."""
        command = [sys.executable, "build-tools/generate.py", "--check"]

        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

        assert done.returncode == 0, done.stderr


class TestErrors:
    """The reason is what a user searches for."""

    @pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
    def test_a_reason_is_explained(self, kind):
        """With its exit code and a cure."""
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{kind.reason}` "))
        _, _, code, retryable, meaning, cure, _ = row.split("|")

        assert int(code) == kind.exit_code
        assert retryable.strip() == ("yes" if kind.retryable else "no")
        assert len(meaning.split()) > 3
        assert len(cure.split()) > 3

    def test_a_reason_names_one_error(self):
        """Two errors under one word could not be told apart."""
        reasons = [kind.reason for kind in CLASSES]

        assert sorted(set(reasons)) == sorted(reasons)

    @pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
    def test_an_exit_code_says_whether_to_retry(self, kind):
        """The operator classifies a dead driver by this number alone."""
        assert kind.retryable == (60 <= kind.exit_code < 80)
        assert kind.retryable or 20 <= kind.exit_code < 60
