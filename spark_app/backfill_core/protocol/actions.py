"""Actions that come out of the core; the shell executes them in their order."""

from __future__ import annotations

from dataclasses import dataclass

from backfill_core.errors import BackfillError
from backfill_core.protocol.quarantine import AnnouncedRecords
from backfill_core.protocol.work import NewColumns, Position, RemovedFile, StagedFile, Work


@dataclass(frozen=True, slots=True)
class StartWork:
    """Begin in the background; answer with WorkFinished, WorkFailed or WorkCancelled, once."""

    work: Work


@dataclass(frozen=True, slots=True)
class CancelWork:
    """End it soon; an answer still follows."""

    work_id: int


@dataclass(frozen=True, slots=True)
class Durable:
    """What the target holds by the newest commit that an attempt knows to be durable."""

    state: str
    txn_version: int


@dataclass(frozen=True, slots=True)
class Seal:
    """One commit: files in, files out, state and transaction id. Answer with Sealed or SealFailed.

    Where bad records are announced, a second commit to their own table follows, before the answer; it may be there already.
    """

    epoch: int
    txn_version: int
    files: tuple[StagedFile, ...]
    state: str
    fences: bool = False
    """The first seal of an attempt: refused with StateMovedError when the state it continues is not the newest."""

    compared: int | None = None
    """Of the last seal of a job: the target version of its receipt; refused with TargetChangedError when others came after it."""

    quarantine: AnnouncedRecords | None = None
    """Bad records that must be in their own table once it is answered."""

    removed: tuple[RemovedFile, ...] = ()
    """Refused with TargetChangedError when others changed what they replace."""

    columns: NewColumns | None = None
    """Those of the target are changed in the same commit, where it says so; afterwards no work of this attempt is done any more."""

    beside: Durable | None = None
    """A state alone, while a MERGE of the job runs: it has no transaction id, and replaces just this state. Refused with
    TargetChangedError once the MERGE has landed, and with FencedError once the state is another one."""


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Answer a command. `outcome`: Applied, Superseded (older revision), WrongAttempt, Refused."""

    attempt: int
    epoch: int
    revision: int
    outcome: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class PollSource:
    """Look at the upstream; answer with SourcePolled."""

    kept_after: Position | None = None
    """Also look whether what comes after this position is still there; gone is PollFailed with the source's own reason."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The attempt is over: `outcome` is Complete, Stopped or Failed."""

    outcome: str
    error: BackfillError | None = None
    message: str = ""
    """What a complete job lacks; empty: nothing."""


Action = StartWork | CancelWork | Seal | Acknowledge | PollSource | Finish
