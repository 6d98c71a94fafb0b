"""The contract between a job and its strategy. A strategy is a folder; see strategies/.

The job knows when: barriers, commits, commands, retries. The strategy knows what: which work, of which positions, in which order.
Positions and what is covered of history pass through the job unread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from backfill_api.spec.params import StrategyParams
from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.progress import WarningCode
from backfill_core.errors import BackfillError
from backfill_core.pacing.eta import Eta
from backfill_core.positions.file_order import FileOrder, Watermark
from backfill_core.positions.key_line import KeyLine
from backfill_core.positions.offsets import Largest, OffsetRange, Subscribed
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import Head, StrategyEvent
from backfill_core.protocol.work import Covered, NewColumns, Position, RemovedFile, StagedFile, Work

S = TypeVar("S", bound="StoredProgress")


@dataclass(frozen=True, slots=True)
class PinVersion:
    """Pin a version of the source for as long as the job reads it."""

    version: Position | None = None
    """None: the one that the spec names, else the newest."""

    or_else: Position | None = None
    """A version that will do when `version` is gone; None: none will."""

    table_id: str = ""
    """Identity of the table that was pinned before; empty: none was."""


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Read the source from offsets; nothing is pinned."""

    after: Position | None = None
    """What was consumed; None: nothing was."""

    first: Position | None = None
    """Where history began, of a job that goes on; None: the source says."""

    source_id: str = ""
    """Identity of the source that was read before; empty: none was."""


@dataclass(frozen=True, slots=True)
class StartOver:
    """The stored state cannot be continued: begin anew, as without it."""

    drop_rows: bool
    """Must the rows that the unfinished job wrote leave the target first?"""


@dataclass(frozen=True, slots=True)
class ReadNewest:
    """Read versions of the source that move on: nothing is pinned, and none is kept for the job."""

    table_id: str = ""
    """Identity of the table that was read before; empty: none was."""


OpenRequest = PinVersion | Subscribe | ReadNewest | StartOver


@dataclass(frozen=True, slots=True)
class Pinned:
    """The pinned version of a source as a strategy needs it."""

    version: int
    timestamp_ms: int
    table_id: str
    fingerprint: str
    """Hash over the files and their row counts; another one is another row index."""

    rows: tuple[int, ...]
    """Rows of each file in path order, deleted ones included."""

    rows_live: int
    """Rows without the deleted ones."""

    order: FileOrder | None = None
    """None: the files are read in path order."""

    bytes: tuple[int, ...] = ()
    """Of each file, as it is stored; empty: not known."""

    live: tuple[int, ...] = ()
    """Rows of each file without the deleted ones; empty: no row is deleted."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What was found when the job was opened."""

    found: Pinned | Subscribed
    """By what the strategy asked for."""

    last_txn: int | None = None
    """Newest transaction version of the job in the target: an announced MERGE with this number happened."""

    proves_key: bool = False
    """Must the target hold one row a key? Then the key is proven before a change could hide a doubled one."""

    key_proven: bool = False
    """Was it proven in the source, before the first write? That is about `found` alone."""

    splits_keys: bool = False
    """Can two rows of one key lie in two ranges of `line`? Then no range proves the key."""

    line: KeyLine | None = None
    """The rows in the order of the strategy's key; of a source that was opened with `ReadNewest`."""

    decodes: bool = False
    """Is every file of the pinned version decoded? Then a split may end inside a file; a file that is copied stays whole."""

    @property
    def pinned(self) -> Pinned:
        """The version; of a strategy that asked for one."""
        assert isinstance(self.found, Pinned)
        return self.found

    @property
    def subscribed(self) -> Subscribed:
        """The offsets; of a strategy that asked for them."""
        assert isinstance(self.found, Subscribed)
        return self.found


@dataclass(frozen=True, slots=True)
class Permits:
    """What may start now, by kind of work."""

    history: bool
    changes: bool
    checks: bool
    """No commit is under way, and what a check finds is wanted."""

    epoch: Epoch
    """The open one."""

    first_id: int
    """Work is numbered from here on, without gaps."""

    history_held: bool = False
    """Is history paused or the attempt about to end? Then nothing staged is kept back."""


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """What a commit takes along from the strategy."""

    files: tuple[StagedFile, ...]
    rows: int
    changes: int
    changed: bool
    """Does the newest commit not say everything?"""

    announces: bool
    """Does it announce a commit of the strategy's own (a MERGE), which takes the next epoch as its transaction version?"""

    polls: bool
    """Must the source be polled once it is durable, because what was seen before does not count any more?"""

    removed: tuple[RemovedFile, ...] = ()
    columns: NewColumns | None = None

    @property
    def bytes(self) -> int:
        """Of the files that are new in the target."""
        kept = {file.path for file in self.removed}
        return sum(file.size_bytes for file in self.files if file.path not in kept)


