"""Everything that can go wrong, named once: the type says what to do, the message is for people.

`reason` is the CamelCase word users see in a condition, an exit line and a metric: renaming one is an
API change. `retryable` says whether the same step may succeed later without anybody changing
anything. `exit_code` is what the driver process ends with, and what the operator classifies by.

Exit codes: 0 complete, 10 stopped at a barrier (resumable), 1 unexpected error (retryable),
2 usage, 20-39 the spec or its input is wrong (final; nothing of what was found so was committed), 40-59 the world changed (final),
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
    """A commit to the target that is not of this job and changes rows."""

    version: int
    operation: str
    engine: str

    def __str__(self) -> str:
        """Say it in words."""
        return f"version {self.version} ({self.operation or 'unknown operation'} by {self.engine or 'unknown engine'})"


class BackfillError(Exception):
    """Base of our errors; never raised itself.

    Args:
        message: What happened, with the facts (names, versions, values).
        hint: What the reader can do about it, in one sentence; shown after the message.
    """

    reason: ClassVar[str] = "Unexpected"
    retryable: ClassVar[bool] = False
    ends_attempt: ClassVar[bool] = False
    """Can only another attempt try again, not this one?"""

    outside: ClassVar[bool] = False
    """Is the cause outside the job? Then the end of an attempt does not count against `backoffLimit`."""

    exit_code: ClassVar[int] = EXIT_UNEXPECTED

    def __init__(self, message: str, *, hint: str = "") -> None:
        """Keep message and hint apart: tests and JSON output read them, people read both."""
        super().__init__(f"{message} {hint}".strip())
        self.message = message
        self.hint = hint


class InvalidSpecError(BackfillError):
    """The YAML does not say what it must; `path` names the field."""

    reason = "InvalidSpec"
    exit_code = 20


class InvalidTransformError(BackfillError):
    """The transform is not row-wise, not deterministic, or names a column that is not there."""

    reason = "InvalidTransform"
    exit_code = 21


class SourceNotFoundError(BackfillError):
    """The source is missing, or is no Delta table."""

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
    """The target has a table feature that a commit of ours cannot keep; the message names it."""

    reason = "UnsupportedTargetFeature"
    exit_code = 25


class TargetIsSourceError(BackfillError):
    """Source and target are the same table, or one lies inside the folder of the other."""

    reason = "TargetIsSource"
    exit_code = 26


class PermissionDeniedError(BackfillError):
    """The source may not be read or the target not be written by this user."""

    reason = "PermissionDenied"
    exit_code = 27


class TargetSchemaMismatchError(BackfillError):
    """The target exists and cannot hold what the transform yields."""

    reason = "TargetSchemaMismatch"
    exit_code = 28


class JavaMissingError(BackfillError):
    """No Java, one that Spark does not run on, or one that does not start."""

    reason = "JavaMissing"
    exit_code = 29


class BadRecordError(BackfillError):
    """A record has a payload that no parser of the transform reads, or no valid time; the message names partition, offset and reason."""

    reason = "BadRecord"
    exit_code = 33


class SessionUnfitError(BackfillError):
    """The Spark session that was given cannot run a job; the hint has the lines that it lacks."""

    reason = "SessionUnfit"
    exit_code = 32


class NotFinishedError(BackfillError):
    """What was asked for needs a job that is finished."""

    reason = "NotFinished"
    exit_code = 38


class JarsMissingError(BackfillError):
    """Delta's jars are not there and cannot be fetched; the message names them."""

    reason = "JarsMissing"
    exit_code = 39


class UnsupportedSourceFeatureError(BackfillError):
    """The source has a table feature, an encrypted file or a column name that cannot be read; names it."""

    reason = "UnsupportedSourceFeature"
    exit_code = 30


class TargetNotFoundError(BackfillError):
    """The target is a name in a catalog that neither has it nor says where it would be."""

    reason = "TargetNotFound"
    exit_code = 31


class StateMismatchError(BackfillError):
    """The target holds the state of another spec (source, transform, target or strategy differ)."""

    reason = "StateMismatch"
    exit_code = 40


