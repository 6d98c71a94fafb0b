"""The job: barriers, commands, commits and work, for any strategy. Events in, actions out.

A barrier, in this order (semantics.md, arrangement executor, for all strategies):

1. the received commands take effect, and become part of the state (R-SNAP-40: barriers precede ready work);
2. finished work is taken from the strategy;
3. one `Seal` commits files and state; a barrier without changes commits nothing;
4. when the commit is durable (R-SNAP-35), acknowledgements leave, then the next work starts.

A barrier waits for no work. While the strategy writes to the target itself (a MERGE), barriers continue and commits of rows wait:
the target has one writer at a time. Commands do not wait: the state is committed without rows while the MERGE runs (ADR 0004).
The state machines are `phase.py` (the attempt), `commit.py`, `commands.py` and `source_watch.py`.
"""

from __future__ import annotations

from dataclasses import replace

from backfill_core.errors import BackfillError
from backfill_core.job.after_end import finish_complete
from backfill_core.job.auto_pace import Barrier
from backfill_core.job.commands import refused_of_bytes, refused_receipt, refused_width, waits_for_no_barrier
from backfill_core.job.commit import NOTHING, backoff_s
from backfill_core.job.phase import (
    Fencing,
    Finishing,
    Over,
    Running,
    Timetable,
    Verifying,
    not_at_end,
    stop_in,
    stopped,
)
from backfill_core.job.publishing import is_hidden, proves_end, receipt_of_published
from backfill_core.job.sealing import AttemptActions
from backfill_core.job.state import JobState
from backfill_core.job.view import RetryWait
from backfill_core.job.work_table import held_by
from backfill_core.protocol.actions import Action, Finish
from backfill_core.protocol.clock import Now
from backfill_core.protocol.commands import Pause, Stop, VerifyNow
from backfill_core.protocol.events import (
    BarrierPassed,
    CommandReceived,
    Event,
    HooksRan,
    OthersCommitted,
    PollFailed,
    QueryAnswered,
    Sealed,
    SealFailed,
    SourcePolled,
    StopRequested,
    StoreCounted,
    Tick,
    WorkCancelled,
    WorkFailed,
    WorkFinished,
    WorkLost,
)
from backfill_core.protocol.receipt import TableReceipt
from backfill_core.protocol.work import Verified, WorkKind


