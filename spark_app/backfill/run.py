"""One attempt of a job, on a separate thread."""

from __future__ import annotations

import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast

from backfill.display import Observer, html
from backfill.shown import ShownReceipt, html_of, outcome_rows, text_of, with_receipt
from backfill_api.spec import spec as api
from backfill_api.status.progress import Progress
from backfill_api.status.source_head import SourceHead
from backfill_console.rows import Row
from backfill_core.errors import BackfillError
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.settings import DriverSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from backfill_spark.driver.attempt import RunOutcome

T = TypeVar("T")

LOOK_EVERY_S = 0.1
INTERRUPTED_WAIT_S = 10.0
"""Seconds that an interrupt waits for an embedded Spark to end, because only one can run."""

PRESSES_MAX = 3
"""Interrupts after which nothing is waited for: stop at a barrier, cancel what runs, leave."""


class Driver(Protocol):
    """Runs an attempt; the real one is `backfill_spark.driver.attempt`."""

    def run_driver(
        self,
        backfill: api.BackfillResource,
        *,
        settings: DriverSettings,
        observe: Callable[[Progress], None],
        starting: Callable[[str], None],
        spark: SparkSession | None,
        stop: StopSignal,
    ) -> RunOutcome:
        """Run one attempt to its end, which `stop` asks for, also while it starts."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of an attempt that did not fail."""

    state: Literal["Complete", "Stopped"]
    """`Stopped` at a barrier; the next run resumes there."""

    reason: str
    message: str
    progress: Progress | None
    """The last one; None where nothing was read."""

    receipt: ShownReceipt | None
    """The newest; None where none was taken."""

    source_head: SourceHead | None = None
    """The newest position of the source after the end; `None` if the job has not ended, or the source cannot be read."""

    elapsed_s: float | None = None
    """Seconds of the attempt."""

    def __str__(self) -> str:
        """Return the outcome in five lines."""
        return text_of(self._rows())

    def _repr_html_(self) -> str:
        return with_receipt(html_of(self._rows(), "outcome"), self.receipt, self.source_head)

    def _rows(self) -> list[Row]:
        return outcome_rows(self.state, self.message, self.elapsed_s, self.progress, self.receipt, self.source_head)


class Run:
    """A running attempt. Every method may be called from any thread."""

    def __init__(
        self,
        backfill: api.BackfillResource,
        settings: DriverSettings,
        *,
        view: Callable[[Run], Observer],
        session: Callable[[], AbstractContextManager[SparkSession | None]],
        driver: Driver | None = None,
    ) -> None:
        """Start the attempt.

        Args:
            backfill: The job.
            settings: Of this process.
            view: Creates the receiver of each progress, called about four times a second on the attempt's thread. Until the first commit
                a progress has only a `reason`: the step of the start.
            session: Entered on the attempt's thread; yields the session to use, or None for an embedded one.
            driver: Runs the attempt; `None` for the real one.
        """
        self._backfill = backfill
        self._settings = settings
        self._session = session
        self._progress = Progress(reason="starting Spark")
        self._outcome: RunOutcome | None = None
        self._error: BaseException | None = None
        self._given_up: Exception | None = None
        self._stop = StopSignal()
        self._reachable = threading.Event()
        if driver is None:
            from backfill_spark.driver import attempt

            driver = attempt
        self._driver: Driver = driver
        self._elapsed_s = 0.0
        self._observer = view(self)
        self._thread = threading.Thread(target=self._run, name=f"backfill {backfill.job_id}", daemon=True)
        self._thread.start()

    # ------------------------------------------------------------------ looking
    @property
    def job_id(self) -> str:
        """The job."""
        return self._backfill.job_id

    @property
    def progress(self) -> Progress:
        """The newest; until the first commit only its `reason` says something."""
        return self._progress

    @property
    def receipt(self) -> ShownReceipt | None:
        """The last receipt of an attempt that has ended, also of one that failed by it; None before."""
        from backfill_spark.control.wire import to_api_receipt

        ended = self._outcome
        if ended is None or ended.receipt is None:
            return None
        return ShownReceipt.of(to_api_receipt(ended.receipt), ended.source_head)

    @property
    def done(self) -> bool:
        """Return whether it has ended."""
        return not self._thread.is_alive()

    def _repr_html_(self) -> str:
        return html(self.job_id, self.progress, spec=self._backfill.spec)

    # ------------------------------------------------------------------ ending
    def stop(self, *, force: bool = False) -> None:
        """Ask it to end at a barrier and return at once; safe in a signal handler.

        Args:
            force: Cancel what runs instead of waiting for it.
        """
        self._stop.ask(force=force)

    def give_up(self, error: Exception) -> None:
        """Stop at a barrier for a reason that is not the job's; who waits gets `error`."""
        self._given_up = error
        self.stop()

    def wait(self, timeout_s: float | None = None) -> Outcome:
        """Wait for its end; an interrupt ends the waiting, not the attempt.

        Raises:
            TimeoutError: it has not ended within `timeout_s` seconds.
            BackfillError: it failed.
        """
        with interrupts(signal.default_int_handler):
            self.join(timeout_s)
        return self.result()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for its end and raise nothing; signals are the caller's business."""
        join(self._thread, timeout_s)

    def result(self) -> Outcome:
        """Return how it ended.

        Raises:
            TimeoutError: it runs still.
            BackfillError: it failed.
        """
        if self._thread.is_alive():
            raise TimeoutError(f"job {self.job_id!r} runs still")
        if self._error or self._given_up:
            raise self._error or self._given_up  # type: ignore[misc]
        ended = self._outcome
        assert ended is not None
        if ended.outcome == "Failed":
            raise ended.error or BackfillError(ended.message, hint=ended.hint)
        state = cast("Literal['Complete', 'Stopped']", ended.outcome)
        return Outcome(
            state, ended.reason, ended.message, ended.progress, self.receipt, ended.source_head, self._elapsed_s
        )

    def until_reachable(self) -> None:
        """Wait until it takes commands, or has ended."""
        self._reachable.wait()

    # ------------------------------------------------------------------ on the attempt's thread
    def _run(self) -> None:
        began_s = time.monotonic()
        try:
            with self._session() as spark:
                self._outcome = self._driver.run_driver(
                    self._backfill, settings=self._settings, spark=spark, stop=self._stop, observe=self._see,
                    starting=lambda step: self._see(Progress(reason=step)),
                )  # fmt: skip
        except BaseException as error:  # noqa: BLE001 - a thread's border: `wait` raises it
            self._error = error
        finally:
            self._elapsed_s = time.monotonic() - began_s
            self._reachable.set()
            self._observer.close()

    def _see(self, progress: Progress) -> None:
        self._progress = progress
        if progress.attempt:
            self._reachable.set()
        self._observer.see(progress)