@dataclass(frozen=True, slots=True)
class StrategyStatus:
    """Where a strategy is, as far as a job needs to know; `cut_off`: offsets that no reader gets, as a transaction in front stays open."""

    covered: Covered
    """What of history the committed target holds."""

    consumed: Position | None
    """The position that the committed target is complete up to; None: it is not complete up to any."""

    position: Position
    """What a receipt of the committed target compares with, and after which the source must keep everything."""

    history_complete: bool
    caught_up: bool
    """Has the target reached the newest position once?"""

    complete: bool
    """Is everything durable that `after: Exit` waits for?"""

    step: str
    """The step of the job that it is in (`job.steps`)."""

    steps: tuple[str, ...]
    """The steps that were before it at its beginning, in their order."""

    wants_commit: bool
    """Now, without waiting for the next barrier."""

    wants_announcement: bool
    """The same, if changes may start."""

    blocks_commit: bool
    """Is it writing to the target itself (a MERGE)?"""

    failure: BackfillError | None
    """What makes going on pointless, found by the strategy itself."""

    cut_off: tuple[OffsetRange, ...] = ()
    holds_source: bool = False
    """Must a source that offers back-pressure make no new version for now? A Delta table offers none (ADR 0057)."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a job's size and speed at one moment: what its steps are weighed by."""

    rows: int
    rows_left: int
    copy: Eta | None = None
    """Time left of the copy by its measured rate; None: not measured, or held."""

    rows_per_s: float = 0.0
    """Measured; 0: not yet."""

    limit_rows_per_s: float | None = None
    fresh: bool = False
    """Was no rate measured yet, under any limit?"""

    versions_done: int = 0
    """Of a source without versions: what is new of its rows."""

    versions_left: int = 0
    version_s: float | None = None
    """Seconds that a version took so far; None: none was applied."""

    batches: int = 0
    """In how many batches that was measured."""

    versions_per_s: float = 0.0
    """How fast the source makes new ones."""

    held: bool = False
    """Is the step that it is in paused?"""

    def later(self, seconds: float) -> Facts:
        """Return what will be known after so long: the source goes on meanwhile."""
        return replace(self, versions_left=self.versions_left + int(self.versions_per_s * seconds))


@dataclass(frozen=True, slots=True)
class JobWarning:
    """Something that needs a user: the code for programs, the message for people."""

    code: WarningCode
    message: str


@dataclass(frozen=True, slots=True)
class StrategyView:
    """How far a strategy is, for people and for the operator."""

    phase: str
    rows_total: int
    rows_done: int
    splits_done: int
    splits_left: int
    consumed: Position | None
    """None while history is incomplete."""

    head: Head | None
    lag_versions: int
    """0 of a source that has none."""

    lag_ms: int
    rows_per_s: float
    caught_up: bool
    non_convergent: bool
    grid: tuple[int, ...]
    """At most 64 cells of the row index, each 0 to 100 percent committed."""

    reason: str
    """Why the job is not faster, in words; empty when nothing holds it."""

    facts: Facts
    rows_filtered: int = 0
    """Of the rows that are done, those that the filter left out; a sub-file range counts in the mean."""

    watermark: Watermark | None = None
    """None: no order was asked for, nothing can be told yet, or all of it is there."""

    position: str = ""
    """How far a key is read, in words; empty: rows are not read in the order of one, none is read, or all are there."""

    lag_records: int | None = None
    """Offsets that are known and not in the target; None: the source has versions."""

    lag_by_partition: Largest | None = None
    """The partitions with most of `lag_records`; None: the source has none."""

    warnings: tuple[JobWarning, ...] = ()
    """What will end the job unless the user acts."""


class StoredProgress(Protocol):
    """What a strategy needs to continue; a typed value with its own codec."""

    def encode(self) -> dict[str, Any]:
        """Return the JSON value; `StrategyPlugin.decode` reads it."""


class Strategy(Protocol):
    """Decides which work to do next; hears of results, never does work itself.

    Laws (tests/core and tests/simulation hold every strategy to them): a restart from `stored` after any crash loses and doubles
    nothing; every row is in one commit; work in flight is bounded; progress never goes backwards; nothing starts without a permit.
    """

    def on(self, event: StrategyEvent, now: Now) -> None:
        """Take an event. Finished work waits for the next commit; `Sealed` makes durable what was prepared last."""

    def propose(self, permits: Permits, now: Now) -> tuple[Work, ...]:
        """Choose what to start now; each piece is answered once, with `WorkFinished` or `WorkLost`."""

    def prepare_commit(self, epoch: Epoch, permits: Permits, now: Now) -> CommitRequest:
        """Hand over what the barrier that closes the epoch commits; it counts as committed once `Sealed` comes."""

    @property
    def stored(self) -> StoredProgress:
        """What the next commit stores: all that was prepared, and the effect that it announces."""

    @property
    def status(self) -> StrategyStatus:
        """Where it is; cheap, asked several times an event."""

    def view(self, now: Now) -> StrategyView:
        """How far it is; asked some times a second."""


@dataclass(frozen=True, slots=True)
class StoredSummary:
    """Human-readable summary of a stored state, for `status` without a driver; counts are those of `StrategyView`."""

    phase: str
    rows_total: int | None
    """`None` if only the source knows it."""

    rows_done: int
    rows_filtered: int
    splits_done: int

    position: str = ""
    """As `StrategyView.position`."""


@dataclass(frozen=True, slots=True)
class StrategyPlugin(Generic[S]):
    """What the folder of a strategy offers."""

    name: str
    """Its `spec.strategy.type`."""

    params: type[StrategyParams]
    """What a user may set."""

    decode: Callable[[Mapping[str, Any]], S]
    """Read a stored state; raises StateMismatchError, which names the field that does not fit."""

    open_request: Callable[[S | None], OpenRequest]
    """Say what the source must be opened at; None: the job begins."""

    resume: Callable[[BackfillSpec, S | None, Opened], Strategy]
    """Make the machine of an attempt; raises StateMismatchError when the source is not the one of the state."""

    summarize: Callable[[S], StoredSummary]
    """Say what a stored state holds."""
