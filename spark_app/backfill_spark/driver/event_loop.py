"""The main loop: take the next event, pass it to the core, execute the core's actions in order. The loop makes no decisions.

Commits run on one thread and polls of the source on two others; work has a separate pool (action_executor.py). All of them answer
through the queue, so the core sees one event at a time and needs no lock.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from backfill_core.errors import BackfillError
from backfill_core.job.commit import under_way
from backfill_core.job.job import Job
from backfill_core.job.view import JobView
from backfill_core.pacing.barrier_pulse import BarrierMark
from backfill_core.protocol.actions import Acknowledge, Action, CancelWork, Finish, PollSource, Seal, StartWork
from backfill_core.protocol.clock import Now
from backfill_core.protocol.events import (
    Event,
    Head,
    PollFailed,
    Sealed,
    SealFailed,
    SourcePolled,
    Tick,
)
from backfill_core.protocol.work import Position, Work
from backfill_spark.crash_points import crash_point
from backfill_spark.ports.committer import SealedCommit

OBSERVE_EVERY_S = 0.25


class ActionExecutor(Protocol):
    """Executes actions for the loop; every method may block except `start` and `cancel`."""

    def start(self, work: Work, answer: Callable[[Event], None]) -> None:
        """Start work in the background and answer once."""

    def cancel(self, work_id: int) -> None:
        """Request that work ends soon."""

    def seal(self, action: Seal) -> SealedCommit:
        """Commit, and return the commit; the loop may pass the same action again."""

    def after_seal(self) -> tuple[Event, ...]:
        """Do the work after a commit that no barrier waits for (checkpoints); return events for the core."""

    def head(self, kept_after: Position | None) -> Head:
        """Return the source's newest position, and check that the source still keeps everything after `kept_after`."""

    def explain(self, error: Exception) -> BackfillError:
        """Translate an error into a `BackfillError`."""


def now() -> Now:
    """Read both clocks; the only place that does."""
    return Now(time.monotonic(), time.time_ns() // 1_000_000)


class Loop:
    """Runs one job to its end."""

    def __init__(
        self,
        job: Job,
        executor: ActionExecutor,
        *,
        acknowledge: Callable[[Acknowledge], None],
        observe: Callable[[JobView], None],
        watch: Callable[[Event | Action, Now], None] = lambda _seen, _moment: None,
    ) -> None:
        """Take the job and the executor; nothing starts before `run`.

        Args:
            job: The core.
            executor: Executes the core's actions.
            acknowledge: Takes the answers to commands.
            observe: Called with a view of the job about four times a second, before each acknowledgement, so that its
                receiver finds the command in the progress, and at once when a pause has become quiet.
            watch: Called with every event before the core gets it, and with every action before it is executed; must not block.
        """
        self._job = job
        self._executor = executor
        self._acknowledge = acknowledge
        self._observe = observe
        self._watch = watch
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._sealer = ThreadPoolExecutor(1, thread_name_prefix="seal")
        self._side = ThreadPoolExecutor(2, thread_name_prefix="side")
        self._turns, self._sealing = 0, False

    @property
    def mark(self) -> BarrierMark:
        """Progress of the loop; safe from any thread. A finished commit is not in flight, even if the loop has not taken its answer yet."""
        commit = under_way(self._job.commit)
        if commit is None or not (self._sealing or self._job.commit is not commit):
            return BarrierMark(self._turns)
        action = commit.action
        return BarrierMark(self._turns, action.epoch, len(action.files) + len(action.removed))

    def put(self, event: Event) -> None:
        """Add an event to the queue; safe from any thread or signal handler."""
        self._events.put(event)

    def run(self) -> Finish:
        """Run until the core returns `Finish`, and return it."""
        finish = self._execute(self._job.start(now()))
        observed_s, rested = 0.0, False
        while finish is None:
            event, moment, self._turns = self._next_event(), now(), self._turns + 1
            self._watch(event, moment)
            finish = self._execute(self._job.on(event, moment))
            came_to_rest, rested = self._job.at_rest and not rested, self._job.at_rest
            if time.monotonic() - observed_s >= OBSERVE_EVERY_S or came_to_rest or finish is not None:
                observed_s = time.monotonic()
                self._observe(self._job.view(now()))
        self._sealer.shutdown(wait=True)
        self._side.shutdown(wait=True, cancel_futures=True)
        return finish

    def _next_event(self) -> Event:
        wait_s = min(OBSERVE_EVERY_S, self._job.wake_at_s() - time.monotonic())
        try:
            return self._events.get(timeout=max(0.0, wait_s)) if wait_s > 0 else self._events.get_nowait()
        except queue.Empty:
            return Tick()

    def _execute(self, actions: tuple[Action, ...]) -> Finish | None:
        for action in actions:
            self._watch(action, now())
            match action:
                case StartWork(work=work):
                    self._executor.start(work, self.put)
                case CancelWork(work_id=work_id):
                    self._executor.cancel(work_id)
                case Seal():
                    self._sealer.submit(self._seal, action)
                case Acknowledge():
                    crash_point("before_ack")
                    self._observe(self._job.view(now()))
                    self._acknowledge(action)
                case PollSource(kept_after=position):
                    self._side.submit(self._poll, position)
                case Finish():
                    crash_point("before_finish")
                    return action
        return None

    def _seal(self, action: Seal) -> None:
        crash_point("before_seal")
        began_s = time.monotonic()
        self._sealing = True
        try:
            sealed = self._executor.seal(action)
        except Exception as error:  # noqa: BLE001 - thread boundary: every error becomes an event
            self.put(SealFailed(action.epoch, self._executor.explain(error)))
            return
        finally:
            self._sealing = False
        seconds = time.monotonic() - began_s
        crash_point("after_seal_commit")
        self.put(Sealed(action.epoch, sealed.version, seconds, sealed.foreign))
        self._side.submit(self._after_seal)

    def _after_seal(self) -> None:
        try:
            for event in self._executor.after_seal():
                self.put(event)
        except Exception as error:  # noqa: BLE001 - a missed checkpoint costs readers time, never the job
            self._executor.explain(error)

    def _poll(self, kept_after: Position | None) -> None:
        # Every poll must answer, even after an error: the core waits for the answer before the next poll.
        try:
            self.put(SourcePolled(self._executor.head(kept_after)))
        except Exception as error:  # noqa: BLE001 - thread boundary: every error becomes an event
            self.put(PollFailed(self._executor.explain(error)))
