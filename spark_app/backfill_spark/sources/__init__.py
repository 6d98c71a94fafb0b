"""Sources: one folder per kind. Discovery finds the folders; no list names them.

A folder's `__init__` defines `SOURCE` and does not import Spark; `open` loads the modules that take a second to import.
"""

from __future__ import annotations

from collections.abc import Mapping

from backfill_api import plugins
from backfill_spark.ports.source import SourcePlugin


def discover() -> Mapping[str, SourcePlugin]:
    """Return all kinds of sources by `spec.source.type`."""
    return plugins.discover(__name__, __path__, group="backfill.sources", attribute="SOURCE", kind=SourcePlugin)
