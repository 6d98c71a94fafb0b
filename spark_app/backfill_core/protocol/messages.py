"""What passes between the loop and the core: events in, actions out, all frozen values.

Units: `now_s` is monotonic seconds, `*_ms` of a timestamp is milliseconds since 1970 UTC,
positions are rows on the snapshot's line. Work ids are unique within an attempt and never reused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from backfill_core.errors import BackfillError, ForeignCommit


# ------------------------------------------------------------------ values
@dataclass(frozen=True, slots=True)
class Head:
    """The newest version of the upstream, as last seen."""

    version: int
    timestamp_ms: int
    table_id: str = ""
    """Identity of the table; another one at the same place is another upstream."""

    kept_s: int | None = None
    """How long it keeps what is not of the newest version, seconds; None: not known."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows `[start, stop)` of one source file of `of` rows; the whole file when they are 0 and `of`.

    A proper part of a file is cut by hash residue (`pmod(xxhash64(all columns), of)` in
    `[start, stop)`), so its number of rows is `stop - start` only in the mean; whole files are exact.
    """

    file: int
    """Index of the file in the path order of the pinned version."""

    start: int
    stop: int
    of: int

    @property
    def whole(self) -> bool:
        """Does the piece cover its file?"""
        return self.start == 0 and self.stop == self.of


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A Parquet file that no reader of the target sees until a seal names it."""

    path: str
    size_bytes: int
    rows: int
    handle: object = field(default=None, compare=False, repr=False)
    """What the committer wants back (statistics); opaque to the core."""

    part: int = 0
    """Of its split, the index in `ReadSplit.parts`."""


# ------------------------------------------------------------------ work
@dataclass(frozen=True, slots=True)
class ReadSplit:
    """Read pieces of the pinned version, transform, and stage them as files."""

    work_id: int
    pieces: tuple[Piece, ...]
    start: int
    stop: int
    epoch: int
    """The epoch that was open when the work started (the `_epoch` of `Changelog` rows)."""

    cuts: tuple[int, ...] = ()
    """Positions of the line between `start` and `stop`, ascending: no file may have rows of both sides of one."""

    @property
    def parts(self) -> tuple[tuple[int, int], ...]:
        """Intervals of the line that are staged in files of their own; one, when nothing is cut."""
        return tuple(pairwise((self.start, *self.cuts, self.stop)))


@dataclass(frozen=True, slots=True)
class ApplyChanges:
    """Bring the versions `(after, upto]` into the target: MERGE, or stage for append/changelog."""

    work_id: int
    after: int
    upto: int
    epoch: int
    txn_version: int


@dataclass(frozen=True, slots=True)
class Verify:
    """Compare view(source@source_version) with target@target_version, by vnode.

    `done` holds the sealed intervals of the line while the snapshot is incomplete, else None.
    """

    work_id: int
    source_version: int
    target_version: int
    epoch: int
    done: tuple[tuple[int, int], ...] | None = None


@dataclass(frozen=True, slots=True)
class ProveKey:
    """Look for two rows with one key in the target at `target_version`."""

    work_id: int
    target_version: int


Work = ReadSplit | ApplyChanges | Verify | ProveKey


@dataclass(frozen=True, slots=True)
class SplitStaged:
    """`ReadSplit` is finished: each file tells its part; `rows_read` counts source rows, None when a filter hides them."""

    work_id: int
    files: tuple[StagedFile, ...]
    rows_read: int | None


