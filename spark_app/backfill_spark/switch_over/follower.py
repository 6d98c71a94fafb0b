"""The driver that follows the source during a switch-over: one that runs on this machine already, or one of this process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Self

from backfill_api.spec.spec import BackfillResource
from backfill_core.errors import BackfillError, SwitchBlockedError
from backfill_spark.control.local_registry import running
from backfill_spark.driver.attempt import RunOutcome, run_driver
from backfill_spark.jvm.callers_session import separate_session
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.settings import DriverSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_EVERY_S = 0.05
ENDS_WITHIN_S = 60.0
"""Longest wait for the end of a driver after its stop."""

STOPPED = 10
"""Exit code of an attempt that was stopped."""


class Follower:
    """Follows the source while it is entered, and can be stopped before."""

    def __init__(
        self, spark: SparkSession, backfill: BackfillResource, settings: DriverSettings, stop_other: Callable[[], None]
    ) -> None:
        """Start nothing yet.

        Args:
            spark: The session of the command; a driver of this process gets a separate one.
            backfill: The job.
            settings: Settings of this process.
            stop_other: Stops the driver of another process on this machine.
        """
        self._spark, self._backfill, self._settings = spark, backfill, settings
        self._stop_other = stop_other
        self._stop = StopSignal()
        self._thread: ThreadPoolExecutor | None = None
        self._attempt: Future[RunOutcome] | None = None

    def __enter__(self) -> Self:
        """Start a driver if none runs on this machine."""
        if not self._others():
            session = separate_session(self._spark, self._backfill.spec.spark.conf)
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="follow")
            self._attempt = self._thread.submit(
                run_driver, self._backfill, settings=self._settings, spark=session, stop=self._stop
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End a driver of this process; one of another process continues."""
        if self._thread is not None:
            self._stop.ask(force=True)
            self._thread.shutdown()

    @property
    def is_ours(self) -> bool:
        """True if this process started the driver."""
        return self._attempt is not None

    def check(self) -> None:
        """Raise the error of a driver of this process that has failed."""
        attempt = self._attempt
        if attempt is None or not attempt.done():
            return
        outcome = attempt.result()
        if outcome.outcome == "Failed":
            raise outcome.error or BackfillError(outcome.message, hint=outcome.hint)

    def stop(self) -> None:
        """End the driver, wherever on this machine it runs, and wait for its end.

        Raises:
            SwitchBlockedError: it did not end in time.
        """
        if self._attempt is not None:
            self._stop.ask(force=False)
            self._attempt.exception(ENDS_WITHIN_S)
            return
        if self._others():
            self._stop_other()
        pause, waited_s = threading.Event(), 0.0
        while self._others():
            if waited_s > ENDS_WITHIN_S:
                raise SwitchBlockedError(
                    f"the driver of job {self._backfill.job_id!r} did not end within {ENDS_WITHIN_S:g} s.",
                    hint="Stop it with `backfill stop --force`, then run the switch-over again.",
                )
            pause.wait(LOOK_EVERY_S)
            waited_s += LOOK_EVERY_S

    def _others(self) -> bool:
        return any(address.job_id == self._backfill.job_id for address in running(self._settings.state_dir))
