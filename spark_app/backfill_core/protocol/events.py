"""Events that go into the core: answers to its actions, commands, and time."""

from __future__ import annotations

from dataclasses import dataclass

from backfill_core.errors import BackfillError, ForeignCommit
from backfill_core.positions.offsets import Offsets
from backfill_core.protocol.commands import Command
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.work import Position, Result


@dataclass(frozen=True, slots=True)
class Head:
    """The newest position of the source, as last seen."""

    position: Position
    """A version, or an offset per partition."""

    timestamp_ms: int
    """When it was made; where the source does not say, when it was seen."""

    source_id: str = ""
    """Identity of the source; another one at the same place has other rows at the same positions."""

    kept_s: int | None = None
    """How long the source keeps what is not the newest, seconds; None: not known."""

    watermarks: Offsets | None = None
    """Offset after the last record of each partition, including records behind open transactions; `None`: the same as `position`."""

    def newer_than(self, position: Position) -> int:
        """Return how many versions, or offsets of all partitions, come after a position."""
        if isinstance(self.position, int):
            return max(0, self.position - int(position))
        return sum(max(0, end - position.get(name, 0)) for name, end in self.position.items())


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed; nothing else."""


@dataclass(frozen=True, slots=True)
class SourcePolled:
    """The newest state of the source, changed or not."""

    head: Head
    fresh: bool = True
    """Was it asked for after the last commit that asked for a fresh one? The job sets it."""


@dataclass(frozen=True, slots=True)
class PollFailed:
    """The upstream could not be looked at."""

    error: BackfillError


@dataclass(frozen=True, slots=True)
class CommandReceived:
    """A command of a user; applied by the next barrier, acknowledged after its seal."""

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
    """Another writer committed changes to the target while the attempt ran."""

    commits: tuple[ForeignCommit, ...]


@dataclass(frozen=True, slots=True)
class HooksRan:
    """The hooks of past commits (checkpoints, checksums) were run; reported at a failure, and when it has passed."""

    failure: BackfillError | None
    """`None` if all succeeded."""


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
)


# ------------------------------------------------------------------ what the job tells a strategy
@dataclass(frozen=True, slots=True)
class LimitSet:
    """From now on history is limited (None: not so, 0: held); of two limits the lower holds."""

    rows_per_s: float | None
    burst_s: float
    """For so many seconds unused rate is kept."""

    bytes_per_s: int | None = None
    """Of the source's files, as they are stored."""

    def in_rows(self, row_bytes: float | None) -> LimitSet:
        """Return the limit in rows, where one has so many bytes in the mean; None: it is not known, or there is no row."""
        rates = [one for one in (self.rows_per_s, self._rows_of_bytes(row_bytes)) if one is not None]
        return LimitSet(min(rates, default=None), self.burst_s)

    def counts_bytes(self, row_bytes: float | None) -> bool:
        """Is the limit of bytes the one that holds?"""
        by_bytes = self._rows_of_bytes(row_bytes)
        return by_bytes is not None and (self.rows_per_s is None or by_bytes < self.rows_per_s)

    def _rows_of_bytes(self, row_bytes: float | None) -> float | None:
        if self.bytes_per_s == 0:
            return 0
        return self.bytes_per_s / row_bytes if self.bytes_per_s and row_bytes else None


@dataclass(frozen=True, slots=True)
class BarrierPassed:
    """A barrier passed, with or without a commit; `epoch` is open now."""

    epoch: Epoch
    scheduled: bool
    """Was its time come? Only such a barrier admits the quota of a limit; others come early, for a commit that is wanted."""


@dataclass(frozen=True, slots=True)
class WorkLost:
    """Work failed or was cancelled: what it would have brought is missing again."""

    work_id: int


StrategyEvent = LimitSet | BarrierPassed | SourcePolled | WorkFinished | WorkLost | Sealed