@dataclass(frozen=True, slots=True)
class ChangesApplied:
    """`ApplyChanges` is finished: rows merged are durable, `files` wait for the seal."""

    work_id: int
    changes: int
    files: tuple[StagedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class VnodeMismatch:
    """One vnode in which source and target differ."""

    vnode: int
    source_rows: int
    target_rows: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """The proof: per-vnode counts and hash sums of both sides, and where they differ."""

    source_version: int
    target_version: int
    epoch: int
    rows: int
    vnodes: int
    digest: str
    """Hash over all vnodes' sums of the source side, hexadecimal."""

    mismatches: tuple[VnodeMismatch, ...]
    seconds: float
    verified_ms: int | None = None
    """When it was taken; set by whoever has the clock."""

    complete: bool = True
    """Is all of the source compared? While history is being copied, only what is sealed is."""

    rows_filtered: int | None = None
    """Rows of the source, of those compared, that the transform's filter left out; None: not known."""

    rows_total: int | None = None
    """Rows of the source in all, with those that are filtered out; None: not known."""

    @property
    def equal(self) -> bool:
        """Are both sides the same multiset of rows?"""
        return not self.mismatches


@dataclass(frozen=True, slots=True)
class Verified:
    """`Verify` is finished."""

    work_id: int
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class KeyProven:
    """`ProveKey` is finished: every key stands in one row; two rows with one key are a `WorkFailed`."""

    work_id: int


Result = SplitStaged | ChangesApplied | Verified | KeyProven


# ------------------------------------------------------------------ commands
@dataclass(frozen=True, slots=True)
class Pause:
    """Start no history; with `everything`, no change batches either; `force` cancels what runs."""

    everything: bool = False
    force: bool = False


@dataclass(frozen=True, slots=True)
class Resume:
    """Undo every pause."""


@dataclass(frozen=True, slots=True)
class Throttle:
    """Limit history to `rows_per_s` (None: unlimited, 0: paused), for `for_s` seconds or for ever."""

    rows_per_s: int | None
    for_s: float | None = None


@dataclass(frozen=True, slots=True)
class VerifyNow:
    """Take a receipt at the next sealed barrier."""


@dataclass(frozen=True, slots=True)
class Stop:
    """End at the next barrier, resumable; `force` cancels what runs instead of waiting for it."""

    force: bool = False


Command = Pause | Resume | Throttle | VerifyNow | Stop


# ------------------------------------------------------------------ events
@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed; nothing else."""


@dataclass(frozen=True, slots=True)
class HeadMoved:
    """The upstream's newest version was looked at (moved or not)."""

    head: Head


@dataclass(frozen=True, slots=True)
class LookFailed:
    """The upstream could not be looked at."""

    error: BackfillError


@dataclass(frozen=True, slots=True)
class CommandReceived:
    """Somebody wants something; applied by the next barrier, acknowledged after its seal."""

    attempt: int
    revision: int
    command: Command


@dataclass(frozen=True, slots=True)
class StopRequested:
    """The process itself is asked to end (a signal): like `Stop`, but no command, so it needs no revision."""

    force: bool = False


@dataclass(frozen=True, slots=True)
class WorkFinished:
    """A piece of work ended well."""

    result: Result


@dataclass(frozen=True, slots=True)
class WorkFailed:
    """A piece of work ended badly."""

    work_id: int
    error: BackfillError


@dataclass(frozen=True, slots=True)
class WorkCancelled:
    """A piece of work ended because `CancelWork` asked for it; it has no effect."""

    work_id: int


@dataclass(frozen=True, slots=True)
class Sealed:
    """The commit that `Seal` asked for is durable."""

    epoch: int
    table_version: int
    seconds: float


@dataclass(frozen=True, slots=True)
class SealFailed:
    """The commit did not happen."""

    epoch: int
    error: BackfillError


@dataclass(frozen=True, slots=True)
class OthersCommitted:
    """Somebody else committed changes to the target while the attempt ran."""

    commits: tuple[ForeignCommit, ...]


Event = (
    Tick
    | HeadMoved
    | LookFailed
    | CommandReceived
    | StopRequested
    | WorkFinished
    | WorkFailed
    | WorkCancelled
    | Sealed
    | SealFailed
    | OthersCommitted
)


# ------------------------------------------------------------------ actions
@dataclass(frozen=True, slots=True)
class StartWork:
    """Begin in the background; answer with WorkFinished, WorkFailed or WorkCancelled, once."""

    work: Work


@dataclass(frozen=True, slots=True)
class CancelWork:
    """End it soon; an answer still follows."""

    work_id: int


@dataclass(frozen=True, slots=True)
class Seal:
    """One commit: files + state + transaction id. Answer with Sealed or SealFailed."""

    epoch: int
    txn_version: int
    files: tuple[StagedFile, ...]
    state: str
    fences: bool = False
    """The first seal of an attempt: refused with StateMovedError when the state it continues is not the newest."""

    compared: int | None = None
    """Of the last seal of a job: the target version of its receipt; refused with TargetChangedError when others came after it."""


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Answer a command. `outcome`: Applied, Superseded (older revision), WrongAttempt, Refused."""

    attempt: int
    epoch: int
    revision: int
    outcome: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Discard:
    """Remove staged files that no seal will ever name."""

    files: tuple[StagedFile, ...]


@dataclass(frozen=True, slots=True)
class LookAtHead:
    """Look at the upstream; answer with HeadMoved."""

    kept_after: int | None = None
    """Also look whether the version after this one is still there; gone is LookFailed with ChangeFeedExpired."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The attempt is over: `outcome` is Complete, Stopped or Failed."""

    outcome: str
    error: BackfillError | None = None


Action = StartWork | CancelWork | Seal | Acknowledge | Discard | LookAtHead | Finish