class Job(AttemptActions):
    """One attempt at one job; `Job(state, …)` resumes from `state`."""

    # ------------------------------------------------------------------ entry points
    def start(self, now: Now) -> tuple[Action, ...]:
        """Fence: seal an empty epoch, so that Delta itself rejects every earlier attempt from now on."""
        self._times = Timetable(now.mono_s + self._settings.interval_s)
        return (self._seal(NOTHING, now, verify=False, fences=True), self._poll())

    def on(self, event: Event, now: Now) -> tuple[Action, ...]:
        """Take one event; return the actions for the shell, in order. After `Finish` no actions follow."""
        if isinstance(self.phase, Over):
            return ()
        actions = (*self._take(event, now), *self._advance(now))
        at = self._step()
        if self._course.due(at, now.mono_s):
            self._course = self._course.seen(at, self._facts(now), now.mono_s, durable=self._commits.log.percent)
        return actions

    # ------------------------------------------------------------------ events
    def _take(self, event: Event, now: Now) -> tuple[Action, ...]:
        match event:
            case Tick():
                return ()
            case SourcePolled():
                self._watch = self._watch.answer(now)
                self._strategy.on(replace(event, fresh=self._watch.fresh), now)
                return ()
            case PollFailed(error=error):
                # The next barrier polls again. A source may be unavailable for a while, but not indefinitely.
                self._watch = self._watch.lose()
                return () if self._watch.bears(error) else self._fail(error)
            case CommandReceived():
                return self._on_command(event)
            case StopRequested():
                # The barrier of a request commits. A request that is repeated during each commit would never let the job end.
                if self._stop is None or (event.force and not self._stop.force):
                    self._stop = event
                    self._inbox = replace(self._inbox, stop=event)
                    # A user who presses Ctrl-C waits for the stop, so the barrier follows at once.
                    self._times = self._times.hurry()
                return ()
            case WorkFinished(result=result):
                self._work.end(result.work_id)
                self._failures = 0
                if isinstance(result, Verified):
                    undo = self._strategy.status.undo_version
                    self._on_verified(replace(result.receipt, verified_ms=now.wall_ms, undo_version=undo))
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
                self._commits.log = self._commits.log.note(commits)
                return ()
            case HooksRan(failure=failure):
                self._commits.log = replace(self._commits.log, hooks_failure=failure)
                return ()
            case StoreCounted() | QueryAnswered():
                self._auto = None if self._auto is None else self._auto.report(event, now)
                return ()
        raise TypeError(f"not an event: {event!r}")

    def _on_command(self, event: CommandReceived) -> tuple[Action, ...]:
        before = self._inbox
        settings = self._settings
        refused = refused_of_bytes(event, self._epoch, knows_bytes=settings.knows_bytes)
        refused += refused_receipt(event, self._epoch, comparable=settings.comparable)
        refused += refused_width(event, self._epoch, fixed=settings.fixed_width)
        if refused:
            return refused
        self._inbox, answers = before.receive(event, self._epoch, self._controls.revision, self._commits.commands)
        if self._inbox is not before and waits_for_no_barrier(event):
            self._times = self._times.hurry()
        return answers

    def _on_verified(self, receipt: TableReceipt) -> None:
        self._state = replace(self._state, receipt=receipt)
        if isinstance(self.phase, Verifying) and receipt.equal:
            self._state = replace(self._state, finished=True)
            self.phase = Finishing(self.phase.stop)
        self._times = self._times.hurry()

    def _on_failed(self, work_id: int, error: BackfillError, now: Now) -> tuple[Action, ...]:
        self._lose(work_id, now)
        self._failures += 1
        # After such an error, another try under this state could record less than the target holds.
        if error.ends_attempt or not error.retryable or self._failures > self._settings.retries_max:
            return self._fail(error)
        self._backoff = RetryWait(now.mono_s + backoff_s(self._failures), self._failures, error)
        return ()

    def _lose(self, work_id: int, now: Now) -> None:
        if work_id == self._work.verify_id:
            self._verify_wanted = isinstance(self.phase, Running)
            self.phase = not_at_end(self.phase)
        self._work.end(work_id)
        self._strategy.on(WorkLost(work_id), now)

    def _on_sealed(self, event: Sealed, now: Now) -> tuple[Action, ...]:
        commit = self._commits.seal(event, now)
        if commit is None:
            return ()
        self._passed_ms = now.wall_ms
        actions: list[Action] = commit.acknowledgements()
        if commit.action.state_only_after is not None:
            # The commit contained nothing of the strategy.
            return tuple(actions)
        if commit.action.publishes is not None:
            self._state = replace(self._state, receipt=receipt_of_published(self._state.receipt, event.table_version))
        self._strategy.on(event, now)
        if isinstance(self.phase, Fencing):
            self.phase = Running()
            return tuple(actions)
        if commit.polls:
            self._watch = self._watch.expire()
            actions.append(self._poll())
        # The commit that ends the job already contains a receipt, which also answers a receipt requested meanwhile.
        if commit.verify and stop_in(self.phase) is None and not isinstance(self.phase, Finishing):
            actions += self._verify()
        return (*actions, *self._maybe_over(commit.state))

    def _maybe_over(self, committed: JobState) -> tuple[Action, ...]:
        receipt = committed.receipt
        if committed.finished and isinstance(self.phase, Finishing):
            return self._end(finish_complete(self._strategy.status))
        if receipt is None or receipt.equal:
            return ()
        return self._fail(
            self._commits.log.mismatch(receipt, self._settings.suspects, hidden=is_hidden(committed.publication))
        )

    def _on_seal_failed(self, error: BackfillError, now: Now) -> tuple[Action, ...]:
        fatal, given_up = self._commits.fail(error, self._settings.retries_max, now)
        if fatal is not None:
            return self._fail(fatal)
        if given_up is not None:
            self._inbox = self._inbox.put_back(given_up.commands)
        if given_up is not None and given_up.action.state_only_after is None:
            # The last receipt is taken again at the version that contains the foreign commits: the old one describes an older version.
            self.phase = not_at_end(self.phase)
            self._state = replace(self._state, finished=False, receipt=None)
        return ()

    def _fail(self, error: BackfillError) -> tuple[Action, ...]:
        return (*self._work.abandon(), *self._end(Finish("Failed", error)))

    def _end(self, finish: Finish) -> tuple[Finish, ...]:
        self.phase = Over(finish, self._phase_or_last)
        return (finish,)

    # ------------------------------------------------------------------ time
    def _advance(self, now: Now) -> tuple[Action, ...]:
        if isinstance(self.phase, Over):
            return ()
        actions: list[Action] = []
        if self._backoff is not None and now.mono_s >= self._backoff.until_s:
            self._backoff = None
        actions += self._commits.retry(now)
        if isinstance(self.phase, Fencing):
            return tuple(actions)
        due = now.mono_s >= self._times.barrier_s
        if due:
            self._times = self._times.next(self._settings.interval_s, now)
        if due or self._times.hurried or self._drained or self._commits_early():
            actions += self._barrier(now, due=due)
        if self._needs_audit():
            actions += self._verify()
        if self._times.cancels(now):
            actions += self._cancel_running(now)
        if self._times.leaves(now) and not self._over and self._may_leave():
            actions += self._end(Finish("Stopped"))
        if not self._over:
            actions += self._work.start(self._strategy.propose(self._permits(), now))
        # After the work has begun: a change of the limit discards the quota that is left (R-SNAP-41).
        if due and not self._over and self._adapt(now):
            self._set_limit(now)
        return tuple(actions)

    # ------------------------------------------------------------------ barriers
    def _barrier(self, now: Now, *, due: bool) -> list[Action]:
        before = self._epoch
        actions: list[Action] = [self._poll()] if due and not self._watch.awaits else []
        changed = self._apply_commands(now)
        actions += self._quieten(now)
        actions += self._maybe_commit(now, due=due, changed=changed)
        if self._epoch != before and self._commits.idle:
            self._passed_ms = now.wall_ms  # nothing had to be committed
        if due or self._epoch != before:
            self._strategy.on(BarrierPassed(self._epoch, scheduled=due), now)
        return actions

    def _maybe_commit(self, now: Now, *, due: bool, changed: bool) -> list[Action]:
        blocked = self._strategy.status.blocks_commit
        if blocked and self._commits.idle and self._inbox.waits_for_a_state:
            return [self._seal_state(now)]
        if blocked or not self._commits.idle:
            self._epoch = self._epoch.after(1 if due and self._commits.idle else 0)
            return []
        scheduled = due and self._times.barriers % self._settings.commit_every == 0
        requested = bool(self._inbox.applied) or changed or self._times.hurried
        needed = requested or stop_in(self.phase) is not None
        if self._may_publish():
            self._times = replace(self._times, hurried=False)
            return [self._seal(NOTHING, now, verify=False, publishes=True)]
        if not (scheduled or needed or self._may_conclude() or self._wants_commit()):
            self._epoch = self._epoch.after()
            return []
        self._times = replace(self._times, hurried=False)
        return self._prepare_and_seal(now, wanted=requested)

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
        # Between two parts of a batch the target holds the rows of no version: the receipt waits for the last part (R-PART-6).
        waits = bool(self._strategy.status.between_parts)
        verify = self._verify_wanted and self._work.verify_id is None and not waits
        self._verify_wanted = self._verify_wanted and waits
        if request.files or request.removed or request.changed or wanted or verify:
            return [self._seal(request, now, verify=verify)]
        self._epoch = self._epoch.after()
        if stop_in(self.phase) is not None and not self._work:
            return list(self._end(Finish("Stopped")))
        return self._conclude(now)

    def _conclude(self, now: Now) -> list[Action]:
        """Verify, then mark the state as finished. The job is complete once that commit is durable (R-PROG-3)."""
        if not self._may_conclude():
            return []
        receipt, position = self._state.receipt, self._strategy.status.position
        if self._settings.verify_final and not proves_end(self._settings.publish, receipt, position):
            self.phase = Verifying()
            return list(self._verify())
        self.phase = Finishing()
        self._state = replace(self._state, finished=True)
        return [self._seal(NOTHING, now, verify=False)]

    def _apply_commands(self, now: Now) -> bool:
        """Put the received commands into force; return whether the stored controls must change."""
        before = self._controls
        self._controls = self._controls.at(now.wall_ms)
        changed = self._controls != before
        for event in self._inbox.received:
            self._controls = self._controls.after(event.command, event.revision, now.wall_ms)
            self._verify_wanted |= isinstance(event.command, VerifyNow)
            if isinstance(event.command, Stop):
                self.phase = stopped(self.phase, awaited=False)
            if isinstance(event.command, Pause | Stop):
                self._times = self._times.cancel_in(0.0 if event.command.force else self._settings.pause_budget_s, now)
        stop = self._inbox.stop
        if stop is not None:
            self.phase = stopped(self.phase, awaited=True)
            self._times = self._times.cancel_in(0.0 if stop.force else self._settings.pause_budget_s, now)
        self._inbox = self._inbox.put_in_force()
        limit = (before.rows_per_s, before.bytes_per_s)
        if (self._controls.rows_per_s, self._controls.bytes_per_s) != limit:
            self._set_limit(now)
        if self._controls.width != before.width:
            self._set_width(now)
        return changed

    def _adapt(self, now: Now) -> bool:
        """Take the measurements of a barrier; return whether the automatic limit changed."""
        auto = self._auto
        if auto is None:
            return False
        if self._controls.history_held or self._strategy.status.history_complete:
            self._auto = auto.paused(self._state.rows_done, now)
        else:
            lag_s, work = self._strategy.view(now).lag_ms / 1000, self._work
            facts = (self._commits.log, self._state.rows_done, lag_s, work.oldest_history_id, work.next_id)
            self._auto = auto.observe(Barrier(now, *facts))
        return self._auto.throttle.rows_per_s != auto.throttle.rows_per_s

    def _quieten(self, now: Now) -> list[Action]:
        """Remove the deadline of a pause that was withdrawn before it passed."""
        stop = stop_in(self.phase)
        if stop is None and self._controls.paused is None:
            self._times = replace(self._times, cancel_s=None)
        if self._times.cancels(now):
            return self._cancel_running(now)
        # The result of a check is of no use to an attempt that ends, so the check gets no time.
        return [] if stop is None else [*self._work.cancel(lambda work: work.kind is WorkKind.CHECK)]

    def _cancel_running(self, now: Now) -> list[Action]:
        stop = stop_in(self.phase)
        leaves = stop is not None and stop.awaited
        self._times = self._times.cancelled(self._settings.pause_budget_s if leaves else None, now)
        return [*self._work.cancel(held_by(stopping=stop is not None, changes_held=self._controls.changes_held))]