def run_to_end(start: Callable[[], Run]) -> Outcome:
    """Start an attempt and wait for its end; an interrupt (Ctrl-C, a notebook's stop button) stops it at a barrier first.

    A second interrupt cancels what runs. A third one ends the waiting at once, and the attempt continues. An interrupt during the
    start stops the attempt too: it would continue without a handle.

    Raises:
        KeyboardInterrupt: it was interrupted and has stopped; the next run resumes there.
        BackfillError: it failed.
    """
    presses = 0
    run: Run | None = None

    def press(_number: int, _frame: FrameType | None) -> None:
        nonlocal presses
        presses += 1
        if presses >= PRESSES_MAX:
            raise KeyboardInterrupt
        if run is not None:
            run.stop(force=presses > 1)

    with interrupts(press):
        run = start()
        if presses:
            run.stop(force=presses > 1)
        run.join()
    outcome = run.result()
    if presses and outcome.state == "Stopped":
        raise KeyboardInterrupt(outcome.message)
    return outcome


def join(thread: threading.Thread, timeout_s: float | None) -> None:
    """Wait for a thread; looks up often, since a signal that comes just before a wait does not end that wait."""
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    while thread.is_alive() and (deadline_s is None or time.monotonic() < deadline_s):
        thread.join(LOOK_EVERY_S)


def on_own_thread(do: Callable[[], T], spark: SparkSession | None, stop: StopSignal) -> T:
    """Run `do` on a separate thread and return its result: job groups and the like stay with that thread.

    An interrupt asks `stop`, cancels the Spark jobs of `do`, and waits a few seconds for an embedded Spark to end.
    """
    results: list[T] = []
    errors: list[BaseException] = []
    tag = f"backfill-{secrets.token_hex(4)}"

    def run() -> None:
        try:
            if spark is not None:
                _tag(spark, tag)
            results.append(do())
        except BaseException as error:  # noqa: BLE001 - a thread's border: it is raised again below
            errors.append(error)

    thread = threading.Thread(target=run, name="backfill", daemon=True)
    try:
        with interrupts(signal.default_int_handler):
            thread.start()
            join(thread, None)
    except KeyboardInterrupt:
        stop.ask(force=True)
        if spark is not None:
            spark.sparkContext.cancelJobsWithTag(tag)
        else:
            join(thread, INTERRUPTED_WAIT_S)
        raise
    if errors:
        raise errors[0]
    return results[0]


def _tag(spark: SparkSession, tag: str) -> None:
    """Tag the Spark jobs of this thread."""
    from backfill_spark.jvm.java_process import deaths_named

    with deaths_named(spark):
        spark.sparkContext.addJobTag(tag)


@contextmanager
def interrupts(handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """Handle SIGINT with `handler` inside the block; does nothing outside the main thread.

    Without this the handler of pyspark cancels all Spark jobs of the process.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
