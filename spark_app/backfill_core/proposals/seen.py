"""Facts of a source that proposals depend on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ColumnSeen:
    """A column of a table."""

    name: str
    type: str
    """Spark's name of the type."""

    repeats: bool | None = None
    """True if a value is null or occurs twice in the sample; `None` if the sample has no answer."""


@dataclass(frozen=True, slots=True)
class TableSeen:
    """A table by version."""

    columns: tuple[ColumnSeen, ...]
    rows: int
    files: int
    bytes: int
    sampled_rows: int
    """Rows of the sample that `ColumnSeen.repeats` is about."""

    partitions: tuple[str, ...] = ()
    change_feed: bool = False
    kept_s: int | None = None
    """Seconds for which the source keeps old versions; `None` if unknown."""


@dataclass(frozen=True, slots=True)
class TopicSeen:
    """A topic of records."""

    partitions: int
    records: int
    compacts: bool = False
    """True if the topic keeps only the newest record of each key."""

    keyed: bool = False
    """True if each record of the sample has a key that is text."""

    values: tuple[bytes, ...] = ()
    """Payloads of some records, without those that are null."""


SourceSeen = TableSeen | TopicSeen


@dataclass(frozen=True, slots=True)
class Place:
    """Name and location of one end of a job, in the fields of a manifest."""

    type: str
    fields: tuple[tuple[str, str], ...]
    """Fields of the location: `path`, `table`, or `bootstrapServers` and `topic`."""

    @property
    def last_part(self) -> str:
        """Last part of the location, as a name for people."""
        return self.fields[-1][1].rstrip("/").replace(".", "/").rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True)
class Request:
    """Values that the user gives; all other values are proposed."""

    name: str
    source: Place
    target: Place
    strategy: str | None = None
    key: tuple[str, ...] = ()
