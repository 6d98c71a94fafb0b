"""All errors of a job, each defined once: code acts on the type, users read the message.

`reason` is the CamelCase name in conditions, exit lines and metrics: renaming one is an API change.
`retryable` is true if the same step may succeed later without any change by the user.
`exit_code` is the exit status of the driver process; the operator classifies attempts by it.

Exit codes: 0 complete, 10 stopped at a barrier (resumable), 1 unexpected error (retryable), 2 usage,
20-39 the spec or its input is wrong (final; the invalid input was not committed),
40-59 source, target or job changed while the job ran (final), 60-79 transient (retryable).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

EXIT_COMPLETE = 0
EXIT_UNEXPECTED = 1
EXIT_USAGE = 2
EXIT_STOPPED = 10


@dataclass(frozen=True, slots=True)
class ForeignCommit:
    """A commit of another writer that changes rows of the target."""

    version: int
    operation: str
    engine: str

    def __str__(self) -> str:
        """Format the commit for a message."""
        return f"version {self.version} ({self.operation or 'unknown operation'} by {self.engine or 'unknown engine'})"


class BackfillError(Exception):
    """Base class of all errors of the product; never raised directly. The hint is one sentence with the user's next step."""

    reason: ClassVar[str] = "Unexpected"
    retryable: ClassVar[bool] = False
    ends_attempt: ClassVar[bool] = False
    """True if only another attempt may retry, not this one."""

    outside: ClassVar[bool] = False
    """True if the cause is outside the job: the failed attempt then does not count against `backoffLimit`."""

    exit_code: ClassVar[int] = EXIT_UNEXPECTED

    def __init__(self, message: str, *, hint: str = "") -> None:
        """Store message and hint separately for tests and JSON output; the exception's string has both."""
        super().__init__(f"{message} {hint}".strip())
        self.message = message
        self.hint = hint


class InvalidSpecError(BackfillError):
    """The YAML is invalid; `path` names the field."""

    reason = "InvalidSpec"
    exit_code = 20


class MissingSchemaError(InvalidSpecError):
    """The schema of a table does not exist in its catalog."""


class MissingBucketError(InvalidSpecError):
    """The bucket or container of a table does not exist in its store."""


class InvalidTransformError(BackfillError):
    """The transform is not row-wise, not deterministic, or names a column that does not exist."""

    reason = "InvalidTransform"
    exit_code = 21


class SourceNotFoundError(BackfillError):
    """The source does not exist, or is not a Delta table."""

    reason = "SourceNotFound"
    exit_code = 22


class KeyInvalidError(BackfillError):
    """A key column is missing, null, or the key is not unique in the source."""

    reason = "KeyInvalid"
    exit_code = 23


class TargetNotEmptyError(BackfillError):
    """The target has rows that this job did not write."""

    reason = "TargetNotEmpty"
    exit_code = 24


class UnsupportedTargetFeatureError(BackfillError):
    """The target has a table feature that the job's commits cannot preserve; the message names it."""

    reason = "UnsupportedTargetFeature"
    exit_code = 25


class ScopeNotSeparatedError(BackfillError):
    """Files of the target have rows inside and outside of the scope to replace; the message has their number."""

    reason = "ScopeNotSeparated"
    exit_code = 37


class RowOutsideScopeError(BackfillError):
    """The transform yields a row outside of the scope to replace; the message names the row, and nothing is visible."""

    reason = "RowOutsideScope"
    exit_code = 53


class TargetIsSourceError(BackfillError):
    """Source and target are the same table, or one is inside the folder of the other."""

    reason = "TargetIsSource"
    exit_code = 26


class PermissionDeniedError(BackfillError):
    """This user may not read the source, or may not write the target."""

    reason = "PermissionDenied"
    exit_code = 27


class TargetSchemaMismatchError(BackfillError):
    """The target exists and cannot store the columns that the transform yields."""

    reason = "TargetSchemaMismatch"
    exit_code = 28


class JavaMissingError(BackfillError):
    """Java is not installed, does not start, or has a version that Spark does not support."""

    reason = "JavaMissing"
    exit_code = 29


class BadRecordError(BackfillError):
    """A record has an unparseable payload or an invalid time; the message names partition, offset and reason."""

    reason = "BadRecord"
    exit_code = 33


class SessionUnfitError(BackfillError):
    """The given Spark session cannot run a job; the hint lists the missing configuration lines."""

    reason = "SessionUnfit"
    exit_code = 32


class NotFinishedError(BackfillError):
    """The request needs a finished job."""

    reason = "NotFinished"
    exit_code = 38


class JarsMissingError(BackfillError):
    """Delta's jars are missing and cannot be fetched; the message names them."""

    reason = "JarsMissing"
    exit_code = 39


class UnsupportedSourceFeatureError(BackfillError):
    """The source has a table feature, an encrypted file or a column name that cannot be read; the message names it."""

    reason = "UnsupportedSourceFeature"
    exit_code = 30


class TargetNotFoundError(BackfillError):
    """The catalog has no place for the target's name, or the name points to a folder without a table."""

    reason = "TargetNotFound"
    exit_code = 31


class StateMismatchError(BackfillError):
    """The target contains the state of another spec (source, transform, target or strategy differ)."""

    reason = "StateMismatch"
    exit_code = 40


class SnapshotExpiredError(BackfillError):
    """A file of the pinned source version was deleted."""

    reason = "SnapshotExpired"
    exit_code = 41


