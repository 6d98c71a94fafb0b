"""Log lines as JSON objects, with their job, attempt and epoch."""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TextIO

from backfill_api.json_lines import JsonLines, write_json

_CONTEXT: contextvars.ContextVar[dict[str, Any] | None] = contextvars.ContextVar("log_context", default=None)
FIELDS: Final = ("job", "attempt", "epoch")


@contextmanager
def log_context(job: str, *, attempt: int | None = None, epoch: int | None = None) -> Iterator[None]:
    """Add the job, attempt and epoch to every line within the block."""
    given = {"job": job, "attempt": attempt, "epoch": epoch}
    token = _CONTEXT.set({name: value for name, value in given.items() if value is not None})
    try:
        yield
    finally:
        _CONTEXT.reset(token)


class LinesOfJobs(JsonLines):
    """Adds the job, attempt and epoch."""

    def context(self, record: logging.LogRecord) -> dict[str, Any]:
        """Return the context of the block, and that of the record."""
        return (_CONTEXT.get() or {}) | {
            name: value for name in FIELDS if (value := getattr(record, name, None)) is not None
        }


def configure_logging(level: str, stream: TextIO | None = None) -> None:
    """Write all logs of this process, including those of libraries, as JSON lines."""
    write_json(level, LinesOfJobs(), stream)
    # kopf logs every object at INFO, which is too much for ten thousand objects.
    logging.getLogger("kopf.objects").setLevel(max(logging.WARNING, logging.getLogger().level))
