"""Translation of errors from reading, creating, writing and committing to a target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backfill_core.errors import (
    AwayError,
    BackfillError,
    FencedError,
    InvalidSpecError,
    PermissionDeniedError,
    StagedFilesGoneError,
    StorageFullError,
    TargetDamagedError,
    TargetGoneError,
    TransientError,
    UnexpectedError,
    UnsupportedTargetFeatureError,
)
from backfill_core.phases.accounting import GONE_HINT
from backfill_core.protocol.replacement import CHANGE_FEED, FEED_HINT
from backfill_core.source_fence.table_protocol import FENCED
from backfill_spark.delta.spark_internals import log_damage
from backfill_spark.jvm.errors import causes, first_line, is_a, whole_text, without_values
from backfill_spark.jvm.failures import (
    NO_REPLACEMENT,
    Trouble,
    describe_error,
    is_about,
    is_about_a_file,
    long_name,
    trouble_of,
)
from backfill_spark.jvm.log_stores import refusals
from backfill_spark.jvm.log_stores.missing_places import missing_place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FENCED_HINT = "Nothing to do if another driver runs; otherwise start the job again."
FENCE_HINT = f"Wait until the job that the table property {FENCED} names lifts its fence, or lift it with `backfill unfence` (docs/fence.md)."
START_AGAIN = "Run the job again: it creates the table and starts from the beginning."


def explain_target(error: Exception, *, path: str, doing: str) -> BackfillError:
    """Return the error of a step on the target, such as `the seal` or `reading the target`."""
    message = f"{doing} failed: {describe_error(error)}"
    return _explained(error, path=path, message=message) or TransientError(message)


def explain_commit(error: Exception, path: str) -> BackfillError:
    """Translate an error of Kernel or the storage during a commit."""
    # Kernel reports the first conflict: our transaction id, or our domain; no other writer uses either.
    if is_a(error, "ConcurrentTransactionException") or "domainMetadata action for the same domain" in whole_text(
        error
    ):
        return FencedError(
            "a newer attempt of this job has committed.",
            hint=FENCED_HINT,
        )
    return explain_target(error, path=path, doing="the commit")


def explain_staged(error: Exception, file: str, *, target: str) -> BackfillError:
    """Return the error of reading a file that this job staged and has not committed yet."""
    if is_a(error, "FileNotFoundException"):
        return StagedFilesGoneError(f"a staged file is gone: {first_line(error)}.", hint=GONE_HINT)
    if trouble_of(error) is Trouble.UNKNOWN and not is_a(error, "IOException"):
        # Not retryable: the storage works, and the next attempt writes the same file.
        return UnexpectedError(
            f"Delta rejects a file that this job wrote, {without_values(file)}: {first_line(error)}.",
            hint="Report it with the driver's log.",
        )
    return explain_commit(error, target)


def explain_job(spark: SparkSession, error: Exception, *, path: str) -> BackfillError | None:
    """Return the error of a Spark job that also uses the target; `None` if the exception does not concern the target."""
    if is_about(error, path):
        return _explained(error, path=path, message=f"the target: {describe_error(error)}")
    damage = log_damage(spark, path, error)
    if damage is None:
        return None
    return TargetDamagedError(
        f"the log of the target {path} is damaged: {describe_error(damage)}",
        hint="Restore its _delta_log, or start again with a new target.",
    )


def explain_making(error: Exception, *, path: str) -> BackfillError:
    """Return the error of creating a target; if Delta rejects the table, the spec is invalid."""
    message = f"the target {path} cannot be made: {describe_error(error)}"
    rejections = (
        "IllegalArgumentException",
        "UnsupportedOperationException",
        "ParentNotDirectoryException",
        "DeltaIOException",
    )
    trouble = trouble_of(error)
    if trouble == Trouble.TOO_LONG:  # no row is written yet
        return InvalidSpecError(
            f"spec.target.delta.path: {path} has a part that is longer than its file system allows.",
            hint="Choose a shorter path.",
        )
    if trouble in (Trouble.REFUSED, Trouble.UNSUPPORTED) or (
        trouble == Trouble.UNKNOWN and any(is_a(error, name) for name in rejections)
    ):
        hint = "Correct spec.target.delta (path, partitionBy, clusterBy, properties), or the columns of spec.transform."
        return InvalidSpecError(f"spec.target.delta: Delta rejects the table: {describe_error(error)}", hint=hint)
    return _explained(error, path=path, message=message) or TransientError(message)


def explain_naming(error: Exception, *, path: str, name: str) -> BackfillError:
    """Return the error of adding a target's name to the catalog; the table exists already, and a later attempt adds the name."""
    message = f"spec.target.delta.table: the catalog cannot name the table {path} {name!r}: {describe_error(error)}"
    match trouble_of(error):
        case Trouble.AWAY:
            return AwayError(message, hint="Check that the metastore answers.")
        case Trouble.DENIED:
            hint = "Grant this user the right to create tables in the schema, and run the job again."
            return PermissionDeniedError(f"{message}.", hint=hint)
        case Trouble.REFUSED:
            hint = "Correct the name, or set spec.target.delta.path instead. The table has no rows yet."
            return InvalidSpecError(f"{message}.", hint=hint)
    return TransientError(message)


