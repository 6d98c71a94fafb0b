"""Targets: one folder per kind. Discovery finds the folders; no list names them.

A folder's `__init__` defines `SINK` and does not import Spark; `open` loads the modules that take a second to import.
"""

from __future__ import annotations

from collections.abc import Mapping

from backfill_api import plugins
from backfill_spark.ports.sink import SinkPlugin


def discover() -> Mapping[str, SinkPlugin]:
    """Return all kinds of targets by `spec.target.type`."""
    return plugins.discover(__name__, __path__, group="backfill.sinks", attribute="SINK", kind=SinkPlugin)
