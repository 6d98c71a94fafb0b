"""The status of a Backfill, written by the operator. An absent field was not observed."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from backfill_api.model import Model
from backfill_api.spec.bounds import By, Count, ExitCode, Generation, Moment, Note, PlanName, Revision
from backfill_api.spec.change_claim import ChangeClaim
from backfill_api.spec.override import Override, ThrottleSpec
from backfill_api.status.conditions import Condition, Phase
from backfill_api.status.losses import Losses, PodLoss
from backfill_api.status.plan import Plan, PlanWarning
from backfill_api.status.procedure import ClosingRun, ProcedureKind, RepairRun, SwitchRun
from backfill_api.status.progress import Progress, ProgressSummary
from backfill_api.status.receipt import Receipt, ReceiptSummary
from backfill_api.wire import Command, CommandType

__all__ = [
    "Acknowledgement", "Attempt", "BackfillStatus", "ClosingRun", "Condition", "Control", "PastAttempt", "PendingCommand", "Phase", "Plan", "PlanWarning", "PodLoss",
    "Progress", "ProgressSummary", "Receipt", "ReceiptSummary", "RefreshRun", "RefreshTimes", "RepairRun", "StopRequest", "SwitchRun",
]  # fmt: skip

HISTORY_MAX = 5
TOKEN_HASHES_MAX = 8
ACKS_MAX = 8

PodName = Annotated[str, Field(max_length=253)]
TokenHash = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]


AttemptKind = Literal["Run", "Plan"]
StopReason = Literal[
    "Suspended",
    "Paused",
    "Deleted",
    "Restarted",
    "Switching",
    "Repairing",
    "DeadlineExceeded",
    "SpecChanged",
    "StartupTimeout",
    "SubmissionFailed",
    "ImageUnavailable",
    "EvictedByQueue",
]
Token = Annotated[str, Field(max_length=256)]


class StopRequest(Model):
    """A request to end an attempt, recorded before it is sent."""

    reason: StopReason
    """Reason."""

    time: Moment
    """Time, RFC 3339; start of the drain timeout."""

    revision: Revision | None = None
    """Revision of the command that is sent to the driver; absent if it cannot be sent, so the pod is deleted."""


class Attempt(Model):
    """The current attempt, recorded before its pod is created."""

    number: Count
    """1 for the first."""

    kind: AttemptKind = "Run"
    """`Plan`: it only makes a plan, because `approval` is Manual."""

    procedure: ProcedureKind | None = None
    """The procedure that it performs; absent: it runs the job."""

    state: Literal["Planned", "Created", "Ended"]
    """`Planned`: its pod may exist. `Created`: its pod existed. `Ended`: it is in the history."""

    pod_name: PodName | None = None
    """The driver pod."""

    pod_uid: Annotated[str, Field(max_length=64)] | None = None
    """UID of the pod; a pod of the same name with another UID is not ours."""

    start_time: Moment | None = None
    """Time at which the attempt was planned, RFC 3339."""

    token_hashes: Annotated[tuple[TokenHash, ...], Field(min_length=1, max_length=TOKEN_HASHES_MAX)] | None = None
    """Shortened SHA-256 of the tokens that its Secret may hold; a Secret with another token is not the operator's.

    Absent: an earlier version of the operator made it.
    """

    ready_time: Moment | None = None
    """Time at which its driver was first ready, RFC 3339; the startup timeout applies only before."""

    began_at: Annotated[str, Field(max_length=64)] | None = None
    """Hash of the target's state at the first report of its driver; absent before."""

    committed: bool = False
    """True if its driver has committed since then, so that its loss starts a new count."""

    workload_uid: Annotated[str, Field(max_length=64)] | None = None
    """UID of the Workload of Kueue that admitted it; absent without `spec.queue`. It ends when this Workload is evicted."""

    executors_lost: Losses = ()
    """Executors that its driver reported as lost; they are in `lostExecutors` of the status."""

    stop: StopRequest | None = None
    """Set once the attempt was asked to end."""


