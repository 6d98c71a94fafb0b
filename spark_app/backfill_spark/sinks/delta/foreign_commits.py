"""What others committed to a table: the commits that change rows and are not of one job."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from backfill_core.errors import ForeignCommit, TargetChangedError
from backfill_spark.delta.log import action_of, commit_files, commit_text, lines_of
from backfill_spark.delta.properties import CHANGE_FEED, is_on
from backfill_spark.jvm.errors import JAVA_ERRORS, is_a
from backfill_spark.sinks.delta.failures import explain_target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROPERTIES_ONLY = ("SET TBLPROPERTIES", "UNSET TBLPROPERTIES")
"""Operations whose metadata has the columns of before."""


def commits_of_others(
    spark: SparkSession, path: str, after: int, upto: int, app_id: str, *, friends: str | None = None
) -> tuple[ForeignCommit, ...]:
    """Return the commits of the versions `(after, upto]` that change rows or columns and are not of a job.

    Args:
        spark: The session.
        path: The table's.
        after: Version before the first that is looked at.
        upto: The last one.
        app_id: Of the job's transactions, which its seals and its MERGEs carry.
        friends: How application ids begin that do not count either.

    Raises:
        BackfillError: a commit cannot be read; says whether it may be later.
    """
    commits = ((version, _lines(spark, path, version)) for version in range(after + 1, upto + 1))
    found = (foreign(version, lines, app_id, friends) for version, lines in commits)
    return tuple(one for one in found if one is not None)


def others_beside(spark: SparkSession, path: str, app_id: str) -> tuple[ForeignCommit, ...]:
    """Return the commits since the first of a job that change rows or columns and are not its own, as far as the log goes.

    Raises:
        BackfillError: a commit cannot be read; says whether it may be later.
    """
    began, found = False, []
    for version in _versions(spark, path):
        lines = _lines(spark, path, version)
        began = began or any(_application(action_of(line)) == app_id for line in lines if line.strip())
        one = foreign(version, lines, app_id) if began else None
        found += [] if one is None else [one]
    return tuple(found)


def others_since(
    spark: SparkSession, path: str, newest: int, app_id: str, *, known: int | None = None
) -> tuple[ForeignCommit, ...]:
    """Return the commits after the newest one of a job that touch files or columns of the table, rearrangements too.

    Args:
        spark: The session.
        path: The table's.
        newest: The last version that is looked at.
        app_id: Of the job's transactions.
        known: A version before which nothing is looked at; None: up to the newest commit of the job.

    Raises:
        TargetChangedError: the log was cleaned since that commit.
        BackfillError: a commit cannot be read; says whether it may be later.
    """
    logged = range(known + 1, newest + 1) if known is not None else _versions(spark, path)
    versions = [one for one in logged if one <= newest]
    found: list[ForeignCommit] = []
    for version in reversed(versions):
        lines = _lines(spark, path, version)
        if any(_application(action_of(line)) == app_id for line in lines):
            return tuple(reversed(found))
        one = touching(version, lines)
        found += [] if one is None else [one]
    if known is None and versions[:1] != [0]:
        began = f"begins at version {versions[0]}" if versions else "has no commit"
        raise TargetChangedError(
            f"the log of {path} {began}, after the last commit of the job: what others did since is not known.",
            hint="Start a new job on a new target; where a standby shall outlast long pauses, raise delta.logRetentionDuration.",
            newest=newest,
        )
    return tuple(reversed(found))


def check_alone(spark: SparkSession, path: str, newest: int, app_id: str, *, known: int | None) -> None:
    """Refuse to commit after others touched files that a job keeps alone: which of them stands for which would be a guess.

    Raises:
        TargetChangedError: names their commits; see `others_since`.
    """
    others = others_since(spark, path, newest, app_id, known=known)
    if others:
        words = ", ".join(map(str, others[:5]))
        raise TargetChangedError(
            f"others changed files or columns of {path}, which a job keeps alone: {words}.",
            hint="Keep others from writing to it, and start a new job on a new target.",
            commits=others,
            newest=newest,
        )


def touching(version: int, lines: Iterable[str]) -> ForeignCommit | None:
    """Return what a commit is when it adds or removes a file, or changes columns, partitions or the change feed, else None."""
    touches, operation, engine = False, "", ""
    metadata: dict[str, Any] | None = None
    for line in lines:
        action = action_of(line)
        touches = touches or any(kind in action for kind in ("add", "remove", "cdc"))
        metadata = action.get("metaData", metadata)
        info = action.get("commitInfo", {})
        operation, engine = info.get("operation", operation), info.get("engineInfo", engine)
    if metadata is not None:
        touches = touches or operation not in PROPERTIES_ONLY or is_on(metadata.get("configuration") or {}, CHANGE_FEED)
    return ForeignCommit(version, str(operation), str(engine)) if touches else None


def _versions(spark: SparkSession, path: str) -> list[int]:
    """Return the versions whose commits are in the log, ascending."""
    try:
        return list(commit_files(spark, path))
    except JAVA_ERRORS as error:
        if is_a(error, "FileNotFoundException"):
            return []
        raise explain_target(error, path=path, doing="the look at the log") from error


def _lines(spark: SparkSession, path: str, version: int) -> list[str]:
    try:
        return lines_of(commit_text(spark, path, version))
    except JAVA_ERRORS as error:
        raise explain_target(error, path=path, doing=f"the look at version {version}") from error


def _application(action: dict[str, Any]) -> str:
    return str(action.get("txn", {}).get("appId", ""))


def foreign(version: int, lines: Iterable[str], app_id: str, friends: str | None = None) -> ForeignCommit | None:
    """Return what a commit is when it is not of the job and changes rows or columns, else None."""
    changes, operation, engine = False, "", ""
    for line in lines:
        action = action_of(line) if line.strip() else {}
        app = _application(action)
        if app and (app == app_id or (friends is not None and app.startswith(friends))):
            return None
        # An OPTIMIZE marks its files as no change of data.
        moved = [action.get(kind, {}).get("dataChange") for kind in ("add", "remove")]
        changes = changes or any(moved) or "cdc" in action or "metaData" in action
        info = action.get("commitInfo", {})
        operation, engine = info.get("operation", operation), info.get("engineInfo", engine)
    return ForeignCommit(version, str(operation), str(engine)) if changes else None
