"""All errors of the product: the type of an error determines the reaction, and its message is for users.

`reason` is a CamelCase identifier that users see in a condition, an exit line and a metric: renaming one is an
API change. `retryable` is True if the same step may succeed later without any change by a user.
The driver process ends with `exit_code`, and the operator classifies the end by it.

Exit codes: 0 complete, 10 stopped at a barrier (resumable), 1 unexpected error (retryable),
2 usage, 20-39 the spec or its input is wrong (final; nothing of such input was committed), 40-59 the environment changed (final),
60-79 transient (retryable).
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
    """A commit of another writer to the target that changes rows."""

    version: int
    operation: str
    engine: str

    def __str__(self) -> str:
        """Describe the commit by its version, operation and engine."""
        return f"version {self.version} ({self.operation or 'unknown operation'} by {self.engine or 'unknown engine'})"


class BackfillError(Exception):
    """Base class of all errors of the product; never raised itself.

    Args:
        message: The failure, with the facts (names, versions, values).
        hint: The next action of the reader, in one sentence; shown after the message.
    """

    reason: ClassVar[str] = "Unexpected"
    retryable: ClassVar[bool] = False
    ends_attempt: ClassVar[bool] = False
    """True if only another attempt may retry, not this one."""

    outside: ClassVar[bool] = False
    """True if the cause is outside the job: the end of the attempt then does not count against `backoffLimit`."""

    exit_code: ClassVar[int] = EXIT_UNEXPECTED

    def __init__(self, message: str, *, hint: str = "") -> None:
        """Store message and hint separately for tests and JSON output; the exception's text contains both."""
        super().__init__(f"{message} {hint}".strip())
        self.message = message
        self.hint = hint


class InvalidSpecError(BackfillError):
    """The YAML is not a valid spec; `path` names the field."""

    reason = "InvalidSpec"
    exit_code = 20


class InvalidTransformError(BackfillError):
    """The transform is not row-wise, not deterministic, or names a missing column."""

    reason = "InvalidTransform"
    exit_code = 21


class SourceNotFoundError(BackfillError):
    """The source is missing, or is not a Delta table."""

    reason = "SourceNotFound"
    exit_code = 22


class KeyInvalidError(BackfillError):
    """A key column is missing, null, or the key is not unique in the source."""

    reason = "KeyInvalid"
    exit_code = 23


class TargetNotEmptyError(BackfillError):
    """The target has rows that no state of this job explains."""

    reason = "TargetNotEmpty"
    exit_code = 24


class UnsupportedTargetFeatureError(BackfillError):
    """The target has a table feature that the job's commits cannot preserve; the message names it."""

    reason = "UnsupportedTargetFeature"
    exit_code = 25


class TargetIsSourceError(BackfillError):
    """Source and target are the same table, or one is inside the folder of the other."""

    reason = "TargetIsSource"
    exit_code = 26


class PermissionDeniedError(BackfillError):
    """The user may not read the source, or may not write the target."""

    reason = "PermissionDenied"
    exit_code = 27


class TargetSchemaMismatchError(BackfillError):
    """The target exists, and its schema does not accept the rows of the transform."""

    reason = "TargetSchemaMismatch"
    exit_code = 28


class JavaMissingError(BackfillError):
    """Java is missing, has a version that Spark does not support, or does not start."""

    reason = "JavaMissing"
    exit_code = 29


class BadRecordError(BackfillError):
    """A record has a payload that no parser of the transform reads, or no valid time; the message names partition, offset and reason."""

    reason = "BadRecord"
    exit_code = 33


class SessionUnfitError(BackfillError):
    """The Spark session cannot run a job; the hint contains the missing lines of its builder."""

    reason = "SessionUnfit"
    exit_code = 32


class NotFinishedError(BackfillError):
    """The command needs a finished job."""

    reason = "NotFinished"
    exit_code = 38


class JarsMissingError(BackfillError):
    """Delta's jars are missing and cannot be downloaded; the message names them."""

    reason = "JarsMissing"
    exit_code = 39


class UnsupportedSourceFeatureError(BackfillError):
    """The source has an unsupported table feature, an encrypted file, or an unsupported column name; the message names it."""

    reason = "UnsupportedSourceFeature"
    exit_code = 30


class TargetNotFoundError(BackfillError):
    """The target is a catalog name; the catalog has neither the table nor a location for it."""

    reason = "TargetNotFound"
    exit_code = 31


