"""A real driver in a thread of the test: observed, awaited, commanded, and ended in any case."""

import threading
from concurrent.futures import ThreadPoolExecutor

from backfill.control import find
from backfill_api.wire import Command
from backfill_spark.driver import attempt as driver
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.settings import DriverSettings

DEADLINE_S = 90


class Running:
    """One attempt at a job, from `__enter__` to `__exit__`."""

    def __init__(self, spark, backfill, state_dir):
        self._spark, self._backfill = spark, backfill
        self._settings = DriverSettings(state_dir=state_dir, cores=2)
        self._stop = StopSignal()
        self._news = threading.Condition()
        self._progress = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="driver")

    def __enter__(self):
        self._attempt = self._thread.submit(self._run)
        return self

    def __exit__(self, *_):
        if not self._attempt.done():
            self._stop.ask(force=True)
        self._thread.shutdown()

    def _run(self):
        try:
            return driver.run_driver(
                self._backfill, settings=self._settings, observe=self._observe, spark=self._spark, stop=self._stop
            )  # fmt: skip
        finally:
            with self._news:
                self._news.notify_all()

    def _observe(self, progress):
        with self._news:
            self._progress = progress
            self._news.notify_all()

    def until(self, holds):
        """Return the first progress, from now on, for which a condition holds."""
        with self._news:
            self._progress = None  # progress from before a command proves nothing about it
            self._news.wait_for(lambda: self._attempt.done() or (self._progress and holds(self._progress)), DEADLINE_S)
            assert self._progress is not None, self.outcome()
            assert holds(self._progress), self._progress
            return self._progress

    def fenced(self):
        """Wait until the attempt owns the target."""
        return self.until(lambda progress: progress.table_version is not None and progress.table_version >= 0)

    def command(self, kind, **fields):
        """Send a command as the command line does; return its acknowledgement, which means that it is in force."""
        client = find(self._settings.state_dir, self._backfill.job_id)
        ack = client.command(Command(type=kind, **{kind.lower(): fields} if fields else {}), wait_s=DEADLINE_S)
        assert ack.outcome == "Applied", ack
        return ack

    def receipt(self):
        """Return the newest receipt of the driver, or `None`."""
        return find(self._settings.state_dir, self._backfill.job_id).receipt()

    def outcome(self):
        """Wait for the end; return the outcome."""
        return self._attempt.result(DEADLINE_S)