class PendingCommand(Model):
    """A command without an acknowledgement; a revision always stands for the same command."""

    revision: Revision
    """Its number."""

    command: Command
    """Requested state."""

    time: Moment | None = None
    """Time of the decision, RFC 3339 with milliseconds; absent: an earlier version of the operator decided it."""

    by: By = ""
    """Author of the change that caused it, as the annotation `backfill.dev/changed-by` claims."""

    note: Note = ""
    """Reason in that annotation."""


class Acknowledgement(Model):
    """A command that the driver confirmed."""

    revision: Revision
    """Its number."""

    type: CommandType
    """Requested state."""

    epoch: Count
    """Barrier whose commit contains the command."""

    ms: Count | None = None
    """Milliseconds from the operator's decision to the acknowledgement; absent: not known."""

    time: Moment
    """Time of the acknowledgement, RFC 3339."""

    by: By = ""
    """Author of the change that caused it, as the annotation `backfill.dev/changed-by` claims; empty: no claim.

    The audit log of the API server is the proof.
    """

    note: Note = ""
    """Reason in that annotation."""


class Control(Model):
    """The commands to the driver, and those that it confirmed."""

    desired_revision: Revision = 0
    """Newest command."""

    acked_revision: Revision = 0
    """Newest command that the driver confirmed after a commit."""

    epoch: Count = 0
    """Barrier of that commit."""

    last_ack_time: Moment | None = None
    """Time, RFC 3339."""

    paused: Literal["History", "All"] | None = None
    """Pause that the driver last received, at its start or by a command; absent if none."""

    rows_per_second: Count | None = None
    """The limit of rows that it was last asked for; absent: none."""

    bytes_per_second: Count | None = None
    """The limit of bytes that it was last asked for; absent: none."""

    until: Moment | None = None
    """End of that limit, RFC 3339; absent: it has none."""

    then: ThrottleSpec | None = None
    """The limit that follows at `until`; absent: none."""

    max_in_flight: Count | None = None
    """The most pieces that it was last asked to run at the same time; absent: its strategy decides."""

    split_target_seconds: Count | None = None
    """The target duration of a split that it was last asked for; absent: its strategy has no splits."""

    chunk_rows: Count | None = None
    """The rows of a chunk that it was last asked for, 0: by time; absent: its strategy has no chunks."""

    executors: Count | None = None
    """The number of executors that it was last asked for; absent: the number cannot change."""

    attempt: Count = 0
    """The attempt that the pending commands are for."""

    pending: Annotated[tuple[PendingCommand, ...], Field(max_length=5)] = ()
    """Sent again until they are acknowledged, in this order; at most one of each kind."""

    pending_since: Moment | None = None
    """Time of the newest decision, RFC 3339."""

    acks: Annotated[tuple[Acknowledgement, ...], Field(max_length=ACKS_MAX)] = ()
    """The last commands that drivers of all attempts confirmed, oldest first."""

    claim_of: TokenHash | None = None
    """Shortened SHA-256 of the newest value of `backfill.dev/changed-by` that was used; another value is a new claim."""

    verify_token: Token = ""
    """Last value of the annotation `backfill.dev/verify-requested` that became a command."""

    verify_epoch: Count | None = None
    """Barrier of a requested receipt that the driver has begun, until the receipt is here; an attempt that ends before is asked again."""

    restart_token: Token = ""
    """Last value of the annotation `backfill.dev/restart-requested` that caused a restart."""

    refresh_token: Token = ""
    """Last value of the annotation `backfill.dev/refresh-requested` that caused a refresh."""

    switch_token: Token = ""
    """Last value of the annotation `backfill.dev/switch-requested` that was answered."""

    switch_undo_token: Token = ""
    """Last value of the annotation `backfill.dev/switch-undo-requested` that was answered."""

    switch_complete_token: Token = ""
    """Last value of the annotation `backfill.dev/switch-complete-requested` that was answered."""

    repair_token: Token = ""
    """Last value of the annotation `backfill.dev/repair-requested` that was answered."""


class RefreshRun(Model):
    """The newest run of a complete job; `progress.refresh` has the position at which it began."""

    start: Moment
    """Time at which the job was continued, RFC 3339."""

    end: Moment | None = None
    """End, RFC 3339; absent while it runs or waits."""

    reason: Annotated[str, Field(max_length=64)] = ""
    """`Complete`, `UpToDate` if the source had nothing new and nothing was written, or the reason of its failure; empty while it runs."""

    @property
    def done(self) -> bool:
        """True if it ended well; a failed one is tried again when the job is restarted."""
        return self.reason in ("Complete", "UpToDate")


