"""One JSON object a line, with the job, the attempt and the epoch that it is about."""

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
    """Say, within the block, what every line is about."""
    given = {"job": job, "attempt": attempt, "epoch": epoch}
    token = _CONTEXT.set({name: value for name, value in given.items() if value is not None})
    try:
        yield
    finally:
        _CONTEXT.reset(token)


class JsonLines(logging.Formatter):
    """Time, level, logger, message; what it is about; what was raised."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line; nothing in it can begin another."""
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
    """Write everything of this process, libraries included, as JSON lines."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    handler.setLevel(level)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # kopf says at INFO what it does for every object; with ten thousand of them that is not information.
    logging.getLogger("kopf.objects").setLevel(max(logging.WARNING, root.level))
