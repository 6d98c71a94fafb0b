"""What the parameters of every strategy, source and target have in common; the rest is in the module of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from backfill_api.model import Model
from backfill_api.spec.bounds import Columns, Vnodes


class Params(Model):
    """Parameters that belong to one `type`."""

    PACE: ClassVar[frozenset[str]] = frozenset()
    """Fields that may change while a state of the job exists; all others are part of the job's identity."""


class StrategyParams(Params):
    """Base of the parameters of strategies."""

    vnodes: Vnodes = 256
    """Hash partitions of the key space; the unit of verification."""

    def rows_per_split(self, rows_per_s: float) -> int:
        """Return how many rows a plan expects in one split, where rows come at this rate: at least 1."""
        return max(1, int(rows_per_s))


class TableParams(Params):
    """Base of the parameters of both ends: something with rows."""

    @property
    def paths(self) -> Mapping[str, str]:
        """The folders and URIs that it names, by field, in camelCase."""
        return {}

    @property
    def label(self) -> str:
        """What people call it: its path, or the name in a catalog."""
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
