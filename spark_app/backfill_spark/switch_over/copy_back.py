"""Copies new files of the target back to the fenced source, one commit for some versions of the target."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from backfill_core.copy_back.following import KEEP_HINT, SourceCommit, Stop, app_id, copy_entry, judge, wait_s
from backfill_core.copy_back.reversible import irreversible, unmapped
from backfill_core.errors import ReverseEndedError, SwitchBlockedError, TransientError
from backfill_core.log_shipping.actions import FileAdded, VersionActions
from backfill_core.log_shipping.folding import beginning, fold
from backfill_core.log_shipping.target_files import TargetStep
from backfill_core.source_fence.fence import TableHead
from backfill_core.source_fence.table_protocol import TableProtocol
from backfill_core.switch_over.mark import Mark
from backfill_spark.crash_points import crash_point
from backfill_spark.delta.log import NO_ACTION, action_of, commit_text, lines_of, transaction_of
from backfill_spark.delta.source_file import SourceFile
from backfill_spark.delta.spark_internals import SparkDeltaLog
from backfill_spark.driver.fence import request_of
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.jvm.failures import Trouble, trouble_of
from backfill_spark.log_shipping.file_actions import file_actions
from backfill_spark.log_shipping.target_log import TargetLog
from backfill_spark.switch_over.back_files import BackFiles
from backfill_spark.switch_over.tables import SwitchTables
from backfill_spark.switch_over.watched_steps import WatchedSteps

LOOK_EVERY_S = 1.0
BYTES_MAX = 1 << 30

CHECKPOINT_INTERVAL = "delta.checkpointInterval"
CHECKPOINT_EVERY = 10
"""Delta's default number of commits between two checkpoints."""


@dataclass(frozen=True, slots=True)
class CopiedBack:
    """State of the source after a copy back."""

    source: str
    target: str
    version: int
    """Version of the target that the source holds."""

    source_version: int
    commits: int
    """Commits that this process added to the source."""


