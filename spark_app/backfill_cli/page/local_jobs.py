"""The jobs of this machine: running drivers by their control servers, ended runs by the history."""

from __future__ import annotations

import shlex
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

from backfill import BackfillError, DriverSilentError, NotRunningError, Progress, Receipt
from backfill.control import Client, drivers, find
from backfill.lines import HISTORY_FILE, RecordedRun, clock, current_time, recorded_runs
from backfill_api.wire import Ack, Command, PauseCommand, ThrottleCommand
from backfill_cli.page.all_local_jobs import switch_all, switch_of
from backfill_cli.page.local_frames import job_of_run, row_of_driver, row_of_run, row_of_silent
from backfill_console.commands.acknowledgements import (
    acknowledged,
    controls_after,
    controls_of_driver,
    describe_controls,
    undo_arguments,
)
from backfill_console.frame import CommandNote
from backfill_console.frames import frame_of_driver
from backfill_console.object_frames import command_line
from backfill_page.seen import Action, AllJobsAction, Answer, JobRow, JobSeen, Listing, Pause, Resume, Throttle, Verify

READ_EVERY_S: Final = 0.5
ACK_WAIT_S: Final = 10.0
DRIVERS_AT_ONCE: Final = 16
RUNS_SHOWN_MAX: Final = 50
SENT_MAX: Final = 500

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class _Reading:
    """Values of a driver."""

    progress: Progress
    acks: tuple[Ack, ...]
    receipt: Receipt | None


