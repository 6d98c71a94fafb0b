"""Why a Spark job on a source failed, in our words."""

from __future__ import annotations

import re

from backfill_core.errors import (
    BackfillError,
    ChangeFeedExpiredError,
    PermissionDeniedError,
    SnapshotExpiredError,
    SourceNotFoundError,
    StorageFullError,
    TransientError,
    UnsupportedSourceFeatureError,
)
from backfill_spark.java_errors import causes, first_line, is_no_access, is_no_room, is_no_table, whole_text

_FILE_GONE = re.compile(
    r"FileNotFoundException|FILE_NOT_EXIST|DELTA_FILE_NOT_FOUND|does not exist|FAILED_READ_FILE.FILE_NOT_EXIST"
)


def explain_look(error: Exception, *, path: str) -> BackfillError:
    """Say why a source could not be opened or looked at; the target is not to blame."""
    if is_no_table(error):
        return SourceNotFoundError(f"{path} is not a Delta table.", cure="Check spec.source.delta.path.")
    text = whole_text(error)
    if is_no_access(text):
        return PermissionDeniedError(
            f"the source {path} cannot be read: {first_line(error)}", cure="Grant this user read access to the source."
        )
    if any("Unsupported" in name or "unsupported" in message.lower() for name, message in causes(error)):
        return UnsupportedSourceFeatureError(
            f"the source {path} cannot be read: {causes(error)[-1][1] or first_line(error)}.",
            cure="Drop the feature from the source, or read a copy without it.",
        )
    return TransientError(f"the source {path} cannot be read: {first_line(error)}")


def explain(error: Exception, *, path: str, version: int) -> BackfillError | None:
    """Return the failure by its name, or None when nobody knows it.

    Args:
        error: What pyspark or py4j raised.
        path: The source's path.
        version: The pinned version; -1 before there is one.
    """
    text = whole_text(error)
    # `/lake/orders` is neither `/lake/orders_copy` nor `/other/lake/orders`.
    ours = re.search(rf"(?<![\w.%-]){re.escape(path.removeprefix('file:').rstrip('/'))}/", text) is not None
    if is_no_room(text):
        return StorageFullError("no space left while staging.", cure="Free some room; nothing is lost.")
    # Java's FileNotFoundException also says `(Permission denied)`: that file is there.
    if is_no_access(text):
        return PermissionDeniedError(first_line(error), cure="Grant this user access.")
    if "_change_data" in text and _FILE_GONE.search(text) and ours:
        return ChangeFeedExpiredError(
            f"files of the change feed of {path} are gone: {first_line(error)}",
            cure="VACUUM removed them: start a new job on a new target.",
        )
    if _FILE_GONE.search(text) and ours:
        return SnapshotExpiredError(
            f"a file of version {version} of {path} is gone: {first_line(error)}",
            cure="VACUUM removed it: start a new job on a new target, or keep deleted files for longer.",
        )
    if "TABLE_NOT_FOUND" in text or "DELTA_MISSING_DELTA_TABLE" in text or "DELTA_PATH_DOES_NOT_EXIST" in text:
        return SourceNotFoundError(f"{path} is not a Delta table any more.", cure="Restore it.")
    return TransientError(first_line(error)) if "Concurrent" in text else None
