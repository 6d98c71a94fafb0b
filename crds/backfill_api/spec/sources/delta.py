"""A Delta table as a source."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from backfill_api.model import cel
from backfill_api.spec.bounds import Version
from backfill_api.spec.params import SourceAbility, SourceParams, Variant
from backfill_api.spec.tables import PLACE_RULES, LocatedTable, check_no_repeats


class DeltaSource(SourceParams, LocatedTable):
    """A Delta table that keeps changing."""

    model_config = cel(*PLACE_RULES)
    # SchemaChanged asks for another policy.
    MAY_CHANGE: ClassVar[frozenset[str]] = frozenset({"schema_change"})

    version: Version | None = None
    """Version that the snapshot is read from; default: the newest when the job first starts."""

    schema_change: Literal["Fail", "Ignore", "Follow"] = "Fail"
    """What to do when columns change while the job runs: `Ignore` leaves out those that are added, and any other change ends the job;
    `Follow`, with strategy Replica, gives the target those that are added, names that change, comments, and properties of users
    (docs/cloning.md)."""

    @property
    def start_version(self) -> int | None:
        """The version, where it is given."""
        return self.version

    @model_validator(mode="after")
    def _checked(self) -> Self:
        check_no_repeats("key", self.key)
        return self


VARIANT = Variant(
    "Delta",
    DeltaSource,
    abilities=frozenset({SourceAbility.PIN, SourceAbility.CHANGES, SourceAbility.KEY_RANGES, SourceAbility.LOG}),
)
