"""Errors of reading, making, writing and committing to a target."""

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
from backfill_spark.delta.spark_internals import log_damage
from backfill_spark.jvm.errors import causes, first_line, is_a, whole_text, without_values
from backfill_spark.jvm.failures import Trouble, in_words, is_about, is_about_a_file, long_name, trouble_of
from backfill_spark.jvm.log_stores import refusals
from backfill_spark.jvm.log_stores.missing_places import missing_place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FENCED_HINT = "Nothing to do if another driver runs; else start it again."
BEGIN_ANEW = "Start the job again: it begins anew, in a table of its own making."


def explain_target(error: Exception, *, path: str, doing: str) -> BackfillError:
    """Return the error of a step on the target, such as `the seal` or `the look at the target`."""
    known = _known(error, path=path, words=f"{doing} failed: {in_words(error)}")
    return known or TransientError(f"{doing} failed: {in_words(error)}")


def explain_commit(error: Exception, path: str) -> BackfillError:
    """Say in our words what Kernel or the storage refused."""
    # Kernel names whichever it meets first: our transaction id, or our domain; no other writer has either.
    if is_a(error, "ConcurrentTransactionException") or "domainMetadata action for the same domain" in whole_text(
        error
    ):
        return FencedError(
            "a newer attempt of this job has committed.",
            hint=FENCED_HINT,
        )
    return explain_target(error, path=path, doing="the commit")


def explain_staged(error: Exception, file: str, *, target: str) -> BackfillError:
    """Return the error of reading a file that this job staged and that no commit names yet."""
    if is_a(error, "FileNotFoundException"):
        return StagedFilesGoneError(f"a staged file is gone: {first_line(error)}.", hint=GONE_HINT)
    if trouble_of(error) is Trouble.UNKNOWN and not is_a(error, "IOException"):
        # The storage answered, and the next attempt would write the same file.
        return UnexpectedError(
            f"Delta refuses a file that this job wrote, {without_values(file)}: {first_line(error)}.",
            hint="Report it with the driver's log.",
        )
    return explain_commit(error, target)


def explain_job(spark: SparkSession, error: Exception, *, path: str) -> BackfillError | None:
    """Return the error of a Spark job that also uses the target; None where the exception is not about the target."""
    if is_about(error, path):
        return _known(error, path=path, words=f"the target: {in_words(error)}")
    damage = log_damage(spark, path, error)
    if damage is None:
        return None
    return TargetDamagedError(
        f"the log of the target {path} is damaged: {in_words(damage)}",
        hint="Restore its _delta_log, or start again with a new target.",
    )


def explain_making(error: Exception, *, path: str) -> BackfillError:
    """Return the error of making a target; a refusal by Delta is an invalid spec."""
    words = f"the target {path} cannot be made: {in_words(error)}"
    odd = (
        "IllegalArgumentException",
        "UnsupportedOperationException",
        "ParentNotDirectoryException",
        "DeltaIOException",
    )
    trouble = trouble_of(error)
    if trouble == Trouble.TOO_LONG:  # no row is written yet
        return InvalidSpecError(
            f"spec.target.delta.path: {path} has a part that is longer than its file system takes.",
            hint="Choose a shorter path.",
        )
    if trouble in (Trouble.REFUSED, Trouble.UNSUPPORTED) or (
        trouble == Trouble.UNKNOWN and any(is_a(error, name) for name in odd)
    ):
        hint = "Correct spec.target.delta (path, partitionBy, clusterBy, properties), or the columns of spec.transform."
        return InvalidSpecError(f"spec.target.delta: Delta refuses the table: {in_words(error)}", hint=hint)
    return _known(error, path=path, words=words) or TransientError(words)


def _known(error: Exception, *, path: str, words: str) -> BackfillError | None:
    match trouble_of(error):
        case Trouble.FULL:
            return StorageFullError(
                f"no space left on the target's storage: {words}.", hint="Free some room; nothing is lost."
            )
        case Trouble.TOO_LONG:
            return long_name()
        case Trouble.DENIED:
            return PermissionDeniedError(
                f"the target {path} cannot be read or written: {words}.",
                hint=refusals.hint_of(error, "Grant read and write access to the table."),
            )
        case Trouble.NO_PLACE:
            return missing_place(path, field="spec.target.delta.path", words=in_words(error))
        case Trouble.NO_TABLE:
            return TargetGoneError(f"the target {path} was dropped while it was filled.", hint=BEGIN_ANEW)
        case Trouble.UNSUPPORTED:
            said = causes(error)[-1]
            return UnsupportedTargetFeatureError(
                f"the target cannot be committed to: {said[1] or said[0]}.",
                hint="Use a target without this table feature.",
            )
        case Trouble.ENCRYPTED:
            return UnsupportedTargetFeatureError(
                f"a file of the target {path} is encrypted, and Spark has no key for it: {words}",
                hint="Use a target that is not encrypted, or give Spark the key (parquet.crypto.factory.class).",
            )
        case Trouble.DAMAGED | Trouble.GONE:
            return _damaged_file(path, words)
        case Trouble.AWAY:
            return AwayError(words)
        case Trouble.CONFLICT:
            return TransientError(words)
        case Trouble.UNKNOWN if is_about_a_file(error, path):
            return _damaged_file(path, words)
    return None


def _damaged_file(path: str, words: str) -> TargetDamagedError:
    return TargetDamagedError(
        f"a file of the target {path} cannot be read: {words}",
        hint="Restore the file that the message names, or start again with a new target.",
    )


def may_be_others(error: Exception) -> bool:
    """May another driver, which makes the same table, be the reason?"""
    return trouble_of(error) in (Trouble.CONFLICT, Trouble.NO_TABLE, Trouble.GONE, Trouble.UNKNOWN)
