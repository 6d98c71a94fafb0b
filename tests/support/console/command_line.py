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
    """Yield a driver of a job that the command finds."""
    with LocalRegistry(state_dir, job_id) as registry, ScriptedJob(**script) as job:
        registry.publish(url=job.server.url, token=job.token, attempt=job.attempt)
        yield job


def backfill(*arguments: object, text: str | None = None) -> Result:
    """Return the output and exit code of `backfill WORDS`; `text` is its standard input."""
    return CliRunner().invoke(
        cli, [str(argument) for argument in arguments], input=text, catch_exceptions=False, prog_name="backfill"
    )
