"""Sources: one folder per kind. Discovery finds the folders; no list names them.

A folder's `__init__` defines `SOURCE` and does not import Spark; `open` loads the modules that take a second to import.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from backfill_api import plugins
from backfill_api.spec import sources
from backfill_api.spec.bounds import count
from backfill_core.protocol.work import Position
from backfill_spark.ports.source import Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def version_words(position: Position) -> str:
    """Format the position of a source with versions."""
    return f"version {position}"


def version_of(position: Position | None) -> int | None:
    """Return a position as a version; `None` if it is not one."""
    return count(position) if isinstance(position, int) else None


@dataclass(frozen=True, slots=True)
class SourcePlugin:
    """One kind of source."""

    name: str
    """Its `spec.source.type`."""

    open: Callable[[SparkSession, sources.Source], Source]
    """Create the source of a spec; reads only the catalog, to resolve a name."""

    code: Callable[[], type[Source]]
    """Load the class that `open` creates; it implements the abilities that the `VARIANT` declares."""

    words: Callable[[Position], str] = version_words
    """Format a position for users, in at most 256 characters; needs no open source."""


def discover() -> Mapping[str, SourcePlugin]:
    """Return all kinds of sources by `spec.source.type`."""
    return plugins.discover(__name__, __path__, group="backfill.sources", attribute="SOURCE", kind=SourcePlugin)