class CopyBack:
    """The copy back of one switch-over. Not thread-safe."""

    def __init__(
        self,
        tables: SwitchTables,
        mark: Mark,
        check: Callable[[], None],
        *,
        copied: Callable[[CopiedBack], None] = lambda _: None,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        """Read nothing yet.

        Args:
            tables: Both tables.
            mark: The mark of the switch-over; with another one in the source, the copy back stops.
            check: Called often; an exception that it raises ends the copy.
            copied: Called with the state of the source: at the beginning, and after each commit.
            bytes_max: Largest number of new bytes in one commit, unless one version of the target has more.
        """
        self._tables, self._mark = tables, mark
        self._spark, self._job = tables.context.spark, tables.context.backfill.job_id
        self._files = TargetLog(self._spark, tables.source.path)
        self._judged = -1
        """Last version of the source without another writer's commit; -1 before the first look."""

        self.reached = mark.target_version
        """Version of the target that the source holds."""

        self.commits = 0
        self._copied, self._reported, self._bytes_max = copied, -1, bytes_max
        self.steps = WatchedSteps(check)
        """Steps of the copy, for a watch of Java."""

    def catch_up(self) -> CopiedBack | Stop:
        """Copy until the source holds the target's present version; return the reason if another command ends the copy back.

        Versions that other writers add meanwhile are left to the next call.

        Raises:
            ReverseEndedError: the source cannot follow the target any more.
            BackfillError: a table cannot be read or written; its class shows whether a retry may help.
        """
        goal = self._tables.target.head().version
        while True:
            self.steps.check()
            head = self._tables.source.head()
            stop = judge(head, self._mark, self._job, self._commits(head))
            if stop is not None:
                return stop
            self._judged = head.version
            stored = transaction_of(self._spark, head.path, app_id(self._mark))
            self.reached = max(self.reached, -1 if stored is None else stored)
            target = self._tables.target.head()
            if target.version < self.reached:
                raise self._ended(f"{target.path} was replaced by another table")
            if self.reached >= goal:
                return self._report(CopiedBack(head.path, target.path, self.reached, head.version, self.commits))
            self._copy(head, target)

    def _copy(self, head: TableHead, target: TableHead) -> None:
        """Copy some versions of the target, and try to add the commit after `head`."""
        self._check_reversible(head, target)
        versions = beginning(self._versions(head, target), bytes_max=self._bytes_max)
        upto, step = versions[-1].version, self._files.newest().step(fold(versions))
        self._check_step(step)
        crash_point("before_stage")
        lines = BackFiles(self._spark, target.path, head.path, self.steps.check).staged(step)
        crash_point("after_stage")
        if not lines:  # versions without files need no commit
            self.reached = upto
            return
        entry = copy_entry(head, request_of(self._tables.context.backfill, ""), self._mark, upto=upto, files=lines)
        crash_point("before_log_entry")
        with self.steps.committing(entry.version, len(lines)):
            self._tables.source.put(entry)
        crash_point("after_log_entry")
        self.commits += 1
        self._checkpoint(head, entry.version)
        self._report(CopiedBack(head.path, target.path, upto, entry.version, self.commits))

    def _report(self, state: CopiedBack) -> CopiedBack:
        """Report a state of the source once; a first catch-up may have commits for hours before it returns."""
        if state.version != self._reported:
            self._reported = state.version
            self._copied(state)
        return state

    def _commits(self, head: TableHead) -> tuple[SourceCommit, ...]:
        """Return the commits of the source that no copy back has judged yet, in order."""
        if self._judged >= 0:
            return tuple(self._commit(head, version) for version in range(self._judged + 1, head.version + 1))
        commits: list[SourceCommit] = []
        for version in range(head.version, self._mark.fence_version, -1):
            commits.append(self._commit(head, version))
            if commits[-1].ends_the_search(self._mark):
                break
        return tuple(reversed(commits))

    def _commit(self, head: TableHead, version: int) -> SourceCommit:
        text = commit_text(self._spark, head.path, version)
        return SourceCommit.of(version, [action_of(line) for line in lines_of(text)])

    def _versions(self, head: TableHead, target: TableHead) -> Iterator[VersionActions]:
        """Yield the target's versions that the source lacks; each is read on demand."""
        for number in range(self.reached + 1, target.version + 1):
            try:
                text = commit_text(self._spark, target.path, number)
            except JAVA_ERRORS as error:
                if trouble_of(error) is not Trouble.GONE:
                    raise
                raise self._ended(f"version {number} of {target.path} is not in its log any more") from error
            try:
                self._check_layout(head, target, number, text)
                yield self._checked(file_actions(number, text))
            except NO_ACTION as error:
                raise self._ended(f"version {number} of {target.path} is damaged: {error!r}") from error

    def _check_layout(self, head: TableHead, target: TableHead, number: int, text: str) -> None:
        """Reject a version whose columns, constraints or features cannot be copied back."""
        if '"metaData"' not in text and '"protocol"' not in text:
            return
        at = replace(target, version=number)
        for action in map(action_of, lines_of(text)):
            metadata, protocol = action.get("metaData", at.metadata), action.get("protocol")
            at = replace(
                at, metadata=metadata, protocol=at.protocol if protocol is None else TableProtocol.of(protocol)
            )
        self._check_reversible(head, at)

    def _check_reversible(self, head: TableHead, target: TableHead) -> None:
        if problem := irreversible(head, target):
            raise self._ended(f"version {target.version} of {target.path} cannot be copied back: {problem}")

    def _checked(self, version: VersionActions) -> VersionActions:
        for file in version.files:
            problem = unmapped(file)
            if isinstance(file, FileAdded) and SourceFile.of(action_of(file.action)["add"]).is_elsewhere:
                problem = f"the file {file.path}, or its deletion vector, is outside of its folder"
            if problem:
                raise self._ended(f"version {version.version} of {self._mark.target} cannot be copied back: {problem}")
        return version

    def _check_step(self, step: TargetStep) -> None:
        """Reject a step with files whose counterparts in the source are missing or differ."""
        wrong = list(step.missing)
        wrong += [added.path for file, added in step.kept if file.bytes != added.bytes]
        if wrong:
            raise self._ended(f"the source has no equal file for {wrong[0]} of {self._mark.target}")

    def _ended(self, problem: str) -> ReverseEndedError:
        return ReverseEndedError(f"the source cannot follow the target any more: {problem}.", hint=KEEP_HINT)

    def _checkpoint(self, head: TableHead, version: int) -> None:
        """Write a checkpoint as often as Delta's writers do; without one, readers only need longer."""
        every = head.properties.get(CHECKPOINT_INTERVAL, "")
        if version % (int(every) if every.isdecimal() and int(every) else CHECKPOINT_EVERY) == 0:
            with suppress(*JAVA_ERRORS):
                SparkDeltaLog(self._spark, head.path).checkpoint()


def follow(back: CopyBack, tables: SwitchTables) -> Stop:
    """Copy back until another command ends it.

    Raises:
        StoppedEarly: a stop was requested.
        ReverseEndedError: see `CopyBack.catch_up`.
        BackfillError: a table cannot be read or written, also after retries.
    """
    pause, failures = threading.Event(), 0
    while True:
        waits_s = LOOK_EVERY_S
        try:
            with tables.explained():
                answer = back.catch_up()
        except TransientError:
            failures += 1
            longer_s = wait_s(failures)
            if longer_s is None:
                raise
            waits_s = longer_s
        else:
            failures = 0
            if isinstance(answer, Stop):
                return answer
        ends_s = waits_s
        while ends_s > 0:
            back.steps.check()
            pause.wait(min(LOOK_EVERY_S / 4, ends_s))
            ends_s -= LOOK_EVERY_S / 4


def caught_up(back: CopyBack) -> CopiedBack:
    """Copy back once, for a command that has the switch-over to itself.

    Raises:
        SwitchBlockedError: another command changed the switch-over.
        BackfillError: see `CopyBack.catch_up`.
    """
    answer = back.catch_up()
    if isinstance(answer, Stop):
        raise SwitchBlockedError(f"{answer.value} just now.", hint="Run one `backfill switch` at a time.")
    return answer
