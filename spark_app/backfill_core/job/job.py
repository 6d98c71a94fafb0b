"""The job: barriers, commands, commits and work, for any strategy. Events in, actions out.

A barrier, in this order (semantics.md, arrangement executor, for all strategies):

1. the commands that arrived take effect, and become part of the state (R-SNAP-40: barriers win over ready work);
2. finished work is taken from the strategy;
3. one `Seal` commits files + state; a barrier with nothing to say commits nothing;
4. when it is durable: acknowledgements leave, then the next work starts.

A barrier waits for no work. While the strategy writes to the target itself (a MERGE) barriers go on and commits wait for it:
one writer at a time. The machines: `phase.py` (the attempt), `commit.py`, `commands.py`, `source_watch.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from backfill_core.errors import BackfillError, TargetChangedError, VerificationFailedError
from backfill_core.job.commands import Inbox, waits_for_no_barrier
from backfill_core.job.commit import CommitInFlight, CommitLog, Committing, Idle, RetryAt, backoff_s, under_way
from backfill_core.job.phase import (
    Fencing,
    Finishing,
    JobPhase,
    Over,
    Running,
    Verifying,
    not_at_end,
    stop_in,
    stopped,
)
from backfill_core.job.source_watch import KEPT_EVERY, SourceWatch
from backfill_core.job.state import JobState
from backfill_core.job.steps import RECEIPT, START, begin
from backfill_core.job.view import Backoff, JobView, reason_of_controls
from backfill_core.job.work_table import WorkTable
from backfill_core.protocol.actions import Acknowledge, Action, Finish, PollSource, Seal, StartWork
from backfill_core.protocol.clock import Now
from backfill_core.protocol.commands import Pause, Stop, VerifyNow
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import (
    BarrierPassed,
    CommandReceived,
    Event,
    LimitSet,
    OthersCommitted,
    PollFailed,
    Sealed,
    SealFailed,
    SourcePolled,
    StopRequested,
    Tick,
    WorkCancelled,
    WorkFailed,
    WorkFinished,
    WorkLost,
)
from backfill_core.protocol.receipt import Receipt
from backfill_core.protocol.strategy import CommitRequest, Facts, Permits, Strategy, StrategyView
from backfill_core.protocol.work import Verified, Verify, Work, WorkKind

COMPARED_AGAIN_MAX = 3
"""How often the last receipt is taken again because others changed the target after it; one more ends the attempt."""

NOTHING = CommitRequest((), 0, 0, 0, changed=False, announces=False, polls=False)


@dataclass(frozen=True, slots=True)
class JobSettings:
    """The pace of a job."""

    interval_s: float = 1.0
    seal_every: int = 1
    verify_final: bool = False
    follows: bool = False
    """Does the job go on once it has caught up?"""

    pause_budget_s: float = 1.0
    """How long running work may go on after a pause or stop before it is cancelled."""

    retries_max: int = 5
    """Failures in a row that may succeed when tried again; one more ends the attempt."""

    burst_s: float = 1.1
    """Unused rate that is kept, in seconds or in barriers, whichever is longer: one that is a little late must not lose its quota."""


class Job:
    """One attempt at one job; `Job(state, …)` continues what `state` says."""

    def __init__(
        self,
        state: JobState,
        strategy: Strategy,
        settings: JobSettings,
        now: Now,
        spent: Mapping[str, float] | None = None,
    ) -> None:
        """Take the state as the last attempt left it, with this attempt's number already in it.

        Args:
            state: What to go on from.
            strategy: Chooses the work.
            settings: The pace.
            now: The moment.
            spent: Seconds by step that this attempt took before.
        """
        self._state = state
        self._strategy = strategy
        self._settings = settings
        self.phase: JobPhase = Fencing()
        self.commit: CommitInFlight = Idle()
        self._epoch = Epoch(state.attempt, state.epoch + 1)
        self._controls = state.controls.at(now.wall_ms)
        self._inbox = Inbox()
        self._watch = SourceWatch()
        self._work = WorkTable()
        self._commits = CommitLog()
        self._next_barrier_s = now.mono_s
        self._barriers = 0
        self._barrier_now = False
        self._verify_wanted = False
        self._cancel_at_s: float | None = None
        self._leave_at_s: float | None = None
        self._failures = self._compared_again = 0
        self._backoff: Backoff | None = None
        self._set_limit(now)
        receipt = (RECEIPT,) if settings.verify_final and not settings.follows else ()
        steps = (START, *strategy.status.steps, *receipt)
        self._course = begin(steps, spent or {}, percent=state.percent, now_s=now.mono_s)

    # ------------------------------------------------------------------ the one way in
    def start(self, now: Now) -> tuple[Action, ...]:
        """Fence: seal an empty epoch, so that Delta itself refuses every earlier attempt from now on."""
        self._next_barrier_s = now.mono_s + self._settings.interval_s
        return (self._seal(NOTHING, verify=False, fences=True), self._poll())

    def on(self, event: Event, now: Now) -> tuple[Action, ...]:
        """Take one event; return what the shell must do, in order. After `Finish` nothing more."""
        if isinstance(self.phase, Over):
            return ()
        actions = (*self._take(event, now), *self._advance(now))
        at = self._step()
        if self._course.due(at, now.mono_s):
            self._course = self._course.seen(at, self._facts(now), now.mono_s)
        return actions

    def wake_at_s(self) -> float:
        """Return when a `Tick` is due at the latest, in monotonic seconds."""
        times = (
            # Before the fence is durable no barrier passes, so none needs a wake-up.
            None if isinstance(self.phase, Fencing) else self._next_barrier_s,
            self._cancel_at_s,
            self._leave_at_s if self._may_leave() else None,
            None if self._backoff is None else self._backoff.until_s,
            self.commit.at_s if isinstance(self.commit, RetryAt) else None,
        )
        return min((time for time in times if time is not None), default=math.inf)

    # ------------------------------------------------------------------ events
    def _take(self, event: Event, now: Now) -> tuple[Action, ...]:
        match event:
            case Tick():
                return ()
            case SourcePolled():
                self._watch = self._watch.answer()
                self._strategy.on(replace(event, fresh=self._watch.fresh), now)
                return ()
            case PollFailed(error=error):
                # Polled again at the next barrier; the source may be away for a while, but not for ever.
                self._watch = self._watch.lose()
                return () if self._watch.bears(error) else self._fail(error)
            case CommandReceived():
                return self._on_command(event)
            case StopRequested():
                # The user who presses Ctrl-C waits for it: the barrier comes now.
                self._inbox = replace(self._inbox, stop=event)
                self._barrier_now = True
                return ()
            case WorkFinished(result=result):
                self._work.end(result.work_id)
                self._failures = 0
                if isinstance(result, Verified):
                    self._on_verified(replace(result.receipt, verified_ms=now.wall_ms))
                else:
                    self._strategy.on(event, now)
                return ()
            case WorkFailed(work_id=work_id, error=error):
                return self._on_failed(work_id, error, now)
            case WorkCancelled(work_id=work_id):
                self._lose(work_id, now)
                return ()
            case Sealed():
                return self._on_sealed(event, now)
            case SealFailed(error=error):
                return self._on_seal_failed(error, now)
            case OthersCommitted(commits=commits):
                self._commits = self._commits.note(commits)
                return ()
        raise TypeError(f"not an event: {event!r}")

    def _on_command(self, event: CommandReceived) -> tuple[Action, ...]:
        commit = under_way(self.commit)
        before, committing = self._inbox, () if commit is None else commit.commands
        self._inbox, answers = before.receive(event, self._epoch, self._controls.revision, committing)
        self._barrier_now |= self._inbox is not before and waits_for_no_barrier(event)
        return answers

    def _on_verified(self, receipt: Receipt) -> None:
        self._state = replace(self._state, receipt=receipt)
        if isinstance(self.phase, Verifying) and receipt.equal:
            self._state = replace(self._state, finished=True)
            self.phase = Finishing(self.phase.stop)
        self._barrier_now = True

    def _on_failed(self, work_id: int, error: BackfillError, now: Now) -> tuple[Action, ...]:
        self._lose(work_id, now)
        self._failures += 1
        # After some another try under this state could say less than the target holds.
        if error.ends_attempt or not error.retryable or self._failures > self._settings.retries_max:
            return self._fail(error)
        self._backoff = Backoff(now.mono_s + backoff_s(self._failures), self._failures, error)
        return ()

    def _lose(self, work_id: int, now: Now) -> None:
        if work_id == self._work.verify_id:
            self._verify_wanted = isinstance(self.phase, Running)
            self.phase = not_at_end(self.phase)
        self._work.end(work_id)
        self._strategy.on(WorkLost(work_id), now)

    def _on_sealed(self, event: Sealed, now: Now) -> tuple[Action, ...]:
        commit = under_way(self.commit)
        if commit is None or commit.action.epoch != event.epoch:
            return ()
        self.commit = Idle()
        self._commits = self._commits.sealed(event.table_version, event.seconds, now)
        actions: list[Action] = [
            Acknowledge(one.attempt, event.epoch, one.revision, "Applied") for one in commit.commands
        ]
        self._strategy.on(event, now)
        if isinstance(self.phase, Fencing):
            self.phase = Running()
            return tuple(actions)
        if commit.polls:
            self._watch = self._watch.expire()
            actions.append(self._poll())
        if commit.verify and stop_in(self.phase) is None:
            actions += self._verify()
        return (*actions, *self._maybe_over(commit.state))

    def _maybe_over(self, committed: JobState) -> tuple[Action, ...]:
        receipt = committed.receipt
        if committed.finished:
            return self._end(Finish("Complete"))
        if receipt is None or receipt.equal:
            return ()
        vnodes = ", ".join(str(one.vnode) for one in receipt.mismatches[:10])
        more = f" and {len(receipt.mismatches) - 10} more" if len(receipt.mismatches) > 10 else ""
        others = f" Others committed {self._commits.others_words}." if self._commits.others else ""
        return self._fail(
            VerificationFailedError(
                f"source version {receipt.source_version} and target version {receipt.target_version} differ "
                f"in vnode {vnodes}{more} of {receipt.vnodes}.{others}",
                hint="Another writer changed the target: find the rows with `backfill verify --explain`, "
                "mend them, or fill a new target.",
            )
        )

    def _on_seal_failed(self, error: BackfillError, now: Now) -> tuple[Action, ...]:
        commit = under_way(self.commit)
        if commit is None:
            return self._fail(error) if error.ends_attempt else ()
        if isinstance(error, TargetChangedError):
            return self._compare_again(commit, error)
        again = commit.fail(error, self._settings.retries_max, now)
        if again is None:
            return self._fail(error)
        self.commit = again
        return ()

    def _compare_again(self, commit: Committing, error: TargetChangedError) -> tuple[Action, ...]:
        """Take the last receipt anew, of the version in which others' changes are: the old one is about less."""
        self._commits = replace(self._commits.note(error.commits), table_version=error.newest)
        self._compared_again += 1
        if self._compared_again > COMPARED_AGAIN_MAX:
            return self._fail(
                TargetChangedError(
                    f"others changed the target each of {self._compared_again} times while it was compared, "
                    f"at last {self._commits.others_words}.",
                    hint="Keep others from writing to it until the job is finished, then run it again.",
                )
            )
        self._inbox = self._inbox.put_back(commit.commands)
        self.commit, self.phase = Idle(), not_at_end(self.phase)
        self._state = replace(self._state, finished=False, receipt=None)
        return ()

    def _fail(self, error: BackfillError) -> tuple[Action, ...]:
        return (*self._work.abandon(), *self._end(Finish("Failed", error)))

    def _end(self, finish: Finish) -> tuple[Finish, ...]:
        self.phase = Over(finish, stop_in(self.phase))
        return (finish,)

    # ------------------------------------------------------------------ time
    def _advance(self, now: Now) -> tuple[Action, ...]:
        if isinstance(self.phase, Over):
            return ()
        actions: list[Action] = []
        if self._backoff is not None and now.mono_s >= self._backoff.until_s:
            self._backoff = None
        if isinstance(self.commit, RetryAt) and now.mono_s >= self.commit.at_s:
            self.commit = self.commit.commit
            actions.append(self.commit.action)
        if isinstance(self.phase, Fencing):
            return tuple(actions)
        due = now.mono_s >= self._next_barrier_s
        if due:
            self._next_barrier_s = max(self._next_barrier_s + self._settings.interval_s, now.mono_s)
            self._barriers += 1
        if due or self._barrier_now or self._drained or self._may_conclude() or self._wants_commit():
            actions += self._barrier(now, due=due)
        if self._cancel_at_s is not None and now.mono_s >= self._cancel_at_s:
            actions += self._cancel_running(now)
        late = self._leave_at_s is not None and now.mono_s >= self._leave_at_s
        if late and not self._over and self._may_leave():
            actions += self._end(Finish("Stopped"))
        if not self._over:
            actions += self._work.start(self._strategy.propose(self._permits(), now))
        return tuple(actions)

    @property
    def _over(self) -> bool:
        return isinstance(self.phase, Over)

    @property
    def _drained(self) -> bool:
        return stop_in(self.phase) is not None and not self._work and isinstance(self.commit, Idle)

    def _permits(self) -> Permits:
        """Return what may start; the proof of a key is wanted until the attempt is about to end."""
        idle, controls = self._backoff is None, self._controls
        open_ = isinstance(self.phase, Running) and idle
        return Permits(
            history=open_ and not controls.history_held,
            changes=open_ and not controls.changes_held,
            checks=open_ and not controls.changes_held and isinstance(self.commit, Idle),
            epoch=self._epoch,
            first_id=self._work.next_id,
            history_held=stop_in(self.phase) is not None or controls.history_held,
        )

    def _wants_commit(self) -> bool:
        status = self._strategy.status
        return status.wants_commit or (status.wants_announcement and self._permits().changes)

    # ------------------------------------------------------------------ barriers
    def _barrier(self, now: Now, *, due: bool) -> list[Action]:
        before = self._epoch
        actions: list[Action] = [self._poll()] if due and not self._watch.awaits else []
        changed = self._apply_commands(now)
        actions += self._quieten(now)
        actions += self._maybe_commit(now, due=due, changed=changed)
        if due or self._epoch != before:
            self._strategy.on(BarrierPassed(self._epoch, scheduled=due), now)
        return actions

    def _maybe_commit(self, now: Now, *, due: bool, changed: bool) -> list[Action]:
        if not isinstance(self.commit, Idle) or self._strategy.status.blocks_commit:
            self._epoch = self._epoch.after(1 if due and isinstance(self.commit, Idle) else 0)
            return []
        scheduled = due and self._barriers % self._settings.seal_every == 0
        asked = bool(self._inbox.applied) or changed or self._barrier_now
        wanted = asked or stop_in(self.phase) is not None
        if not (scheduled or wanted or self._may_conclude() or self._wants_commit()):
            self._epoch = self._epoch.after()
            return []
        self._barrier_now = False
        return self._prepare_and_seal(now, wanted=asked)

    def _prepare_and_seal(self, now: Now, *, wanted: bool) -> list[Action]:
        request = self._strategy.prepare_commit(self._epoch, self._permits(), now)
        failure = self._strategy.status.failure
        if failure is not None:
            return list(self._fail(failure))
        self._state = replace(
            self._state,
            rows_done=self._state.rows_done + request.rows,
            changes_done=self._state.changes_done + request.changes,
            bytes_done=self._state.bytes_done + request.bytes,
        )
        verify, self._verify_wanted = self._verify_wanted and self._work.verify_id is None, False
        if request.files or request.changed or wanted or verify:
            return [self._seal(request, verify=verify)]
        self._epoch = self._epoch.after()
        if stop_in(self.phase) is not None and not self._work:
            return list(self._end(Finish("Stopped")))
        return self._conclude()

    def _may_conclude(self) -> bool:
        """Is everything that Exit waits for durable? The end waits for no barrier."""
        at_work = self._work or not isinstance(self.commit, Idle) or self._backoff is not None
        return isinstance(self.phase, Running) and not at_work and self._strategy.status.complete

    def _conclude(self) -> list[Action]:
        """Verify, then say in the state that the job is finished."""
        if not self._may_conclude():
            return []
        if self._settings.verify_final:
            self.phase = Verifying()
            return list(self._verify())
        self.phase = Finishing()
        self._state = replace(self._state, finished=True)
        return [self._seal(NOTHING, verify=False)]

    def _apply_commands(self, now: Now) -> bool:
        """Put what arrived into force; return whether the stored controls must change."""
        before = self._controls
        self._controls = self._controls.at(now.wall_ms)
        changed = self._controls != before
        for one in self._inbox.received:
            self._controls = self._controls.after(one.command, one.revision, now.wall_ms)
            match one.command:
                case Stop():
                    self.phase = stopped(self.phase, awaited=False)
                case VerifyNow():
                    self._verify_wanted = True
                case _:
                    pass
            if isinstance(one.command, Pause | Stop):
                self._set_deadline(now, force=one.command.force)
        if self._inbox.stop is not None:
            self.phase = stopped(self.phase, awaited=True)
            self._set_deadline(now, force=self._inbox.stop.force)
        self._inbox = self._inbox.put_in_force()
        if self._controls.rows_per_s != before.rows_per_s:
            self._set_limit(now)
        return changed

    def _set_limit(self, now: Now) -> None:
        burst_s = self._settings.burst_s * max(1.0, self._settings.interval_s)
        self._strategy.on(LimitSet(self._controls.rows_per_s, burst_s), now)

    def _set_deadline(self, now: Now, *, force: bool) -> None:
        budget_s = 0.0 if force else self._settings.pause_budget_s
        # A pause or stop repeated does not give what runs more time.
        self._cancel_at_s = min(now.mono_s + budget_s, math.inf if self._cancel_at_s is None else self._cancel_at_s)

    def _quieten(self, now: Now) -> list[Action]:
        """Forget the deadline of a pause that was taken back before it passed."""
        stop = stop_in(self.phase)
        if stop is None and self._controls.paused is None:
            self._cancel_at_s = None
        if self._cancel_at_s is not None and now.mono_s >= self._cancel_at_s:
            return self._cancel_running(now)
        # A check that is nearly done is worth nothing to an attempt that ends, so it gets no time.
        return [] if stop is None else [*self._work.cancel(lambda work: work.kind is WorkKind.CHECK)]

    def _cancel_running(self, now: Now) -> list[Action]:
        """End what a pause or stop does not let go on: changes go on in a pause of history (R-SNAP-43)."""
        self._cancel_at_s = None
        stop = stop_in(self.phase)
        held: Callable[[Work], bool]
        if stop is not None:
            held = lambda _: True  # noqa: E731 - one of three conditions
            if stop.awaited:
                self._leave_at_s = now.mono_s + self._settings.pause_budget_s
        elif self._controls.changes_held:
            held = lambda work: not isinstance(work, Verify)  # noqa: E731 - a receipt disturbs no pause
        else:
            held = lambda work: work.kind is WorkKind.HISTORY  # noqa: E731
        return [*self._work.cancel(held)]

    def _may_leave(self) -> bool:
        """May the job end beside work that does not?

        That is a MERGE on its way to its commit. Nothing is sealed meanwhile, and its number is announced: like after a
        kill, the next attempt knows by that number whether it came. A command that waits to be sealed keeps the job here.
        """
        return bool(self._work) and isinstance(self.commit, Idle) and self._inbox.empty

    # ------------------------------------------------------------------ actions
    def _seal(self, request: CommitRequest, *, verify: bool, fences: bool = False) -> Seal:
        epoch = self._epoch
        self._state = replace(
            self._state,
            epoch=epoch.number,
            progress=self._strategy.stored.encode(),
            consumed=self._strategy.status.consumed,
            controls=self._controls,
            percent=self._course.percent,
        )
        receipt = self._state.receipt if self._state.finished and self._settings.verify_final else None
        compared = None if receipt is None else receipt.target_version
        action = Seal(epoch.number, epoch.txn_version, request.files, self._state.encode(), fences, compared)
        self.commit = Committing(action, self._inbox.applied, verify, request.polls, self._state)
        self._inbox = replace(self._inbox, applied=())
        self._epoch = epoch.after(2 if request.announces else 1)
        return action

    def _poll(self) -> PollSource:
        """Poll the source; now and then also whether what will be needed next is still kept (port.md 5.1)."""
        self._watch = self._watch.ask()
        return PollSource(None if self._barriers % KEPT_EVERY else self._strategy.status.position)

    def _verify(self) -> list[StartWork]:
        status, version = self._strategy.status, self._commits.table_version
        return self._work.start(
            [Verify(self._work.next_id, status.position, version, self._epoch.number, status.covered)]
        )

    # ------------------------------------------------------------------ steps and view
    def _step(self) -> str:
        """Return the step that the job is in; empty: nothing of it is left."""
        if isinstance(self.phase, Over) and self.phase.finish.outcome == "Complete":
            return ""
        if isinstance(self.phase, Fencing):
            return START
        if isinstance(self.phase, Verifying | Finishing) and self._settings.verify_final:
            return RECEIPT
        status = self._strategy.status
        return "" if self._settings.follows and status.caught_up else status.step

    def _facts(self, now: Now) -> Facts:
        controls = self._controls
        held = controls.changes_held if self._strategy.status.history_complete else controls.history_held
        held = (held and not isinstance(self.phase, Fencing)) or stop_in(self.phase) is not None
        facts = self._strategy.view(now).facts
        return replace(facts, limit_rows_per_s=controls.rows_per_s, held=held, copy=None if held else facts.copy)

    @property
    def at_rest(self) -> bool:
        """Is a pause in force and nothing running any more? Who commanded it waits for that."""
        return self._controls.paused is not None and not self._work

    def view(self, now: Now) -> JobView:
        """Return how things stand."""
        strategy, commits = self._strategy.view(now), self._commits
        others = (f"others changed the target: {commits.others_words}",) if commits.others else ()
        return JobView(
            attempt=self._state.attempt,
            epoch=self._epoch.number - 1,
            controls=self._controls,
            strategy=strategy,
            changes_done=self._state.changes_done,
            bytes_done=self._state.bytes_done,
            running=len(self._work),
            quiet=not self._work,
            stopping=stop_in(self.phase) is not None or self._inbox.stop is not None,
            verifying=self._work.verify_id is not None,
            receipt=self._state.receipt,
            seal_seconds=commits.seconds,
            sealed_ms=commits.sealed_ms,
            table_version=commits.table_version,
            reason=self._reason(strategy, now),
            course=self._course,
            warnings=(*strategy.warnings, *others),
        )

    def _reason(self, strategy: StrategyView, now: Now) -> str:
        """Say in words why the job is not faster than it is; what people want to know first."""
        if stop_in(self.phase) is not None:
            return "stopping at a barrier"
        if self._backoff is not None:
            return self._backoff.words(now)
        if isinstance(self.phase, Verifying) and self._work.verify_id is not None:
            return "verifying the target against the source"
        if self._work.checks:
            return strategy.reason
        complete = self._strategy.status.history_complete
        held = reason_of_controls(self._controls, now, running=bool(self._work), history_complete=complete)
        return held or strategy.reason
