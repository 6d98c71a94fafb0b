"""Foreign commits to a table: commits of other writers that change rows, columns or files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backfill_core.errors import ForeignCommit, TargetChangedError
from backfill_core.source_fence import fence as source_fence
from backfill_core.source_fence import hold
from backfill_core.switch_over import mark
from backfill_spark.delta.log import action_of, commit_files, commit_text, lines_of
from backfill_spark.delta.properties import CHANGE_FEED, is_on
from backfill_spark.jvm.errors import JAVA_ERRORS, is_a
from backfill_spark.sinks.delta.failures import explain_target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OF_A_SWITCH_OVER = (*source_fence.OPERATIONS, mark.OPERATION, *hold.OPERATIONS)
"""Operations of this project that write metadata with the same columns and the same change feed."""

PROPERTIES_ONLY = ("SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "DROP FEATURE")
"""Operations that write metadata but leave the columns unchanged; a dropped feature that changes files rewrites them in other commits."""


def commits_of_others(
    spark: SparkSession, path: str, after: int, upto: int, app_id: str, *, friends: str | None = None
) -> tuple[ForeignCommit, ...]:
    """Return the foreign commits of the versions `(after, upto]` that change rows or columns.

    Args:
        spark: The session.
        path: The table's path.
        after: The version before the first one to read.
        upto: The last version to read.
        app_id: Application id of the job's transactions, in its seals and MERGEs.
        friends: Prefix of application ids that are not foreign either.

    Raises:
        BackfillError: a commit cannot be read; its class shows whether a retry may help.
    """
    commits = ((version, _lines(spark, path, version)) for version in range(after + 1, upto + 1))
    candidates = (foreign(version, lines, app_id, friends) for version, lines in commits)
    return tuple(commit for commit in candidates if commit is not None)


def foreign_commits_during(spark: SparkSession, path: str, app_id: str) -> tuple[ForeignCommit, ...]:
    """Return the foreign commits since the job's first one that change rows or columns, as far back as the log reaches.

    Raises:
        BackfillError: a commit cannot be read; its class shows whether a retry may help.
    """
    began, commits = False, []
    for version in _versions(spark, path):
        lines = _lines(spark, path, version)
        began = began or any(_application(action_of(line)) == app_id for line in lines if line.strip())
        commit = foreign(version, lines, app_id) if began else None
        commits += [] if commit is None else [commit]
    return tuple(commits)


def others_since(
    spark: SparkSession, path: str, newest: int, app_id: str, *, after: int | None = None
) -> tuple[ForeignCommit, ...]:
    """Return the commits after the job's newest one that change files or columns, including OPTIMIZE.

    Args:
        spark: The session.
        path: The table's path.
        newest: The last version to read.
        app_id: Application id of the job's transactions.
        after: Only later versions are read; `None` reads back to the newest commit of the job.

    Raises:
        TargetChangedError: log cleanup removed commits after the job's newest one.
        BackfillError: a commit cannot be read; its class shows whether a retry may help.
    """
    logged = range(after + 1, newest + 1) if after is not None else _versions(spark, path)
    versions = [version for version in logged if version <= newest]
    commits: list[ForeignCommit] = []
    for version in reversed(versions):
        lines = _lines(spark, path, version)
        if any(_application(action_of(line)) == app_id for line in lines):
            return tuple(reversed(commits))
        commit = touching(version, lines)
        commits += [] if commit is None else [commit]
    if after is None and versions[:1] != [0]:
        began = f"begins at version {versions[0]}" if versions else "has no commit"
        raise TargetChangedError(
            f"the log of {path} {began}, after the last commit of the job: foreign commits in between are unknown.",
            hint="Start a new job on a new target; for a standby with long pauses, raise delta.logRetentionDuration.",
            newest=newest,
        )
    return tuple(reversed(commits))


def check_alone(spark: SparkSession, path: str, newest: int, app_id: str, *, after: int | None) -> None:
    """Reject a commit after another writer changed files that the job owns exclusively, since files can no longer be matched.

    Raises:
        TargetChangedError: names the foreign commits; see `others_since`.
    """
    others = others_since(spark, path, newest, app_id, after=after)
    if others:
        listed = ", ".join(map(str, others[:5]))
        raise TargetChangedError(
            f"another writer changed files or columns of {path}, which the job owns exclusively: {listed}.",
            hint="Stop the other writers, and start a new job on a new target.",
            commits=others,
            newest=newest,
        )


@dataclass(frozen=True, slots=True)
class LoggedCommit:
    """The parts of a commit that decide its effect on other writers."""

    described: ForeignCommit
    applications: frozenset[str]
    """Application ids of its transactions."""

    changes_columns: bool
    """True if it writes metadata with an operation that may change columns."""

    added: tuple[Mapping[str, Any], ...]
    removed: tuple[Mapping[str, Any], ...]


def logged_commit(spark: SparkSession, path: str, version: int) -> LoggedCommit:
    """Read one commit.

    Raises:
        BackfillError: the commit cannot be read; its class shows whether a retry may help.
    """
    actions = [action_of(line) for line in _lines(spark, path, version)]
    infos = [action["commitInfo"] for action in actions if "commitInfo" in action]
    info = infos[0] if infos else {}
    operation = str(info.get("operation", ""))
    writes_metadata = any("metaData" in action for action in actions)
    return LoggedCommit(
        ForeignCommit(version, operation, str(info.get("engineInfo", ""))),
        frozenset(filter(None, map(_application, actions))),
        writes_metadata and operation not in (*OF_A_SWITCH_OVER, *PROPERTIES_ONLY),
        tuple(action["add"] for action in actions if "add" in action),
        tuple(action["remove"] for action in actions if "remove" in action),
    )


def touching(version: int, lines: Iterable[str]) -> ForeignCommit | None:
    """Return a commit that adds or removes files, or changes columns, partitions or the change feed; else `None`."""
    touches, operation, engine = False, "", ""
    metadata: dict[str, Any] | None = None
    for line in lines:
        action = action_of(line)
        touches = touches or any(kind in action for kind in ("add", "remove", "cdc"))
        metadata = action.get("metaData", metadata)
        info = action.get("commitInfo", {})
        operation, engine = info.get("operation", operation), info.get("engineInfo", engine)
    if metadata is not None and operation not in OF_A_SWITCH_OVER:
        touches = touches or operation not in PROPERTIES_ONLY or is_on(metadata.get("configuration") or {}, CHANGE_FEED)
    return ForeignCommit(version, str(operation), str(engine)) if touches else None


def touched_by_others(spark: SparkSession, path: str, after: int, upto: int, app_id: str) -> tuple[ForeignCommit, ...]:
    """Return the commits of the versions `(after, upto]` that are not the job's and change files or columns, including OPTIMIZE.

    Raises:
        BackfillError: a commit cannot be read; its class shows whether a retry may help.
    """
    commits: list[ForeignCommit] = []
    for version in range(after + 1, upto + 1):
        lines = _lines(spark, path, version)
        commit = touching(version, lines)
        ours = any(_application(action_of(line)) == app_id for line in lines if line.strip())
        commits += [] if ours or commit is None else [commit]
    return tuple(commits)


def _versions(spark: SparkSession, path: str) -> list[int]:
    """Return the versions with a commit in the log, ascending."""
    try:
        return list(commit_files(spark, path))
    except JAVA_ERRORS as error:
        if is_a(error, "FileNotFoundException"):
            return []
        raise explain_target(error, path=path, doing="reading the log of the target") from error


def _lines(spark: SparkSession, path: str, version: int) -> list[str]:
    try:
        return lines_of(commit_text(spark, path, version))
    except JAVA_ERRORS as error:
        raise explain_target(error, path=path, doing=f"reading version {version} of the target") from error


def _application(action: dict[str, Any]) -> str:
    return str(action.get("txn", {}).get("appId", ""))


def foreign(version: int, lines: Iterable[str], app_id: str, friends: str | None = None) -> ForeignCommit | None:
    """Return a commit of another writer that changes rows or columns; `None` for other commits."""
    changes, operation, engine = False, "", ""
    for line in lines:
        action = action_of(line) if line.strip() else {}
        app = _application(action)
        if app and (app == app_id or (friends is not None and app.startswith(friends))):
            return None
        # OPTIMIZE sets `dataChange` to false.
        moved = [action.get(kind, {}).get("dataChange") for kind in ("add", "remove")]
        changes = changes or any(moved) or "cdc" in action or "metaData" in action
        info = action.get("commitInfo", {})
        operation, engine = info.get("operation", operation), info.get("engineInfo", engine)
    return ForeignCommit(version, str(operation), str(engine)) if changes else None
