"""Hooks of Delta Kernel's commits: checksums, and checkpoints by Kernel or by Spark.

Spark writes the checkpoints that Kernel cannot write, and those of Kernel's that Spark would misread.

A checkpoint of Kernel contains all removals since the previous checkpoint. That includes a file that was added again with the same path
and vector, as after a RESTORE by delta-rs. Spark treats such a file as removed (ADR 0008).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backfill_core.errors import BackfillError, TargetDamagedError, TransientError
from backfill_core.log_shipping.actions import DeletionVector
from backfill_spark.delta.checkpoints.kernel_checkpoints import KernelCheckpoints
from backfill_spark.delta.checkpoints.log_cleanup import LogCleanup
from backfill_spark.delta.checkpoints.spacing import commits_between
from backfill_spark.delta.deletion_vectors import vector_of
from backfill_spark.delta.log import action_of, commit_text, lines_of, text_of_file
from backfill_spark.delta.spark_internals import SparkDeltaLog
from backfill_spark.jvm.errors import JAVA_ERRORS, is_a
from backfill_spark.jvm.gateway import items

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOOKS_MAX = 32
"""Maximum number of failed hooks that are kept for a retry."""

COMMITS_MAX = 1_000
"""Maximum number of commits that are read; if there are more, Spark writes the checkpoint."""

Hook = tuple[int, Any]
"""A hook of Kernel, with the version of its commit."""


@dataclass(frozen=True, slots=True)
class LastCheckpoint:
    """The newest checkpoint of a table, as the log's hint file describes it."""

    version: int
    size: int
    """Number of its actions, which are its files and few others; 0 if the hint has no number."""


