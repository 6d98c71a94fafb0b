"""Exceptions of the JVM, in each form in which they reach Python, and the meaning of their texts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

JAVA_ERRORS = (Py4JJavaError, CapturedException)
"""pyspark turns some of the JVM's exceptions into its own."""

CAUSES_MAX = 12
WORDS_CHARACTERS_MAX = 400
"""Of the first words of an exception."""

FIRST_WORDS_CHARACTERS = 4096
"""So much is searched for values of rows: no name of a folder is as long, even percent-encoded."""

NO_ROOM = ("No space left", "Disk quota exceeded", "File too large")
NO_ACCESS = ("AccessControlException", "AccessDenied", "Permission denied")

RAISED = "P0001"
"""SQLSTATE of what an expression raises itself."""

RAISED_BY_US = "backfill: "
"""Begins the message of a `raise_error` that the product adds to a query: it is about a row, and no failure of a transform."""

_ROW_CONDITIONS = (
    "DUPLICATED_MAP_KEY",
    "INVALID_FORMAT.MISMATCH_INPUT",
    "MALFORMED_CSV_RECORD",
    "INCONSISTENT_BEHAVIOR_CROSS_VERSION",
    "FAILED_EXECUTE_UDF",
    "EXCEED_LIMIT_LENGTH",
)
"""Of a row's values too, under SQLSTATEs that are not about data."""

_SAID = re.compile(r"\[([A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
_STATE = re.compile(r"SQLSTATE: (\w{5})")
_SQL = re.compile(r"\n== SQL[^\n]*==\n([^\n]+)\n")
_FOLDER = re.compile(r"(?<=/)([^/=\s]+)=[^/\n]*(?=/)")


@dataclass(frozen=True, slots=True)
class RowFailure:
    """A row that an expression could not compute, without its values."""

    condition: str
    state: str
    sql: str
    """The line of SQL that failed, as the spec has it; empty where Spark does not name it."""


def row_failure(error: Exception) -> RowFailure | None:
    """Return what kept an expression from computing a row; None when that was not the matter, or the product raised it itself."""
    for _, message in causes(error):
        said, state = _SAID.match(message.strip()), _STATE.search(message)
        if said is None or state is None:
            continue
        if state[1] == RAISED and RAISED_BY_US in message:
            continue
        if state[1].startswith("22") or state[1] == RAISED or said[1].startswith(_ROW_CONDITIONS):
            line = _SQL.search(message)
            return RowFailure(said[1], state[1], line[1].strip() if line else "")
    return None


def without_values(text: str) -> str:
    """Return text without the values that stand in the names of folders: `/day=2024-01-01/` is a value of a row."""
    return _FOLDER.sub(r"\1=…", text)


def causes(error: Exception) -> list[tuple[str, str]]:
    """Return (class name, message) of a Java exception and its causes, outermost first."""
    found: list[tuple[str, str]] = []
    one: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while one is not None and len(found) < CAUSES_MAX:
        found.append((one.getClass().getName(), str(one.getMessage() or "")))
        one = one.getCause()
    return found or [(type(error).__name__, str(error))]


def is_a(error: Exception, name: str) -> bool:
    """Is the exception, or one of its causes, of the class with this simple name?"""
    return any(class_name.endswith(name) for class_name, _ in causes(error))


def is_no_table(error: Exception) -> bool:
    """Did Kernel find no commit in a folder's log?"""
    return is_a(error, "TableNotFoundException") or (
        is_a(error, "InvalidTableException")
        and "No complete checkpoint found and no delta files found" in whole_text(error)
    )


def whole_text(error: Exception) -> str:
    """Return the texts of an exception and of its causes, one a line."""
    return "\n".join([str(error), *(f"{class_name}: {text}" for class_name, text in causes(error))])


def _shortened(text: str) -> str:
    return without_values(text[:FIRST_WORDS_CHARACTERS])[:WORDS_CHARACTERS_MAX]


def first_line(error: Exception) -> str:
    """Return the first words of an exception, shortened; of py4j's own, whose first words only name a call, the JVM's."""
    if isinstance(error, Py4JJavaError):
        said = [f"{name.rpartition('.')[2]}: {text.strip().partition(chr(10))[0]}" for name, text in causes(error)]
        return _shortened(said[0] if len(said) == 1 else f"{said[0]}; caused by {said[-1]}")
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return _shortened(lines[0] if lines else type(error).__name__)