class SnapshotExpiredError(BackfillError):
    """A file of the pinned source version is gone."""

    reason = "SnapshotExpired"
    exit_code = 41


class ChangeFeedExpiredError(BackfillError):
    """A version that was not consumed yet is gone; the message names the first one."""

    reason = "ChangeFeedExpired"
    exit_code = 42


class ChangeFeedMissingError(BackfillError):
    """The source has no change feed and a commit updated or deleted rows."""

    reason = "ChangeFeedMissing"
    exit_code = 43


class SourceReplacedError(BackfillError):
    """The source table was dropped and made again, or restored, while running."""

    reason = "SourceReplaced"
    exit_code = 44


MADE_AGAIN_HINT = "It was deleted and made again: give the job another jobId and another target."
"""Of a source with offsets, wherever it shows."""


class SchemaChangedError(BackfillError):
    """The source's schema changed in a way that `schemaChange` does not allow; names the column."""

    reason = "SchemaChanged"
    exit_code = 45


class SourceNotAppendOnlyError(BackfillError):
    """An `Append` target met an update or delete in the source."""

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
    """The target equals an earlier position of the source than the newest one; `verify --head` asks for that."""

    reason = "SourceAhead"
    exit_code = 57


class AccountingError(BackfillError):
    """A split did not yield the rows it must: the copy would be incomplete."""

    reason = "AccountingMismatch"
    exit_code = 49


class TargetTakenError(BackfillError):
    """Another job, which is not finished, fills the same target."""

    reason = "TargetTaken"
    exit_code = 50


class TargetChangedError(BackfillError):
    """Another writer changed the target again and again while it was compared with the source."""

    reason = "TargetChanged"
    exit_code = 51

    def __init__(
        self, message: str, *, hint: str = "", commits: tuple[ForeignCommit, ...] = (), newest: int = -1
    ) -> None:
        """Keep what the others committed after the version that was compared, and the newest version."""
        super().__init__(message, hint=hint)
        self.commits = commits
        self.newest = newest


class OffsetsExpiredError(BackfillError):
    """Records that were not read yet are gone; the message names the partition and the first offset that is there."""

    reason = "OffsetsExpired"
    exit_code = 52


class SourceDamagedError(BackfillError):
    """A file of the source is there and cannot be read: cut off, overwritten or not what the log says."""

    reason = "SourceDamaged"
    exit_code = 54


class TargetDamagedError(BackfillError):
    """A file of the target's log, or of its data, is there and cannot be read."""

    reason = "TargetDamaged"
    exit_code = 55


class TargetGoneError(BackfillError):
    """The target was dropped, or dropped and made again, while it was being filled."""

    reason = "TargetGone"
    exit_code = 56


class DuplicateKeyError(KeyInvalidError):
    """Two source rows share a key, so the target cannot hold both."""

    reason = "KeyNotUnique"


class UnexpectedError(BackfillError):
    """A defect of the product: its own code failed. The message names the line; the driver's log has the traceback."""

    retryable = True
    ends_attempt = True


class StorageFullError(BackfillError):
    """The target's storage is full."""

    reason = "StorageFull"
    retryable = True
    exit_code = 60


class TransientError(BackfillError):
    """Storage, network or a concurrent commit: the same step may succeed when tried again."""

    reason = "Transient"
    retryable = True
    exit_code = 61


class AwayError(TransientError):
    """A store, a broker or an API server does not answer."""

    outside = True


class StateMovedError(TransientError):
    """The target may hold more than the state that was read says: end the attempt, and read the state again."""

    ends_attempt = True


class ColumnsFollowedError(StateMovedError):
    """A commit gave the target other columns: the attempt has done its part, and the next one reads the source by them."""


class AlreadyRunningError(BackfillError):
    """Another driver of the same job runs on this machine."""

    reason = "AlreadyRunning"
    retryable = True
    exit_code = 62


class StagedFilesGoneError(TransientError):
    """Files that were staged for the target are gone before a commit named them; they are staged again."""

    reason = "StagedFilesGone"
    exit_code = 63


class JavaDiedError(BackfillError):
    """The Java process that Spark runs in ended: most often for want of memory."""

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
