"""What a user can meet is explained. That generated files are fresh is for `make check` to say."""

import pytest
from support.repository import ROOT

from backfill import control as client
from backfill_core import errors
from backfill_spark import settings

PAGE = (ROOT / "docs" / "errors.md").read_text()


def of(*modules):
    """Return the errors of modules that have a reason of their own."""
    kinds = [kind for module in modules for kind in vars(module).values() if isinstance(kind, type)]
    found = {kind for kind in kinds if issubclass(kind, errors.BackfillError) and kind is not errors.BackfillError}
    return sorted((kind for kind in found if "reason" in vars(kind)), key=lambda kind: kind.__name__)


RUN = of(errors)
CLASSES = of(errors, client, settings)
COMMAND = [kind for kind in CLASSES if kind not in RUN]


class TestErrors:
    """The reason is what a user searches for."""

    @pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
    def test_a_reason_is_explained(self, kind):
        """With its exit code and a hint."""
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{kind.reason}` "))
        _, _, code, retryable, meaning, hint, _ = row.split("|")

        assert int(code) == kind.exit_code
        assert retryable.strip() == ("yes" if kind.retryable else "no")
        assert len(meaning.split()) > 3
        assert len(hint.split()) > 3

    def test_a_reason_names_one_error(self):
        """Two errors under one word could not be told apart."""
        reasons = [kind.reason for kind in CLASSES]

        assert sorted(set(reasons)) == sorted(reasons)

    @pytest.mark.parametrize("kind", COMMAND, ids=lambda kind: kind.__name__)
    def test_a_command_ends_with_a_code_below_those_of_runs(self, kind):
        """A script must be able to tell `no job is running` from `the run failed`."""
        assert 2 <= kind.exit_code < 10
        assert f"\n| {kind.exit_code} | " in PAGE

    @pytest.mark.parametrize("kind", RUN, ids=lambda kind: kind.__name__)
    def test_an_exit_code_says_whether_to_retry(self, kind):
        """The operator classifies a dead driver by this number alone."""
        assert kind.retryable == (60 <= kind.exit_code < 80)
        assert kind.retryable or 20 <= kind.exit_code < 60
