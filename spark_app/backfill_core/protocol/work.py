"""Work that the core asks for, and what comes of it.

Work ids are unique within an attempt and never reused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from itertools import pairwise
from typing import Any, ClassVar, Protocol

from backfill_core.positions.key_line import KeyLine
from backfill_core.positions.key_order import KeyPosition
from backfill_core.positions.offsets import OffsetRange
from backfill_core.positions.vnode_positions import KeyBound, KeySpace, Span
from backfill_core.protocol.new_words import SAME_WORDS, NewWords
from backfill_core.protocol.receipt import Receipt

Position = Any
"""A place in a source: a version, or an offset per partition. The strategy, its source and the comparison know it; the job does not."""

Covered = Any
"""What of history the target holds, in the strategy's form; None: all of it."""


class WorkKind(Enum):
    """What a pause or a limit holds: `History` the first kind, `All` the first two; a check ends with the attempt."""

    HISTORY = auto()
    CHANGES = auto()
    CHECK = auto()


class Work(Protocol):
    """A piece of work of any kind: those below, and those that a strategy brings. A frozen value."""

    @property
    def work_id(self) -> int:
        """Its number."""

    @property
    def kind(self) -> WorkKind:
        """What holds it."""


class Result(Protocol):
    """What comes of a piece of work, of any kind. A frozen value."""

    @property
    def work_id(self) -> int:
        """The number of the work."""


@dataclass(frozen=True, slots=True)
class FileRange:
    """Rows `[start, stop)` of one source file of `of` rows; the whole file when they are 0 and `of`.

    A range below a whole file is taken by hash residue (`pmod(xxhash64(all columns), of)` in
    `[start, stop)`), so its number of rows is `stop - start` only in the mean; whole files are exact.
    """

    file: int
    """Index of the file in the path order of the pinned version."""

    start: int
    stop: int
    of: int

    @property
    def whole(self) -> bool:
        """Does it cover its file?"""
        return self.start == 0 and self.stop == self.of


class FileWay(Enum):
    """How a staged file was made."""

    WHOLE = "Whole"
    """The bytes of a file of the source."""

    PROJECTED = "Projected"
    """Some columns of a file of the source, or under other names."""

    GRAFTED = "Grafted"
    """Columns of a file of the source, joined with columns that were computed for its rows."""

    DECODED = "Decoded"
    """Rows that were read and written."""


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A Parquet file that readers of the target see once a seal names it."""

    path: str
    size_bytes: int
    rows: int
    handle: object = field(default=None, compare=False, repr=False)
    """What the committer wants back (statistics); opaque to the core."""

    segment: int = 0
    """Of its split, the index in `ReadSplit.segments`."""

    way: FileWay = FileWay.DECODED
    quarantined_by: int | None = None
    """Number of the work that found these bad records, which no reader of the target ever sees; None: rows of the target."""


@dataclass(frozen=True, slots=True)
class RemovedFile:
    """A file of the target that a commit takes out. One that is among the commit's files too stays, with what is said of it there."""

    path: str
    handle: object = field(default=None, compare=False, repr=False)
    """What the committer wants back; opaque to the core."""


@dataclass(frozen=True, slots=True)
class NewColumns:
    """What a commit makes of the target's columns and words, beside the files that have them; or what the source has otherwise since."""

    schema: str | None
    """Of the target, as JSON; None: it keeps its own."""

    last_id: int = 0
    """The largest id that the target gave to a column; 0: it gives none now."""

    words: NewWords = SAME_WORDS
    reopens: bool = True
    """Are columns that the job reads other ones? Then the commit is the last one of its attempt."""


@dataclass(frozen=True, slots=True)
class ReadSplit:
    """Read file ranges of the pinned version, transform, and stage them as files.

    Starts and stops count rows in the order in which the attempt reads the files: the row index, where no other is asked for.
    """

    kind: ClassVar[WorkKind] = WorkKind.HISTORY

    work_id: int
    ranges: tuple[FileRange, ...]
    start: int
    stop: int
    epoch: int
    """The epoch that was open when the work started (the `_epoch` of `Changelog` rows)."""

    boundaries: tuple[int, ...] = ()
    """Positions between `start` and `stop`, ascending: no staged file may have rows of both sides of one."""

    @property
    def segments(self) -> tuple[tuple[int, int], ...]:
        """Intervals that are staged in files of their own; one without boundaries."""
        return tuple(pairwise((self.start, *self.boundaries, self.stop)))

    @property
    def segment_ranges(self) -> tuple[tuple[FileRange, ...], ...]:
        """The file ranges of each segment."""
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
    """Exclusive; None: from the first row."""

    high: KeyPosition | None
    """Inclusive; None: to the last row."""

    vnodes: tuple[Span, ...]
    """Rows of other vnodes are left out."""

    epoch: int
    """The epoch that was open when the work started (the `_epoch` of `Changelog` rows)."""

    rows_max: int | None = None
    """Read no more rows of the source than these, the first ones in the order; None: all between the positions."""

    proves_key: bool = False
    """Are two rows with one key an error? Rows with one key are in one range."""

    readers: int = 1
    """Ranges that are read side by side, at most; each takes its share of the cores."""

    takes_cuts: bool = False  # return new cuts if `rows_max` ends the read: the table has grown


