"""Declaration of a plug-in in a spec: its `type`, its parameters, and the abilities that it has or requires."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, StrictInt, ValidationError, model_validator

from backfill_api.model import Model, refused
from backfill_api.spec.bounds import DAY_S, Column, Columns, InFlight, Path, SplitSeconds, Sql, Vnodes
from backfill_api.spec.locations import PlaceError, place_of_spec, scheme_rules


class SourceAbility(StrEnum):
    """Abilities of sources."""

    PIN = "SupportsPin"
    """One version can be read again and again, by file, with the same rows."""

    CHANGES = "SupportsChanges"
    """The row changes between two versions can be read."""

    KEY_RANGES = "SupportsKeyRanges"
    """Rows between two values of a key can be read, of any version that is still there."""

    LOG = "SupportsLog"
    """Added and removed files, and deleted rows of them, can be read for every version."""

    OFFSETS = "SupportsOffsets"
    """Rows have a partition and an offset, and can be read from an offset on."""


class TargetAbility(StrEnum):
    """Abilities of targets."""

    MERGE = "SupportsMerge"
    """The newest row of each key can be merged in one commit; a target without it does not offer `Upsert`."""

    SEGMENTS = "SupportsSegments"
    """Rows can be staged so that parts of a split are committed one after another."""

    SHIPPING = "SupportsShipping"
    """Files of the source can be added unchanged and removed again in one commit."""

    IN_PLACE = "SupportsReplacing"
    """Its files can be replaced one by one, while other writers change the table."""

    START_OVER = "SupportsStartOver"
    """All rows of an unfinished job can be removed again; not from a target that keeps other rows."""


Ability = SourceAbility | TargetAbility

WRITE_MODES = ("Upsert", "Append", "Changelog")


class Params(Model):
    """Parameters that belong to one `type`."""

    MAY_CHANGE: ClassVar[frozenset[str]] = frozenset()
    """Fields that may change while a state of the job exists; all others are part of the job's identity."""


class HistoryOrder(Model):
    """Order in which rows are read."""

    column: Column
    """Column of the source, not a nested one; files are read in the order of its smallest and largest values in the log."""

    direction: Literal["Ascending", "Descending"] = "Descending"
    """`Descending`: the largest values first, of a time the newest."""


class StrategyParams(Params):
    """Base of the parameters of strategies."""

    WRITES_NOT: ClassVar[Mapping[str, str]] = {}
    """Write modes that it cannot do, each with the reason."""

    FIXED_WIDTH: ClassVar[Mapping[str, str]] = dict.fromkeys(WRITE_MODES, "has no maxInFlight")
    """Write modes in which `maxInFlight` cannot change, each with the reason as it follows the strategy's name."""

    ENDS_FOR_GOOD: ClassVar[str] = "it does not declare that it can continue"
    """Reason why a finished job cannot take later changes of its source; empty if it can."""

    APPLIES_WHILE_COPYING: ClassVar[bool] = False
    """True if it applies changes while it copies, so that a slower copy shortens their lag."""

    COPIES_BEFORE_CHANGES: ClassVar[bool] = False
    """True if all rows of history are appended before the first change, so that they can become visible in one commit."""

    TAKES_CHANGES_ALONE: ClassVar[bool] = False
    """True if it can apply the changes after a version whose rows it did not copy."""

    vnodes: Vnodes = 256
    """Hash partitions of the key space; the unit of verification."""

    @property
    def history_order(self) -> HistoryOrder | None:
        """The order in which history is read, where a user asks for one."""
        return None

    @property
    def doubts(self) -> Mapping[str, str]:
        """Warnings that every plan with this strategy contains: messages by reason."""
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
    def in_flight_max(self) -> int | None:
        """Pieces of history that run at the same time, at most; `None` if the strategy has no `maxInFlight`."""
        return None

    @property
    def part_bytes(self) -> int | None:
        """Bytes of changed files above which a batch is merged in parts; `None` if every batch is merged whole."""
        return None

    @property
    def read_amplification_max(self) -> int | None:
        """Maximum of reads of a file, on average; `None` for no maximum."""
        return None

    def rows_per_split(self, rows_per_s: float) -> int:
        """Return how many rows a plan expects in one split, where rows come at this rate: at least 1."""
        return max(1, int(rows_per_s))


class SplitParams(StrategyParams):
    """Base of the parameters of strategies that read a pinned version in splits, and then its changes in batches."""

    MAY_CHANGE: ClassVar[frozenset[str]] = frozenset({"split_target_seconds", "max_in_flight", "change_batch_seconds"})

    FIXED_WIDTH: ClassVar[Mapping[str, str]] = {}

    split_target_seconds: SplitSeconds = 4
    """Target duration of a split at full speed; a change takes effect at the next barrier, for splits that begin
    later; of a topic into an `Upsert` target, with the next attempt."""

    max_in_flight: InFlight = 2
    """Splits that are read at the same time; a change takes effect at the next barrier."""

    change_batch_seconds: Annotated[StrictInt, Field(ge=1, le=3600)] = 10
    """Target duration of a batch of changes; a change takes effect with the next attempt."""

    @property
    def in_flight_max(self) -> int | None:
        """See `maxInFlight`."""
        return self.max_in_flight

    def rows_per_split(self, rows_per_s: float) -> int:
        """As `maxInFlight` splits share the rate."""
        return max(1, int(rows_per_s * self.split_target_seconds / self.max_in_flight))


