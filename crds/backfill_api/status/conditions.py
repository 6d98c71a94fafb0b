"""Names in `status.conditions` and `status.phase`. They are API: a renamed one breaks users' alerts."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from backfill_api.model import Model
from backfill_api.spec.bounds import Generation, Message, Moment

Phase = Literal[
    "Pending", "AwaitingApproval", "Launching", "Running", "Pausing", "Paused", "Suspending", "Suspended",
    "Retrying", "Succeeded", "Failed", "Terminating",
]  # fmt: skip
"""Derived from the conditions, for users."""

CONDITION_TYPES: Final = {
    "Ready": "The desired state holds: running, or paused or suspended as asked, or complete.",
    "Reconciling": "The operator is working towards the desired state; present only when true.",
    "Stalled": "A person is needed: spec refused, retries used up, name collision, state mismatch, expired source.",
    "Complete": "The job succeeded.",
    "Failed": "The job failed.",
    "Finished": "The job succeeded or failed.",
    "Paused": "The driver acknowledged the pause.",
    "Suspended": "The pods are gone, as `suspend` asked.",
    "Throttled": "The driver acknowledged a limit.",
    "DriverReady": "The driver responds.",
    "ControlSynced": "The driver acknowledged the newest command.",
    "CaughtUp": "The target reached the newest version of the source.",
    "NonConvergent": "The lag does not fall: the source changes faster than changes are applied.",
    "Verified": "The newest receipt compared all of the source, and found no difference.",
    "AwaitingApproval": "The plan is made and waits for `spec.approved` or `spec.approvedPlan`.",
    "SharedTarget": "Another Backfill writes the same target; present only when true.",
    "OverrideIgnored": "An override annotation cannot be read, and what held before stays in force; present only when true.",
    "EditPending": "A field of the spec was edited that takes effect with the next attempt; the message names it. Present only when true.",
    "Switched": "Readers and writers use the target; present after a switch-over was requested. `Unknown`: one is not finished.",
    "Repaired": "The newest repair succeeded; present after one was requested.",
    "ExecutorsWaiting": "Executors of the driver do not start, or fewer come than were asked for; the message says why. Present only when true.",
}
"""All condition types with the meaning of `True`."""

REASONS: Final = {
    # reasons of the lifecycle
    "Accepted": "The spec is valid, and no attempt was started yet.",
    "Launching": "A driver was requested.",
    "Running": "The driver runs.",
    "AsRequested": "Paused, suspended or throttled because the spec says so.",
    "Override": "Paused, suspended or throttled because the override annotation says so.",
    "AllJobsPaused": "The switch for all jobs pauses this one, or holds its launch; the message contains author and reason.",
    "Acknowledged": "The driver confirmed the newest command after a commit.",
    "AcknowledgementPending": "The driver has not confirmed the newest command yet.",
    "Complete": "Everything was copied.",
    "BackingOff": "An attempt failed and the next one waits.",
    "BackoffLimitExceeded": "Too many attempts failed.",
    "DeadlineExceeded": "The job took longer than activeDeadlineSeconds.",
    "StartupTimeout": "The driver did not start within startupTimeoutSeconds.",
    "NameCollision": "An object with the driver's name belongs to another owner.",
    "SubmissionFailed": "The driver pod cannot start: image or container configuration.",
    "Infrastructure": "The driver was lost: evicted, preempted, deleted, node lost, or killed. Only a kill without a cause, and one for want of memory, count as failures.",
    "ImageUnavailable": "The image cannot be pulled now; another attempt is made, and no failure is counted.",
    "InitContainerFailed": "An init container of the driver's pod failed; the message names it.",
    "Draining": "The object is deleted; the driver stops at a barrier first.",
    "Closing": "The object is deleted; a last driver does what `deletionPolicy` asks for. The message has its step.",
    "Closed": "The last driver of a deleted job did what `deletionPolicy` asks for.",
    "SpecRefused": "The spec breaks a rule, or the API server refuses it.",
    "QuotaExceeded": "The namespace's quota has no room for the driver; tried again until there is room.",
    "PodRejected": "A node's kubelet rejected the driver's pod before it ran: no room. Another one is made; no failure is counted.",
    "LaunchRefused": "The API server refuses the driver's objects; tried again. The message quotes it.",
    "DriversLimited": "The operator's limit of drivers is reached; this one waits.",
    "WaitingForDependency": "A Backfill of `spec.dependsOn` has not reached its condition yet; the message names it.",
    "DependencyMissing": "A Backfill of `spec.dependsOn` does not exist; the message names it.",
    "DependencyFailed": "A Backfill of `spec.dependsOn` failed; the message names it. This one starts when that one reaches its condition.",
    "DependencyCycle": "Backfills wait for each other in a cycle; the message names them.",
    "WaitingForQueue": "Kueue has not admitted the job's Workload yet; the message quotes it. No attempt is used.",
    "QueueUnavailable": "`spec.queue` cannot admit the job: Kueue or the LocalQueue is missing, or the operator may not read Workloads. The message says which.",
    "QueueDeactivated": "The job's Workload has `active: false`, so Kueue does not admit it.",
    "EvictedByQueue": "Kueue evicted the job's Workload: the driver stops at a barrier, and the next attempt follows its admission. No failure is counted.",
    "SharedTarget": "Another Backfill writes the same target: only one of them can have it.",
    "NotRequested": "It was not requested.",
    "LimitEnded": "`throttle.until` is past, so its limit is not in force; the message names the time.",
    "NoDriver": "No driver is wanted, or none is there yet.",
    "DriverMissing": "The driver's pod was not found; the operator asks again before it gives up.",
    "DriverUnreachable": "The driver's control server does not respond; its pod exists.",
    "CommitStalled": "The driver answers, and a commit of it has no answer. It is ended after two minutes, and no failure is counted.",
    "JavaSilent": "The driver answers and its Java process does not, so nothing is read or committed. The driver ends it after a minute.",
    "ExecutorsWaiting": "The driver runs, and executors of it wait for an image, a Secret, a volume or a node.",
    "DriverStopping": "A driver that is not the current one must end before the next one starts.",
    "AcknowledgementTimeout": "The driver has not confirmed the newest command for a long time; it is sent again.",
    "CommandRefused": "The driver cannot do what a command asks for: it is of an earlier version. The message says what; it is sent again.",
    "AwaitingApproval": "The plan is made and waits for `spec.approved` or `spec.approvedPlan`.",
    "Planning": "A pod is making the plan.",
    "Planned": "The plan was made.",
    "PlanOutdated": "The spec was changed since it was planned; a new plan is made, and the old one's approval does not count.",
    "Suspended": "The attempt ended because the job was suspended.",
    "Paused": "The attempt that copied back ended because the job was paused.",
    "Restarted": "The attempt ended because a restart was requested.",
    "SpecChanged": "The spec was changed while the driver's pod, or executors of it, waited; they are replaced by pods of the new spec. Of a copy back: `keepSource` was edited, which ends it.",
    "EditPending": "A field of the spec was edited, and the pods of the running attempt have the old value; the message names it.",
    "Deleted": "The attempt ended because the object was deleted.",
    "Switching": "The driver of a switch-over, an undo or an end of one runs, or takes the place of the job's driver.",
    "SwitchUnrecorded": "A new Backfill has annotations of a switch-over, as after a restore without its status. No driver is started.",
    "Repairing": "The driver of a repair runs, or takes the place of the job's driver.",
    "CopyingBack": "Readers and writers use the target, and a driver copies its changes to the source, which is read-only.",
    "CopyBackEnded": "Another command undid or completed the switch-over, so the source does not follow the target any more.",
    "Switched": "Readers and writers use the target, and the source is read-only.",
    "Undone": "The switch-over was undone: readers and writers use the source, and the job follows it.",
    "Completed": "The switch-over was completed: readers and writers use the target, and there is no undo.",
    "SwitchRefused": "An attempt of a switch-over ended without one; the condition `Switched` has the reason.",
    "Repaired": "The target was repaired, and equals the source.",
    "RepairRefused": "An attempt of a repair ended without one; the condition `Repaired` has the reason.",
    "WaitingForCatchUp": "A requested switch-over waits until the target has caught up.",
    "Stopped": "The driver stopped at a barrier by itself, or because its pod was deleted; the next attempt continues.",
    "EditIgnored": "The job is complete, and a field of its spec has no effect any more; the message names it.",
    "OverrideIgnored": "An override annotation is invalid; what held before stays in force.",
    "CaughtUp": "The target reached the newest version of the source.",
    "Behind": "The target has not reached the newest version of the source yet.",
    "NonConvergent": "The source changes faster than changes are applied.",
    "Converging": "The lag falls.",
    "PartialReceipt": "The newest receipt found no difference in the rows that are copied so far; it is not about all of them.",
    "Equal": "The newest receipt compared all of the source, and found no difference.",
    # reasons of the driver, equal to those of its errors
    "InvalidSpec": "The document is invalid.",
    "InvalidTransform": "The transform is not row-wise or not deterministic, or names a missing column.",
    "SourceNotFound": "The source is missing, or is not a Delta table.",
    "UnsupportedSourceFeature": "The source has a table feature that cannot be read, or a column name that the change feed reserves.",
    "BadRecord": "The transform cannot parse a record of the source.",
    "KeyInvalid": "A key column is missing or null.",
    "KeyNotUnique": "Two rows of the source have the same key.",
    "TargetNotFound": "The catalog has no place for the target's name, or the name points to a folder without a table.",
    "ScopeNotSeparated": "Files of the target have rows inside and outside of `scope`.",
    "RowOutsideScope": "The transform yields a row outside of `scope`.",
    "TargetNotEmpty": "The target has rows that no state of this job explains.",
    "UnsupportedTargetFeature": "The target has a table feature that cannot be written.",
    "TargetIsSource": "Source and target are the same table.",
    "PermissionDenied": "The source may not be read or the target not be written.",
    "TargetSchemaMismatch": "The target cannot hold what the transform yields.",
    "SourceFenced": "Another job has fenced the source, and only that job lifts the fence.",
    "SwitchBlocked": "A switch-over, its undo or its end is not possible now.",
    "ReverseEnded": "The old source of a switch-over cannot follow the target any more.",
    "FlipFailed": "The name that a switch-over changes cannot be read or changed.",
    "TargetTaken": "Another job, which is not finished, fills the same target.",
    "TargetChanged": "Other writers kept changing the target while it was compared with the source.",
    "SourceDamaged": "A file of the source exists and cannot be read: truncated, overwritten, or different from the log.",
    "TargetDamaged": "A file of the target's log, or of its data, exists and cannot be read.",
    "TargetGone": "The target was dropped, or dropped and made again, while it was being filled.",
    "StagedFilesGone": "Files that were staged for the target disappeared before a commit; they are staged again.",
    "JavaDied": "Spark's Java process ended, most often because it ran out of memory.",
    "SessionUnfit": "The given Spark session cannot run a job; the message shows the settings that it lacks.",
    "NotFinished": "The command needs a finished job.",
    "NotRepairable": "The target of this job cannot be repaired.",
    "JarsMissing": "Delta's jars are missing and cannot be fetched; the message names them.",
    "JavaMissing": "Java is missing, does not start, or is a version that Spark does not support.",
    "StateMismatch": "The target holds the state of another spec.",
    "SnapshotExpired": "A file of the pinned source version is gone.",
    "ChangeFeedExpired": "A version that was not consumed yet is gone.",
    "OffsetsExpired": "Records that were not read yet are gone.",
    "ChangeFeedMissing": "The source has no change feed and rows were updated or deleted.",
    "SourceReplaced": "The source table was dropped and made again, or restored, or its name points to another table.",
    "SchemaChanged": "The source's schema changed in a way that schemaChange does not allow.",
    "SourceNotAppendOnly": "An Append target met an update or delete.",
    "Fenced": "A newer attempt of the same job has committed.",
    "VerificationFailed": "Source and target differ.",
    "SourceAhead": "The target equals an earlier version of the source than the newest one (`backfill verify --head`).",
    "AccountingMismatch": "A split yielded the wrong number of rows.",
    "StorageFull": "The target's storage is full.",
    "Transient": "Storage, network or a concurrent commit; tried again. A store or broker that does not answer counts no failure.",
    "AlreadyRunning": "Another driver of the same job runs.",
    "Unexpected": "An unexpected error; tried again.",
}
"""All reasons with their meanings."""


class Condition(Model):
    """One fact about a Backfill, in the form of all Kubernetes conditions."""

    type: Annotated[str, Field(max_length=64)]
    """One of the condition types."""

    status: Literal["True", "False", "Unknown"]
    """`True`, `False` or `Unknown`."""

    reason: Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9]*$")]
    """Reason in one CamelCase word."""

    message: Message = ""
    """Message for users."""

    last_transition_time: Moment
    """Time of the last change of `status`, RFC 3339."""

    observed_generation: Generation | None = None
    """Generation of the spec that this is about."""
