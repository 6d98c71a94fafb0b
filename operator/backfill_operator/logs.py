"""Log lines as JSON objects, with their job, attempt and epoch."""

from __future__ import annotations

import contextvars
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TextIO

_CONTEXT: contextvars.ContextVar[dict[str, Any] | None] = contextvars.ContextVar("log_context", default=None)
FIELDS: Final = ("job", "attempt", "epoch")
MESSAGE_CHARACTERS_MAX: Final = 8192


@contextmanager
def log_context(job: str, *, attempt: int | None = None, epoch: int | None = None) -> Iterator[None]:
    """Add the job, attempt and epoch to every line within the block."""
    given = {"job": job, "attempt": attempt, "epoch": epoch}
    token = _CONTEXT.set({name: value for name, value in given.items() if value is not None})
    try:
        yield
    finally:
        _CONTEXT.reset(token)


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object: time, level, logger, message, context, error."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line; its content cannot start another line."""
        line: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{record.msecs:03.0f}",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage()[:MESSAGE_CHARACTERS_MAX],
        }
        line |= _CONTEXT.get() or {}
        line |= {name: value for name in FIELDS if (value := getattr(record, name, None)) is not None}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)[-MESSAGE_CHARACTERS_MAX:]
        return json.dumps(line, default=str)


def configure_logging(level: str, stream: TextIO | None = None) -> None:
    """Write all logs of this process, including those of libraries, as JSON lines."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    handler.setLevel(level)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # kopf logs every object at INFO, which is too much for ten thousand objects.
    logging.getLogger("kopf.objects").setLevel(max(logging.WARNING, root.level))
