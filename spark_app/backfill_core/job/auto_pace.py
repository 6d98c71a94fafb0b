"""The automatic limit of an attempt: what a job measures at each barrier, for the machine of `auto_throttle`.

target            measurement                                                         of a limit that was changed just before
---------------   -----------------------------------------------------------------   ------------------------------------------
commitSeconds     each commit                                                         commits of rows that were read earlier do not count
lagSecondsMax     each five seconds, unless the lag is too high and falls             the limit follows slowly
storeErrors       each barrier, of at least 20 requests of the driver                 requests do not count until work of the higher limit has ended
query             each answer                                                         the query determines its own delay

A limit rises after a commit, once each target has a measurement under this limit. The driver reports requests and answers. After a
minute without such a report the limit is the floor: it is the rate that needs no evidence. Until then the limit is unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from backfill_core.job.commit import CommitLog
from backfill_core.pacing.auto_evidence import LagTrend, RefusedShare
from backfill_core.pacing.auto_throttle import USED, AutoSettings, AutoThrottle
from backfill_core.protocol.clock import Now
from backfill_core.protocol.events import QueryAnswered, StoreCounted

COMMIT_SECONDS, LAG_SECONDS_MAX, STORE_ERRORS, QUERY = "commitSeconds", "lagSecondsMax", "storeErrors", "query"
REPORTED = {STORE_ERRORS: "the requests to the store are not counted", QUERY: "the query has no value"}
"""Targets that the driver reports, each with the description of a missing report."""

WINDOW_S = 5.0
"""Time over which the rows of a job are compared with its limit: a split may hold the rows of some seconds."""

BARRIERS_TO_COMMIT = 4
"""Barriers after a change until a commit of the new limit is measured: its quota accrues, is read, is committed, and the commit ends."""

SILENT_MAX_S = 60.0
"""Longest time without a report; afterwards the limit is the floor."""

DRAIN_MAX_S, DRAINS = 30.0, 1.05
"""Longest time after a cut in which requests do not count because work of the higher limit is under way."""

ACHIEVED_COMMITS = 3
"""Commits over which the achieved rows are measured."""

DRAINED_S = 2.0
"""Time after that work, whose last requests do not count."""

EARLIER = 1.2
"""A job that commits this many times its limit commits rows that were read before the limit was lowered."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """State of a job at a barrier."""

    now: Now
    log: CommitLog
    """Past commits of the attempt."""

    rows_done: int
    """Rows of history that are committed, or in the commit of this barrier."""

    lag_s: float
    """Lag of live changes."""

    oldest_work: int
    """Smallest id of the work that reads history; `next_work` if there is none."""

    next_work: int

    @property
    def mark(self) -> tuple[float, int]:
        """Monotonic time and rows."""
        return self.now.mono_s, self.rows_done


@dataclass(frozen=True, slots=True)
class AutoPace:
    """The limit, and the committed rows of the last seconds under it."""

    throttle: AutoThrottle
    marks: tuple[tuple[float, int], ...]
    """Monotonic time and committed rows of history at the last barriers, oldest first; since the limit changed."""

    reported_s: Mapping[str, float]
    """Time of the last report, for each target that the driver reports; at first the start of the attempt."""

    barriers: int = 0
    """Number of barriers since the limit changed."""

    commits: int = 0
    """Number of commits that were measured."""

    lowered_s: float = -math.inf
    """Time at which the limit was lowered."""

    work_before: int = 0
    """Id of the first work after that."""

    drained_s: float = -math.inf
    """Time of the last barrier at which work of a higher limit sent requests."""

    held: Mapping[str, float] = field(default_factory=dict)
    """Newest measurement of each target since the limit changed; all of them hold."""

    lag: LagTrend = field(default_factory=LagTrend)
    requests: RefusedShare = field(default_factory=RefusedShare)
    answer: float | None = None
    """Answer of the query that no barrier has taken yet."""

    problem: str = ""
    """Reason why the query has no value; empty if it has one."""

    missing: str = ""
    """Description of the missing report that lowered the limit to the floor; empty if all are there."""

    @classmethod
    def begin(cls, settings: AutoSettings | None, rows_done: int, now: Now) -> AutoPace | None:
        """Return the pace of an attempt that starts; `None` if the spec requests none."""
        if settings is None:
            return None
        reported_s = {name: now.mono_s for name in REPORTED if name in settings.targets}
        return cls(AutoThrottle.begin(settings), ((now.mono_s, rows_done),), reported_s)

    def report(self, event: StoreCounted | QueryAnswered, now: Now) -> AutoPace:
        """Return the pace with a report of the driver; the next barrier takes it."""
        match event:
            case StoreCounted():
                return replace(self._reported(STORE_ERRORS, now), requests=self.requests.count(event))
            case QueryAnswered(value=None, problem=problem):
                return replace(self, problem=problem)
            case QueryAnswered(value=value):
                return replace(self._reported(QUERY, now), answer=value, problem="")

    def _reported(self, target: str, now: Now) -> AutoPace:
        return replace(self, reported_s={**self.reported_s, target: now.mono_s})

    def observe(self, barrier: Barrier) -> AutoPace:
        """Return the pace after a barrier; a commit is measured once."""
        silent = self._silent(barrier.now)
        if silent:
            return self._at_floor(silent, barrier)
        pace, measured = self._measure(barrier)
        if barrier.log.count == self.commits:
            return pace.measured(measured, barrier, used=False)
        recent = tuple(mark for mark in self.marks if mark[0] >= barrier.now.mono_s - WINDOW_S)
        pace = replace(pace, marks=(*recent, barrier.mark), commits=barrier.log.count)
        if pace.barriers < BARRIERS_TO_COMMIT or self._earlier(barrier):
            return pace.measured(measured, barrier, used=False)
        if COMMIT_SECONDS in self.throttle.settings.targets:
            measured = {**measured, COMMIT_SECONDS: barrier.log.seconds[-1]}
        return pace.measured(measured, barrier, used=self._used(barrier))

    def _measure(self, barrier: Barrier) -> tuple[AutoPace, dict[str, float]]:
        """Return the new measurements of all targets but the duration of commits, and the pace that has taken them."""
        targets, lag, now_s = self.throttle.settings.targets, self.lag, barrier.now.mono_s
        drained_s = now_s if self._drains(barrier) else self.drained_s
        measured: dict[str, float | None] = {QUERY: self.answer}
        requests, measured[STORE_ERRORS] = (
            self.requests.forget() if now_s - drained_s < DRAINED_S else self.requests
        ).measure()
        if LAG_SECONDS_MAX in targets:
            lag, measured[LAG_SECONDS_MAX] = lag.see(barrier.lag_s, targets[LAG_SECONDS_MAX].most, now_s)
        values = {name: value for name, value in measured.items() if value is not None and name in targets}
        pace = replace(self, requests=requests, drained_s=drained_s, lag=lag, answer=None, missing="")
        return replace(pace, barriers=self.barriers + 1), values

    def measured(self, measured: Mapping[str, float], barrier: Barrier, *, used: bool) -> AutoPace:
        """Return the pace after new measurements; with `used` the limit may rise."""
        before, now_s, targets = self.throttle, barrier.now.mono_s, self.throttle.settings.targets
        broken = any(value > targets[name].most for name, value in measured.items())
        values = measured if broken else {**self.held, **measured}
        if not values:
            return self
        throttle = before.observe(values, used=used, now_s=now_s, achieved=self._achieved(barrier))
        complete = len(values) == len(targets)
        pace = replace(self, throttle=throttle, held={} if broken or (used and complete) else values)
        if throttle.rows_per_s == before.rows_per_s:
            return pace
        pace = replace(pace, held={}, marks=(barrier.mark,), barriers=0, requests=self.requests.forget())
        if throttle.rows_per_s > before.rows_per_s:
            return pace
        return replace(pace, lowered_s=now_s, work_before=barrier.next_work)

    def _used(self, barrier: Barrier) -> bool:
        """Return whether the job has used about as many rows as its limit permits since it changed."""
        since_s, rows_before = self.marks[0]
        permitted = self.throttle.rows_per_s * (barrier.now.mono_s - since_s)
        return barrier.rows_done - rows_before >= USED * permitted

    def _achieved(self, barrier: Barrier) -> float | None:
        """Return the rows per second of the last commits; `None` before there are enough under this limit."""
        if len(self.marks) < ACHIEVED_COMMITS or self.barriers < BARRIERS_TO_COMMIT + ACHIEVED_COMMITS - 1:
            return None
        since_s, rows_before = self.marks[0]
        return (barrier.rows_done - rows_before) / max(1e-3, barrier.now.mono_s - since_s)

    def _earlier(self, barrier: Barrier) -> bool:
        """Return whether the commit contains rows that were read before the limit was lowered: it says nothing about this limit."""
        if barrier.now.mono_s - self.lowered_s >= WINDOW_S:
            return False
        since_s, rows_before = self.marks[-1]
        permitted = self.throttle.rows_per_s * (barrier.now.mono_s - since_s)
        return barrier.rows_done - rows_before > EARLIER * permitted

    def _drains(self, barrier: Barrier) -> bool:
        """Return whether the work of a higher limit still sends requests: its splits, or rows that exceed this limit."""
        lowered_s, (since_s, rows_before) = barrier.now.mono_s - self.lowered_s, self.marks[0]
        if not WINDOW_S <= lowered_s < DRAIN_MAX_S:
            return lowered_s < WINDOW_S
        permitted = self.throttle.rows_per_s * (barrier.now.mono_s - since_s)
        return barrier.oldest_work < self.work_before or barrier.rows_done - rows_before > DRAINS * permitted

    def _silent(self, now: Now) -> str:
        """Describe the target without a report for too long; empty if there is none."""
        for target, reported_s in self.reported_s.items():
            if now.mono_s - reported_s > SILENT_MAX_S:
                why = f": {self.problem}" if target == QUERY and self.problem else ""
                return f"{REPORTED[target]} for {SILENT_MAX_S:.0f} s{why}"
        return ""

    def _at_floor(self, missing: str, barrier: Barrier) -> AutoPace:
        return replace(
            self, throttle=self.throttle.without_evidence(), marks=(barrier.mark,), barriers=0, held={}, missing=missing
        )

    def paused(self, rows_done: int, now: Now) -> AutoPace:
        """Return the pace of a job whose history is paused: the time does not count."""
        return replace(self, marks=((now.mono_s, rows_done),))

    @property
    def describe(self) -> str:
        """Description of the limit and of the target that binds, for users."""
        throttle = self.throttle
        rows = f"{throttle.rows_per_s:,} rows/s"
        if self.missing:
            return f"slowed to {rows}: {self.missing}"
        if self.problem:
            return f"limited to {rows} by throttle.auto, not faster while {REPORTED[QUERY]}: {self.problem}"
        if throttle.binding:
            return f"slowed to {rows}: {throttle.binding}"
        return f"limited to {rows} by throttle.auto, and faster while its targets hold"
