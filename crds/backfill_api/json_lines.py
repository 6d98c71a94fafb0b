"""Log lines as JSON objects, for the processes of a cluster: the operator and its drivers."""

from __future__ import annotations

import json
import logging
import sys
from types import TracebackType
from typing import Any, Final, TextIO

MESSAGE_CHARACTERS_MAX: Final = 8192

_log = logging.getLogger("backfill")


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object: time, level, logger, message, error."""

    def context(self, record: logging.LogRecord) -> dict[str, Any]:  # noqa: ARG002 - for subclasses
        """Return further fields of the line."""
        return {}

    def format(self, record: logging.LogRecord) -> str:
        """Return one line; its content cannot start another line."""
        line: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{record.msecs:03.0f}",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage()[:MESSAGE_CHARACTERS_MAX],
        }
        line |= self.context(record)
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)[-MESSAGE_CHARACTERS_MAX:]
        return json.dumps(line, default=str)


def write_json(level: str, formatter: JsonLines, stream: TextIO | None = None) -> None:
    """Write all logs of this process, including those of libraries, as JSON lines."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(formatter)
    handler.setLevel(level)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)


def log_what_python_prints() -> None:
    """Log warnings and uncaught exceptions, which Python prints as text. For the whole process."""
    logging.captureWarnings(True)

    def uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        _log.critical("the process ends: %s", kind.__name__, exc_info=(kind, error, trace))

    def ignored(found: sys.UnraisableHookArgs) -> None:
        error = found.exc_value
        exc_info = None if error is None else (type(error), error, found.exc_traceback)
        _log.error("%s: %r", found.err_msg or "an exception is ignored in", found.object, exc_info=exc_info)

    sys.excepthook = uncaught
    sys.unraisablehook = ignored
