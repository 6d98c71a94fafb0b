"""The Backfills of a cluster as the source of the page, with the user's rights."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

from backfill_api.resources import BACKFILLS
from backfill_console.frame import JobFrame
from backfill_core.command_errors import NotAcknowledgedError
from backfill_core.errors import BackfillError
from backfill_kubectl.cluster.api import ApiServer
from backfill_kubectl.cluster.backfill_table import BackfillTable
from backfill_kubectl.cluster.job_watch import JobWatch, Seen, look
from backfill_kubectl.cluster.watch import follow_all
from backfill_kubectl.cluster.writer import await_acknowledgement, write_change
from backfill_kubectl.commands.changes import answer_line, claim_of
from backfill_kubectl.commands.options import OPERATOR_NAMESPACE_DEFAULT, PROGRAM, now
from backfill_kubectl.commands.page.cluster_switch import ClusterSwitch
from backfill_kubectl.commands.watched import frame_of
from backfill_kubectl.decisions import changes
from backfill_kubectl.decisions.attention import JobLine, job_line
from backfill_kubectl.decisions.refusals import parse_name
from backfill_kubectl.decisions.stored import StoredBackfill, read_stored
from backfill_kubectl.errors import BackfillNotFoundError
from backfill_page.seen import (
    Action,
    AllJobsAction,
    Answer,
    Ended,
    JobRow,
    JobSeen,
    Listing,
    NextCommand,
    Pause,
    Resume,
    SourceError,
    Throttle,
    Verify,
)

LIST_EVERY_S: Final = 2.0
JOB_EVERY_S: Final = 1.0
ACK_WAIT_S: Final = 10.0
VERIFY_WAIT_S: Final = 2.0
"""Seconds to wait for a receipt, which may take an hour: the page shows it when it arrives."""

RIGHTS_VALID_S: Final = 60.0
RESTING: Final = frozenset({"Succeeded", "Failed", "Suspended", "Paused", "Pending", "AwaitingApproval"})
"""Phases in which the operator writes no status for a long time, so that its age means nothing."""


class ClusterJobs:
    """Backfills of a namespace or of all; any thread may call its methods."""

    def __init__(
        self, api: ApiServer, namespace: str, *, everywhere: bool, operator_namespace: str = OPERATOR_NAMESPACE_DEFAULT
    ) -> None:
        """Read nothing yet.

        Args:
            api: The API server.
            namespace: Namespace of names without one.
            everywhere: List the Backfills of all namespaces.
            operator_namespace: Namespace of the operator, whose switch pauses all jobs.
        """
        self._api = api
        self._default = namespace
        self._where = None if everywhere else namespace
        self._switch = ClusterSwitch(api, namespace, operator_namespace)
        self._rights: dict[str, tuple[float, str]] = {}

    @property
    def place(self) -> str:
        """Return context and namespace."""
        where = "all namespaces" if self._where is None else f"namespace {self._where}"
        return f"context {self._api.login.context}, {where}"

    def jobs(self) -> Listing:
        """Return all Backfills."""
        with _as_source_errors():
            moment = now()
            pages = self._api.pages(BACKFILLS, self._where)
            lines = [job_line(read_stored(raw), moment) for page in pages for raw in page]
        return Listing(tuple(map(_row, lines)), moment, switch=self._switch.newest())

    def watch_jobs(self, over: threading.Event) -> Iterator[Listing]:
        """Yield all Backfills after changes, at least every two seconds; a watch reads them once, then only changes."""
        table = BackfillTable()
        follower = threading.Thread(target=self._follow_all, args=(table, over), name="list", daemon=True)
        follower.start()
        while not over.is_set():
            table.news.wait(LIST_EVERY_S)
            table.news.clear()
            with _as_source_errors():
                backfills = table.backfills()
            if backfills is not None:
                switch = self._switch.newest()  # a request: it shows whether the server still answers
                moment = now()
                rows = tuple(_row(job_line(backfill, moment)) for backfill in backfills)
                yield Listing(rows, self._confirmed(moment), switch=switch)
            over.wait(JOB_EVERY_S)

    def _follow_all(self, table: BackfillTable, over: threading.Event) -> None:
        try:
            for type_, raw in follow_all(self._api, self._where, until_s=float("inf")):
                if over.is_set():
                    return
                table.change(type_, raw)
        except BackfillError as error:
            table.fail(error)

    def job(self, key: str) -> JobSeen | None:
        """Return a Backfill with its pods and events; `None` if it does not exist."""
        with _as_source_errors():
            backfill = self._read(key)
            return None if backfill is None else self._seen(look(self._api, backfill, now()))

    def watch_job(self, key: str, over: threading.Event) -> Iterator[JobSeen]:
        """Yield a Backfill after changes, at least every second, and ask the operator for frequent progress."""
        with _as_source_errors():
            backfill = self._read(key)
        if backfill is None:
            return
        with JobWatch(self._api, backfill, now) as watch:
            while not over.is_set():
                seen = watch.seen
                if seen.deleted:
                    return
                if seen.error is not None:
                    raise _source_error(seen.error)
                yield self._seen(seen)
                watch.news.wait(JOB_EVERY_S)
                watch.news.clear()

    def _read(self, key: str) -> StoredBackfill | None:
        try:
            namespace, name = parse_name(key)
        except ValueError:
            return None
        try:
            return read_stored(self._api.get(BACKFILLS, namespace or self._default, name))
        except BackfillNotFoundError:
            return None

    def _seen(self, seen: Seen) -> JobSeen:
        backfill = seen.backfill
        frame = frame_of(seen)
        problem = "this version of the page cannot read the spec" if frame is None else frame.note
        frame = frame or JobFrame(
            backfill.name, now(), namespace=backfill.namespace, phase=backfill.status.phase or "Pending"
        )
        return JobSeen(
            backfill.key,
            frame,
            self._confirmed(now()) if backfill.status.phase in RESTING else seen.at,
            _ended(backfill),
            backfill.status.plan,
            forbidden=self._forbidden(backfill.namespace),
            unavailable="It is being deleted." if backfill.deleting else "",
            problem=problem,
        )

    def _confirmed(self, moment: datetime) -> datetime:
        """Return the time up to which the API server has answered: a watch without events may have lost its connection."""
        return moment - timedelta(seconds=self._api.silent_s)

    def _forbidden(self, namespace: str) -> str:
        """Return the right that actions need and the user lacks; empty if the API server does not deny it."""
        read_s, text = self._rights.get(namespace, (0.0, ""))
        if time.monotonic() - read_s > RIGHTS_VALID_S or not read_s:
            try:
                allowed = self._api.may("patch", BACKFILLS, namespace)
            except BackfillError:
                allowed = True  # the action itself reports the missing right
            text = "" if allowed else f"patch {BACKFILLS.label} in namespace {namespace}"
            self._rights[namespace] = time.monotonic(), text
        return text

    def act_on_all(self, action: AllJobsAction) -> Answer:
        """Write the switch for all jobs of the operator, and wait for the acknowledgements."""
        return self._switch.act(action)

    def act(self, key: str, action: Action) -> Answer:
        """Write a change, and wait for the acknowledgement of the driver."""
        verb, change = _change(action)
        wait_s = VERIFY_WAIT_S if isinstance(action, Verify) else ACK_WAIT_S
        try:
            namespace, name = parse_name(key)
            written = write_change(
                self._api, namespace or self._default, name, change, how=None, claim=claim_of(None, "from the page")
            )
            answer, _, seconds = await_acknowledgement(self._api, written, wait_s=wait_s)
        except NotAcknowledgedError as error:
            waits = isinstance(action, Verify)
            return Answer(waits, f"{verb}: recorded; the receipt follows on this page" if waits else f"{verb}: {error}")
        except (BackfillError, ValueError) as error:
            return Answer(False, f"{verb}: {error}")
        return Answer(True, f"{verb}: {answer_line(written, answer, seconds)}")


def _row(line: JobLine) -> JobRow:
    return JobRow(
        line.key, line.group, line.phase, line.why,
        percent=line.percent,
        rows_done=line.rows_done,
        rows_total=line.rows_total,
        rows_per_second=line.rows_per_second,
        lag_s=line.lag_s,
        eta_s=line.eta_s,
        since_s=line.since_s,
    )  # fmt: skip


def _ended(backfill: StoredBackfill) -> Ended | None:
    """Return how a Backfill ended; `None` if it has not."""
    status = backfill.status
    if not backfill.ended:
        return None
    failed = backfill.condition("Failed")
    good = status.phase == "Succeeded" and (status.receipt is None or status.receipt.equal)
    key = backfill.key
    following = (
        [
            NextCommand("Show the receipt", f"{PROGRAM} receipt {key}"),
            NextCommand("List the attempts", f"{PROGRAM} history {key}"),
        ]
        if status.phase == "Succeeded"
        else [
            NextCommand("Read the log of the driver", f"{PROGRAM} logs {key}"),
            NextCommand("Write a bundle for a ticket", f"{PROGRAM} report {key}"),
            NextCommand("Try again after the cause is removed", f"{PROGRAM} retry {key}"),
        ]
    )
    shows_reason = failed is not None and status.phase == "Failed"
    return Ended(
        outcome=str(status.phase),
        good=good,
        reason=failed.reason if shows_reason and failed is not None else "",
        message=failed.message if shows_reason and failed is not None else "",
        start=status.start_time or "",
        end=status.completion_time or "",
        rows_done=None if status.progress is None else status.progress.rows_done,
        next_commands=tuple(following),
    )


def _change(action: Action) -> tuple[str, changes.Change]:
    """Return the name of an action and the change that it requests."""
    match action:
        case Pause():
            return "pause", changes.Pause()
        case Resume():
            return "resume", changes.Resume()
        case Throttle():
            return "throttle", changes.Throttle(action.rows_per_second, None, _until(action.for_s))
        case Verify():
            return "verify", changes.TakeReceipt()


def _until(for_s: int | None) -> str | None:
    if for_s is None:
        return None
    until: datetime = now() + timedelta(seconds=for_s)
    return until.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _source_error(error: BackfillError) -> SourceError:
    return SourceError(f"{error.message} {error.hint}".strip())


@contextmanager
def _as_source_errors() -> Iterator[None]:
    """Turn errors of the cluster into those of the port."""
    try:
        yield
    except BackfillError as error:
        raise _source_error(error) from error
