"""Work that the core requests, and its results.

Work ids are unique within an attempt and never reused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from itertools import pairwise
from typing import Any, ClassVar, Protocol

from backfill_core.positions.change_parts import KeyPart
from backfill_core.positions.file_ranges import FileRange
from backfill_core.positions.key_order import KeyOrder, KeyPosition
from backfill_core.positions.key_scan import KeyScan
from backfill_core.positions.offsets import OffsetRange
from backfill_core.positions.vnode_positions import KeyBound, KeySpace, Span
from backfill_core.protocol.publication import ManifestPart
from backfill_core.protocol.receipt import TableReceipt

Position = Any
"""Position in a source: a version, or an offset per partition. Only the strategy, its source and the comparison read it."""

Covered = Any
"""Part of history in the target, in the strategy's form; `None` for all of it."""


class WorkKind(Enum):
    """Kind of work by which it is paused: scope `History` pauses the first kind, `All` the first two. Checks are not paused."""

    HISTORY = auto()
    CHANGES = auto()
    CHECK = auto()


class Work(Protocol):
    """Work of any kind: those below, and those that a strategy defines. A frozen value."""

    @property
    def work_id(self) -> int:
        """Number of the work."""

    @property
    def kind(self) -> WorkKind:
        """Kind by which it is paused."""


class Result(Protocol):
    """Result of work of any kind. A frozen value."""

    @property
    def work_id(self) -> int:
        """Number of the work."""


class StagedMode(Enum):
    """Copy mode of a staged file."""

    WHOLE = "Whole"
    """Bytes of a source file, unchanged."""

    PROJECTED = "Projected"
    """Column chunks of a source file: a part of them, or renamed."""

    PARTLY_COMPUTED = "Grafted"
    """Column chunks of a source file, joined with computed columns."""

    DECODED = "Decoded"
    """Rows that Spark read and wrote."""


@dataclass(frozen=True, slots=True)
class StagedFile:
    """Parquet file that readers of the target see after a seal names it."""

    path: str
    size_bytes: int
    rows: int
    handle: object = field(default=None, compare=False, repr=False)
    """Statistics for the committer; opaque to the core."""

    segment: int = 0
    """Index in `ReadSplit.segments`."""

    mode: StagedMode = StagedMode.DECODED
    quarantined_by: int | None = None
    """Number of the work that found these bad records, which no reader of the target sees; `None` for rows of the target."""


@dataclass(frozen=True, slots=True)
class RemovedFile:
    """Target file that a commit removes. A file that is also among the added files stays, with its new metadata."""

    path: str
    handle: object = field(default=None, compare=False, repr=False)
    """Data for the committer; opaque to the core."""


@dataclass(frozen=True, slots=True)
class NewColumns:
    """Change of the target's columns in the commit of the files that have them."""

    schema: str | None
    """Schema of the target as JSON; `None` if unchanged."""

    last_id: int = 0
    """Largest column id of the target; 0 if no column gets an id."""

    reopens: bool = True
    """True if columns that the job reads changed. Then the commit is the last one of its attempt."""


