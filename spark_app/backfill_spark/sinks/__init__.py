"""Where rows go: one folder a kind of target, found by discovery, never listed.

A folder's `__init__` holds `SINK` and imports no Spark: what costs a second to import is loaded by `open`.
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
    """Make the sink of a job; writes nothing."""

    code: Callable[[], type[Sink]]
    """Load the class that `open` makes: it has what the `VARIANT` promises."""

    quarantine: Callable[[SparkSession, Backfill, str], Quarantine] | None = None
    """Make the table at a path for the bad records of a job; writes nothing. None: such targets have none."""


def discover() -> Mapping[str, SinkPlugin]:
    """Return every kind of target there is, by `spec.target.type`."""
    return plugins.discover(__name__, __path__, group="backfill.sinks", attribute="SINK", kind=SinkPlugin)
