"""The words of `status.conditions` and `status.phase`: both are API, renaming one breaks a user's alert."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from backfill_api.model import Model
from backfill_api.spec.bounds import Generation, Message, Moment

Phase = Literal[
    "Pending", "AwaitingApproval", "Launching", "Running", "Pausing", "Paused", "Suspending", "Suspended",
    "Retrying", "Succeeded", "Failed", "Terminating",
]  # fmt: skip
"""Derived from the conditions, for people."""

CONDITION_TYPES: Final = {
    "Ready": "The desired state holds: running, or paused or suspended as asked, or complete.",
    "Reconciling": "A move towards the desired state is in flight; present only when true.",
    "Stalled": "A person is needed: spec refused, retries used up, name collision, state mismatch, expired source.",
    "Complete": "The job ended well.",
    "Failed": "The job ended badly.",
    "Finished": "The job ended, well or badly.",
    "Paused": "The driver acknowledged the pause.",
    "Suspended": "The pods are gone, because they were asked to be.",
    "Throttled": "The driver acknowledged a limit.",
    "DriverReady": "The driver answers.",
    "ControlSynced": "The driver acknowledged the newest command.",
    "CaughtUp": "The target reached the newest version of the source.",
    "NonConvergent": "The lag does not fall: the source changes faster than changes are applied.",
    "Verified": "The newest receipt found no difference.",
    "AwaitingApproval": "The plan is made and waits for `spec.approved`.",
    "SharedTarget": "Another Backfill writes the same target; present only when true.",
}
"""Every condition type, and what it means when it is True."""

REASONS: Final = {
    # of the lifecycle
    "Accepted": "The spec is valid and nothing was done yet.",
    "Launching": "A driver was requested.",
    "Running": "The driver runs.",
    "AsRequested": "Paused, suspended or throttled because the spec says so.",
    "Override": "Paused, suspended or throttled because the override annotation says so.",
    "Acknowledged": "The driver confirmed the newest command after a seal.",
    "AcknowledgementPending": "The driver has not confirmed the newest command yet.",
    "Complete": "Everything was copied.",
    "BackingOff": "An attempt failed and the next one waits.",
    "BackoffLimitExceeded": "Too many attempts failed.",
    "DeadlineExceeded": "The job took longer than activeDeadlineSeconds.",
    "StartupTimeout": "The driver did not start within startupTimeoutSeconds.",
    "NameCollision": "An object with the driver's name belongs to another owner.",
    "SubmissionFailed": "The driver pod cannot start: image or container configuration.",
    "Infrastructure": "The driver was lost through no fault of the job: evicted, preempted, node lost, out of memory.",
    "Draining": "The object is deleted; the driver stops at a barrier first.",
    "SpecRefused": "The spec cannot be used: by its own rules, or in the API server's words.",
    "QuotaExceeded": "The namespace's quota has no room for the driver; tried again until it has.",
    "LaunchRefused": "The API server refuses the driver's objects; tried again, the message has its words.",
    "DriversLimited": "As many drivers run as the operator may make; this one waits for its turn.",
    "SharedTarget": "Another Backfill writes the same target: only one of them can have it.",
    "NotRequested": "It is not asked for.",
    "NoDriver": "No driver is wanted, or none is there yet.",
    "DriverMissing": "The driver's pod was not seen; it is looked for before it is given up.",
    "DriverUnreachable": "The driver's control server does not answer; its pod is there.",
    "DriverStopping": "A driver that is not the current one must end before the next one starts.",
    "AcknowledgementTimeout": "The driver has not confirmed the newest command for a long time; it is sent again.",
    "AwaitingApproval": "The plan is made and waits for `spec.approved`.",
    "Planning": "A pod looks at what would happen.",
    "Planned": "The plan was made.",
    "Suspended": "The attempt ended because the job was suspended.",
    "Restarted": "The attempt ended because a restart was requested.",
    "Deleted": "The attempt ended because the object was deleted.",
    "Stopped": "The driver stopped at a barrier by itself, or because its pod was deleted; the next attempt goes on.",
    "OverrideIgnored": "The override annotation cannot be read; the spec is in force.",
    "CaughtUp": "The target reached the newest version of the source.",
    "Behind": "The target has not reached the newest version of the source yet.",
    "NonConvergent": "The source changes faster than changes are applied.",
    "Converging": "The lag falls.",
    "Equal": "The newest receipt found no difference.",
    # of the driver: the same words as its errors
    "InvalidSpec": "The document does not say what it must.",
    "InvalidTransform": "The transform is not row-wise or not deterministic, or names a column that is not there.",
    "SourceNotFound": "The source is missing, or is no Delta table.",
    "UnsupportedSourceFeature": "The source has a table feature that cannot be read, or a column with a name of the change feed.",
    "KeyInvalid": "A key column is missing or null.",
    "KeyNotUnique": "Two source rows share a key.",
    "TargetNotFound": "The target is a name in a catalog that neither has it nor says where it would be.",
    "TargetNotEmpty": "The target has rows that no state of this job explains.",
    "UnsupportedTargetFeature": "The target has a table feature that cannot be written.",
    "TargetIsSource": "Source and target are the same table.",
    "PermissionDenied": "The source may not be read or the target not be written.",
    "TargetSchemaMismatch": "The target cannot hold what the transform yields.",
    "TargetTaken": "Another job, which is not finished, fills the same target.",
    "TargetChanged": "Another writer changed the target again and again while it was compared with the source.",
    "SourceDamaged": "A file of the source is there and cannot be read: cut off, overwritten or not what the log says.",
    "TargetDamaged": "A file of the target's log, or of its data, is there and cannot be read.",
    "TargetGone": "The target was dropped, or dropped and made again, while it was being filled.",
    "StagedFilesGone": "Files that were staged for the target are gone before a commit named them; they are staged again.",
    "JavaDied": "The Java process that Spark runs in ended: most often for want of memory.",
    "NotFinished": "What was asked for needs a job that is finished.",
    "JarsMissing": "Delta's jars are not there and cannot be fetched; the message names them.",
    "JavaMissing": "No Java, or one that Spark does not run on.",
    "StateMismatch": "The target holds the state of another spec.",
    "SnapshotExpired": "A file of the pinned source version is gone.",
    "ChangeFeedExpired": "A version that was not consumed yet is gone.",
    "ChangeFeedMissing": "The source has no change feed and rows were updated or deleted.",
    "SourceReplaced": "The source table was dropped and made again, or restored.",
    "SchemaChanged": "The source's schema changed in a way that schemaChange does not allow.",
    "SourceNotAppendOnly": "An Append target met an update or delete.",
    "Fenced": "A newer attempt of the same job has committed.",
    "VerificationFailed": "Source and target differ.",
    "AccountingMismatch": "A split did not yield the rows it must.",
    "StorageFull": "The target's storage is full.",
    "Transient": "Storage, network or a concurrent commit; tried again.",
    "SessionUnfit": "The Spark session that a program gave cannot run a job.",
    "AlreadyRunning": "Another driver of the same job runs.",
    "Unexpected": "An unforeseen error; tried again.",
}
"""Every reason, and what it says."""


class Condition(Model):
    """One fact about a Backfill, in the form of all Kubernetes conditions."""

    type: Annotated[str, Field(max_length=64)]
    """One of the condition types."""

    status: Literal["True", "False", "Unknown"]
    """Does it hold?"""

    reason: Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9]*$")]
    """Why, in one CamelCase word."""

    message: Message = ""
    """Why, for people."""

    last_transition_time: Moment
    """When `status` last changed, RFC 3339."""

    observed_generation: Generation | None = None
    """Generation of the spec that this is about."""