@dataclass(frozen=True, slots=True)
class ReadSplit:
    """Read file ranges of the pinned version, transform, and stage them as files.

    Starts and stops count rows in the order in which the attempt reads the files; by default, the row index.
    """

    kind: ClassVar[WorkKind] = WorkKind.HISTORY

    work_id: int
    ranges: tuple[FileRange, ...]
    start: int
    stop: int
    epoch: int
    """Open epoch when the work started (the `_epoch` of `Changelog` rows)."""

    boundaries: tuple[int, ...] = ()
    """Positions between `start` and `stop`, ascending; no staged file has rows of both sides of one."""

    @property
    def segments(self) -> tuple[tuple[int, int], ...]:
        """Intervals that are staged in separate files; one if there are no boundaries."""
        return tuple(pairwise((self.start, *self.boundaries, self.stop)))

    @property
    def segment_ranges(self) -> tuple[tuple[FileRange, ...], ...]:
        """File ranges of each segment."""
        left = list(reversed(self.ranges))
        found: list[tuple[FileRange, ...]] = []
        for start, stop in self.segments:
            wanted, parts = stop - start, list[FileRange]()
            while wanted:
                one = left.pop()
                taken = min(wanted, one.stop - one.start)
                parts.append(replace(one, stop=one.start + taken))
                if one.start + taken < one.stop:
                    left.append(replace(one, start=one.start + taken))
                wanted -= taken
            found.append(tuple(parts))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class ReadKeyRange:
    """Read the rows of one version between two positions of a key, transform, and stage them as files."""

    kind: ClassVar[WorkKind] = WorkKind.HISTORY

    work_id: int
    version: int
    space: KeySpace
    low: KeyPosition | None
    """Exclusive; `None` for the first row."""

    high: KeyPosition | None
    """Inclusive; `None` for the last row."""

    vnodes: tuple[Span, ...]
    """Vnodes to read."""

    epoch: int
    """Open epoch when the work started (the `_epoch` of `Changelog` rows)."""

    rows_max: int | None = None
    """Maximum of rows to read, the first ones in the order; `None` for all between the positions."""

    proves_key: bool = False
    """True if two rows with one key are an error. All rows of a key are in one range."""

    readers: int = 1  # maximum of ranges that are read concurrently; each gets its share of the cores
    takes_cuts: bool = False  # return new cuts if `rows_max` ends the read, because the table has grown


@dataclass(frozen=True, slots=True)
class ReadOffsetRanges:
    """Read offsets of some partitions, transform, and stage them as files.

    The answer follows when the reader is at each `stop`. The last offsets may have no record.
    """

    work_id: int
    kind: WorkKind
    """`HISTORY`, or `CHANGES` for records after the start of the job."""

    ranges: tuple[OffsetRange, ...]
    """At most one per partition; none is empty."""

    epoch: int
    """Open epoch when the work started (the `_epoch` of `Changelog` rows)."""

    measures: bool = False
    """True to measure the records before they are read: an earlier attempt may have ended at an oversized one."""


@dataclass(frozen=True, slots=True)
class ApplyChanges:
    """Apply the versions `(after, upto]` to the target by MERGE, or stage them for append and changelog."""

    kind: ClassVar[WorkKind] = WorkKind.CHANGES

    work_id: int
    after: int
    upto: int
    epoch: int
    txn_version: int
    bound: KeyBound | None = None
    """Bound beyond which row images are excluded, each half of an update separately (R-ARR-17); `None` for no bound."""

    part: KeyPart | None = None  # keys of the target whose changes are merged; `None` for all
    part_bytes: int | None = None  # bytes of changed files above which the answer is `ChangesCut` (R-PART-4)


@dataclass(frozen=True, slots=True)
class ShipVersions:
    """Stage the file actions of the source's log after version `after` for the target.

    It may end before `upto`, but not before `after + 1`, because a version is never split.
    """

    kind: ClassVar[WorkKind] = WorkKind.CHANGES

    work_id: int
    after: int
    upto: int
    epoch: int
    bytes_max: int
    """Maximum of bytes of new files; the batch ends before the version that exceeds it, unless that is the first."""


@dataclass(frozen=True, slots=True)
class SetBadRecordsAside:
    """Read offsets of some partitions, and stage records that the transform cannot parse for the quarantine table."""

    kind: WorkKind
    work_id: int
    ranges: tuple[OffsetRange, ...]
    measures: bool = False  # as in `ReadOffsetRanges`


@dataclass(frozen=True, slots=True)
class MergeOffsetRanges:
    """Read offsets of some partitions, and merge the last record of each key into the target in a separate commit.

    Each partition occurs once. The target has all earlier records of the partition.
    """

    kind: WorkKind
    work_id: int
    ranges: tuple[OffsetRange, ...]
    txn_version: int
    skips_bad: bool
    """True if its bad records are in the quarantine table. Otherwise a bad record ends the job."""

    measures: bool = False  # as in `ReadOffsetRanges`


