"""The two ends and what happens between them: source, transform, target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from backfill_api.model import Model, cel, check_union, member_of, refused, unchanged, union_rules
from backfill_api.spec.bounds import Columns, Name, Path, Settings, Sql, Version
from backfill_api.spec.locations import PlaceError, place
from backfill_api.spec.params import SourceParams, TargetParams

NO_USER = (
    "!has(self.path) || self.path.matches('(?i)^file:') || !self.path.matches('^[^/]*:/*[^/@]*:[^/@]*@')",
    "path holds a user and a password: give credentials by env or envFrom of the templates, from a Secret",
)
ONE_PLACE = ("has(self.path) != has(self.table)", "give exactly one of path and table")


class DeltaSource(SourceParams):
    """A Delta table that keeps changing."""

    # Of a source, only the policy for later schema changes may change: SchemaChanged asks for it.
    model_config = cel(
        ONE_PLACE,
        NO_USER,
        (
            unchanged("path", "table", "key", "version"),
            "source is immutable, except schemaChange: make a new Backfill",
        ),
    )

    path: Path | None = None
    """Folder or URI of the table; give this or `table`."""

    table: Name | None = None
    """Name in the catalog; give this or `path`."""

    version: Version | None = None
    """Version that the snapshot is read from; default: the newest when the job first starts."""

    schema_change: Literal["Fail", "Ignore"] = "Fail"
    """What to do when a column is added while the job runs; any other change of the schema always fails."""

    @property
    def paths(self) -> Mapping[str, str]:
        """The table's folder."""
        return {} if self.path is None else {"path": self.path}

    @property
    def label(self) -> str:
        """The table's folder, or its name in the catalog."""
        return self.path or f"table {self.table}"

    @property
    def start_version(self) -> int | None:
        """The version, where it is given."""
        return self.version

    @model_validator(mode="after")
    def _checked(self) -> Self:
        _one_place(self.path, self.table)
        _no_repeats("key", self.key)
        return self


SOURCES: Final = ("Delta",)
"""Each is a value of `Source.type` and a member of `Source`; a test says that they are the sources that are built."""


class Source(Model):
    """Where rows come from."""

    model_config = cel(
        *union_rules(*SOURCES),
        *([("self.type == oldSelf.type", "source is immutable: make a new Backfill")] if len(SOURCES) > 1 else []),
    )

    type: Literal["Delta"]
    """Which member is set."""

    delta: DeltaSource | None = None
    """A Delta table."""

    @property
    def params(self) -> SourceParams:
        """Parameters of the chosen source."""
        member: SourceParams = getattr(self, member_of(self.type))
        return member

    @model_validator(mode="after")
    def _checked(self) -> Self:
        check_union(self, *SOURCES)
        return self


class TransformSpec(Model):
    """A row-wise, deterministic transform; default: all rows and columns as they are."""

    model_config = cel(("self == oldSelf", "transform is immutable: make a new Backfill"))

    select: Annotated[tuple[Sql, ...], Field(max_length=512)] = ()
    """SQL expressions, one a column; empty: all columns."""

    where: Sql | None = None
    """SQL condition; a row that fails it is not in the target."""


class DeltaTarget(TargetParams):
    """The Delta table that is filled; made when it is missing."""

    model_config = cel(
        ONE_PLACE,
        NO_USER,
        (
            "!has(self.partitionBy) || !has(self.clusterBy) || self.partitionBy.size() == 0 || self.clusterBy.size() == 0",
            "give at most one of partitionBy and clusterBy",
        ),
        (
            "self.existingRows != 'Keep' || self.writeMode != 'Upsert'",
            "existingRows: Keep needs writeMode Append or Changelog: an Upsert target holds one row a key",
        ),
    )

    path: Path | None = None
    """Folder or URI of the table; give this or `table`."""

    table: Name | None = None
    """Name in Spark's catalog, where the table is made when it is missing; give this or `path`."""

    partition_by: Columns = ()
    """Partition columns, when the table is made."""

    cluster_by: Columns = ()
    """Clustering columns, when the table is made; not together with `partitionBy`."""

    properties: Settings = Field(default={})
    """Table properties, when the table is made."""

    @property
    def paths(self) -> Mapping[str, str]:
        """The table's folder."""
        return {} if self.path is None else {"path": self.path}

    @property
    def label(self) -> str:
        """The table's folder, or its name in the catalog."""
        return self.path or f"table {self.table}"

    @model_validator(mode="after")
    def _checked(self) -> Self:
        _one_place(self.path, self.table)
        _no_repeats("key", self.key)
        _no_repeats("partitionBy", self.partition_by)
        _no_repeats("clusterBy", self.cluster_by)
        if self.partition_by and self.cluster_by:
            raise refused(
                "clusterBy", "a table has partitions or clusters, not both", hint="remove clusterBy or partitionBy",
                value=self.cluster_by,
            )  # fmt: skip
        if self.existing_rows == "Keep" and self.write_mode == "Upsert":
            words = "an Upsert target holds one row a key, and a row that is kept may share its key with one that comes"
            hint = "set writeMode: Append or Changelog, or use an empty target"
            raise refused("existingRows", words, hint=hint, value=self.existing_rows)
        return self


class Target(Model):
    """Where rows go."""

    model_config = cel(("self == oldSelf", "target is immutable: make a new Backfill"))

    type: Literal["Delta"] = "Delta"
    """Which member is set."""

    delta: DeltaTarget
    """A Delta table."""

    @property
    def params(self) -> TargetParams:
        """Parameters of the chosen target."""
        member: TargetParams = getattr(self, member_of(self.type))
        return member


def _one_place(path: str | None, table: str | None) -> None:
    if path is None and table is None:
        raise refused("path", "is required, where no table is given", hint="add path: <folder> or table: <name>")
    if path is not None and table is not None:
        raise refused("table", "path is given too", hint="remove path or table", value=table)
    try:
        place(path or "/")
    except PlaceError as error:
        raise refused("path", error.message, hint=error.hint, value=None if "@" in (path or "") else path) from error


def _no_repeats(field: str, columns: tuple[str, ...]) -> None:
    for number, column in enumerate(columns):
        if column in columns[:number]:
            raise refused(f"{field}[{number}]", "stands twice", hint="remove one of them", value=column)