class RefreshTimes(Model):
    """Times of `spec.refresh.schedule`."""

    of: Annotated[str, Field(max_length=320)]
    """Schedule and time zone that `next` belongs to."""

    next: Moment | None = None
    """Next time, RFC 3339; a past one waits, as `waits` says. Absent: there is none."""

    last: Moment | None = None
    """Newest time that started a refresh, RFC 3339."""

    skipped: Moment | None = None
    """Newest time that started none, because the refresh before it had not ended, RFC 3339."""

    waits: Literal["", "Suspended", "Paused", "AllJobsPaused"] = ""
    """Reason why the refresh of `next` does not start yet; it starts once."""


class PastAttempt(Model):
    """An attempt that ended."""

    number: Count
    """1 for the first. Of attempts in a row whose pods a node rejected there is one entry: the last one's, with the start of the first."""

    kind: AttemptKind = "Run"
    """`Plan`: it only made a plan."""

    start: Moment | None = None
    """Time of planning, RFC 3339."""

    end: Moment | None = None
    """End, RFC 3339."""

    reason: Annotated[str, Field(max_length=64)] = ""
    """Reason in one CamelCase word."""

    exit_code: ExitCode | None = None
    """Exit code of the driver process; absent: not known."""


class BackfillStatus(Model):
    """The state that the operator observed."""

    observed_generation: Generation = -1
    """Generation of the spec that this status is about; -1: none yet."""

    phase: Phase | None = None
    """The conditions in one word."""

    conditions: Annotated[tuple[Condition, ...], Field(max_length=32)] = ()
    """Conditions with their reasons."""

    start_time: Moment | None = None
    """Time at which the first attempt was planned, or the first after a suspension, RFC 3339; start of the deadline."""

    completion_time: Moment | None = None
    """End of the job, RFC 3339."""

    attempts: Count = 0
    """Attempts so far."""

    failures: Count = 0
    """Failed attempts that count against `backoffLimit`. An attempt that committed, or ran for an hour, restarts the count; one with
    a cause outside the job does not count."""

    lost_drivers: Losses = ()
    """Drivers that ended without an end of their own, by reason: `OOMKilled`, `Evicted`, `Deleted`, a reason of `DisruptionTarget` and others."""

    lost_executors: Losses = ()
    """Executors that ended while a driver needed them, by reason; those of all attempts, as their drivers reported them."""

    attempt: Attempt | None = None
    """The current attempt."""

    control: Control | None = None
    """The commands to the driver, and those that it confirmed."""

    override: Override | None = None
    """Override in force; an invalid annotation leaves it unchanged."""

    all_jobs_pause: ChangeClaim | None = None
    """Author and reason of the pause of all jobs, as its switch claims them; absent if it is not in force, or the job is over."""

    plan: Plan | None = None
    """The newest plan."""

    plan_of: PlanName | None = None
    """Name of the plan: a hash of the planned fields. A spec with another hash is planned again."""

    approved_of: PlanName | None = None
    """Name of the plan that existed when `spec.approved` was set; absent if there was none, or if it is not set."""

    progress: ProgressSummary | None = None
    """Progress of the job."""

    receipt: ReceiptSummary | None = None
    """The newest receipt."""

    refresh: RefreshRun | None = None
    """The newest refresh; absent: none was requested."""

    refresh_times: RefreshTimes | None = None
    """Times of `spec.refresh.schedule`; absent: it has no schedule, or the job has not ended yet."""

    switch: SwitchRun | None = None
    """The newest switch-over, undo or end of one; absent: none was requested."""

    repair: RepairRun | None = None
    """The newest repair; absent: none was requested."""

    closing: ClosingRun | None = None
    """The end of a deleted job; absent: the job is not deleted, or its `deletionPolicy` asks for nothing."""

    history: Annotated[tuple[PastAttempt, ...], Field(max_length=HISTORY_MAX)] = ()
    """The last attempts that ended, oldest first."""
