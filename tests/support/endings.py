"""Endings of jobs and commands: each reason of docs/errors.md comes with its exit code, its retry class and a hint.

`tests/architecture/pages/test_endings.py` finds the calls of `assert_ending`: a reason without a call is provoked by no test.
"""

import re
from collections.abc import Mapping

from backfill_core.errors import BackfillError, TransientError, UnexpectedError
from backfill_core.lifecycle.inputs import termination


def kinds():
    """Return the class of each reason, from all imported modules; if several classes share a reason, the one that names it."""
    classes, waiting = {UnexpectedError.reason: UnexpectedError}, [BackfillError]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            if "reason" in vars(kind):
                classes[kind.reason] = kind
            waiting.append(kind)
    return classes


def assert_ending(ended, reason, exit_code=None):
    """Assert that something ended for a reason of docs/errors.md with that page's exit code, retry class and a hint.

    Args:
        ended: A `BackfillError`, an outcome, the last line of a driver as a mapping, or a command with `stderr` and its exit code.
        reason: Name on the page; a literal, so that it counts as provoked.
        exit_code: Exit code of the process, if `ended` is a line of it.
    """
    kind = kinds()[reason]
    if hasattr(ended, "stderr"):
        line, _, hint = ended.stderr.partition("hint: ")
        named = re.search(r"^error: (\w+): ", line, re.MULTILINE)
        actual, code = (named and named[1], hint), ended.exit_code
    elif isinstance(ended, Mapping):
        actual, code = (ended["reason"], ended["hint"]), exit_code
    else:
        actual, code = (ended.reason, ended.hint), ended.exit_code
    assert actual[0] == reason, ended
    # A transient error has its hint on the page: the driver itself retries.
    assert actual[1].strip() or kind is TransientError, f"{reason} has no hint: {ended}"
    assert code == kind.exit_code
    if isinstance(ended, BackfillError):
        assert ended.retryable == kind.retryable
    elif code >= 20:
        # A code that no driver uses has the class of its range.
        driver = termination.BY_CODE.get(code)
        assert (60 <= code < 80 if driver is None else driver.retryable) == kind.retryable
