"""What a plug-in declares in a spec: its `type`, its parameters, and what it promises or needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StrictInt

from backfill_api.model import Model
from backfill_api.spec.bounds import Column, Columns, Vnodes


class SourceAbility(StrEnum):
    """What a source may promise to strategies."""

    PIN = "SupportsPin"
    """One version can be read again and again, by file, with the same rows."""

    CHANGES = "SupportsChanges"
    """The row changes between two versions can be read."""

    KEY_RANGES = "SupportsKeyRanges"
    """Rows between two values of a key can be read, of any version that is still there."""

    OFFSETS = "SupportsOffsets"
    """Rows have a partition and an offset, and can be read from an offset on."""


class TargetAbility(StrEnum):
    """What a target may promise to strategies."""

    MERGE = "SupportsMerge"
    """The newest row of each key can be merged in one commit; a target without it does not offer `Upsert`."""

    SEGMENTS = "SupportsSegments"
    """Rows can be staged so that parts of a split are committed one after another."""

    START_OVER = "SupportsStartOver"
    """All rows of an unfinished job can be taken out again; not of a target in which rows of others are kept."""


Ability = SourceAbility | TargetAbility


class Params(Model):
    """Parameters that belong to one `type`."""

    MAY_CHANGE: ClassVar[frozenset[str]] = frozenset()
    """Fields that may change while a state of the job exists; all others are part of the job's identity."""


class HistoryOrder(Model):
    """Which rows are read first."""

    column: Column
    """Column of the source, not a nested one; files are read in the order of its smallest and largest values in the log."""

    direction: Literal["Ascending", "Descending"] = "Descending"
    """`Descending`: the largest values first, of a time the newest."""


class StrategyParams(Params):
    """Base of the parameters of strategies."""

    vnodes: Vnodes = 256
    """Hash partitions of the key space; the unit of verification."""

    @property
    def history_order(self) -> HistoryOrder | None:
        """The order in which history is read, where a user asks for one."""
        return None

    @property
    def doubts(self) -> Mapping[str, str]:
        """What a plan warns of with this strategy, whatever the tables are: the message by its reason."""
        return {}

    @property
    def read_order(self) -> tuple[tuple[str, bool], ...]:
        """The columns by which rows are read one range after the other, each with: is it descending? Empty: by the key."""
        return ()

    @property
    def rows_per_cut(self) -> int:
        """Rows between two places at which ranges may be cut, about."""
        return 1

    @property
    def read_amplification_max(self) -> int | None:
        """How often a file may be read, in the mean; None: however often."""
        return None

    def rows_per_split(self, rows_per_s: float) -> int:
        """Return how many rows a plan expects in one split, where rows come at this rate: at least 1."""
        return max(1, int(rows_per_s))


class SplitParams(StrategyParams):
    """Base of the parameters of strategies that read a pinned version in splits, and then its changes in batches."""

    MAY_CHANGE: ClassVar[frozenset[str]] = frozenset({"split_target_seconds", "max_in_flight", "change_batch_seconds"})

    split_target_seconds: Annotated[StrictInt, Field(ge=1, le=600)] = 4
    """How long one split should take at full speed; a change counts from the next attempt."""

    max_in_flight: Annotated[StrictInt, Field(ge=1, le=64)] = 2
    """Splits that are read at the same time; a change counts from the next attempt."""

    change_batch_seconds: Annotated[StrictInt, Field(ge=1, le=3600)] = 10
    """How long one batch of changes should take; a change counts from the next attempt."""

    def rows_per_split(self, rows_per_s: float) -> int:
        """As `maxInFlight` splits share the rate."""
        return max(1, int(rows_per_s * self.split_target_seconds / self.max_in_flight))


class TableParams(Params):
    """Base of the parameters of sources and targets."""

    @property
    def paths(self) -> Mapping[str, str]:
        """Folders and URIs, by the field that holds them, in camelCase."""
        return {}

    @property
    def label(self) -> str:
        """What people call it: its path, or its name in a catalog."""
        return next(iter(self.paths.values()), "")


class SourceParams(TableParams):
    """Base of the parameters of sources."""

    key: Columns = ()
    """Columns that identify a row; needed by `Upsert` targets."""

    @property
    def start_version(self) -> int | None:
        """The version that the job starts from, where a user names one; None: the newest."""
        return None


class TargetParams(TableParams):
    """Base of the parameters of targets; one that cannot do all of this narrows the type of its field."""

    write_mode: Literal["Upsert", "Append", "Changelog"] = "Upsert"
    """`Upsert`: one row a key. `Append`: for sources that only append. `Changelog`: every change as a row."""

    key: Columns = ()
    """Columns of the target that identify a row; default: the source's key."""

    existing_rows: Literal["Refuse", "Keep"] = "Refuse"
    """What to do with a table that has rows and no state of this job; `Keep` not with `Upsert`, nor `verify: Final`."""


@dataclass(frozen=True, slots=True)
class Variant:
    """What the module of a strategy, source or target offers to the spec, in its variable `VARIANT`."""

    name: str
    """The value of `type` that chooses it; its member has the same name with a small first letter."""

    params: type[Params]
    """The fields of its member."""

    default: bool = False
    """Is it chosen where no `type` is given?"""

    abilities: frozenset[Ability] = frozenset()
    """What a source or target promises."""

    needs: frozenset[Ability] = frozenset()
    """What a strategy needs from the source and the target that it works with."""
