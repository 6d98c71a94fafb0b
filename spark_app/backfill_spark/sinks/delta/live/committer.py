"""Commits that replace files of a live table; each follows directly after a version whose foreign commits were checked.

The state of the job is in the `commitInfo` of its newest commit, and claims to columns are transaction ids (ADR 0054): a metadata domain
would be a table feature, which other writers may not support.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from backfill_core.errors import ForeignCommit, StateMovedError, TargetGoneError, TransientError
from backfill_core.in_place.column_claims import ColumnClaims
from backfill_core.in_place.conflicts import ForeignChanges, Replacement, rebased
from backfill_core.in_place.files import FillScope
from backfill_core.in_place.work import CheckedReplacement
from backfill_core.job.owner import Claim
from backfill_core.protocol.work import RemovedFile, StagedFile
from backfill_spark.crash_points import crash_point
from backfill_spark.delta.added_files import CommitLine
from backfill_spark.delta.log import action_of, commit_text, lines_of
from backfill_spark.in_place.delta.actions import foreign_version, replacing
from backfill_spark.jvm.errors import JAVA_ERRORS, is_a
from backfill_spark.ports.committer import SealedCommit, StoredState
from backfill_spark.sinks.delta.committer import DeltaCommitter
from backfill_spark.sinks.delta.create import ENGINE_INFO
from backfill_spark.sinks.delta.failures import explain_commit, explain_target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRIES_MAX: Final = 50
"""Maximum of tries of one commit; other writers came first at each one."""

STATE_START: Final = " state="
"""Text between the name of this engine and the state of the job, in the `engineInfo` of a commit."""


def state_of(actions: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the state in the actions of a commit; `None` if it stores none."""
    infos = [action["commitInfo"] for action in actions if action.get("commitInfo")]
    _, found, state = str(infos[0].get("engineInfo", "")).partition(STATE_START) if infos else ("", "", "")
    return state if found else None


def is_foreign_rewrite(text: str) -> bool:
    """Return True if a commit removes files, or replaces their deletion vectors, and is of no job that fills columns."""
    actions = [action_of(line) for line in lines_of(text)]
    return state_of(actions) is None and any(action.get("remove") for action in actions)


def _txn(action: Mapping[str, Any]) -> Mapping[str, Any]:
    return action.get("txn") or {}


