"""A source of jobs whose values a test sets."""

import threading
import time
from dataclasses import replace
from datetime import UTC, datetime

from support.console.frames import CLUSTER

from backfill_page.seen import AllJobsSwitch, Answer, JobRow, JobSeen, Listing, PauseAllJobs, SourceError

ROW = JobRow("shop/orders", "runs", "Running", "throttled", 61, 61_204_118, 98_000_000, 82_410, 65, 720)


def now():
    """Return the current time."""
    return datetime.fromtimestamp(time.time(), UTC)


def seen(key="shop/orders", frame=CLUSTER, **fields):
    """Return a job with the current time."""
    at = now()
    return JobSeen(key, replace(frame, now=at, updated_at=None), at, **fields)


class ScriptedSource:
    """Jobs that a test sets; `news` wakes the watches."""

    place = "context kind, namespace shop"

    def __init__(self, *jobs, rows=(ROW,)):
        self.news = threading.Condition()
        self.watches = 0
        self.reset(*jobs, rows=rows)

    def reset(self, *jobs, rows=(ROW,)):
        """Report only these values, and forget the actions."""
        with self.news:
            self.by_key = {job.key: job for job in jobs}
            self.rows, self.error, self.acted = rows, "", []
            self.switch = AllJobsSwitch(False, effect="New jobs wait too.")
            self.answer = Answer(True, "pause: paused at 8 %. Acknowledged at epoch 14 in 80 ms.")

    def put(self, *jobs, rows=None, error="", switch=None):
        """Report these values from now on."""
        with self.news:
            self.by_key |= {job.key: job for job in jobs}
            self.rows = self.rows if rows is None else rows
            self.switch = switch or self.switch
            self.error = error
            self.news.notify_all()

    def jobs(self):
        """Return the rows."""
        self._check()
        return Listing(tuple(self.rows), now(), switch=self.switch)

    def job(self, key):
        """Return a job, as it is now."""
        self._check()
        job = self.by_key.get(key)
        return None if job is None else replace(job, at=now())

    def _check(self):
        if self.error:
            raise SourceError(self.error)

    def watch_jobs(self, over):
        """Yield the rows after each change."""
        return self._watch(over, self.jobs)

    def watch_job(self, key, over):
        """Yield a job after each change."""
        return self._watch(over, lambda: self.job(key))

    def _watch(self, over, read):
        self.watches += 1
        try:
            while not over.is_set() and (value := read()) is not None:
                yield value
                with self.news:
                    self.news.wait(0.05)
        finally:
            self.watches -= 1

    def act_on_all(self, action):
        """Record an action for all jobs, and report its effect."""
        self.acted.append(("all", action))
        self.put(switch=AllJobsSwitch(isinstance(action, PauseAllJobs), f"All jobs are paused: {action.reason}"))
        return Answer(True, "all jobs: 2 running jobs acknowledged in 0.9 s")

    def act(self, key, action):
        """Record an action."""
        self.acted.append((key, action))
        return self.answer