class ChangeFeedExpiredError(BackfillError):
    """An unread version of the source was deleted; the message names the first one."""

    reason = "ChangeFeedExpired"
    exit_code = 42


class ChangeFeedMissingError(BackfillError):
    """The source has no change feed and a commit updated or deleted rows."""

    reason = "ChangeFeedMissing"
    exit_code = 43


class SourceReplacedError(BackfillError):
    """The source table was dropped and created again, or restored, or its name points to another table."""

    reason = "SourceReplaced"
    exit_code = 44


RECREATED_HINT = "The source was deleted and created again, or its name points to another table: give the job another jobId and another target."


class SchemaChangedError(BackfillError):
    """The source's schema changed in a way that `schemaChange` does not allow; the message names the column."""

    reason = "SchemaChanged"
    exit_code = 45


class SourceNotAppendOnlyError(BackfillError):
    """The source has an update or delete, which an `Append` target cannot apply."""

    reason = "SourceNotAppendOnly"
    exit_code = 46


class FencedError(BackfillError):
    """A newer attempt of the same job has committed; this one must not write again."""

    reason = "Fenced"
    exit_code = 47


class VerificationFailedError(BackfillError):
    """Source and target differ; the message names the vnodes."""

    reason = "VerificationFailed"
    exit_code = 48


class NotRepairableError(BackfillError):
    """The target of this job cannot be repaired; the message names the field or the property, and nothing was changed."""

    reason = "NotRepairable"
    exit_code = 36


class SourceAheadError(BackfillError):
    """The target equals an earlier position of the source; `verify --head` requires the newest one."""

    reason = "SourceAhead"
    exit_code = 57


class AccountingError(BackfillError):
    """A split yielded a wrong number of rows: the copy would be incomplete."""

    reason = "AccountingMismatch"
    exit_code = 49


class SourceFencedError(BackfillError):
    """Another job made the source read-only for all writers; the message names the job."""

    reason = "SourceFenced"
    exit_code = 58


class SwitchBlockedError(BackfillError):
    """A switch-over, its undo or its end is not possible now; the message names each obstacle, and nothing was changed."""

    reason = "SwitchBlocked"
    exit_code = 34


class ReverseEndedError(BackfillError):
    """The old source cannot follow the target any more; the message names the version and the reason. The target is not affected."""

    reason = "ReverseEnded"
    exit_code = 59


class FlipFailedError(BackfillError):
    """The name that a switch-over changes cannot be read or changed."""

    reason = "FlipFailed"
    exit_code = 35


class TargetTakenError(BackfillError):
    """Another unfinished job fills the same target."""

    reason = "TargetTaken"
    exit_code = 50


class TargetChangedError(BackfillError):
    """Another writer kept changing the target while it was compared with the source."""

    reason = "TargetChanged"
    exit_code = 51

    def __init__(
        self, message: str, *, hint: str = "", commits: tuple[ForeignCommit, ...] = (), newest: int = -1
    ) -> None:
        """Store the foreign commits after the compared version, and the newest version."""
        super().__init__(message, hint=hint)
        self.commits = commits
        self.newest = newest


class OffsetsExpiredError(BackfillError):
    """Unread records were deleted; the message names the partition and the first available offset."""

    reason = "OffsetsExpired"
    exit_code = 52


class SourceDamagedError(BackfillError):
    """A file of the source exists and cannot be read: it is truncated, overwritten or differs from its log entry."""

    reason = "SourceDamaged"
    exit_code = 54


class TargetDamagedError(BackfillError):
    """A log file or data file of the target exists and cannot be read."""

    reason = "TargetDamaged"
    exit_code = 55


class TargetGoneError(BackfillError):
    """The target was dropped, or dropped and created again, while the job filled it."""

    reason = "TargetGone"
    exit_code = 56


class DuplicateKeyError(KeyInvalidError):
    """Two source rows share a key, so the target cannot store both."""

    reason = "KeyNotUnique"


class UnexpectedError(BackfillError):
    """The product's own code failed: a bug. The message names the line; the driver's log has the traceback."""

    retryable = True
    ends_attempt = True


class StorageFullError(BackfillError):
    """The target's storage is full."""

    reason = "StorageFull"
    retryable = True
    exit_code = 60


class TransientError(BackfillError):
    """Storage, the network or a concurrent commit made a step fail; a retry may succeed."""

    reason = "Transient"
    retryable = True
    exit_code = 61


class AwayError(TransientError):
    """A store, a broker or an API server does not answer."""

    outside = True


class StateMovedError(TransientError):
    """The target may be newer than the state that was read: end the attempt, and read the state again."""

    ends_attempt = True


class ColumnsFollowedError(StateMovedError):
    """A commit changed the target's columns: the attempt ends, and the next one reads the source with the new columns."""


class AlreadyRunningError(BackfillError):
    """Another driver of the same job runs on this machine."""

    reason = "AlreadyRunning"
    retryable = True
    exit_code = 62


class StagedFilesGoneError(TransientError):
    """Staged files were deleted before their commit; they are staged again."""

    reason = "StagedFilesGone"
    exit_code = 63


class JavaDiedError(BackfillError):
    """Spark's Java process ended, most often because it ran out of memory."""

    reason = "JavaDied"
    retryable = True
    ends_attempt = True
    exit_code = 64


class JavaSilentError(JavaDiedError):
    """The Java process did not answer, and the driver ended it."""

    outside = True


class CommitStalledError(JavaDiedError):
    """A commit did not return, so the driver ended the Java process that waited for it."""

    reason = "CommitStalled"
    outside = True
    exit_code = 65
