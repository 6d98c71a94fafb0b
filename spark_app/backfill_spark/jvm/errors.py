"""Exceptions of the JVM, in each form in which they reach Python, and the meaning of their messages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

JAVA_ERRORS = (Py4JJavaError, CapturedException)
"""Types of JVM exceptions in Python; pyspark converts some of them to its own classes."""

CAUSES_MAX = 12
WORDS_CHARACTERS_MAX = 400
"""Maximum length of the first line of an exception."""

FIRST_WORDS_CHARACTERS = 4096
"""Number of characters that are searched for values of rows; no folder name is that long, even percent-encoded."""

NO_ROOM = ("No space left", "Disk quota exceeded", "File too large")
NO_ACCESS = ("AccessControlException", "AccessDenied", "Permission denied")

RAISED = "P0001"
"""SQLSTATE of errors that an expression raises itself."""

RAISED_BY_US = "backfill: "
"""Prefix of the message of a `raise_error` that backfill adds to a query: it concerns a row, and is not a failure of the transform."""

_ROW_CONDITIONS = (
    "DUPLICATED_MAP_KEY",
    "INVALID_FORMAT.MISMATCH_INPUT",
    "MALFORMED_CSV_RECORD",
    "INCONSISTENT_BEHAVIOR_CROSS_VERSION",
    "FAILED_EXECUTE_UDF",
    "EXCEED_LIMIT_LENGTH",
)
"""Conditions that also concern a row's values, although their SQLSTATEs are not about data."""

_CONDITION = re.compile(r"\[([A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
_STATE = re.compile(r"SQLSTATE: (\w{5})")
_SQL = re.compile(r"\n== SQL[^\n]*==\n([^\n]+)\n")
_FOLDER = re.compile(r"(?<=/)([^/=\s]+)=[^/\n]*(?=/)")


@dataclass(frozen=True, slots=True)
class RowFailure:
    """A row for which an expression failed, without the row's values."""

    condition: str
    state: str
    sql: str
    """The line of the spec's SQL that failed; empty if Spark does not report it."""


def row_failure(error: Exception) -> RowFailure | None:
    """Return the failure of an expression for a row; `None` for other errors, and for errors that backfill's queries raise themselves."""
    for _, message in causes(error):
        condition, state = _CONDITION.match(message.strip()), _STATE.search(message)
        if condition is None or state is None:
            continue
        if state[1] == RAISED and RAISED_BY_US in message:
            continue
        if state[1].startswith("22") or state[1] == RAISED or condition[1].startswith(_ROW_CONDITIONS):
            line = _SQL.search(message)
            return RowFailure(condition[1], state[1], line[1].strip() if line else "")
    return None


def without_values(text: str) -> str:
    """Return text without values of rows in folder names, such as `/day=2024-01-01/`."""
    return _FOLDER.sub(r"\1=…", text)


def causes(error: Exception) -> list[tuple[str, str]]:
    """Return (class name, message) of a Java exception and its causes, outermost first."""
    chain: list[tuple[str, str]] = []
    cause: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while cause is not None and len(chain) < CAUSES_MAX:
        chain.append((cause.getClass().getName(), str(cause.getMessage() or "")))
        cause = cause.getCause()
    return chain or [(type(error).__name__, str(error))]


def is_a(error: Exception, name: str) -> bool:
    """Return True if the exception or one of its causes has a class whose name ends with `name`."""
    return any(class_name.endswith(name) for class_name, _ in causes(error))


def is_no_table(error: Exception) -> bool:
    """Return True if Kernel found no commit in a folder's log."""
    return is_a(error, "TableNotFoundException") or (
        is_a(error, "InvalidTableException")
        and "No complete checkpoint found and no delta files found" in whole_text(error)
    )


def whole_text(error: Exception) -> str:
    """Return the messages of an exception and of its causes, one per line."""
    return "\n".join([str(error), *(f"{class_name}: {text}" for class_name, text in causes(error))])


def _shortened(text: str) -> str:
    return without_values(text[:FIRST_WORDS_CHARACTERS])[:WORDS_CHARACTERS_MAX]


def first_line(error: Exception) -> str:
    """Return the first line of an exception, shortened; for py4j's own exception, which only names a call, that of the JVM's exception."""
    if isinstance(error, Py4JJavaError):
        chain = [f"{name.rpartition('.')[2]}: {text.strip().partition(chr(10))[0]}" for name, text in causes(error)]
        return _shortened(chain[0] if len(chain) == 1 else f"{chain[0]}; caused by {chain[-1]}")
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return _shortened(lines[0] if lines else type(error).__name__)
