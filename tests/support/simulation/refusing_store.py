"""A store of a simulated job that serves a number of requests a second, and refuses the others (503)."""

from __future__ import annotations

from support.simulation.hand_driven import STEP_S, HandDriven

from backfill_core.protocol.events import StoreCounted, Tick

REPORT_S = 1.0
AT_ONCE = 16
"""Connections of a job; each sends a request in each step of the time."""

BACKOFF_S = 0.5
"""Time until a refused request is sent again; its connection waits."""


class RefusingStore:
    """Lets the splits of a job proceed as the store serves their requests, and reports the counts as a driver does."""

    def __init__(self, job: HandDriven, *, requests_per_s: float, rows_per_request: int) -> None:
        self._job, self.requests_per_s, self._rows_per_request = job, requests_per_s, rows_per_request
        self._tokens, self._left, self._work = 0.0, 0.0, -1
        self._waits: list[float] = []
        self.served, self.refused, self._reported_s = 0, 0, 0.0
        self.reports = True
        """True while the driver can read its counts."""

    def let_pass(self, seconds: float) -> tuple[int, int]:
        """Let time pass, and return the served and the refused requests meanwhile."""
        served, refused, end_s, job = self.served, self.refused, self._job.now_s + seconds, self._job
        while job.now_s < end_s - 1e-9:
            job.now_s += STEP_S
            self._tokens = min(self.requests_per_s, self._tokens + self.requests_per_s * STEP_S)
            self._serve()
            if self.reports and job.now_s - self._reported_s >= REPORT_S - 1e-9:
                self._reported_s = job.now_s
                job.send(StoreCounted(self.served + self.refused, self.refused))
            job.send(Tick())
        return self.served - served, self.refused - refused

    def _serve(self) -> None:
        self._waits = [at_s for at_s in self._waits if at_s > self._job.now_s]
        left = AT_ONCE - len(self._waits)
        while left and self._job.running:
            oldest = min(self._job.running)
            if oldest != self._work:
                work = self._job.running[oldest]
                self._work, self._left = (
                    oldest,
                    sum(stop - start for start, stop in work.segments) / self._rows_per_request,
                )
            sent = min(left, max(1, round(self._left)))
            done = min(sent, int(self._tokens))
            self._tokens, self._left, left = self._tokens - done, self._left - done, left - sent
            self.served, self.refused = self.served + done, self.refused + sent - done
            self._waits += [self._job.now_s + BACKOFF_S] * (sent - done)
            if self._left < 1:
                self._job.finish_split()