class CommitHooks:
    """The hooks of past commits to one table. Safe to use from several threads: one commits, the others run hooks."""

    def __init__(self, spark: SparkSession, path: str, kernel: Any, engine: Any) -> None:
        """Take the table's path, Kernel's package and an engine; nothing is read yet."""
        self._spark, self._path, self._engine = spark, path, engine
        self._checkpoints, self.cleanup = KernelCheckpoints(spark, path, kernel, engine), LogCleanup(spark, path)
        self.waiting: list[Hook] = []
        """Pending hooks by version, oldest first."""

        self._damage: TargetDamagedError | None = None
        self._tried_by_spark = -1
        self._plain: set[int] = set()
        self._last: LastCheckpoint | None = None
        self._lock, self._summing, self._checkpointing = threading.Lock(), threading.Lock(), threading.Lock()

    def add(self, result: Any, *, plain: bool) -> None:
        """Take the hooks of a commit; it is `plain` if all files that it added are new, and it removed none."""
        version = int(result.getVersion())
        with self._lock:
            self.waiting += [(version, hook) for hook in items(result.getPostCommitHooks())]
            if plain:
                self._plain.add(version)

    def check(self) -> None:
        """Reject a table whose newest checkpoint is incomplete; raises as `KernelCheckpoints.check_newest`."""
        self._checkpoints.check_newest()

    def check_found(self) -> None:
        """Raise the `TargetDamagedError` of an earlier checkpoint, if any; nothing is read."""
        if self._damage is not None:
            raise self._damage

    def run(self) -> None:
        """Run all pending hooks; a failed hook is retried next time.

        While one thread writes a checkpoint, another one writes the checksums of newer commits. Without them, each commit reads all
        commits since the last checksum, so a barrier would take longer the longer the checkpoint takes.

        Raises:
            JAVA_ERRORS, BackfillError: the error of the first failed hook.
        """
        late: list[tuple[Hook, Exception]] = []
        try:
            self._run_checksums(late)
            # Two concurrent checkpoints could end in the wrong order, so the other thread also writes the later one.
            if self._checkpointing.acquire(blocking=False):
                try:
                    while hooks := self._taken_checkpoint():
                        self._run_each(hooks, late)
                        self._run_checksums(late)
                finally:
                    self._checkpointing.release()
        finally:
            with self._lock:
                # If no hook ever succeeds, the oldest are dropped: a newer checkpoint contains the content of older ones.
                self.waiting = [*(hook for hook, _ in late), *self.waiting][-HOOKS_MAX:]
        if late:
            raise late[0][1]

    def _run_checksums(self, late: list[tuple[Hook, Exception]]) -> None:
        """Run pending checksums, and wait for those of the other thread: they contain the number of files for checkpoints."""
        with self._summing:
            while hooks := self._taken_checksums():
                self._run_each(hooks, late)

    def _run_each(self, hooks: list[Hook], late: list[tuple[Hook, Exception]]) -> None:
        late += [(hook, error) for hook in hooks if (error := self._failure(*hook)) is not None]

    def _taken_checksums(self) -> list[Hook]:
        with self._lock:
            checksums = [hook for hook in self.waiting if not _is_checkpoint(hook[1])]
            self.waiting = [hook for hook in self.waiting if _is_checkpoint(hook[1])]
        return checksums

    def _taken_checkpoint(self) -> list[Hook]:
        """Take the newest pending checkpoint, which makes the older ones unnecessary."""
        with self._lock:
            checkpoints = [hook for hook in self.waiting if _is_checkpoint(hook[1])]
            self.waiting = [hook for hook in self.waiting if not _is_checkpoint(hook[1])]
        return [max(checkpoints, key=lambda hook: hook[0])] if checkpoints else []

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
        last = self._last or _last_checkpoint(self._spark, self._path)
        if last.version < 0 or version - last.version >= commits_between(last.size):
            self._write_checkpoint(version, last)

    def _write_checkpoint(self, version: int, last: LastCheckpoint) -> None:
        if self._misleads(version, last):
            self._checkpoints.check_before(version)  # Spark would also build on the previous checkpoint
            self._by_spark(version)
        else:
            try:
                self._checkpoints.write(version)
            except (*JAVA_ERRORS, TransientError) as error:
                self._by_spark(version, error)
        self._damage = None
        written = _last_checkpoint(self._spark, self._path)
        self._last = LastCheckpoint(max(last.version, version), written.size)
        with self._lock:
            self._plain = {plain for plain in self._plain if plain > version}
        self.cleanup.start()

    def _by_spark(self, version: int, failure: Exception | None = None) -> None:
        """Write a checkpoint with Spark, at most once for each version, because Spark's jobs take cores from the copy.

        Raises:
            JAVA_ERRORS, TransientError: the failure of Kernel or of Spark.
        """
        missing = failure or TransientError(f"Spark wrote no checkpoint of version {version}.")
        if self._tried_by_spark == version:
            raise missing
        self._tried_by_spark = version
        try:
            SparkDeltaLog(self._spark, self._path).checkpoint()
        except JAVA_ERRORS as error:
            raise missing from error
        # Spark only logs errors.
        if _last_checkpoint(self._spark, self._path).version < version:
            raise missing

    def _misleads(self, version: int, last: LastCheckpoint) -> bool:
        """Return True if Spark would miss files when it reads Kernel's checkpoint of a version."""
        with self._lock:
            unknown = [number for number in range(last.version + 1, version + 1) if number not in self._plain]
        if len(unknown) > COMMITS_MAX:
            return True
        try:
            return brings_back(commit_text(self._spark, self._path, number) for number in unknown)
        except JAVA_ERRORS as error:
            if is_a(error, "FileNotFoundException"):
                return True  # the log was cleaned, so the content of these commits is unknown
            raise


def brings_back(commits: Iterable[str]) -> bool:
    """Return True if one of the commits, in order, adds a file with a path and a vector that one of them removed."""
    removed: set[tuple[str, DeletionVector | None]] = set()
    for text in commits:
        actions = [action_of(line) for line in lines_of(text)]
        removed |= {_key(action["remove"]) for action in actions if "remove" in action}
        if removed and any(_key(action["add"]) in removed for action in actions if "add" in action):
            return True
    return False


def _is_checkpoint(hook: Any) -> bool:
    return str(hook.getType()) == "CHECKPOINT"


def _key(file: dict[str, Any]) -> tuple[str, DeletionVector | None]:
    return file["path"], vector_of(file)


def _last_checkpoint(spark: SparkSession, path: str) -> LastCheckpoint:
    """Return the newest checkpoint from the log's hint file; version -1 if there is none."""
    try:
        hint = json.loads(text_of_file(spark, f"{path}/_delta_log/_last_checkpoint"))
        return LastCheckpoint(int(hint["version"]), int(hint.get("size") or 0))
    except JAVA_ERRORS as error:
        if is_a(error, "FileNotFoundException"):
            return LastCheckpoint(-1, 0)
        raise
    except (AttributeError, ValueError, KeyError, TypeError, RecursionError):
        return LastCheckpoint(-1, 0)
