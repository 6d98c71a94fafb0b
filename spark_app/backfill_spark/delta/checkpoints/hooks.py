"""Hooks of Delta Kernel's commits: checksums, and checkpoints by Kernel or by Spark.

Spark writes those that Kernel cannot write, and those that it would write so that Spark reads them wrongly.

Kernel puts all removals since the checkpoint before into its own, also that of a file which came back under its path and vector, as
after a RESTORE by delta-rs. Spark takes such a file for removed (ADR 0008).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from backfill_core.errors import BackfillError, TargetDamagedError, TransientError
from backfill_core.log_shipping.actions import DeletionVector
from backfill_spark.delta.checkpoints.kernel_checkpoints import KernelCheckpoints
from backfill_spark.delta.checkpoints.log_cleanup import LogCleanup
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
    """The hooks of past commits to one table. Safe to use from several threads: one commits, the others run them."""

    def __init__(self, spark: SparkSession, path: str, kernel: Any, engine: Any) -> None:
        """Take the table's path, Kernel's package and an engine; nothing is read yet."""
        self._spark, self._path, self._engine = spark, path, engine
        self._checkpoints, self.cleanup = KernelCheckpoints(spark, path, kernel, engine), LogCleanup(spark, path)
        self.waiting: list[tuple[int, Any]] = []
        """Pending hooks by version, oldest first."""

        self._damage: TargetDamagedError | None = None
        self._tried_by_spark = -1
        self._plain: set[int] = set()
        self._known = -1
        self._lock, self._running = threading.Lock(), threading.Lock()

    def add(self, result: Any, *, plain: bool) -> None:
        """Take the hooks of a commit; `plain`: all files that it added are new, and it removed none."""
        version = int(result.getVersion())
        with self._lock:
            self.waiting += [(version, hook) for hook in items(result.getPostCommitHooks())]
            if plain:
                self._plain.add(version)

    def check(self) -> None:
        """Refuse a table whose newest checkpoint is incomplete; raises as `KernelCheckpoints.check_newest`."""
        self._checkpoints.check_newest()

    def check_found(self) -> None:
        """Raise the `TargetDamagedError` that a checkpoint met before; nothing is read."""
        if self._damage is not None:
            raise self._damage

    def run(self) -> None:
        """Run the pending hooks, each; one that fails is tried again next time.

        Raises:
            What the first that failed met (`JAVA_ERRORS`, `BackfillError`).
        """
        if not self._running.acquire(blocking=False):
            return  # the other thread takes these hooks, too; two checkpoints at once could end in the wrong order
        late: list[tuple[tuple[int, Any], Exception]] = []
        try:
            while hooks := self._taken():
                late += [(hook, error) for hook in hooks if (error := self._failure(*hook)) is not None]
        finally:
            with self._lock:
                # If none ever succeeds the oldest are dropped: a newer checkpoint holds all of theirs.
                self.waiting = [*(hook for hook, _ in late), *self.waiting][-HOOKS_MAX:]
            self._running.release()
        if late:
            raise late[0][1]

    def _taken(self) -> list[tuple[int, Any]]:
        """Take all pending hooks, checksums first: they count the files that a checkpoint must have."""
        with self._lock:
            hooks, self.waiting = self.waiting, []
        newest = max((version for version, hook in hooks if _is_checkpoint(hook)), default=-1)
        checkpoints = [(version, hook) for version, hook in hooks if _is_checkpoint(hook) and version == newest]
        return [*((version, hook) for version, hook in hooks if not _is_checkpoint(hook)), *checkpoints]

    def _failure(self, version: int, hook: Any) -> Exception | None:
        try:
            if _is_checkpoint(hook):
                self._checkpoint(version)
            else:
                hook.threadSafeInvoke(self._engine)
        except TargetDamagedError as error:
            self._damage = error
            return error
        except (*JAVA_ERRORS, BackfillError) as error:
            return error
        return None

    def _checkpoint(self, version: int) -> None:
        if self._misleads(version):
            self._checkpoints.check_before(version)  # Spark would build on it, too
            self._by_spark(version)
        else:
            try:
                self._checkpoints.write(version)
            except (*JAVA_ERRORS, TransientError) as error:
                self._by_spark(version, error)
        self._damage = None
        self._known = max(self._known, version)
        with self._lock:
            self._plain = {plain for plain in self._plain if plain > self._known}
        self.cleanup.start()

    def _by_spark(self, version: int, failure: Exception | None = None) -> None:
        """Have Spark write a checkpoint, once for each version that needs one: its jobs take cores from the copy.

        Raises:
            The failure of Kernel, or what Spark met (`JAVA_ERRORS`, `TransientError`).
        """
        missing = failure or TransientError(f"Spark wrote no checkpoint of version {version}.")
        if self._tried_by_spark == version:
            raise missing
        self._tried_by_spark = version
        try:
            SparkDeltaLog(self._spark, self._path).checkpoint()
        except JAVA_ERRORS as error:
            raise missing from error
        # Spark only logs an error that it meets.
        if _last_checkpoint(self._spark, self._path) < version:
            raise missing

    def _misleads(self, version: int) -> bool:
        """Would Spark miss files by Kernel's checkpoint of a version?"""
        if self._known < 0:
            self._known = _last_checkpoint(self._spark, self._path)
        with self._lock:
            unknown = [number for number in range(self._known + 1, version + 1) if number not in self._plain]
        if len(unknown) > COMMITS_MAX:
            return True
        try:
            return brings_back(commit_text(self._spark, self._path, number) for number in unknown)
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


def _is_checkpoint(hook: Any) -> bool:
    return str(hook.getType()) == "CHECKPOINT"


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
    except (ValueError, KeyError, TypeError, RecursionError):
        return -1
