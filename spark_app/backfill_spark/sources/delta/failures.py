"""Translation of errors from reading a source, and from Spark jobs on it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pyspark.sql.types import NullType

from backfill_core.errors import (
    AwayError,
    BackfillError,
    ChangeFeedExpiredError,
    PermissionDeniedError,
    SnapshotExpiredError,
    SourceDamagedError,
    SourceNotFoundError,
    StorageFullError,
    TransientError,
    UnsupportedSourceFeatureError,
)
from backfill_spark.delta.log import LOG_ERRORS
from backfill_spark.delta.schemas import schema_of
from backfill_spark.delta.spark_internals import SparkDeltaLog
from backfill_spark.delta.types import every_type
from backfill_spark.jvm.errors import JAVA_ERRORS, causes, first_line, whole_text
from backfill_spark.jvm.failures import Trouble, describe_error, is_about, is_about_a_file, trouble_of
from backfill_spark.jvm.log_stores import refusals
from backfill_spark.jvm.log_stores.missing_places import missing_place
from backfill_spark.sources.delta.range_rows import explain_outside

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG_HINT = "Restore the source's _delta_log from a backup. Delta rebuilds a checksum file (.crc) that is removed."
VOID = "unsupported Delta data type: VOID"
"""Kernel's message for a column without a type."""

VERSION_GONE = re.compile(
    r"FileNotFoundException|FILE_NOT_EXIST|FILE_NOT_FOUND|does not exist|VersionNotFound|VERSION_NOT_FOUND|"
    r"VERSION_NOT_CONTIGUOUS|VERSIONS_NOT_CONTIGUOUS|TRUNCATED_TRANSACTION_LOG|NO_RECREATABLE_HISTORY|"
    r"STATE_RECOVER_ERROR|NO_COMMITS|CANNOT_TIME_TRAVEL|Missing checkpoint|Missing delta file"
)
"""Messages of Delta and Kernel for an old version that log cleanup removed."""


def explain_look(error: Exception, spark: SparkSession | None = None, *, path: str) -> BackfillError:
    """Return the error of opening or reading a source; with `spark`, it names the columns without a type."""
    if VOID in whole_text(error):
        return _without_type(path, spark)
    message = f"the source {path} cannot be read: {describe_error(error)}"
    match trouble_of(error):
        case Trouble.NO_PLACE:
            return missing_place(path, field="spec.source.delta.path", message=describe_error(error))
        case Trouble.NO_TABLE:
            return SourceNotFoundError(f"{path} is not a Delta table.", hint="Check spec.source.delta.path.")
        case Trouble.DENIED:
            return PermissionDeniedError(
                message, hint=refusals.hint_of(error, "Grant this user read access to the source.")
            )
        case Trouble.UNSUPPORTED:
            return UnsupportedSourceFeatureError(
                f"the source {path} cannot be read: {causes(error)[-1][1] or first_line(error)}.",
                hint="Drop the feature from the source, or read a copy without it.",
            )
        case Trouble.DAMAGED | Trouble.REFUSED:
            return SourceDamagedError(message, hint=LOG_HINT)
        case Trouble.AWAY:
            return AwayError(message)
        case Trouble.REJECTED:
            return TransientError(message, hint=refusals.REJECTED_HINT)
        case _:
            return TransientError(message)


def _without_type(path: str, spark: SparkSession | None) -> BackfillError:
    names: list[str] = []
    if spark is not None:
        with suppress(*JAVA_ERRORS):  # Spark may be unable to read the log, too
            schema = schema_of(str(SparkDeltaLog(spark, path).updated().metadata().schemaString()))
            types = ((field.name, every_type(field.dataType)) for field in schema)
            names = [name for name, parts in types if any(isinstance(part, NullType) for part in parts)]
    columns = ", ".join(map(repr, names)) or "a column"
    return UnsupportedSourceFeatureError(
        f"the source {path} cannot be read: {columns} has the type VOID, or contains it, and Delta Kernel cannot read such tables.",
        hint="Drop the column from the source: ALTER TABLE … DROP COLUMN, with delta.columnMapping.mode = name. Leaving it out of "
        "spec.transform.select does not help.",
    )


