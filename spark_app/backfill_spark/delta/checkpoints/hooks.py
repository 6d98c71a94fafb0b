"""What a commit of Delta Kernel leaves to do: its checkpoint, or one by Spark where Kernel's would be read wrongly.

Kernel puts all removals since the checkpoint before into its own, also that of a file which came back under its path and vector, as
after a RESTORE by delta-rs. Spark takes such a file for removed (ADR 0055).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from backfill_core.log_shipping.actions import DeletionVector
from backfill_spark.delta.deletion_vectors import vector_of
from backfill_spark.delta.log import action_of, commit_text, lines_of, text_of_file
from backfill_spark.delta.spark_internals import SparkDeltaLog
from backfill_spark.jvm.errors import JAVA_ERRORS, is_a
from backfill_spark.jvm.gateway import items

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOOKS_MAX = 32
"""Of past commits that failed and are kept for another try."""

COMMITS_MAX = 1_000
"""More are not read; Spark then writes the checkpoint."""


class CommitHooks:
    """The hooks of past commits to one table. Safe to use from two threads: one commits, one runs them."""

    def __init__(self, spark: SparkSession, path: str, engine: Any) -> None:
        """Take the table's path and Kernel's engine; nothing is read yet."""
        self._spark, self._path, self._engine = spark, path, engine
        self.waiting: list[tuple[int, Any]] = []
        """Of each version what is left to do, the oldest first."""

        self._plain: set[int] = set()
        self._known = -1
        self._lock = threading.Lock()

    def add(self, result: Any, *, plain: bool) -> None:
        """Take what a commit left to do; `plain`: all files that it added are new, and it removed none."""
        version = int(result.getVersion())
        with self._lock:
            self.waiting += [(version, one) for one in items(result.getPostCommitHooks())]
            if plain:
                self._plain.add(version)

    def run(self) -> None:
        """Run what is left, each; what fails is tried again next time.

        Raises:
            What the first that failed met (`JAVA_ERRORS`).
        """
        with self._lock:
            hooks, self.waiting = self.waiting, []
        late: list[tuple[tuple[int, Any], Exception]] = []
        for version, hook in hooks:
            try:
                if str(hook.getType()) == "CHECKPOINT":
                    self._checkpoint(version, hook)
                else:
                    hook.threadSafeInvoke(self._engine)
            except JAVA_ERRORS as error:
                late.append(((version, hook), error))
        if late:
            with self._lock:
                # If none ever succeeds the oldest are dropped: a newer checkpoint holds all of theirs.
                self.waiting = [*(one for one, _ in late), *self.waiting][-HOOKS_MAX:]
            raise late[0][1]

    def _checkpoint(self, version: int, hook: Any) -> None:
        if self._misleads(version):
            SparkDeltaLog(self._spark, self._path).checkpoint()
        else:
            hook.threadSafeInvoke(self._engine)
        self._known = max(self._known, version)
        with self._lock:
            self._plain = {one for one in self._plain if one > self._known}

    def _misleads(self, version: int) -> bool:
        """Would Spark miss files by Kernel's checkpoint of a version?"""
        if self._known < 0:
            self._known = _last_checkpoint(self._spark, self._path)
        with self._lock:
            unknown = [one for one in range(self._known + 1, version + 1) if one not in self._plain]
        if len(unknown) > COMMITS_MAX:
            return True
        try:
            return brings_back(commit_text(self._spark, self._path, one) for one in unknown)
        except JAVA_ERRORS as error:
            if is_a(error, "FileNotFoundException"):
                return True  # the log was cleaned: what the commits said is not known
            raise


def brings_back(commits: Iterable[str]) -> bool:
    """Does one of some commits, in their order, add a file under a path and a vector that one of them removed?"""
    gone: set[tuple[str, DeletionVector | None]] = set()
    for text in commits:
        actions = [action_of(line) for line in lines_of(text)]
        gone |= {_key(one["remove"]) for one in actions if "remove" in one}
        if gone and any(_key(one["add"]) in gone for one in actions if "add" in one):
            return True
    return False


def _key(file: dict[str, Any]) -> tuple[str, DeletionVector | None]:
    return file["path"], vector_of(file)


def _last_checkpoint(spark: SparkSession, path: str) -> int:
    """Return the version of the newest checkpoint as the log's own hint has it; -1: it tells of none."""
    try:
        return int(json.loads(text_of_file(spark, f"{path}/_delta_log/_last_checkpoint"))["version"])
    except JAVA_ERRORS as error:
        if is_a(error, "FileNotFoundException"):
            return -1
        raise
    except (ValueError, KeyError, TypeError):
        return -1