class LocalJobs:
    """Jobs of this machine; any thread may call its methods."""

    def __init__(self, state_dir: Path) -> None:
        """Read nothing yet.

        Args:
            state_dir: Folder in which drivers publish their address.
        """
        self._state_dir = state_dir
        self._readers = ThreadPoolExecutor(DRIVERS_AT_ONCE, thread_name_prefix="driver")
        self._senders = ThreadPoolExecutor(DRIVERS_AT_ONCE, thread_name_prefix="switch")
        """Separate threads, because each of them waits for seconds."""

        self._sent: OrderedDict[tuple[str, int, int], CommandNote] = OrderedDict()
        """Commands of this page by job, attempt and revision; a driver reports only the revision."""

        self._history: tuple[tuple[int, int], dict[str, RecordedRun]] = (0, 0), {}
        """The newest run of each job, with the version of the file that contains them."""

        self._last: OrderedDict[str, JobSeen] = OrderedDict()
        """The last reading of each job."""

    @property
    def place(self) -> str:
        """Return the title of the page."""
        return "jobs on this machine"

    def jobs(self) -> Listing:
        """Return the running jobs, and the newest run of each job that does not run."""
        clients = drivers(self._state_dir)
        rows = list(self._readers.map(self._row, clients))
        switch = switch_of(rows)
        running = {client.address.job_id for client in clients}
        ended = [run for job_id, run in self._newest_runs().items() if job_id not in running]
        rows += [row_of_run(run) for run in sorted(ended, key=lambda run: run.start)[-RUNS_SHOWN_MAX:]]
        return Listing(tuple(rows), current_time(), switch=switch)

    def _row(self, client: Client) -> JobRow:
        job_id = client.address.job_id
        try:
            frame = frame_of_driver(job_id, client.progress(), now=current_time(), receipt=client.receipt())
        except BackfillError as error:
            return row_of_silent(job_id, error.message)
        return row_of_driver(job_id, frame)

    def job(self, key: str) -> JobSeen | None:
        """Return a job with its driver, or its newest run; `None` if this machine has neither."""
        try:
            client = find(self._state_dir, key)
        except NotRunningError:
            run = self._newest_runs().get(key)
            return None if run is None else job_of_run(run, current_time(), self._last.get(key))
        try:
            reading = _Reading(client.progress(), tuple(client.acks()), client.receipt())
        except BackfillError as error:
            now = current_time()
            silent = JobSeen(key, frame_of_driver(key, Progress(reason="no answer"), now=now), now)
            return replace(
                silent, problem=f"{error.message} {error.hint}".strip(), unavailable="The driver does not answer."
            )
        return self._seen(client, reading)

    def _newest_runs(self) -> dict[str, RecordedRun]:
        """Return the newest run of each job; the file is parsed again after a change only, because it may have megabytes."""
        try:
            stat = (self._state_dir / HISTORY_FILE).stat()
        except OSError:
            return {}
        version = stat.st_mtime_ns, stat.st_size
        if self._history[0] != version:
            self._history = version, {run.job_id: run for run in recorded_runs(self._state_dir)}
        return {
            job_id: replace(run, outcome="Killed") if run.outcome == "Running" else run
            for job_id, run in self._history[1].items()
        }

    def _seen(self, client: Client, reading: _Reading) -> JobSeen:
        key, attempt, now = client.address.job_id, client.address.attempt, current_time()
        frame = frame_of_driver(key, reading.progress, now=now, receipt=reading.receipt, acks=reading.acks)
        commands = tuple(
            self._sent.get((key, attempt, ack.revision), note)
            for ack, note in zip(reading.acks, frame.commands, strict=True)
        )
        seen = JobSeen(key, replace(frame, commands=commands), now)
        if reading.progress.attempt:
            _remember(self._last, key, seen)
        return seen

    def watch_jobs(self, over: threading.Event) -> Iterator[Listing]:
        """Yield all jobs twice a second."""
        while True:
            yield self.jobs()
            if over.wait(READ_EVERY_S):
                return

    def watch_job(self, key: str, over: threading.Event) -> Iterator[JobSeen]:
        """Yield a job twice a second."""
        while (seen := self.job(key)) is not None:
            yield seen
            if over.wait(READ_EVERY_S):
                return

    def act_on_all(self, action: AllJobsAction) -> Answer:
        """Send an action to all drivers of this machine, and wait for their acknowledgements."""

        def sent(client: Client, revision: int, note: CommandNote) -> None:
            _remember(self._sent, (client.address.job_id, client.address.attempt, revision), note)

        clients = drivers(self._state_dir)
        return switch_all(clients, action, wait_s=ACK_WAIT_S, threads=self._senders, sent=sent)

    def act(self, key: str, action: Action) -> Answer:
        """Send an action to the driver, and wait for its acknowledgement."""
        command = _command(action)
        typed = command_line(command)
        try:
            client = find(self._state_dir, key)
            before = client.progress()
            began_s = time.monotonic()
            ack = client.apply(command, ACK_WAIT_S)
            took_s = time.monotonic() - began_s
        except BackfillError as error:
            return Answer(False, f"{typed}: {error.message} {error.hint}".strip())
        note = CommandNote(typed, epoch=ack.epoch, time=clock(), took_ms=round(1000 * took_s), by="this page")
        _remember(self._sent, (key, client.address.attempt, ack.revision), note)
        after = _progress(client) or before
        state = describe_controls(command.type, controls_after(command, controls_of_driver(after)), after)
        undo = undo_arguments(command.type, controls_of_driver(before))
        undo_line = shlex.join(["backfill", *undo, "--job", key]) if undo else ""
        text = acknowledged(state, proof=f"epoch {ack.epoch}", seconds=took_s, undo=undo_line)
        return Answer(True, f"{typed}: {text}")


def _remember(values: OrderedDict[K, V], key: K, value: V) -> None:
    values[key] = value
    values.move_to_end(key)
    if len(values) > SENT_MAX:
        values.popitem(last=False)


def _progress(client: Client) -> Progress | None:
    try:
        return client.progress()
    except (DriverSilentError, NotRunningError):
        return None


def _command(action: Action) -> Command:
    match action:
        case Pause():
            return Command(type="Pause", pause=PauseCommand())
        case Resume():
            return Command(type="Resume")
        case Throttle():
            limit = ThrottleCommand(rows_per_second=action.rows_per_second, for_seconds=action.for_s)
            return Command(type="Throttle", throttle=limit)
        case Verify():
            return Command(type="Verify")
