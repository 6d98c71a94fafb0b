"""Views of an attempt: its contents, its permissions, and a snapshot for users and for the operator.

Nothing here changes an attempt; `job.py` does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from backfill_api.amounts import show_seconds
from backfill_core.errors import BackfillError
from backfill_core.job.auto_pace import AutoPace
from backfill_core.job.commands import Inbox
from backfill_core.job.commit import CommitInFlight, Commits
from backfill_core.job.controls import Controls
from backfill_core.job.phase import (
    Fencing,
    Finishing,
    JobPhase,
    JobSettings,
    LivePhase,
    Over,
    Running,
    Timetable,
    Verifying,
    stop_in,
)
from backfill_core.job.publishing import is_hidden, may_publish, needs_audit
from backfill_core.job.source_watch import SourceWatch
from backfill_core.job.state import JobState
from backfill_core.job.steps import RECEIPT, START, StepTimeline, begin
from backfill_core.job.work_table import WorkTable
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import LimitSet, StopRequested, WidthSet
from backfill_core.protocol.receipt import TableReceipt
from backfill_core.protocol.refresh import Refresh
from backfill_core.protocol.strategy import CommitRequest, Facts, JobWarning, Permits, Strategy, StrategyView

AUDITING = "comparing the copied rows with the source before they become visible"


@dataclass(frozen=True, slots=True)
class JobView:
    """Progress of a job, and the reason for its pace."""

    attempt: int
    epoch: int
    controls: Controls
    strategy: StrategyView
    changes_done: int
    bytes_done: int
    refresh: Refresh | None
    """Refresh that this attempt continues; `None` if it is not a refresh."""

    bad_records: int
    """Bad records in the quarantine table, or announced by the newest commit."""

    running: int
    quiet: bool
    stopping: bool
    verifying: bool
    receipt: TableReceipt | None
    seal_seconds: tuple[float, ...]
    sealed_ms: int | None
    """Time at which the newest seal became durable, in milliseconds."""

    passed_ms: int | None
    """Time at which the newest barrier passed: its commit was durable, or it had none."""

    looked_ms: int | None
    """Time at which the source answered the newest poll."""

    table_version: int
    reason: str
    course: StepTimeline
    """Steps of the job, and the finished part of the whole."""

    finished: bool = False
    """True if the end of the job is durable."""

    warnings: tuple[JobWarning, ...] = ()
    """Conditions that end the job unless the user acts, and foreign commits to the target."""

    auto_rows_per_s: int | None = None
    """The automatic limit of rows; `None` if the spec requests none, or history is complete."""

    executors_lost: Mapping[str, int] = field(default_factory=dict)
    """Executors that this driver lost, by reason."""


@dataclass(frozen=True, slots=True)
class RetryWait:
    """Work failed and is retried later; until then nothing starts."""

    until_s: float
    failures: int
    """Number of failures in a row."""

    error: BackfillError

    def describe(self, now: Now) -> str:
        """Describe the time and the reason of the retry."""
        left_s = round(max(0.0, self.until_s - now.mono_s))
        return f"trying again in {show_seconds(left_s)}, failure {self.failures}: {self.error}"


def reason_of(
    phase: JobPhase,
    backoff: RetryWait | None,
    work: WorkTable,
    controls: Controls,
    now: Now,
    *,
    doing: str,
    history_complete: bool,
    auto: AutoPace | None = None,
) -> str:
    """Describe why a job is not faster, the most important reason first; `doing` is the strategy's description.

    A strategy that merges changes while rows are paused or limited adds its description, because the rows also wait for the MERGE.
    """
    if stop_in(phase) is not None:
        return "stopping at a barrier"
    if backoff is not None:
        return backoff.describe(now)
    if isinstance(phase, Verifying) and work.verify_id is not None:
        return "verifying the target against the source"
    if work.checks:
        return doing
    also = f"; {doing}" if doing else ""
    if controls.paused is not None:
        scope = "everything" if controls.changes_held else "the snapshot"
        ending = "; work under way is ending" if len(work) and (controls.changes_held or not doing) else ""
        return f"{scope} is paused {_by(controls.paused_by)}{ending}{'' if controls.changes_held else also}"
    manual = controls.rows_per_s
    if auto is not None and not history_complete and (manual is None or auto.throttle.rows_per_s < manual):
        return f"{auto.describe}{also}"
    if controls.limited and not history_complete:
        until_ms = controls.until_ms
        until = "" if until_ms is None else f", for {show_seconds(max(0, until_ms - now.wall_ms) // 1000)} more"
        return f"throttled to {controls.format_limit} {_by(controls.limited_by)}{until}{also}"
    return doing


def _by(revision: int) -> str:
    return f"by command (revision {revision})" if revision else "by the spec"


class AttemptView:
    """Data of one attempt, and queries about it."""

    def __init__(
        self,
        state: JobState,
        strategy: Strategy,
        settings: JobSettings,
        now: Now,
        spent: Mapping[str, float] | None = None,
    ) -> None:
        """Start from the state of the last attempt; it already contains this attempt's number.

        Args:
            state: State to resume from.
            strategy: Chooses the work.
            settings: Pace and limits.
            now: Current time.
            spent: Seconds by step that this attempt used before.
        """
        self._state = state
        self._strategy = strategy
        self._settings = settings
        self.phase: JobPhase = Fencing()
        self._epoch = Epoch(state.attempt, state.epoch + 1)
        self._controls = state.controls.at(now.wall_ms)
        self._inbox = Inbox()
        self._stop: StopRequested | None = None
        """The strongest request to end the process so far."""

        self._watch = SourceWatch()
        self._work = WorkTable()
        self._commits = Commits()
        self._times = Timetable(now.mono_s)
        self._passed_ms: int | None = None
        self._verify_wanted = False
        self._failures = 0
        self._auto = AutoPace.begin(settings.auto, state.rows_done, now)
        self._backoff: RetryWait | None = None
        self._set_limit(now)
        self._set_width(now)
        receipt = (RECEIPT,) if settings.verify_final and not settings.follows else ()
        steps = (START, *strategy.status.steps, *receipt)
        self._course = begin(steps, spent or {}, percent=state.percent, now_s=now.mono_s)

    def _set_limit(self, now: Now) -> None:
        burst_s = self._settings.burst_s * max(1.0, self._settings.interval_s)
        self._strategy.on(LimitSet(self._rows_per_s, burst_s, self._controls.bytes_per_s), now)

    def _set_width(self, now: Now) -> None:
        if self._controls.width.given.keys() - {"executors"}:
            self._strategy.on(WidthSet(self._controls.width), now)

    @property
    def _rows_per_s(self) -> int | None:
        """The limit of rows in force: the lower one of the manual and the automatic limit; `None` without either."""
        limits = (self._controls.rows_per_s, None if self._auto is None else self._auto.throttle.rows_per_s)
        return min((limit for limit in limits if limit is not None), default=None)

    def wake_at_s(self) -> float:
        """Return the latest monotonic time of the next `Tick`."""
        times = (
            # No barrier passes before the fence is durable, so none needs a wake-up.
            None if isinstance(self.phase, Fencing) else self._times.barrier_s,
            self._times.cancel_s,
            self._times.leave_s if self._may_leave() else None,
            None if self._backoff is None else self._backoff.until_s,
            self._commits.retry_at_s,
        )
        return min((time for time in times if time is not None), default=math.inf)

    # ------------------------------------------------------------------ queries
    @property
    def _over(self) -> bool:
        return isinstance(self.phase, Over)

    @property
    def _drained(self) -> bool:
        return stop_in(self.phase) is not None and not self._work and self._commits.idle

    def _permits(self) -> Permits:
        """Return the work that may start; the proof of a key may start until the attempt is about to end."""
        idle, controls = self._backoff is None, self._controls
        open_ = isinstance(self.phase, Running) and idle
        hidden = is_hidden(self._state.publication) or self._commits.publishes
        visible = open_ and not controls.changes_held and not hidden
        return Permits(
            history=open_ and not controls.history_held,
            changes=visible,
            checks=visible and self._commits.idle,
            epoch=self._epoch,
            first_id=self._work.next_id,
            history_held=stop_in(self.phase) is not None or controls.history_held,
        )

    def _wants_commit(self) -> bool:
        status = self._strategy.status
        return status.wants_commit or (status.wants_announcement and self._permits().changes)

    def _commits_early(self) -> bool:
        """Return whether a commit waits for no barrier."""
        return self._may_conclude() or self._may_publish() or self._wants_commit()

    def _may_conclude(self) -> bool:
        """Return whether everything that Exit waits for is durable; the end waits for no barrier."""
        at_work = self._work or not self._commits.idle or self._backoff is not None
        hidden = is_hidden(self._state.publication)
        return isinstance(self.phase, Running) and not at_work and not hidden and self._strategy.status.complete

    @property
    def _is_staged(self) -> bool:
        """True if all of history is staged, durable and not visible yet, and nothing keeps the job from going on."""
        idle = self._commits.idle and self._backoff is None and not self._controls.changes_held
        hidden = is_hidden(self._state.publication)
        return isinstance(self.phase, Running) and idle and hidden and self._strategy.status.history_complete

    def _may_publish(self) -> bool:
        """Return whether the staged rows become visible with the next commit."""
        return self._is_staged and may_publish(self._settings.publish, self._state.receipt)

    def _needs_audit(self) -> bool:
        """Return whether the staged rows must be compared now."""
        unverified = self._is_staged and needs_audit(self._settings.publish, self._state.receipt)
        return unverified and self._work.verify_id is None

    def _stays_finished(self, request: CommitRequest) -> bool:
        """Return whether the next state is finished. A refresh stays finished until a commit changes the target or its position."""
        moved = self._strategy.status.consumed != self._state.consumed
        changes = request.files or request.removed or request.announces or request.columns or moved
        return self._state.finished and (isinstance(self.phase, Finishing) or not changes)

    def _may_leave(self) -> bool:
        """Return whether the job may end while work still runs.

        That work is a MERGE that has not committed yet. Nothing is sealed meanwhile, and its transaction number is announced. As after a
        kill, the next attempt uses that number to detect the commit. A command that waits for its seal keeps the job running.
        """
        return bool(self._work) and self._commits.idle and self._inbox.empty

    # ------------------------------------------------------------------ steps and view
    @property
    def _phase_or_last(self) -> LivePhase:
        return self.phase.ended_in if isinstance(self.phase, Over) else self.phase

    def _step(self) -> str:
        """Return the current step of the job; empty if no step is left."""
        if isinstance(self.phase, Over) and self.phase.finish.outcome == "Complete":
            return ""
        phase = self._phase_or_last
        if isinstance(phase, Fencing):
            return START
        if isinstance(phase, Verifying | Finishing) and self._settings.verify_final:
            return RECEIPT
        status = self._strategy.status
        return "" if self._settings.follows and status.caught_up else status.step

    def _facts(self, now: Now) -> Facts:
        controls = self._controls
        held = controls.changes_held if self._strategy.status.history_complete else controls.history_held
        held = (held and not isinstance(self._phase_or_last, Fencing)) or stop_in(self.phase) is not None
        facts = self._strategy.view(now).facts
        # The strategy converts a limit of bytes to rows, because it knows the size of a row.
        limit = self._rows_per_s if controls.bytes_per_s is None else facts.limit_rows_per_s
        return replace(facts, limit_rows_per_s=limit, held=held, copy=None if held else facts.copy)

    @property
    def commit(self) -> CommitInFlight:
        """The commit in flight."""
        return self._commits.in_flight

    @property
    def at_rest(self) -> bool:
        """True if a pause is in force and no work runs; the sender of the pause waits for that."""
        return self._controls.paused is not None and not self._work

    def view(self, now: Now) -> JobView:
        """Return a snapshot of the attempt."""
        strategy, commits = self._strategy.view(now), self._commits.log
        complete = self._strategy.status.history_complete
        reason = reason_of(
            self._phase_or_last,
            self._backoff,
            self._work,
            self._controls,
            now,
            doing=AUDITING if self._is_staged and self._work.verify_id is not None else strategy.reason,
            history_complete=complete,
            auto=self._auto,
        )
        return JobView(
            attempt=self._state.attempt,
            epoch=self._epoch.number - 1,
            controls=self._controls,
            strategy=strategy,
            changes_done=self._state.changes_done,
            bytes_done=self._state.bytes_done,
            refresh=self._state.refresh,
            bad_records=self._state.quarantine.rows,
            running=len(self._work),
            quiet=not self._work,
            stopping=stop_in(self.phase) is not None or self._inbox.stop is not None,
            verifying=self._work.verify_id is not None,
            receipt=self._state.receipt,
            seal_seconds=commits.seconds,
            sealed_ms=commits.sealed_ms,
            passed_ms=self._passed_ms,
            looked_ms=self._watch.answered_ms,
            table_version=commits.table_version,
            reason=reason,
            course=self._course,
            finished=isinstance(self.phase, Over) and self.phase.finish.outcome == "Complete",
            warnings=(*strategy.warnings, *commits.warnings),
            auto_rows_per_s=None if self._auto is None or complete else self._auto.throttle.rows_per_s,
        )
