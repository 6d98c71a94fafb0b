"""The contract between a job and its strategy. A strategy is a folder; see strategies/.

The job decides when: barriers, commits, commands, retries. The strategy decides which work, of which positions, in which order.
The job passes positions and the covered part of history on without reading them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from backfill_api.spec.params import StrategyParams
from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.progress import WarningCode
from backfill_core.errors import BackfillError
from backfill_core.positions.file_order import FileOrder, OrderWatermark
from backfill_core.positions.key_scan import KeyScan
from backfill_core.positions.offsets import Largest, OffsetRange, Subscribed
from backfill_core.positions.partitions import PartitionRows
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.eta import Eta
from backfill_core.protocol.events import Head, StrategyEvent
from backfill_core.protocol.work import Covered, NewColumns, Position, RemovedFile, StagedFile, Work

S = TypeVar("S", bound="StoredProgress")


@dataclass(frozen=True, slots=True)
class PinVersion:
    """Pin a version of the source for as long as the job reads it."""

    version: Position | None = None
    """`None` for the version in the spec, or the newest if the spec has none."""

    or_else: Position | None = None
    """Fallback if `version` no longer exists; `None` if there is no fallback."""

    table_id: str = ""
    """Identity of the table that an earlier attempt pinned; empty if none."""


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Read the source from offsets; nothing is pinned."""

    after: Position | None = None
    """Consumed offsets; `None` if nothing was consumed."""

    first: Position | None = None
    """First offsets of the history when a job resumes; `None`: use the source's."""

    source_id: str = ""
    """Identity of the source that an earlier attempt read; empty if none."""

    unread: tuple[OffsetRange, ...] = ()
    """Ranges of oversized records that earlier attempts did not read."""


@dataclass(frozen=True, slots=True)
class StartOver:
    """The stored state cannot be resumed: start again without it."""

    drop_rows: bool
    """True if the rows that the unfinished job wrote must be removed from the target first."""


@dataclass(frozen=True, slots=True)
class ReadNewest:
    """Read the newest versions of the source; no version is pinned or retained for the job."""

    table_id: str = ""
    """Identity of the table that an earlier attempt read; empty if none."""


OpenRequest = PinVersion | Subscribe | ReadNewest | StartOver


@dataclass(frozen=True, slots=True)
class Pinned:
    """Pinned version of a source."""

    version: int
    timestamp_ms: int
    table_id: str
    fingerprint: str
    """Hash of the files and their row counts; it identifies the row index."""

    rows: tuple[int, ...]
    """Rows of each file in path order, including deleted rows."""

    rows_live: int
    """Rows without deleted rows."""

    order: FileOrder | None = None
    """`None` if the files are read in path order."""

    bytes: tuple[int, ...] = ()
    """Stored size of each file; empty if unknown."""

    live: tuple[int, ...] = ()
    """Rows of each file without deleted rows; empty if no row is deleted."""

    partitions: tuple[str, ...] = ()
    """Partition of each file, such as `day=2026-11-01/country=DE`; empty if the table has no partition columns."""


@dataclass(frozen=True, slots=True)
class Opened:
    """State of source and target when the attempt opened them."""

    answer: Pinned | Subscribed
    """Answer to the request of the strategy."""

    last_txn: int | None = None
    """Newest transaction version of the job in the target. An announced MERGE with this number is durable."""

    committed_ms: int | None = None  # time of the newest state in the target; `None` for a new job
    proves_key: bool = False
    """True if the target must have one row per key. The key is then proven before a change could hide a duplicate."""

    key_proven: bool = False
    """True if the key was proven in the source before the first write; it applies to `found` only."""

    splits_keys: bool = False
    """True if two rows of a key can be in two ranges of `line`. Then no range proves the key."""

    line: KeyScan | None = None
    """Rows in the order of the strategy's key, of a source opened with `ReadNewest`."""

    decodes: bool = False
    """True if all or some columns of every file are decoded. Then a split may end inside a file; other files stay whole."""

    @property
    def pinned(self) -> Pinned:
        """Return the version, if the strategy requested one."""
        assert isinstance(self.answer, Pinned)
        return self.answer

    @property
    def subscribed(self) -> Subscribed:
        """Return the offsets, if the strategy requested them."""
        assert isinstance(self.answer, Subscribed)
        return self.answer


