"""Where rows come from: one folder a kind of source, found by discovery, never listed.

A folder's `__init__` holds `SOURCE` and imports no Spark: what costs a second to import is loaded by `open`.
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
    """Say the position of a source with versions."""
    return f"version {position}"


def version_of(position: Position | None) -> int | None:
    """Return a position as a version; None where it is none."""
    return count(position) if isinstance(position, int) else None


@dataclass(frozen=True, slots=True)
class SourcePlugin:
    """One kind of source."""

    name: str
    """Its `spec.source.type`."""

    open: Callable[[SparkSession, sources.Source], Source]
    """Make the source of a spec; reads nothing but what a name in a catalog stands for."""

    code: Callable[[], type[Source]]
    """Load the class that `open` makes: it has what the `VARIANT` promises."""

    words: Callable[[Position], str] = version_words
    """Say a position of it to people, in at most 256 characters; needs no open source."""


def discover() -> Mapping[str, SourcePlugin]:
    """Return every kind of source there is, by `spec.source.type`."""
    return plugins.discover(__name__, __path__, group="backfill.sources", attribute="SOURCE", kind=SourcePlugin)
