"""The `backfill` command in this process, and drivers without Spark that it finds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from support.drivers.fake_driver import ScriptedJob

from backfill_cli.__main__ import cli
from backfill_spark.control.local_registry import LocalRegistry


@contextmanager
def running(state_dir: Path, job_id: str = "default/job", **script: Any) -> Iterator[ScriptedJob]:
    """A driver of a job that can be found."""
    with LocalRegistry(state_dir, job_id) as registry, ScriptedJob(**script) as job:
        registry.publish(url=job.server.url, token=job.token, attempt=job.attempt)
        yield job


def backfill(*words: object, text: str | None = None) -> Result:
    """What `backfill WORDS` prints and ends with; `text` is its standard input."""
    return CliRunner().invoke(
        cli, [str(word) for word in words], input=text, catch_exceptions=False, prog_name="backfill"
    )