class LiveCommitter(DeltaCommitter):
    """Commits of one job to a table that other writers use; see `ports.committer.Committer`."""

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        *,
        app_id: str,
        claims: ColumnClaims,
        scope: Callable[[], FillScope],
        discard: Callable[[Sequence[str]], None],
        data_change: bool,
    ) -> None:
        """Take the table, the job's columns, functions that return the rows to fill, and that remove staged files."""
        super().__init__(spark, path, app_id=app_id, domain="")
        self._scope, self._discard, self._column_claims = scope, discard, claims
        self._data_change = data_change
        self._note, self._fences = "", False
        """The state that the next commit stores."""

        self._known: tuple[int, str | None] = -1, None
        """Version of the newest known commit of the job, and its state."""

    # ------------------------------------------------------------------ the state
    def _state_in(self, snapshot: Any) -> StoredState:
        """Read the state from the job's newest commit; without it, because the log was cleaned, the job only lists the table again."""
        stored = super()._state_in(snapshot)
        text = None if stored.txn_version is None else self._text_upto(stored.table_version)
        return replace(
            stored, text=text, claims=(*stored.claims, *self._foreign_claims(snapshot, stored.table_version))
        )

    def _text_upto(self, newest: int) -> str | None:
        after, text = self._known
        for version in range(newest, after, -1):
            lines = self._lines_of(version)
            if lines is None:
                break
            if any(_txn(line).get("appId") == self.app_id for line in lines):
                text = state_of(lines)
                break
        self._known = newest, text
        return text

    def _lines_of(self, version: int) -> list[dict[str, Any]] | None:
        """Return the actions of a commit; `None` if it is no longer in the log."""
        text = self._text_of(version)
        return None if text is None else [action_of(line) for line in lines_of(text)]

    def _text_of(self, version: int) -> str | None:
        """Return the content of a commit; `None` if it is no longer in the log."""
        try:
            return commit_text(self._spark, self._path, version)
        except JAVA_ERRORS as error:
            if is_a(error, "FileNotFoundException"):
                return None
            raise explain_target(error, path=self._path, doing=f"reading version {version}") from error

    def _foreign_claims(self, snapshot: Any, newest: int) -> list[Claim]:
        found = []
        for name, column in self._column_claims.ids().items():
            claim = snapshot.getLatestTransactionVersion(self._engine, name)
            version = int(claim.get()) if claim.isPresent() else None
            if self._column_claims.is_foreign(version):
                job = self._job_of(name, newest)
                found.append(Claim(name, job, shares=True, columns=frozenset({column.lower()})))
        return found

    def _job_of(self, claim: str, newest: int) -> str:
        """Return the id of the job whose claim is in the log; only for a message."""
        for version in range(newest, -1, -1):
            lines = self._lines_of(version)
            if lines is None:
                break
            if any(_txn(line).get("appId") == claim for line in lines):
                state = json.loads(state_of(lines) or "{}")
                return str(state.get("jobId", "unknown"))
        return "unknown"

    def _begin(self, txn_version: int | None, retries: int | None = None) -> Any:
        table = self._kernel.Table.forPath(self._engine, self._path)
        info = f"{ENGINE_INFO}{STATE_START}{self._note}" if self._note else ENGINE_INFO
        builder = table.createTransactionBuilder(self._engine, info, self._kernel.Operation.WRITE)
        if txn_version is not None:
            builder = builder.withTransactionId(self._engine, self.app_id, txn_version)
        if retries is not None or self._fences:
            # Without retries, Kernel commits directly after the version that was checked, or fails.
            builder = builder.withMaxRetries(retries or 0)
        return builder.build(self._engine)

    def _commit(
        self, txn: Any, files: Sequence[StagedFile | RemovedFile], state: str, *, owner: str | None = None
    ) -> SealedCommit:
        del owner
        ended = bool(state) and json.loads(state).get("finished") is True
        claims = self._claimed(ended=ended) if self._fences or ended else []
        sealed = super()._commit(txn, (*files, *claims), "")
        self._known = sealed.version, state or None
        return sealed

    def fence(self, txn_version: int, state: str, *, opened: StoredState, claim: Claim | None = None) -> SealedCommit:
        """See `ports.committer.Committer`; it claims the columns, directly after a version without the claim of another job.

        If other writers commit first, the newest version is checked again, at once: a delay would only let more of them come first.
        """
        self._note, self._fences = state, True
        failure: TransientError | None = None
        tried = -1
        try:
            for _ in range(TRIES_MAX):
                newest = self._version()
                if failure is not None and newest == tried:
                    break  # there is no newer version, so the storage failed
                try:
                    return super().fence(txn_version, state, opened=opened, claim=claim)
                except StateMovedError:
                    raise
                except TransientError as error:
                    failure, tried = error, newest
            assert failure is not None
            raise failure
        finally:
            self._fences = False

    def release(self, txn_version: int, stored: StoredState) -> SealedCommit:
        """See `ports.committer.Committer`."""
        del stored
        self._note = ""
        return self._commit(self._begun(txn_version), self._claimed(ended=True), "")

    def _claimed(self, *, ended: bool) -> list[RemovedFile]:
        """Return actions that claim the columns, or end the claims, in the form of other actions of a commit."""
        lines = self._column_claims.lines(ended=ended, now_ms=time.time_ns() // 1_000_000)
        return [RemovedFile("", CommitLine(line)) for line in lines]

    def commits_of_others(self, after: int, upto: int, *, shared: bool = False) -> tuple[ForeignCommit, ...]:
        """Return no commit: other writers are expected, and each commit of the job checks theirs."""
        del after, upto, shared
        return ()

    def seal(
        self,
        txn_version: int,
        files: Sequence[StagedFile],
        state: str,
        *,
        compared: int | None = None,
        removed: Sequence[RemovedFile] = (),
    ) -> SealedCommit:
        """Replace files that no foreign commit removed, in one commit with the state.

        Args:
            txn_version: As in `Committer.seal`. If it exists already, because its answer was lost, it is found in the log.
            files: The staged files; `removed` names them, too.
            state: The job's state.
            compared: Not checked: a receipt is about its own version, and other writers continue.
            removed: Files to replace, each with a `CheckedReplacement`.

        Raises:
            FencedError: a newer attempt of the job has committed.
            TransientError: other writers came first at every try, or the storage failed.
            BackfillError: the commit failed.
        """
        del compared
        self._note = state
        checked = [file.handle for file in removed if isinstance(file.handle, CheckedReplacement)]
        if not checked:
            return self._commit(self._begun(txn_version), files, state)
        crash_point("before_fill")
        staged = [handle.replacement for handle in checked]
        version, foreign = self._replace(txn_version, staged, state, after=min(handle.after for handle in checked))
        crash_point("after_fill")
        for lost in rebased(staged, foreign).lost:
            self._discard([file.path for file in lost.files])
        return SealedCommit(version, foreign, outdates=foreign.redefined)

    def with_lines(self, files: Sequence[StagedFile]) -> tuple[StagedFile, ...]:
        """Return measured files with their complete `add` actions."""
        try:
            state = self._begin(None).getTransactionState(self._engine)
            lines = self._added.lines(files, self._cached_layout(), state)
        except JAVA_ERRORS as error:
            raise explain_commit(error, self._path) from error
        pairs = zip(files, lines, strict=True)
        return tuple(
            StagedFile(file.path, file.size_bytes, file.rows, CommitLine(line), mode=file.mode)
            for file, line in pairs
            if line is not None
        )

    def _replace(
        self, txn_version: int, files: Sequence[Replacement], state: str, *, after: int
    ) -> tuple[int, ForeignChanges]:
        """Commit, and return the version of the commit and the foreign changes between `after` and it."""
        failure: TransientError | None = None
        tried, checked, foreign = -1, after, ForeignChanges()
        for _ in range(TRIES_MAX):
            newest = self._version()
            landed, foreign = self._foreign(foreign, (checked, newest), txn_version)
            if landed is not None:
                return landed, foreign
            if failure is not None and newest == tried:
                raise failure  # there is no newer version, so the storage failed
            txn = self._begun(txn_version, retries=0)
            # Others may have committed since then. They are checked too, so that a busy writer costs no try here.
            checked = int(txn.getReadTableVersion())
            landed, foreign = self._foreign(foreign, (newest, checked), txn_version)
            if landed is not None:  # a commit whose answer was lost
                return landed, foreign
            kept, now_ms = rebased(files, foreign).kept, time.time_ns() // 1_000_000
            actions = replacing(kept, self._scope(), now_ms=now_ms, data_change=self._data_change)
            try:
                return self._commit(txn, actions, state).version, foreign
            except TransientError as error:
                failure, tried = error, checked
        raise failure or TransientError(f"other writers of {self._path} came first {TRIES_MAX} times.")

    def _version(self) -> int:
        snapshot = self._newest()
        if snapshot is None:
            raise TargetGoneError(f"{self._path} was dropped.", hint="Restore the table, then run the job again.")
        return int(snapshot.getVersion())

    def _foreign(
        self, before: ForeignChanges, between: tuple[int, int], txn_version: int
    ) -> tuple[int | None, ForeignChanges]:
        """Return the version of the commit with this transaction, `None` if there is none, and the foreign changes before it.

        Args:
            before: The foreign changes up to the first version of `between`, so that no commit is read twice.
            between: A checked version, and the one up to which commits are read.
            txn_version: The transaction.
        """
        foreign, (after, upto) = before, between
        for version in range(after + 1, upto + 1):
            text = self._text_of(version)
            if text is None:
                foreign = replace(foreign, redefined=True)  # the log was cleaned, so the changes are unknown
                continue
            txns = [action["txn"] for action in map(action_of, lines_of(text)) if "txn" in action]
            if any(txn.get("appId") == self.app_id and txn.get("version") == txn_version for txn in txns):
                return version, foreign
            foreign = foreign_version(foreign, version, text)
        return None, foreign
