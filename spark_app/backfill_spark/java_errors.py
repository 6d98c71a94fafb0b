"""What the JVM's exceptions say, whichever way they reach Python, and what their words mean."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

JAVA_ERRORS = (Py4JJavaError, CapturedException)
"""pyspark turns some of the JVM's exceptions into its own."""

CAUSES_MAX = 12
NO_ROOM = ("No space left", "Disk quota exceeded", "File too large")
NO_ACCESS = ("AccessControlException", "AccessDenied", "Permission denied")


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
    """Does Kernel say that a folder's log has no commit, whatever else is in it?"""
    return is_a(error, "TableNotFoundException") or (
        is_a(error, "InvalidTableException")
        and "No complete checkpoint found and no delta files found" in whole_text(error)
    )


def whole_text(error: Exception) -> str:
    """Return all that an exception and its causes say, one a line."""
    return "\n".join([str(error), *(f"{class_name}: {text}" for class_name, text in causes(error))])


def first_line(error: Exception) -> str:
    """Return the first words of an exception, shortened; of py4j's own, whose first words only name a call, the JVM's."""
    if isinstance(error, Py4JJavaError):
        said = [f"{name.rpartition('.')[2]}: {text.strip().partition(chr(10))[0]}" for name, text in causes(error)]
        return (said[0] if len(said) == 1 else f"{said[0]}; caused by {said[-1]}")[:400]
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:400]


def is_no_room(text: str) -> bool:
    """Do the words of an exception say that the storage is full?"""
    return any(words in text for words in NO_ROOM)


def is_no_access(text: str) -> bool:
    """Do the words of an exception say that this user may not?"""
    return any(words in text for words in NO_ACCESS)
