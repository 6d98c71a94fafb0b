"""Events that go into the core: answers to its actions, commands, and time."""

from __future__ import annotations

from dataclasses import dataclass

from backfill_api.spec.override import Width
from backfill_core.errors import BackfillError, ForeignCommit
from backfill_core.positions.offsets import Offsets
from backfill_core.protocol.commands import Command
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.work import Position, Result


@dataclass(frozen=True, slots=True)
class Head:
    """Newest position of the source at the last poll."""

    position: Position
    """Version, or offset per partition."""

    timestamp_ms: int
    """Time of the commit; time of the poll if the source does not record it."""

    source_id: str = ""
    """Identity of the source: a different table at the same path has different rows at the same positions."""

    kept_s: int | None = None
    """Retention of the source in seconds; `None` if unknown."""

    watermarks: Offsets | None = None
    """Offset after the last record of each partition, including records behind open transactions; `None`: the same as `position`."""

    removals_kept_s: int | None = None
    """Seconds for which a compacted source keeps a record that removes a key; `None` if it is not compacted, or unknown."""

    def newer_than(self, position: Position) -> int:
        """Return how many versions, or offsets of all partitions, come after a position."""
        if isinstance(self.position, int):
            return max(0, self.position - int(position))
        return sum(max(0, end - position.get(name, 0)) for name, end in self.position.items())


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed."""


@dataclass(frozen=True, slots=True)
class SourcePolled:
    """The newest state of the source, changed or not."""

    head: Head
    fresh: bool = True
    """True if it was requested after the last commit that requires a new poll. The job sets it."""


@dataclass(frozen=True, slots=True)
class PollFailed:
    """The poll of the source failed."""

    error: BackfillError


@dataclass(frozen=True, slots=True)
class CommandReceived:
    """A command of a user; applied by the next barrier, acknowledged after its seal."""

    attempt: int
    revision: int
    command: Command


@dataclass(frozen=True, slots=True)
class StopRequested:
    """The process received a signal to end. Like `Stop`, but without a revision, because it is no command."""

    force: bool = False


@dataclass(frozen=True, slots=True)
class WorkFinished:
    """Work succeeded."""

    result: Result


@dataclass(frozen=True, slots=True)
class WorkFailed:
    """Work failed."""

    work_id: int
    error: BackfillError


@dataclass(frozen=True, slots=True)
class WorkCancelled:
    """Work ended after `CancelWork`; it has no effect."""

    work_id: int


@dataclass(frozen=True, slots=True)
class Sealed:
    """The commit of a `Seal` is durable."""

    epoch: int
    table_version: int
    seconds: float
    foreign: object = None
    """Foreign changes that the commit was adapted to; only strategies that replace files of a live table read them."""


@dataclass(frozen=True, slots=True)
class SealFailed:
    """The commit of a `Seal` failed."""

    epoch: int
    error: BackfillError


@dataclass(frozen=True, slots=True)
class OthersCommitted:
    """Another writer committed changes to the target while the attempt ran."""

    commits: tuple[ForeignCommit, ...]


@dataclass(frozen=True, slots=True)
class HooksRan:
    """Post-commit hooks (checkpoints, checksums) ran. Reported after a failure, and after the first success that follows."""

    failure: BackfillError | None
    """`None` if all succeeded."""


@dataclass(frozen=True, slots=True)
class StoreCounted:
    """The driver counted its requests to the stores of source and target; reported about once a second."""

    requests: int
    """Requests since the process began; each try counts."""

    refused: int
    """Requests of these that a store refused because it received too many (503 Slow Down)."""


@dataclass(frozen=True, slots=True)
class QueryAnswered:
    """A monitoring system answered the query of `throttle.auto`, or failed to."""

    value: float | None
    """A finite number; `None` without one."""

    problem: str = ""
    """Reason why there is no value, for users."""


Event = (
    Tick
    | SourcePolled
    | PollFailed
    | CommandReceived
    | StopRequested
    | WorkFinished
    | WorkFailed
    | WorkCancelled
    | Sealed
    | SealFailed
    | OthersCommitted
    | HooksRan
    | StoreCounted
    | QueryAnswered
)


# ------------------------------------------------------------------ events from the job to its strategy
@dataclass(frozen=True, slots=True)
class LimitSet:
    """Limit of history from now on: `None` is unlimited, 0 holds it. The lower of two limits applies."""

    rows_per_s: float | None
    burst_s: float
    """Seconds for which unused rate is kept."""

    bytes_per_s: int | None = None
    """Bytes of the source's files as stored, compressed."""

    def in_rows(self, row_bytes: float | None) -> LimitSet:
        """Return the limit in rows, from the average bytes of a row; `None` if unknown or without rows."""
        rates = [rate for rate in (self.rows_per_s, self._rows_of_bytes(row_bytes)) if rate is not None]
        return LimitSet(min(rates, default=None), self.burst_s)

    def counts_bytes(self, row_bytes: float | None) -> bool:
        """Return whether the limit of bytes is the lower one."""
        by_bytes = self._rows_of_bytes(row_bytes)
        return by_bytes is not None and (self.rows_per_s is None or by_bytes < self.rows_per_s)

    def _rows_of_bytes(self, row_bytes: float | None) -> float | None:
        if self.bytes_per_s == 0:
            return 0
        return self.bytes_per_s / row_bytes if self.bytes_per_s and row_bytes else None


@dataclass(frozen=True, slots=True)
class WidthSet:
    """Width in force from now on, for pieces that begin later; those that run already may end.

    A strategy ignores absent values. It receives none if all values of pieces are fixed.
    """

    width: Width


@dataclass(frozen=True, slots=True)
class BarrierPassed:
    """A barrier passed, with or without a commit; `epoch` is open now."""

    epoch: Epoch
    scheduled: bool
    """True if the interval has passed. Only such a barrier admits the quota of a limit; a barrier that is early does not."""


@dataclass(frozen=True, slots=True)
class WorkLost:
    """Work failed or was cancelled; its positions must be read again."""

    work_id: int


StrategyEvent = LimitSet | WidthSet | BarrierPassed | SourcePolled | WorkFinished | WorkLost | Sealed
