"""Actions that come out of the core; the shell executes them in their order."""

from __future__ import annotations

from dataclasses import dataclass

from backfill_core.errors import BackfillError
from backfill_core.protocol.publication import ManifestPart, ManifestWrite
from backfill_core.protocol.quarantine import AnnouncedRecords
from backfill_core.protocol.work import NewColumns, Position, RemovedFile, StagedFile, Work


@dataclass(frozen=True, slots=True)
class StartWork:
    """Start work in the background; answer once with WorkFinished, WorkFailed or WorkCancelled."""

    work: Work


@dataclass(frozen=True, slots=True)
class CancelWork:
    """End the work soon; an answer still follows."""

    work_id: int


@dataclass(frozen=True, slots=True)
class Durable:
    """The newest durable commit that an attempt has seen."""

    state: str
    txn_version: int


@dataclass(frozen=True, slots=True)
class Seal:
    """One commit: files in, files out, state and transaction id. Answer with Sealed or SealFailed.

    If bad records are announced, a second commit to their own table precedes the answer. It may exist already.
    """

    epoch: int
    txn_version: int
    files: tuple[StagedFile, ...]
    state: str
    fences: bool = False
    """First seal of an attempt: refused with StateMovedError unless the state that it continues is the newest."""

    compared: int | None = None
    """Target version of the receipt, in the last seal of a job: refused with TargetChangedError if a later commit exists."""

    quarantine: AnnouncedRecords | None = None
    """Bad records that must be in their own table before the answer."""

    removed: tuple[RemovedFile, ...] = ()
    """Refused with TargetChangedError if another writer changed the files that they replace."""

    columns: NewColumns | None = None
    """Change of the target's columns in the same commit; the attempt starts no work afterwards."""

    state_only_after: Durable | None = None
    """The state that a state-only commit replaces while a MERGE of the job runs; the commit has no transaction id. Refused with
    TargetChangedError if the MERGE has landed, and with FencedError if the state is another one."""

    manifest: ManifestWrite | None = None
    """Part of the manifest that lists `files`, written before the commit; the commit then adds no file."""

    publishes: tuple[ManifestPart, ...] | None = None
    """Parts whose files the commit makes visible; `None` for any other commit. Refused with TargetChangedError if the target has
    rows of other writers that it must not have."""

    scope_pin: int | None = None
    """Version of the target after which no other writer may change rows of the scope that the job replaces; `None` without a scope."""


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
    """Poll the source; answer with SourcePolled or PollFailed."""

    kept_after: Position | None = None
    """Also check that the data after this position still exists; otherwise PollFailed carries the source's reason."""


@dataclass(frozen=True, slots=True)
class Finish:
    """End the attempt: `outcome` is Complete, Stopped or Failed."""

    outcome: str
    error: BackfillError | None = None
    message: str = ""
    """Message about a complete job that lacks something, or that can be undone; empty otherwise."""

    hint: str = ""
    """Next step of the user, if it lacks something."""


Action = StartWork | CancelWork | Seal | Acknowledge | PollSource | Finish
