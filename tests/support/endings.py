"""Endings of jobs and commands: each reason of docs/errors.md comes with its exit code, its retry class and a hint.

`tests/architecture/pages/test_endings.py` finds the calls of `assert_ending`: a reason without one is provoked by no test.
"""

import re
from collections.abc import Mapping

from backfill_core.errors import BackfillError, TransientError, UnexpectedError
from backfill_core.lifecycle.inputs import termination


def kinds():
    """Return the class of each reason, of every module that is imported; of a reason with several, the one that names it."""
    found, waiting = {UnexpectedError.reason: UnexpectedError}, [BackfillError]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            if "reason" in vars(kind):
                found[kind.reason] = kind
            waiting.append(kind)
    return found


def assert_ending(ended, reason, exit_code=None):
    """Assert that something ended for a reason of docs/errors.md, as that page says, and tells its user what to do.

    Args:
        ended: An error of ours, an outcome, the last line of a driver as a mapping, or a command with `stderr` and its exit code.
        reason: What the page calls it; a literal, so that it counts as provoked.
        exit_code: Of the process, where `ended` is a line of it.
    """
    kind = kinds()[reason]
    if hasattr(ended, "stderr"):
        line, _, hint = ended.stderr.partition("hint: ")
        named = re.search(r"^error: (\w+): ", line, re.MULTILINE)
        found, code = (named and named[1], hint), ended.exit_code
    elif isinstance(ended, Mapping):
        found, code = (ended["reason"], ended["hint"]), exit_code
    else:
        found, code = (ended.reason, ended.hint), ended.exit_code
    assert found[0] == reason, ended
    # Of what may pass the page has the hint: the driver itself tries again.
    assert found[1].strip() or kind is TransientError, f"{reason} comes without a hint: {ended}"
    assert code == kind.exit_code
    if isinstance(ended, BackfillError):
        assert ended.retryable == kind.retryable
    elif code >= 20:
        assert termination.BY_CODE[code].retryable == kind.retryable
