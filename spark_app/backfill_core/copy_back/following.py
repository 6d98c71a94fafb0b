"""The source's side of a copy back: whether it may continue, and its log entry, which has the files and the position of the target.

source's log since the last copy                          the copy back
-------------------------------------------------------   ------------------------------------------
only entries of this job, and the same mark               continues
the same fence, and another stage of the mark             stops: an undo has begun
no fence; the job lifted it                               stops: completed or undone
no fence; anybody else lifted it                          ends by name (`ReverseEnded`)
an entry of another writer, fenced or not                 ends by name: the source has other rows

A commit is put if absent directly after the version that these rules judged. So no entry can be between the judgement and the commit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Self

from backfill_core.errors import ReverseEndedError, SwitchBlockedError
from backfill_core.source_fence.fence import (
    ENGINE_INFO,
    FENCE,
    UNFENCE,
    LogEntry,
    Open,
    Request,
    TableHead,
    files_entry,
)
from backfill_core.source_fence.hold import OPERATIONS as HOLDS
from backfill_core.switch_over.mark import OPERATION, Mark, mark_of

COPY_BACK: Final = "COPY BACK"
"""Operation in the source's history."""

OF_COMMANDS: Final = (FENCE, UNFENCE, OPERATION, *HOLDS)
"""Operations of entries without files."""

WAITS_S: Final = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Seconds of waiting before each further try, after failures that may pass."""

KEEP_HINT: Final = "The target is complete. Keep it, and end the switch-over with `backfill switch --complete`."


class Stop(StrEnum):
    """Normal end of a copy back."""

    UNDOING = "another command undoes the switch-over"
    OPENED = "another command undid or completed the switch-over"


def finished(mark: Mark | None) -> Mark:
    """Return the mark of a finished switch-over, from which a copy back begins.

    Raises:
        SwitchBlockedError: there is none.
    """
    if mark is None or mark.stage != "Switched":
        raise SwitchBlockedError(
            "there is no finished switch-over, so the source follows nothing.",
            hint="Run `backfill switch` first, or again: it continues.",
        )
    return mark


def resumed(mark: Mark | None) -> Mark | Stop:
    """Return the mark from which a copy back continues, or why it ends: another command came first.

    The caller knows that the switch-over was finished once. With a mark of the stage Flipping, an undo decided to go forward again and was
    killed: the caller goes forward first.
    """
    if mark is None:
        return Stop.OPENED
    return Stop.UNDOING if mark.stage == "Undoing" else mark


@dataclass(frozen=True, slots=True)
class SourceCommit:
    """Facts about one commit of the source."""

    version: int
    engine: str = ""
    operation: str = ""
    parameters: Mapping[str, str] | None = None
    has_files: bool = False
    """True if it adds or removes files."""

    @classmethod
    def of(cls, version: int, actions: Sequence[Mapping[str, Any]]) -> Self:
        """Return the facts of a commit's actions."""
        info: Mapping[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
        files = any("add" in action or "remove" in action for action in actions)
        parameters = info.get("operationParameters") or {}
        return cls(version, str(info.get("engineInfo")), str(info.get("operation")), parameters, files)

    def is_ours(self, job: str) -> bool:
        """Return True if the job's commands wrote it."""
        if self.engine != ENGINE_INFO or (self.parameters or {}).get("job") != job:
            return False
        return self.operation == COPY_BACK or (self.operation in OF_COMMANDS and not self.has_files)

    def ends_the_search(self, mark: Mark) -> bool:
        """Return True if a copy back of this switch-over wrote it, after it had judged all earlier commits."""
        return self.operation == COPY_BACK and (self.parameters or {}).get("fence") == str(mark.fence_version)


def app_id(mark: Mark) -> str:
    """Return the id of the source's transactions, whose version is the copied version of the target."""
    return f"backfill.copyBack.{mark.fence_version}"


def judge(head: TableHead, mark: Mark, job: str, commits: Sequence[SourceCommit]) -> Stop | None:
    """Return why a copy back stops; `None` if it may write the version after `head`.

    Args:
        head: Newest version of the source.
        mark: The mark of the switch-over, as this command read or wrote it.
        job: Id of the job.
        commits: Commits of the source since the last copy back, or since the fence.

    Raises:
        ReverseEndedError: another writer changed the source, or lifted its fence.
    """
    lifted = next((commit for commit in reversed(commits) if commit.operation == UNFENCE), None)
    for commit in commits:
        if not commit.is_ours(job) and commit is not lifted:
            raise ReverseEndedError(
                f"{head.path} got another writer's commit at version {commit.version}, so it cannot follow {mark.target} any more.",
                hint=KEEP_HINT,
            )
    stored = mark_of(head)
    if stored == mark:
        return None
    if stored is not None and stored.fence_version == mark.fence_version:
        return Stop.UNDOING
    if lifted is not None and lifted.is_ours(job) and (lifted.parameters or {}).get("force") != "true":
        return Stop.OPENED
    at = "" if lifted is None else f" at version {lifted.version}"
    raise ReverseEndedError(
        f"the fence of {head.path} was lifted{at}, so it cannot follow {mark.target} any more.", hint=KEEP_HINT
    )


def copy_entry(head: TableHead, request: Request, mark: Mark, *, upto: int, files: Sequence[str]) -> LogEntry:
    """Return the entry with the files of some versions of the target, and with the last of these versions.

    Args:
        head: Newest version of the source, which `judge` accepted.
        request: The request.
        mark: The mark of the switch-over.
        upto: Last version of the target whose files are in the source afterwards.
        files: Added and removed files, as lines of a commit.
    """
    parameters = {"job": request.job, "fence": str(mark.fence_version), "target": mark.target, "version": str(upto)}
    return files_entry(head, request, COPY_BACK, parameters, (_transaction(app_id(mark), upto, request), *files))


def adopt_step(
    head: TableHead, request: Request, *, application: str, stored: int | None, version: int
) -> Open | LogEntry:
    """Return that the job owns all files of the fenced target, or the log entry that records it.

    The job then accepts the files that other writers added before this entry, because the source has copies of them.

    Args:
        head: Newest version of the target, whose files the source has.
        request: The request.
        application: Application id of the job's transactions in the target.
        stored: Version of the newest transaction of the job in the target.
        version: Version of the new transaction.

    Raises:
        SwitchBlockedError: the fence was lifted, so other writers may add files that the source lacks.
    """
    if stored is not None and stored >= version:
        return Open(head.version)
    if not head.protocol.is_fenced:
        raise SwitchBlockedError(
            f"the fence of {head.path} was lifted during the undo.",
            hint="Run `backfill switch --undo` again: it continues.",
        )
    return files_entry(head, request, OPERATION, {"job": request.job}, (_transaction(application, version, request),))


def _transaction(application: str, version: int, request: Request) -> str:
    txn = {"appId": application, "version": version, "lastUpdated": request.now_ms}
    return json.dumps({"txn": txn}, separators=(",", ":"))


def wait_s(failures: int) -> float | None:
    """Return the seconds until the next try after a number of failures in a row; `None` to give up."""
    return WAITS_S[failures - 1] if failures <= len(WAITS_S) else None
