"""Pauses and resumes all running jobs of this machine for the page."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from backfill import BackfillError
from backfill.control import Client
from backfill.lines import clock
from backfill_api.amounts import counted
from backfill_api.wire import Command, PauseCommand
from backfill_console.frame import CommandNote
from backfill_page.seen import AllJobsAction, AllJobsSwitch, Answer, JobRow, PauseAllJobs

NO_ANSWER = "no answer"
"""State of a job whose driver gives no valid answer; no command reaches it."""

EFFECT = "A job that starts later runs."
FAILED_SHOWN_MAX = 3


def switch_of(running: Sequence[JobRow]) -> AllJobsSwitch:
    """Return the switch of the running jobs; it is set if snapshot and changes of all jobs that answer are paused."""
    answering = [row for row in running if row.state != NO_ANSWER]
    paused = bool(answering) and all(row.all_paused for row in answering)
    return AllJobsSwitch(paused, effect=EFFECT, lack="" if running else "No job runs.")


def switch_all(
    clients: Sequence[Client],
    action: AllJobsAction,
    *,
    wait_s: float,
    threads: ThreadPoolExecutor,
    sent: Callable[[Client, int, CommandNote], None],
) -> Answer:
    """Send a pause of snapshot and changes, or a resume, to drivers at once; wait for their acknowledgements.

    Args:
        clients: The drivers.
        action: The action with its reason.
        wait_s: Seconds to wait for each acknowledgement.
        threads: Threads that wait.
        sent: Called with each driver that acknowledged, the revision and the note of its command.
    """
    pauses, began_s = isinstance(action, PauseAllJobs), time.monotonic()
    command = Command(type="Pause", pause=PauseCommand(scope="All")) if pauses else Command(type="Resume")
    typed = "pause of all jobs" if pauses else "resume of all jobs"

    def send(client: Client) -> str:
        try:
            ack = client.apply(command, wait_s)
        except BackfillError as error:
            return f"{client.address.job_id}: {error.message}"
        took_ms = round(1000 * (time.monotonic() - began_s))
        sent(
            client,
            ack.revision,
            CommandNote(typed, epoch=ack.epoch, time=clock(), took_ms=took_ms, by="this page", note=action.reason),
        )
        return ""

    failed = [text for text in threads.map(send, clients) if text]
    seconds = time.monotonic() - began_s
    number = len(clients) - len(failed)
    if failed:
        more = len(failed) - FAILED_SHOWN_MAX
        texts = "; ".join(failed[:FAILED_SHOWN_MAX]) + (f"; and {more} more" if more > 0 else "")
        return Answer(False, f"{typed}: {number} of {counted(len(clients), 'job')} acknowledged. {texts}")
    state = "all running jobs are paused" if pauses else "all running jobs continue"
    return Answer(True, f"{typed}: {state}. {counted(number, 'driver')} acknowledged in {seconds:.1f} s.")