@dataclass(frozen=True, slots=True)
class Permits:
    """Kinds of work that may start now."""

    history: bool
    changes: bool
    checks: bool
    """True if no commit is in progress and the result of a check is needed."""

    epoch: Epoch
    """The open epoch."""

    first_id: int
    """Number of the next work; numbers have no gaps."""

    history_held: bool = False
    """True if history is paused or the attempt is ending. Then all staged files are handed over."""


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """Contribution of the strategy to a commit."""

    files: tuple[StagedFile, ...]
    rows: int
    changes: int
    changed: bool
    """True if the state differs from that of the newest commit."""

    announces: bool
    """True if it announces a MERGE of the strategy, whose transaction version is that of the next epoch."""

    polls: bool
    """True if the source must be polled after the commit, because earlier polls are no longer valid."""

    removed: tuple[RemovedFile, ...] = ()
    columns: NewColumns | None = None

    @property
    def bytes(self) -> int:
        """Return the bytes of the files that are new in the target."""
        kept = {file.path for file in self.removed}
        return sum(file.size_bytes for file in self.files if file.path not in kept)


@dataclass(frozen=True, slots=True)
class StrategyStatus:
    """State of a strategy that the job uses. `cut_off` lists offsets behind an open transaction, which no reader sees."""

    covered: Covered
    """Part of history in the committed target."""

    consumed: Position | None
    """Position up to which the committed target is complete; `None` if there is none."""

    position: Position
    """Position with which a receipt compares the committed target. The source must retain everything after it."""

    history_complete: bool
    caught_up: bool
    """True after the target has reached the newest position once."""

    complete: bool
    """True if everything is durable that `after: Exit` requires."""

    step: str  # the current step of the job (`job.steps`)
    steps: tuple[str, ...]  # all of its steps, in order

    wants_commit: bool
    """True if a commit is needed now, before the next barrier."""

    wants_announcement: bool
    """True if a commit is needed now, provided that changes may start."""

    blocks_commit: bool
    """True while a MERGE of the strategy writes to the target."""

    failure: BackfillError | None
    """Error that the strategy found and that ends the job; `None` if there is none."""

    cut_off: tuple[OffsetRange, ...] = ()
    between_parts: str = ""  # parts of a batch of changes in the target, which then has the rows of no version
    undo_version: int | None = None
    """Version before the job's first change of a table that had rows; `None` if the job fills a target of its own."""

    holds_source: bool = False
    """True if a source with back-pressure must not make a new version now. A Delta table has none (ADR 0028)."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Size and speed of a job at one time; they weight its steps."""

    rows: int
    rows_left: int
    copy: Eta | None = None
    """Time left of the copy by its measured rate; `None` if not measured or held."""

    rows_per_s: float = 0.0  # measured rate; 0 if not measured
    limit_rows_per_s: float | None = None
    fresh: bool = False
    """True until a rate is measured, with or without a limit."""

    versions_done: int = 0
    """Versions applied; for a source without versions, its new rows."""

    versions_left: int = 0
    version_s: float | None = None
    """Average seconds per version in `batches`; `None` if none was applied."""

    batches: int = 0
    versions_per_s: float = 0.0
    """New versions of the source per second."""

    held: bool = False
    """True if the current step is paused."""

    def later(self, seconds: float) -> Facts:
        """Return the forecast after `seconds`, during which the source makes new versions."""
        return replace(self, versions_left=self.versions_left + int(self.versions_per_s * seconds))


@dataclass(frozen=True, slots=True)
class JobWarning:
    """Warning that requires a user: a code for programs, a message for readers."""

    code: WarningCode
    message: str