def explain_version(
    error: Exception, spark: SparkSession | None = None, *, path: str, version: int, newest: int
) -> BackfillError:
    """Return the error of opening one version of an existing source."""
    other_causes = (Trouble.DENIED, Trouble.NO_PLACE)
    if version < newest and VERSION_GONE.search(whole_text(error)) and trouble_of(error) not in other_causes:
        return SnapshotExpiredError(
            f"version {version} of {path} can no longer be read: {describe_error(error)}",
            hint="Log cleanup removed it: start a new job from a newer version.",
        )
    # An expired version is a final error, so it needs proof: the file may be readable again soon.
    explained = explain_look(error, spark, path=path)
    return type(explained)(f"version {version}: {explained.message}", hint=explained.hint)


@contextmanager
def explained_version(path: str, version: int) -> Iterator[None]:
    """Explain exceptions of reading the log of a version that must still exist."""
    try:
        yield
    except LOG_ERRORS as error:
        raise explain_version(error, path=path, version=version, newest=version) from error


def explain_log(error: Exception | None, *, path: str) -> SourceDamagedError | None:
    """Return the error of a source whose log Delta cannot rebuild; `None` without an exception."""
    if error is None:
        return None
    return SourceDamagedError(f"the log of {path} is damaged: {describe_error(error)}", hint=LOG_HINT)


def explain(error: Exception, *, path: str, version: int) -> BackfillError | None:
    """Return the error of a Spark job; `None` if it is unknown, or concerns another table.

    Args:
        error: The exception of pyspark or py4j.
        path: The source's path.
        version: The pinned version; -1 before a version is pinned.
    """
    text, trouble, ours = whole_text(error), trouble_of(error), is_about(error, path)
    lost = explain_outside(text)
    if lost is not None:
        return lost
    match trouble:
        case Trouble.FULL:
            return StorageFullError("no space left while staging.", hint="Free some space; no data is lost.")
        case Trouble.DENIED:
            # Java raises FileNotFoundException with `(Permission denied)` for existing files too.
            return PermissionDeniedError(describe_error(error), hint=refusals.hint_of(error, "Grant this user access."))
        case Trouble.NO_PLACE if ours:
            return missing_place(path, field="spec.source.delta.path", message=describe_error(error))
        case Trouble.GONE if ours and "_change_data" in text:
            return ChangeFeedExpiredError(
                f"files of the change feed of {path} are gone: {describe_error(error)}",
                hint="VACUUM removed them: start a new job on a new target.",
            )
        case Trouble.GONE if ours:
            return SnapshotExpiredError(
                f"a file of version {version} of {path} is gone: {describe_error(error)}",
                hint="VACUUM removed it: start a new job on a new target, or keep deleted files for longer.",
            )
        case Trouble.NO_TABLE if ours:
            return SourceNotFoundError(f"{path} is no longer a Delta table.", hint="Restore it.")
        case Trouble.DAMAGED if ours:
            return _damaged_file(error, path)
        case Trouble.ENCRYPTED if ours:
            return UnsupportedSourceFeatureError(
                f"a file of {path} is encrypted, and Spark has no key for it: {describe_error(error)}",
                hint="Read a copy that is not encrypted, or give Spark the key (parquet.crypto.factory.class).",
            )
        case Trouble.UNSUPPORTED if ours:
            return explain_look(error, path=path)
        case Trouble.AWAY:
            return AwayError(describe_error(error))
        case Trouble.CONFLICT:
            return TransientError(describe_error(error))
        case Trouble.UNKNOWN if is_about_a_file(error, path):
            return _damaged_file(error, path)
    return None


def _damaged_file(error: Exception, path: str) -> SourceDamagedError:
    return SourceDamagedError(
        f"a file of {path} cannot be read: {describe_error(error)}", hint="Restore the file that the message names."
    )