class StateMismatchError(BackfillError):
    """The target has the state of another spec (source, transform, target or strategy differ)."""

    reason = "StateMismatch"
    exit_code = 40


class SnapshotExpiredError(BackfillError):
    """A file of the pinned source version was deleted."""

    reason = "SnapshotExpired"
    exit_code = 41


class ChangeFeedExpiredError(BackfillError):
    """A version that was not consumed yet was deleted; the message names the first one."""

    reason = "ChangeFeedExpired"
    exit_code = 42


class ChangeFeedMissingError(BackfillError):
    """The source has no change feed, and a commit updated or deleted rows."""

    reason = "ChangeFeedMissing"
    exit_code = 43


class SourceReplacedError(BackfillError):
    """The source table was dropped and created again, or restored, during the job."""

    reason = "SourceReplaced"
    exit_code = 44


MADE_AGAIN_HINT = "It was deleted and created again: give the job another jobId and another target."
"""Hint for a source with offsets, in every error that reports it."""


class SchemaChangedError(BackfillError):
    """The source's schema changed in a way that `schemaChange` does not allow; the message names the column."""

    reason = "SchemaChanged"
    exit_code = 45


class SourceNotAppendOnlyError(BackfillError):
    """An `Append` target received an update or a delete from the source."""

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


class SourceAheadError(BackfillError):
    """The target equals an earlier position of the source than the newest one; only `verify --head` requires the newest."""

    reason = "SourceAhead"
    exit_code = 57


class AccountingError(BackfillError):
    """A split has a wrong number of rows: the copy would be incomplete."""

    reason = "AccountingMismatch"
    exit_code = 49


class TargetTakenError(BackfillError):
    """Another job, which is not finished, fills the same target."""

    reason = "TargetTaken"
    exit_code = 50


class TargetChangedError(BackfillError):
    """Another writer changed the target repeatedly during the comparison with the source."""

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
    """Records expired before they were read; the message names the partition and the first existing offset."""

    reason = "OffsetsExpired"
    exit_code = 52


class SourceDamagedError(BackfillError):
    """A file of the source exists and cannot be read: it is truncated, overwritten, or different from its entry in the log."""

    reason = "SourceDamaged"
    exit_code = 54


class TargetDamagedError(BackfillError):
    """A file of the target's log, or a data file of the target, exists and cannot be read."""

    reason = "TargetDamaged"
    exit_code = 55


class TargetGoneError(BackfillError):
    """The target was dropped, or dropped and created again, during the job."""

    reason = "TargetGone"
    exit_code = 56


class DuplicateKeyError(KeyInvalidError):
    """Two source rows share a key, so the target cannot contain both."""

    reason = "KeyNotUnique"


class UnexpectedError(BackfillError):
    """A defect of the product. The message names the line of code; the driver's log contains the traceback."""

    retryable = True
    ends_attempt = True


class StorageFullError(BackfillError):
    """The target's storage is full."""

    reason = "StorageFull"
    retryable = True
    exit_code = 60


class TransientError(BackfillError):
    """A failure of storage or network, or a concurrent commit: the same step may succeed on a retry."""

    reason = "Transient"
    retryable = True
    exit_code = 61


class AwayError(TransientError):
    """A store, a broker or an API server does not answer."""

    outside = True


class StateMovedError(TransientError):
    """The target may be newer than the state that the attempt read: end the attempt, and read the state again."""

    ends_attempt = True


class ColumnsFollowedError(StateMovedError):
    """A commit changed the target's columns: this attempt is done, and the next one reads the source with the new columns."""


class AlreadyRunningError(BackfillError):
    """Another driver of the same job runs on this machine."""

    reason = "AlreadyRunning"
    retryable = True
    exit_code = 62


class StagedFilesGoneError(TransientError):
    """Files that were staged for the target were deleted before a commit named them; they are staged again."""

    reason = "StagedFilesGone"
    exit_code = 63


class JavaDiedError(BackfillError):
    """The Java process of Spark ended, most often because of a lack of memory."""

    reason = "JavaDied"
    retryable = True
    ends_attempt = True
    exit_code = 64


class JavaSilentError(JavaDiedError):
    """The Java process did not answer, and the driver ended it."""

    outside = True


class CommitStalledError(JavaDiedError):
    """A commit had no answer, so the driver ended the Java process that waited for it."""

    reason = "CommitStalled"
    outside = True
    exit_code = 65
