"""What the job asks of a strategy, and what it offers it. A strategy is a folder; see strategies/."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from backfill_api.spec.params import StrategyParams
from backfill_api.spec.spec import BackfillSpec
from backfill_core.errors import BackfillError
from backfill_core.job.steps import Facts
from backfill_core.pacing.throttle import TokenBucket
from backfill_core.protocol.clock import Now
from backfill_core.protocol.events import Head
from backfill_core.protocol.work import Result, StagedFile, Work


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


@dataclass(frozen=True, slots=True)
class Permits:
    """What may start now."""

    history: bool
    changes: bool
    at_barrier: bool
    """A barrier has just passed: the moment at which a rate limit admits one epoch's quota."""


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """What a seal takes along from the strategy."""

    files: tuple[StagedFile, ...]
    rows: int
    changes: int
    bytes: int
    dirty: bool
    """Is there anything that the stored state does not say yet?"""

    reserves_epoch: bool
    """Does an announced MERGE need the epoch after this one as its transaction version?"""


@dataclass(frozen=True, slots=True)
class StrategyView:
    """How far a strategy is, for people and for the operator."""

    phase: str
    rows_total: int
    rows_done: int
    splits_done: int
    splits_left: int
    consumed: int | None
    head: Head | None
    lag_versions: int
    lag_ms: int
    rows_per_s: float
    eta_s: float | None
    eta_low_s: float | None
    eta_high_s: float | None
    caught_up: bool
    non_convergent: bool
    grid: tuple[int, ...]
    """At most 64 cells of the snapshot's row index, each 0 to 100 percent sealed."""

    reason: str
    """Why the job is not faster, in words; empty when nothing holds it."""

    rows_filtered: int = 0
    """Of the rows that are done, those that the filter left out; a sub-file range counts in the mean."""

    warnings: tuple[str, ...] = ()
    """What will end the job if nobody does anything."""


class Strategy(Protocol):
    """Decides which work to do next; told of results, never does work itself.

    Laws (tests/core and tests/simulation hold every strategy to them): a restart from `to_json` after any
    crash loses and doubles nothing; every row is handed over exactly once; work in flight is bounded;
    progress never goes backwards; nothing starts against the permits.
    """

    @property
    def consumed(self) -> int | None:
        """Source version the *sealed* target holds; None while the snapshot is incomplete."""

    @property
    def done(self) -> tuple[tuple[int, int], ...] | None:
        """Sealed intervals of the snapshot's row index; None when the snapshot is complete."""

    @property
    def source_version(self) -> int:
        """The version a receipt of the sealed target compares with."""

    @property
    def complete(self) -> bool:
        """Is everything sealed that `after: Exit` waits for?"""

    @property
    def caught_up(self) -> bool:
        """Has the target reached the newest version once?"""

    @property
    def failure(self) -> BackfillError | None:
        """What makes going on pointless, found by the strategy itself."""

    @property
    def merging(self) -> bool:
        """Is a MERGE running, so that seals must wait?"""

    def urgent(self, permits: Permits) -> bool:
        """Is a seal wanted now, without waiting for the next barrier?"""

    def to_json(self) -> dict[str, Any]:
        """Return the state to be sealed: what was handed over, and what is about to be merged."""

    def resume(self, stored: dict[str, Any], last_txn: int | None) -> None:
        """Go on from what `to_json` returned in an earlier attempt; `last_txn` is the newest in the target."""

    def on_head(self, head: Head, *, fresh: bool) -> None:
        """Learn of the newest upstream version; `fresh`: looked at after the last phase change."""

    def take_phase_change(self) -> bool:
        """Tell once that the phase changed: heads looked at before do not count as fresh."""

    def next_work(
        self, now: Now, permits: Permits, bucket: TokenBucket, ids: WorkIds
    ) -> tuple[TokenBucket, tuple[Work, ...]]:
        """Choose what to start now; the bucket is charged for rows when they start or when they are sealed, once."""

    def on_result(self, result: Result, now: Now, bucket: TokenBucket) -> TokenBucket:
        """Take finished work; it waits for the next commit."""

    def on_lost(self, work_id: int) -> None:
        """Forget work that failed or was cancelled: its rows are to be read again."""

    def prepare_commit(
        self, now: Now, bucket: TokenBucket, ids: WorkIds, *, release_all: bool, may_merge: bool
    ) -> tuple[TokenBucket, CommitRequest]:
        """Hand over what the barrier that closes the open epoch seals, and charge the bucket for what was not yet.

        Args:
            now: The moment of the barrier.
            bucket: The limit that is in force.
            ids: Tells the open epoch and the attempt.
            release_all: Keep nothing staged: hand over what was charged, give up what was not, to be read again.
            may_merge: May a MERGE be announced?
        """

    def on_sealed(self, now: Now) -> None:
        """Know that what was handed over last is durable."""

    def facts(self, *, limit: int | None, held: bool) -> Facts:
        """Tell what is left and how fast it goes: what the steps of the job are weighed by."""

    def view(self, now: Now) -> StrategyView:
        """Tell how far it is."""


@dataclass(frozen=True, slots=True)
class StrategyPlugin:
    """What the folder of a strategy offers."""

    name: str
    """Its `spec.strategy.type`."""

    params: type[StrategyParams]
    """What a user may set."""

    build: Callable[[BackfillSpec, Pinned], Strategy]
    """Make the machine of a job, at its beginning."""


class WorkIds:
    """Numbers for work items, unique within an attempt; and the epoch that is open."""

    def __init__(self, epoch: int, attempt: int) -> None:
        """Start at 1: 0 is nobody's id."""
        self.epoch = epoch
        self.attempt = attempt
        self._last = 0

    def take(self) -> int:
        """Return the next id."""
        self._last += 1
        return self._last
