"""Targets: one folder per kind. Discovery finds the folders; no list names them.

A folder's `__init__` defines `SINK` and does not import Spark; `open` loads the modules that take a second to import.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from backfill_api import plugins
from backfill_api.spec.spec import Backfill
from backfill_spark.ports.sink import Quarantine, Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class SinkPlugin:
    """One kind of target."""

    name: str
    """Its `spec.target.type`."""

    open: Callable[[SparkSession, Backfill], Sink]
    """Create the sink of a job; writes nothing."""

    code: Callable[[], type[Sink]]
    """Load the class that `open` creates; it implements the abilities that the `VARIANT` declares."""

    quarantine: Callable[[SparkSession, Backfill, str], Quarantine] | None = None
    """Create the table at a path for the bad records of a job; writes nothing. `None` if such targets have no such table."""


def discover() -> Mapping[str, SinkPlugin]:
    """Return all kinds of targets by `spec.target.type`."""
    return plugins.discover(__name__, __path__, group="backfill.sinks", attribute="SINK", kind=SinkPlugin)