class ChangePartParams(StrategyParams):
    """Parameters of strategies that merge a batch of changes by key, and a large one in parts of the key."""

    change_part_mebibytes: Annotated[StrictInt, Field(ge=1, le=1_048_576)] = 4096
    """A batch of changes whose changed files have more MiB is merged into an `Upsert` target in parts, each with its own MERGE and commit.
    A change takes effect with the next batch of the next attempt."""

    @property
    def part_bytes(self) -> int | None:
        """See `changePartMebibytes`."""
        return self.change_part_mebibytes << 20


class TableParams(Params):
    """Base of the parameters of sources and targets."""

    @property
    def paths(self) -> Mapping[str, str]:
        """Folders and URIs, by the field that holds them, in camelCase."""
        return {}

    @property
    def catalog_name(self) -> str | None:
        """Name in a catalog; `None` for a source or target that is given by its place."""
        return None

    @property
    def label(self) -> str:
        """Name for users: its path, or its name in a catalog."""
        return next(iter(self.paths.values()), "")

    @property
    def dataset(self) -> tuple[str, str]:
        """Namespace and name by the naming rules of OpenLineage; an empty namespace for that of the job."""
        return "", self.label


class SourceParams(TableParams):
    """Base of the parameters of sources."""

    key: Columns = ()
    """Columns that identify a row; needed by `Upsert` targets."""

    @property
    def secret(self) -> str | None:
        """Name of the Secret that driver and executors need to read the source; `None` if they need none."""
        return None

    @property
    def start_version(self) -> int | None:
        """Version from which the job starts; `None` for the newest."""
        return None

    @property
    def start_ms(self) -> int | None:
        """Time in place of `start_version`, in milliseconds since 1970."""
        return None

    @property
    def extends_retention(self) -> bool:
        """True if the source keeps its old versions for longer while the job runs."""
        return False

    @property
    def skips_snapshot(self) -> bool:
        """True if no row of the first version is read, only the changes after it."""
        return False


BAD_RECORD_RULES = (
    (
        "!has(self.onBadRecord) || self.onBadRecord != 'Quarantine' || has(self.quarantinePath)",
        "onBadRecord: Quarantine needs quarantinePath",
    ),
    *scheme_rules("quarantinePath"),
)
"""The CEL form of what `OffsetSourceParams` checks."""


class OffsetSourceParams(SourceParams):
    """Base of the parameters of sources whose rows have a partition and an offset, and are parsed by the transform."""

    MAY_CHANGE: ClassVar[frozenset[str]] = frozenset(
        {"on_bad_record", "quarantine_path", "open_transaction_wait_seconds"}
    )

    on_bad_record: Literal["Fail", "Quarantine"] = "Fail"
    """Handling of a record that the transform cannot parse (`from_json`, `from_avro`, `cast` …). `Fail` ends the job and names
    partition and offset. `Quarantine` stores it in a separate table. A change takes effect with the next attempt."""

    quarantine_path: Path | None = None
    """Folder or URI of the Delta table of bad records, made when it is missing: the columns of the source, and `_reason`."""

    open_transaction_wait_seconds: Annotated[StrictInt, Field(ge=0, le=7 * DAY_S)] = 900
    """Time for which a job with `after: Exit` waits for records behind open transactions. It then ends without them: message and
    receipt name their partitions and offsets. A change takes effect with the next attempt."""

    @model_validator(mode="after")
    def _has_quarantine(self) -> Self:
        if self.on_bad_record == "Quarantine" and self.quarantine_path is None:
            message = "is required, because onBadRecord is Quarantine"
            raise refused("quarantinePath", message, hint="name a folder for the table of bad records")
        try:
            place_of_spec(self.quarantine_path or "/")
        except PlaceError as error:
            shown = None if "@" in (self.quarantine_path or "") else self.quarantine_path
            raise refused("quarantinePath", error.message, hint=error.hint, value=shown) from error
        return self


class TargetParams(TableParams):
    """Base of the parameters of targets; one that cannot do all of this narrows the type of its field."""

    write_mode: Literal["Upsert", "Append", "Changelog"] | None = None
    """`Upsert`: one row a key. `Append`: for sources that only append. `Changelog`: every change as a row. Default: `Append` for a
    topic, `Upsert` for a table."""

    key: Columns = ()
    """Columns of the target that identify a row; default: the source's key."""

    existing_rows: Literal["Refuse", "Keep"] = "Refuse"
    """Handling of a table with rows but without a state of this job; `Keep` excludes `Upsert` and `verify: Final`."""

    publish: Literal["Continuously", "WhenComplete", "WhenVerified"] = "Continuously"
    """Time at which readers see the copied rows: `Continuously` with each commit; `WhenComplete` all of them in one commit, once the
    whole snapshot is copied; `WhenVerified` the same, once a receipt over the copied files is equal. Changes follow that commit."""

    scope: Sql | None = None
    """Condition on columns of an existing target, as `day >= '2026-01-01'`: the commit of `publish` also removes the rows that it
    selects, and no others."""

    @property
    def keeps_rows(self) -> bool:
        """True if the target may have rows of other writers."""
        return self.existing_rows == "Keep" or self.scope is not None

    @property
    def hides_rows(self) -> bool:
        """True if copied files may contain rows that fail the filter, hidden from readers."""
        return False


@dataclass(frozen=True, slots=True)
class Variant:
    """Declaration of a strategy, source or target, in the variable `VARIANT` of its module."""

    name: str
    """The value of `type` that chooses it; its member has the same name with a small first letter."""

    params: type[Params]
    """The fields of its member."""

    default: bool = False
    """True if it is the default `type`."""

    abilities: frozenset[Ability] = frozenset()
    """Abilities of a source or target."""

    needs: frozenset[Ability] = frozenset()
    """Abilities that a strategy requires from source and target."""

    @property
    def has_defaults(self) -> bool:
        """True if its member can be omitted."""
        try:
            self.params()
        except ValidationError:
            return False
        return True