@dataclass(frozen=True, slots=True)
class StrategyView:
    """Progress of a strategy, for users and for the operator."""

    phase: str
    rows_total: int
    rows_done: int
    splits_done: int
    splits_left: int
    consumed: Position | None
    """`None` while history is incomplete."""

    head: Head | None
    lag_versions: int
    """0 if the source has no versions."""

    lag_ms: int
    rows_per_s: float
    caught_up: bool
    non_convergent: bool
    grid: tuple[int, ...]
    """At most 64 cells of the row index, each 0 to 100 percent committed."""

    reason: str
    """Message that explains why the job is not faster; empty if nothing limits it."""

    facts: Facts
    writer_conflicts: int = 0
    rows_filtered: int = 0
    """Rows of `rows_done` that the filter excluded; an average for parts of a file."""

    watermark: OrderWatermark | None = None
    """`None` if no order was requested, no bound is known yet, or the copy is complete."""

    position: str = ""
    """Position in the order of a key, for display; empty without such an order, before the first row, and after the last."""

    lag_records: int | None = None
    """Known offsets that are not in the target; `None` if the source has versions."""

    lag_by_partition: Largest | None = None
    """Partitions with most of `lag_records`; `None` if the source has no partitions."""

    warnings: tuple[JobWarning, ...] = ()
    """Warnings of causes that will end the job unless the user acts."""

    partitions: tuple[PartitionRows, ...] = ()
    """Largest partitions, and all others as one; empty if the source has none, or rows are read in the order of a key."""


class StoredProgress(Protocol):
    """State from which a strategy resumes: a typed value with its own codec."""

    def encode(self) -> dict[str, Any]:
        """Return the JSON value; `StrategyPlugin.decode` reads it."""


class Strategy(Protocol):
    """Decides the next work and receives results; it never does work itself.

    Laws (tests/core and tests/simulation hold every strategy to them): a restart from `stored` after any crash loses and doubles
    nothing; every row is in one commit; work in flight is bounded; progress never decreases; no work starts without a permit.
    """

    def on(self, event: StrategyEvent, now: Now) -> None:
        """Handle an event. Finished work waits for the next commit; after `Sealed` the last prepared commit is durable."""

    def propose(self, permits: Permits, now: Now) -> tuple[Work, ...]:
        """Return the work to start now; each is answered once, with `WorkFinished` or `WorkLost`."""

    def prepare_commit(self, epoch: Epoch, permits: Permits, now: Now) -> CommitRequest:
        """Return the contribution to the commit that closes the epoch; it counts as committed after `Sealed`."""

    @property
    def stored(self) -> StoredProgress:
        """State for the next commit: everything prepared, and the announced MERGE."""

    @property
    def status(self) -> StrategyStatus:
        """Current state; cheap, read several times per event."""

    def view(self, now: Now) -> StrategyView:
        """Return the progress; called several times a second."""


@dataclass(frozen=True, slots=True)
class StoredSummary:
    """Human-readable summary of a stored state, for `status` without a driver; counts are those of `StrategyView`."""

    phase: str
    rows_total: int | None
    """`None` if unknown without the source."""

    rows_done: int
    rows_filtered: int
    splits_done: int
    position: str = ""
    """As `StrategyView.position`."""

    writer_conflicts: int = 0


@dataclass(frozen=True, slots=True)
class StrategyPlugin(Generic[S]):
    """Entry point of a strategy's folder."""

    name: str
    """Value of `spec.strategy.type`."""

    params: type[StrategyParams]
    """Parameters that a user can set."""

    decode: Callable[[Mapping[str, Any]], S]
    """Parse a stored state; raises StateMismatchError, which names the field that does not fit."""

    open_request: Callable[[S | None], OpenRequest]
    """Return the request to open the source; the argument is `None` when the job starts."""

    resume: Callable[[BackfillSpec, S | None, Opened], Strategy]
    """Create the strategy of an attempt; raises StateMismatchError if the source is not that of the state."""

    summarize: Callable[[S], StoredSummary]
    """Summarise a stored state."""