@dataclass(frozen=True, slots=True)
class ReadOffsetRanges:
    """Read offsets of some partitions, transform, and stage them as files.

    It is answered once the reader is at each `stop`: the last offsets may have no record.
    """

    work_id: int
    kind: WorkKind
    """`HISTORY`, or `CHANGES`: what came after the job began."""

    ranges: tuple[OffsetRange, ...]
    """At most one of each partition; none is empty."""

    epoch: int
    """The epoch that was open when the work started (the `_epoch` of `Changelog` rows)."""


@dataclass(frozen=True, slots=True)
class ApplyChanges:
    """Bring the versions `(after, upto]` into the target: MERGE, or stage for append/changelog."""

    kind: ClassVar[WorkKind] = WorkKind.CHANGES

    work_id: int
    after: int
    upto: int
    epoch: int
    txn_version: int
    bound: KeyBound | None = None
    """Images of rows beyond it are left out, each half of an update by itself (R-ARR-17); None: none are."""


@dataclass(frozen=True, slots=True)
class ShipVersions:
    """Bring what the source's log says of its files after version `after` to the target's files; stage it.

    It may end at an earlier version than `upto`, and ends at `after + 1` at least: versions are whole.
    """

    kind: ClassVar[WorkKind] = WorkKind.CHANGES

    work_id: int
    after: int
    upto: int
    epoch: int
    bytes_max: int
    """End before a version whose new files bring the batch over so many bytes, unless it is the first."""


@dataclass(frozen=True, slots=True)
class SetBadRecordsAside:
    """Read offsets of some partitions, and stage the records that the transform cannot parse for their own table."""

    kind: WorkKind
    work_id: int
    ranges: tuple[OffsetRange, ...]


@dataclass(frozen=True, slots=True)
class MergeOffsetRanges:
    """Read offsets of some partitions, and bring the last record of each key into the target, in one commit of its own.

    A partition is in it once; all that came before in the partition is in the target.
    """

    kind: WorkKind
    work_id: int
    ranges: tuple[OffsetRange, ...]
    txn_version: int
    skips_bad: bool
    """Are its bad records in their own table already? Else one of them ends the job."""


@dataclass(frozen=True, slots=True)
class Verify:
    """Compare the view of the source at `position` with `target_version` of the target, by vnode, as far as `covered`."""

    kind: ClassVar[WorkKind] = WorkKind.CHECK

    work_id: int
    position: Position
    target_version: int
    epoch: int
    covered: Covered = None
    cut_off: tuple[OffsetRange, ...] = ()  # behind open transactions; the receipt names them


@dataclass(frozen=True, slots=True)
class ProveKey:
    """Look for two rows with one key in the target at `target_version`."""

    kind: ClassVar[WorkKind] = WorkKind.CHECK

    work_id: int
    target_version: int


@dataclass(frozen=True, slots=True)
class SplitStaged:
    """`ReadSplit` is finished: each file tells its segment."""

    work_id: int
    files: tuple[StagedFile, ...]


@dataclass(frozen=True, slots=True)
class KeyRangeStaged:
    """`ReadKeyRange` is finished."""

    work_id: int
    files: tuple[StagedFile, ...]
    rows_read: int
    """Of the source, with those that the filter left out."""

    last: KeyPosition | None = None
    """Position of the last row, where `rows_max` may have ended the read before `high`; None: all up to `high` is read."""

    line: KeyLine | None = None
    """New cuts, of the version of the work; `None` if none were requested, or the source has none."""


@dataclass(frozen=True, slots=True)
class OffsetRangesStaged:
    """`ReadOffsetRanges` is finished: a commit takes all of its files, or none."""

    work_id: int
    files: tuple[StagedFile, ...]
    records: Mapping[str, int]
    """Records of the source by partition, with those that the filter left out; one without records may be missing."""


@dataclass(frozen=True, slots=True)
class BadRecordsAside:
    """`SetBadRecordsAside` is finished: a commit takes all of its files."""

    work_id: int
    files: tuple[StagedFile, ...]


@dataclass(frozen=True, slots=True)
class OffsetRangesMerged:
    """`MergeOffsetRanges` is finished: what it changed is durable."""

    work_id: int
    changes: int
    """Rows that were added, replaced or removed."""

    records: Mapping[str, int]
    """Records of the source by partition; empty where the answer was lost and the commit was found."""


@dataclass(frozen=True, slots=True)
class ChangesApplied:
    """`ApplyChanges` is finished: rows merged are durable, `files` wait for the seal."""

    work_id: int
    changes: int
    files: tuple[StagedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class VersionsShipped:
    """`ShipVersions` is finished: a commit takes all of its files in, and those that are removed out, or nothing of it."""

    work_id: int
    upto: int
    """The last version that is in it."""

    files: tuple[StagedFile, ...]
    removed: tuple[RemovedFile, ...]
    changes: int
    """Rows that came or went; files that were only rearranged have none."""

    columns: NewColumns | None = None
    """What its last version changed of the columns; a batch of its own. None: nothing that the job reads."""


@dataclass(frozen=True, slots=True)
class Verified:
    """`Verify` is finished."""

    work_id: int
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class KeyProven:
    """`ProveKey` is finished: every key stands in one row; two rows with one key are a `WorkFailed`."""

    work_id: int
