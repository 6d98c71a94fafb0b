"""Strings of tables and of other programs do not control the terminal of a user."""

import io

from backfill import Outcome
from backfill_api.status.progress import Progress
from backfill_cli.commands.options import say_error, terminal
from backfill_cli.commands.run import conclude
from backfill_console.formatting import one_line

HOSTILE = "column a\x1b]52;c;cm0gLXJm\x07\x1b[2Jb\r\u202e is missing"
"""A name that writes to the clipboard, clears the screen and reverses the line; a table may have a column of this name."""


def test_error_shows_a_hostile_name_without_its_controls():
    """A user who may write to a source would write to the terminal of the user who copies it."""
    stream = io.StringIO()
    say_error("SchemaChanged", HOSTILE, HOSTILE, console=terminal(stream))

    shown = stream.getvalue()
    assert "column a ]52;c;cm0gLXJm [2Jb  is missing" in shown
    assert not set("\x1b\x07\r\u202e") & set(shown)
    assert len(shown.splitlines()) == 2


def test_line_of_a_log_shows_a_hostile_reason_without_its_controls():
    """`jobs`, `status -o yaml --watch` and a script print it."""
    shown = one_line(Progress(attempt=1, reason=HOSTILE, warnings=(HOSTILE,)))

    assert shown.isprintable()
    assert shown.count("is missing") == 2


def test_outcome_shows_a_hostile_message_without_its_controls():
    """It is the last line of a run."""
    stream = io.StringIO()
    conclude(terminal(stream), Outcome("Stopped", "Stopped", HOSTILE, None, None, None, 1.0), None, 1.0)

    assert not set("\x1b\x07\r\u202e") & set(stream.getvalue())