def _explained(error: Exception, *, path: str, message: str) -> BackfillError | None:
    match trouble_of(error):
        case Trouble.FULL:
            return StorageFullError(
                f"no space left on the target's storage: {message}.", hint="Free some space; no data is lost."
            )
        case Trouble.TOO_LONG:
            return long_name()
        case Trouble.DENIED:
            return PermissionDeniedError(
                f"the target {path} cannot be read or written: {message}.",
                hint=refusals.hint_of(error, "Grant read and write access to the table."),
            )
        case Trouble.NO_PLACE:
            return missing_place(path, field="spec.target.delta.path", message=describe_error(error))
        case Trouble.NO_TABLE:
            return TargetGoneError(f"the target {path} was dropped while it was filled.", hint=START_AGAIN)
        case Trouble.UNSUPPORTED if NO_REPLACEMENT.search(whole_text(error)):
            return UnsupportedTargetFeatureError(
                f"the target {path} has {CHANGE_FEED} = true, for which Delta Kernel cannot add and remove files in one commit.",
                hint=FEED_HINT,
            )
        case Trouble.UNSUPPORTED:
            name, text = causes(error)[-1]
            return UnsupportedTargetFeatureError(
                f"the target cannot be committed to: {text or name}.",
                hint=FENCE_HINT if FENCED in text else "Use a target without this table feature.",
            )
        case Trouble.ENCRYPTED:
            return UnsupportedTargetFeatureError(
                f"a file of the target {path} is encrypted, and Spark has no key for it: {message}",
                hint="Use a target that is not encrypted, or give Spark the key (parquet.crypto.factory.class).",
            )
        case Trouble.DAMAGED | Trouble.GONE:
            return _damaged_file(path, message)
        case Trouble.AWAY:
            return AwayError(message)
        case Trouble.REJECTED:
            return TransientError(message, hint=refusals.REJECTED_HINT)
        case Trouble.CONFLICT:
            return TransientError(message)
        case Trouble.UNKNOWN if is_about_a_file(error, path):
            return _damaged_file(path, message)
    return None


def _damaged_file(path: str, message: str) -> TargetDamagedError:
    return TargetDamagedError(
        f"a file of the target {path} cannot be read: {message}",
        hint="Restore the file that the message names, or start again with a new target.",
    )


def may_be_others(error: Exception) -> bool:
    """Return True if another driver that creates the same table may have caused the error."""
    return trouble_of(error) in (Trouble.CONFLICT, Trouble.NO_TABLE, Trouble.GONE, Trouble.UNKNOWN)