@dataclass(frozen=True, slots=True)
class Verify:
    """Compare the transformed source at `position` with `target_version` of the target by vnode, up to `covered`."""

    kind: ClassVar[WorkKind] = WorkKind.CHECK

    work_id: int
    position: Position
    target_version: int
    epoch: int
    covered: Covered = None
    cut_off: tuple[OffsetRange, ...] = ()  # behind open transactions; the receipt names them
    staged: tuple[ManifestPart, ...] | None = None  # a manifest whose files are compared in place of the target's


@dataclass(frozen=True, slots=True)
class ProveKey:
    """Search the target at `target_version` for two rows with one key."""

    kind: ClassVar[WorkKind] = WorkKind.CHECK

    work_id: int
    target_version: int


@dataclass(frozen=True, slots=True)
class SplitStaged:
    """`ReadSplit` is finished; each file has its segment."""

    work_id: int
    files: tuple[StagedFile, ...]


@dataclass(frozen=True, slots=True)
class KeyRangeStaged:
    """`ReadKeyRange` is finished."""

    work_id: int
    files: tuple[StagedFile, ...]
    rows_read: int
    """Rows of the source, including rows that the filter excludes."""

    last: KeyPosition | None = None  # the last row if `rows_max` ended the read before `high`; else `None`
    line: KeyScan | None = None  # new cuts, of the version of the work; `None` if not requested, or the source has none


@dataclass(frozen=True, slots=True)
class OffsetRangesStaged:
    """`ReadOffsetRanges` is finished; a commit contains all of its files, or none."""

    work_id: int
    files: tuple[StagedFile, ...]
    records: Mapping[str, int]
    """Records of the source by partition, including filtered records. A partition without records may be missing."""

    unread: tuple[OffsetRange, ...] = ()
    """Ranges of oversized records, which no later read of the job reads either."""


@dataclass(frozen=True, slots=True)
class BadRecordsAside:
    """`SetBadRecordsAside` is finished; a commit contains all of its files."""

    work_id: int
    files: tuple[StagedFile, ...]
    unread: tuple[OffsetRange, ...] = ()  # as in `OffsetRangesStaged`


@dataclass(frozen=True, slots=True)
class OffsetRangesMerged:
    """`MergeOffsetRanges` is finished; its changes are durable."""

    work_id: int
    changes: int
    """Rows that were inserted, updated or deleted."""

    records: Mapping[str, int]
    """Records of the source by partition; empty if the answer was lost and the commit was found in the log."""

    unread: tuple[OffsetRange, ...] = ()  # as in `OffsetRangesStaged`


@dataclass(frozen=True, slots=True)
class ChangesApplied:
    """`ApplyChanges` is finished; merged rows are durable, `files` wait for the seal."""

    work_id: int
    changes: int
    files: tuple[StagedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangesCut:
    """`ApplyChanges` has merged nothing: its changes are too large for one MERGE."""

    work_id: int
    order: KeyOrder  # columns of the target's key
    cuts: tuple[KeyPosition, ...]  # last key of each part but the last one: ascending, not empty


@dataclass(frozen=True, slots=True)
class VersionsShipped:
    """`ShipVersions` is finished; a commit adds all of its files and removes all `removed`, or does neither."""

    work_id: int
    upto: int
    """Last version in the batch."""

    files: tuple[StagedFile, ...]
    removed: tuple[RemovedFile, ...]
    changes: int
    """Rows inserted or deleted; rewritten files without changes count none."""

    columns: NewColumns | None = None
    """Column change of its last version, in a separate batch; `None` if no column that the job reads changed."""


@dataclass(frozen=True, slots=True)
class Verified:
    """`Verify` is finished."""

    work_id: int
    receipt: TableReceipt


@dataclass(frozen=True, slots=True)
class KeyProven:
    """`ProveKey` is finished; each key is in one row. Two rows with one key are a `WorkFailed`."""

    work_id: int
