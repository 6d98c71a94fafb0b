"""The job: barriers, commands, seals and work, for any strategy. Events in, actions out.

A barrier, in this order (semantics.md, arrangement executor, for all strategies):

1. the commands that arrived take effect, and become part of the state (R-SNAP-40: barriers win over ready work);
2. finished work is taken from the strategy;
3. one `Seal` commits files + state; a barrier with nothing to say commits nothing;
4. when it is durable: acknowledgements leave, then the next work starts.

Between the snapshot and the first changes the key is proven unique in the target, where that was not done before the
start (ADR 0013): a MERGE would hide two rows with one key.

A barrier waits for no split. While a MERGE runs barriers go on and seals wait for it: one writer at a time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from backfill_core.errors import (
    BackfillError,
    ForeignCommit,
    StagedFilesGoneError,
    TargetChangedError,
    VerificationFailedError,
)
from backfill_core.job.controls import Controls
from backfill_core.job.state import JobState
from backfill_core.job.steps import CATCH_UP, COPY, KEY_PROOF, RECEIPT, START, Course, Facts, begin
from backfill_core.pacing.throttle import TokenBucket
from backfill_core.protocol.actions import Acknowledge, Action, CancelWork, Finish, PollSource, Seal, StartWork
from backfill_core.protocol.clock import Now
from backfill_core.protocol.commands import Pause, Stop, VerifyNow
from backfill_core.protocol.epochs import txn_version
from backfill_core.protocol.events import (
    CommandReceived,
    Event,
    Head,
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
)
from backfill_core.protocol.receipt import Receipt
from backfill_core.protocol.strategy import Permits, Strategy, StrategyView, WorkIds
from backfill_core.protocol.work import KeyProven, ProveKey, StagedFile, Verified, Verify

RETRY_MAX_S = 30.0
SEAL_SAMPLES_MAX = 512
KEPT_EVERY = 10
"""Barriers between two looks whether the source still keeps the next version: a slow copy must not end with that."""

LOOKS_LOST_MAX = 30
"""Failed looks at the source in a row that are borne: half a minute of barriers."""

COMPARED_AGAIN_MAX = 3
"""How often the last receipt is taken again because others changed the target after it; one more ends the attempt."""

OTHERS_SHOWN_MAX = 3
OTHERS_KEPT_MAX = 16


@dataclass(frozen=True, slots=True)
class JobSettings:
    """The pace of a job."""

    interval_s: float = 1.0
    seal_every: int = 1
    verify_final: bool = False
    proves_key: bool = False
    """Must the target hold one row a key?"""

    follows: bool = False
    """Does the job go on once it has caught up?"""

    pause_budget_s: float = 1.0
    """How long running work may go on after a pause or stop before it is cancelled."""

    retries_max: int = 5
    """Failures in a row that may succeed when tried again; one more ends the attempt."""

    burst_s: float = 1.1
    """Unused rate that is kept, in seconds or in barriers, whichever is longer: one that is a little late must not lose its quota."""


@dataclass(frozen=True, slots=True)
class JobView:
    """One look at the job, for people and for the operator."""

    attempt: int
    epoch: int
    controls: Controls
    strategy: StrategyView
    changes_done: int
    bytes_done: int
    running: int
    quiet: bool
    stopping: bool
    verifying: bool
    receipt: Receipt | None
    seal_seconds: tuple[float, ...]
    sealed_ms: int | None
    """When the newest seal was durable."""

    table_version: int
    reason: str
    course: Course
    """The steps of the job, and how much of the whole is done."""
    warnings: tuple[str, ...] = ()
    """What will end the job if nobody does anything, and what others did to the target."""


@dataclass(frozen=True, slots=True)
class _Sealing:
    action: Seal
    acks: tuple[CommandReceived, ...]
    verify: bool
    source_version: int
    done: tuple[tuple[int, int], ...] | None
    sealed: JobState


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
        self._ids = WorkIds(state.epoch + 1, state.attempt)
        self._controls = state.controls.at(now.wall_ms)
        self._bucket = TokenBucket.full(
            self._controls.rows_per_s, now.mono_s, settings.burst_s * max(1.0, settings.interval_s)
        )
        self._next_barrier_s = now.mono_s
        self._barriers = 0
        self._fenced = False
        self._sealing: _Sealing | None = None
        self._seal_again_s: float | None = None
        self._received: list[CommandReceived] = []
        self._to_ack: list[CommandReceived] = []
        self._running: dict[int, bool] = {}
        """Work ids under way; True once their end was asked for."""
        self._verify_id: int | None = None
        self._verify_wanted = False
        self._proof_id: int | None = None
        self._cancel_at_s: float | None = None
        self._barrier_now = False
        self._stopping = False
        self._stop_asked: StopRequested | None = None
        self._awaited = False
        """Does somebody wait for the end, who pressed Ctrl-C or runs the pod?"""

        self._leave_at_s: float | None = None
        self._failures = self._seals_lost = 0
        self._last_error: BackfillError | None = None
        self._hold_until_s: float | None = None
        self._looks_asked = self._looks_answered = self._looks_lost = self._fresh_after = 0
        self._final: bool = False
        self._compared_again = 0
        self._others: tuple[ForeignCommit, ...] = ()
        """What others committed to the target, as far as it was seen."""

        self._outcome: Finish | None = None
        self._seal_seconds: list[float] = []
        self._table_version = -1
        self._sealed_ms: int | None = None
        self._course = begin(self._steps(), spent or {}, percent=state.percent, now_s=now.mono_s)

    # ------------------------------------------------------------------ the one way in
    def start(self, now: Now) -> tuple[Action, ...]:
        """Fence: seal an empty epoch, so that Delta itself refuses every earlier attempt from now on."""
        self._next_barrier_s = now.mono_s + self._settings.interval_s
        return (self._seal((), verify=False, reserves=False, fences=True), self._look())

    def on(self, event: Event, now: Now) -> tuple[Action, ...]:
        """Take one event; return what the shell must do, in order. After `Finish` nothing more."""
        if self._outcome is not None:
            return ()
        actions = (*self._take(event, now), *self._advance(now))
        at = self._step()
        if self._course.due(at, now.mono_s):
            self._course = self._course.seen(at, self._facts(at), now.mono_s)
        return actions

    def wake_at_s(self) -> float:
        """Return when a `Tick` is due at the latest, in monotonic seconds."""
        # Before the fence is durable no barrier passes, so none needs a wake-up.
        barrier_s = self._next_barrier_s if self._fenced else None
        leave_s = self._leave_at_s if self._may_leave() else None
        times = (barrier_s, self._cancel_at_s, leave_s, self._hold_until_s, self._seal_again_s)
        return min((time for time in times if time is not None), default=math.inf)

    # ------------------------------------------------------------------ events
    def _take(self, event: Event, now: Now) -> tuple[Action, ...]:
        match event:
            case Tick():
                return ()
            case SourcePolled(head=head):
                return self._on_head(head)
            case PollFailed(error=error):
                return self._on_look_failed(error)
            case CommandReceived():
                return self._on_command(event)
            case StopRequested():
                # Who presses Ctrl-C waits for it: the barrier comes now.
                self._stop_asked = event
                self._barrier_now = True
                return ()
            case WorkFinished(result=Verified(work_id=work_id, receipt=receipt)):
                return self._on_verified(work_id, replace(receipt, verified_ms=now.wall_ms))
            case WorkFinished(result=KeyProven(work_id=work_id)):
                self._running.pop(work_id, None)
                self._proof_id, self._failures = None, 0
                self._state = replace(self._state, key_proven=True)
                return ()
            case WorkFinished(result=result):
                self._running.pop(result.work_id, None)
                self._failures = 0
                self._bucket = self._strategy.on_result(result, now, self._bucket)
                return ()
            case WorkFailed(work_id=work_id, error=error):
                return self._on_failed(work_id, error, now)
            case WorkCancelled(work_id=work_id):
                self._lose(work_id)
                return ()
            case Sealed(epoch=epoch, table_version=version, seconds=seconds):
                return self._on_sealed(epoch, version, seconds, now)
            case SealFailed(error=error):
                return self._on_seal_failed(error, now)
            case OthersCommitted(commits=commits):
                self._note_others(commits)
                return ()
        raise TypeError(f"not an event: {event!r}")

    def _on_head(self, head: Head) -> tuple[Action, ...]:
        self._looks_answered += 1
        self._looks_lost = 0
        self._strategy.on_head(head, fresh=self._looks_answered > self._fresh_after)
        return ()

    def _on_look_failed(self, error: BackfillError) -> tuple[Action, ...]:
        """Look again at the next barrier; the source may be away for a while, but not for ever."""
        self._looks_answered += 1
        self._looks_lost += 1
        if error.retryable and not error.ends_attempt and self._looks_lost <= LOOKS_LOST_MAX:
            return ()
        return self._fail(error)

    def _on_command(self, event: CommandReceived) -> tuple[Action, ...]:
        attempt, epoch = self._state.attempt, self._ids.epoch
        if event.attempt != attempt:
            words = f"this is attempt {attempt}"
            return (Acknowledge(event.attempt, epoch, event.revision, "WrongAttempt", words),)
        newest = max([self._controls.revision, *(one.revision for one in self._received)])
        waiting = (*self._received, *self._to_ack, *(self._sealing.acks if self._sealing else ()))
        known = any(one.revision == event.revision for one in waiting)
        if event.revision == self._controls.revision and not known:
            return (Acknowledge(attempt, epoch, event.revision, "Applied", "it was in force already"),)
        if event.revision <= newest:
            words = f"revision {newest} is newer"
            return () if known else (Acknowledge(attempt, epoch, event.revision, "Superseded", words),)
        self._received.append(event)
        # Who says "force" does not want to wait for the next barrier either.
        self._barrier_now |= isinstance(event.command, Pause | Stop) and event.command.force
        return ()

    def _on_verified(self, work_id: int, receipt: Receipt) -> tuple[Action, ...]:
        self._running.pop(work_id, None)
        self._verify_id = None
        self._state = replace(self._state, receipt=receipt)
        self._failures = 0
        if self._final and receipt.equal:
            self._state = replace(self._state, finished=True)
        self._barrier_now = True
        return ()

    def _on_failed(self, work_id: int, error: BackfillError, now: Now) -> tuple[Action, ...]:
        self._lose(work_id)
        self._failures += 1
        self._last_error = error
        # After some another try under this state could say less than the target holds.
        if error.ends_attempt or not error.retryable or self._failures > self._settings.retries_max:
            return self._fail(error)
        self._hold_until_s = now.mono_s + min(RETRY_MAX_S, 2.0 ** (self._failures - 1))
        return ()

    def _lose(self, work_id: int) -> None:
        self._running.pop(work_id, None)
        self._proof_id = None if work_id == self._proof_id else self._proof_id
        if work_id == self._verify_id:
            self._verify_id, self._verify_wanted = None, not self._stopping and not self._final
            self._final = False
        self._strategy.on_lost(work_id)

    def _on_sealed(self, epoch: int, version: int, seconds: float, now: Now) -> tuple[Action, ...]:
        sealing = self._sealing
        if sealing is None or sealing.action.epoch != epoch:
            return ()
        self._sealing, self._seal_again_s, self._seals_lost = None, None, 0
        self._table_version, self._sealed_ms = version, now.wall_ms
        self._seal_seconds = [*self._seal_seconds[1 - SEAL_SAMPLES_MAX :], seconds]
        actions: list[Action] = [Acknowledge(one.attempt, epoch, one.revision, "Applied") for one in sealing.acks]
        if not self._fenced:
            self._fenced = True
            return tuple(actions)
        self._strategy.on_sealed(now)
        if self._strategy.take_phase_change():
            self._fresh_after = self._looks_asked
            actions.append(self._look())
        if sealing.verify and not self._stopping:
            actions.append(self._verify(self._strategy.source_version, self._strategy.done))
        return (*actions, *self._maybe_over(sealing.sealed))

    def _maybe_over(self, sealed: JobState) -> tuple[Action, ...]:
        receipt = sealed.receipt
        if sealed.finished:
            self._outcome = Finish("Complete")
            return (self._outcome,)
        if receipt is not None and not receipt.equal:
            vnodes = ", ".join(str(one.vnode) for one in receipt.mismatches[:10])
            more = f" and {len(receipt.mismatches) - 10} more" if len(receipt.mismatches) > 10 else ""
            return self._fail(
                VerificationFailedError(
                    f"source version {receipt.source_version} and target version {receipt.target_version} differ "
                    f"in vnode {vnodes}{more} of {receipt.vnodes}."
                    + (f" Others committed {self._others_words()}." if self._others else ""),
                    hint="Somebody else wrote to the target: find the rows with `backfill verify --explain`, "
                    "mend them, or fill a new target.",
                )
            )
        return ()

    def _on_seal_failed(self, error: BackfillError, now: Now) -> tuple[Action, ...]:
        if isinstance(error, TargetChangedError):
            return self._compare_again(error)
        self._seals_lost += 1
        self._last_error = error
        lost = not error.retryable or error.ends_attempt or self._seals_lost > self._settings.retries_max
        # What the state counts as sealed must be staged again: the next attempt does, from the last seal.
        if lost or isinstance(error, StagedFilesGoneError):
            return self._fail(error)
        self._seal_again_s = now.mono_s + min(RETRY_MAX_S, 2.0 ** (self._seals_lost - 1))
        return ()

    def _note_others(self, commits: tuple[ForeignCommit, ...]) -> None:
        new = {one.version: one for one in (*self._others, *commits)}
        self._others = tuple(new[version] for version in sorted(new))[-OTHERS_KEPT_MAX:]

    def _compare_again(self, error: TargetChangedError) -> tuple[Action, ...]:
        """Take the last receipt anew, of the version in which others' changes are: the old one is about less."""
        self._note_others(error.commits)
        self._compared_again += 1
        if self._compared_again > COMPARED_AGAIN_MAX:
            return self._fail(
                TargetChangedError(
                    f"others changed the target each of {self._compared_again} times while it was compared, "
                    f"at last {self._others_words()}.",
                    hint="Keep others from writing to it until the job is finished, then run it again.",
                )
            )
        assert self._sealing is not None
        self._to_ack = [*self._sealing.acks, *self._to_ack]
        self._sealing, self._final = None, False
        self._state = replace(self._state, finished=False, receipt=None)
        self._table_version = error.newest
        return ()

    def _others_words(self) -> str:
        shown = ", ".join(map(str, self._others[-OTHERS_SHOWN_MAX:]))
        more = len(self._others) - OTHERS_SHOWN_MAX
        return f"{shown} and {more} more" if more > 0 else shown

    def _fail(self, error: BackfillError) -> tuple[Action, ...]:
        self._outcome = Finish("Failed", error)
        return (*(CancelWork(work_id) for work_id in self._running), self._outcome)

    # ------------------------------------------------------------------ time
    def _advance(self, now: Now) -> tuple[Action, ...]:
        if self._outcome is not None:
            return ()
        actions: list[Action] = []
        if self._hold_until_s is not None and now.mono_s >= self._hold_until_s:
            self._hold_until_s = None
        if self._sealing and self._seal_again_s is not None and now.mono_s >= self._seal_again_s:
            self._seal_again_s = None
            actions.append(self._sealing.action)
        if not self._fenced:
            return tuple(actions)
        due = now.mono_s >= self._next_barrier_s
        if due:
            self._next_barrier_s = max(self._next_barrier_s + self._settings.interval_s, now.mono_s)
            self._barriers += 1
        over = self._stopping and not self._running and self._sealing is None
        urgent = (
            self._barrier_now or over or self._may_conclude() or self._strategy.urgent(self._gate(at_barrier=False))
        )
        if due or urgent:
            actions += self._barrier(now, due=due)
        if self._cancel_at_s is not None and now.mono_s >= self._cancel_at_s:
            self._cancel_at_s = None
            actions += self._cancel_running(now)
        late = self._leave_at_s is not None and now.mono_s >= self._leave_at_s
        if late and self._outcome is None and self._may_leave():
            self._outcome = Finish("Stopped")
            actions.append(self._outcome)
        if self._outcome is None:
            actions += self._begin_work(now, at_barrier=due)
        return tuple(actions)

    def _gate(self, *, at_barrier: bool) -> Permits:
        open_ = self._fenced and not self._stopping and self._hold_until_s is None and not self._final
        return Permits(
            history=open_ and not self._controls.history_held,
            changes=open_ and not self._controls.changes_held and not self._key_doubtful,
            at_barrier=at_barrier,
        )

    @property
    def _key_doubtful(self) -> bool:
        return self._settings.proves_key and not self._state.key_proven

    def _begin_work(self, now: Now, *, at_barrier: bool) -> list[Action]:
        self._bucket, work = self._strategy.next_work(now, self._gate(at_barrier=at_barrier), self._bucket, self._ids)
        for one in work:
            self._running[one.work_id] = False
        return [StartWork(one) for one in (*work, *self._prove_key())]

    def _prove_key(self) -> tuple[ProveKey, ...]:
        """Begin the proof once the seal of the last split is durable: the target holds the snapshot and no changes."""
        held = self._stopping or self._hold_until_s is not None or self._controls.changes_held
        under_way = self._sealing is not None or self._proof_id is not None
        if not self._key_doubtful or self._strategy.done is not None or held or under_way:
            return ()
        self._proof_id = self._ids.take()
        self._running[self._proof_id] = False
        return (ProveKey(self._proof_id, self._table_version),)

    # ------------------------------------------------------------------ barriers
    def _barrier(self, now: Now, *, due: bool) -> list[Action]:
        actions: list[Action] = [self._look()] if due and self._looks_asked == self._looks_answered else []
        changed = self._apply_commands(now)
        actions += self._quieten(now)
        if self._sealing is not None or self._strategy.merging:
            self._ids.epoch += 1 if due and self._sealing is None else 0
            return actions
        scheduled = due and self._barriers % self._settings.seal_every == 0
        wanted = bool(self._to_ack) or changed or self._barrier_now or self._stopping
        if not (scheduled or wanted or self._may_conclude() or self._strategy.urgent(self._gate(at_barrier=False))):
            self._ids.epoch += 1
            return actions
        asked, self._barrier_now = self._barrier_now, False
        return [*actions, *self._prepare_and_seal(now, wanted=bool(self._to_ack) or changed or asked)]

    def _prepare_and_seal(self, now: Now, *, wanted: bool) -> list[Action]:
        permits, held = self._gate(at_barrier=False), self._stopping or self._controls.history_held
        self._bucket, commit = self._strategy.prepare_commit(
            now, self._bucket, self._ids, release_all=held, may_merge=permits.changes
        )
        failure = self._strategy.failure
        if failure is not None:
            return list(self._fail(failure))
        self._state = replace(
            self._state,
            rows_done=self._state.rows_done + commit.rows,
            changes_done=self._state.changes_done + commit.changes,
            bytes_done=self._state.bytes_done + commit.bytes,
        )
        verify, self._verify_wanted = self._verify_wanted and self._verify_id is None, False
        if commit.files or commit.dirty or wanted or verify:
            return [self._seal(commit.files, verify=verify, reserves=commit.reserves_epoch)]
        self._ids.epoch += 1
        if self._stopping and not self._running:
            self._outcome = Finish("Stopped")
            return [self._outcome]
        return self._conclude()

    def _may_conclude(self) -> bool:
        """Is everything that Exit waits for durable? The end waits for no barrier."""
        at_work = self._running or self._sealing is not None or self._hold_until_s is not None
        return self._strategy.complete and not (at_work or self._stopping or self._final)

    def _conclude(self) -> list[Action]:
        """Verify, then say in the state that the job is finished."""
        if not self._may_conclude():
            return []
        self._final = True
        if self._settings.verify_final:
            return [self._verify(self._strategy.source_version, None)]
        self._state = replace(self._state, finished=True)
        return [self._seal((), verify=False, reserves=False)]

    def _apply_commands(self, now: Now) -> bool:
        """Put what arrived into force; return whether the stored controls must change."""
        before = self._controls
        self._controls = self._controls.at(now.wall_ms)
        changed = self._controls != before
        for one in self._received:
            self._controls = self._controls.after(one.command, one.revision, now.wall_ms)
            self._to_ack.append(one)
            match one.command:
                case Stop():
                    self._stopping = True
                case VerifyNow():
                    self._verify_wanted = True
                case _:
                    pass
            if isinstance(one.command, Pause | Stop):
                self._set_deadline(now, force=one.command.force)
        self._received = []
        if self._stop_asked is not None:
            self._stopping = self._awaited = True
            self._set_deadline(now, force=self._stop_asked.force)
            self._stop_asked = None
        if self._controls.rows_per_s != before.rows_per_s:
            self._bucket = self._bucket.with_rate(self._controls.rows_per_s, now.mono_s)
        return changed

    def _set_deadline(self, now: Now, *, force: bool) -> None:
        budget_s = 0.0 if force else self._settings.pause_budget_s
        # A pause or stop repeated does not give what runs more time.
        self._cancel_at_s = min(now.mono_s + budget_s, math.inf if self._cancel_at_s is None else self._cancel_at_s)

    def _quieten(self, now: Now) -> list[Action]:
        """Forget the deadline of a pause that was taken back before it passed."""
        if not self._stopping and self._controls.paused is None:
            self._cancel_at_s = None
        if self._cancel_at_s is not None and now.mono_s >= self._cancel_at_s:
            self._cancel_at_s = None
            return self._cancel_running(now)
        # A proof that is nearly done is worth nothing to a job that ends, so it gets no time.
        return self._cancel([self._verify_id, self._proof_id]) if self._stopping else []

    def _cancel_running(self, now: Now) -> list[Action]:
        """End what a pause or stop does not let go on: log replay goes on in a pause of history (R-SNAP-43)."""
        all_of_it = self._stopping or self._controls.changes_held
        if not all_of_it and self._strategy.done is None:
            return []
        if self._awaited:
            self._leave_at_s = now.mono_s + self._settings.pause_budget_s
        return self._cancel([one for one in self._running if self._stopping or one != self._verify_id])

    def _cancel(self, ids: Sequence[int | None]) -> list[Action]:
        """Ask what is under way for its end, once."""
        fresh = [work_id for work_id in ids if work_id is not None and self._running.get(work_id) is False]
        for work_id in fresh:
            self._running[work_id] = True
        return [CancelWork(work_id) for work_id in fresh]

    def _may_leave(self) -> bool:
        """May the job end beside work that does not?

        That is a MERGE on its way to its commit. Nothing is sealed meanwhile, and its number is announced: like after a
        kill, the next attempt knows by that number whether it came. A command that waits to be sealed keeps the job here.
        """
        return bool(self._running) and self._sealing is None and not self._to_ack and not self._received

    # ------------------------------------------------------------------ actions
    def _seal(self, files: tuple[StagedFile, ...], *, verify: bool, reserves: bool, fences: bool = False) -> Seal:
        epoch = self._ids.epoch
        self._state = replace(
            self._state,
            epoch=epoch,
            progress=self._strategy.to_json(),
            consumed=self._strategy.consumed,
            controls=self._controls,
            percent=self._course.percent,
        )
        receipt = self._state.receipt if self._state.finished and self._settings.verify_final else None
        compared = None if receipt is None else receipt.target_version
        action = Seal(epoch, txn_version(self._state.attempt, epoch), files, self._state.encode(), fences, compared)
        acks, self._to_ack = tuple(self._to_ack), []
        self._sealing = _Sealing(action, acks, verify, self._strategy.source_version, self._strategy.done, self._state)
        self._ids.epoch += 2 if reserves else 1
        return action

    def _look(self) -> PollSource:
        """Look at the source; now and then also whether what will be needed next is still kept (port.md 5.1)."""
        self._looks_asked += 1
        return PollSource(None if self._barriers % KEPT_EVERY else self._strategy.source_version)

    def _verify(self, source_version: int, done: tuple[tuple[int, int], ...] | None) -> StartWork:
        work_id = self._ids.take()
        self._verify_id = work_id
        self._running[work_id] = False
        return StartWork(Verify(work_id, source_version, self._table_version, self._ids.epoch, done))

    # ------------------------------------------------------------------ steps
    def _steps(self) -> tuple[str, ...]:
        proof = (KEY_PROOF,) if self._key_doubtful else ()
        receipt = (RECEIPT,) if self._settings.verify_final and not self._settings.follows else ()
        return (START, COPY, *proof, CATCH_UP, *receipt)

    def _step(self) -> str:
        """Return the step that the job is in; empty: nothing of it is left."""
        if self._outcome is not None and self._outcome.outcome == "Complete":
            return ""
        if not self._fenced:
            return START
        if self._strategy.done is not None:
            return COPY
        if self._key_doubtful:
            return KEY_PROOF
        if self._final and self._settings.verify_final:
            return RECEIPT
        return "" if self._settings.follows and self._strategy.caught_up else CATCH_UP

    def _facts(self, at: str) -> Facts:
        paused = self._controls.history_held if at == COPY else self._controls.changes_held and at != START
        limit = self._controls.rows_per_s
        return self._strategy.facts(limit=limit, held=paused or self._stopping)

    # ------------------------------------------------------------------ view
    @property
    def at_rest(self) -> bool:
        """Is a pause in force and nothing running any more? Who commanded it waits for that."""
        return self._controls.paused is not None and not self._running

    def view(self, now: Now) -> JobView:
        """Return how things stand."""
        strategy = self._strategy.view(now)
        quiet = not self._running
        return JobView(
            attempt=self._state.attempt,
            epoch=self._ids.epoch - 1,
            controls=self._controls,
            strategy=strategy,
            changes_done=self._state.changes_done,
            bytes_done=self._state.bytes_done,
            running=len(self._running),
            quiet=quiet,
            stopping=self._stopping or self._stop_asked is not None,
            verifying=self._verify_id is not None,
            receipt=self._state.receipt,
            seal_seconds=tuple(self._seal_seconds),
            sealed_ms=self._sealed_ms,
            table_version=self._table_version,
            reason=self._reason(strategy, now),
            course=self._course,
            warnings=(*strategy.warnings, *self._warnings()),
        )

    def _warnings(self) -> tuple[str, ...]:
        return (f"others changed the target: {self._others_words()}",) if self._others else ()

    def _reason(self, strategy: StrategyView, now: Now) -> str:
        """Say in words why the job is not faster than it is; what people want to know first."""
        if self._stopping:
            return "stopping at a barrier"
        if self._hold_until_s is not None:
            left_s = max(0.0, self._hold_until_s - now.mono_s)
            return f"trying again in {left_s:.0f} s, failure {self._failures}: {self._last_error}"
        if self._verify_id is not None and self._final:
            return "verifying the target against the source"
        if self._proof_id is not None:
            return "proving that each key stands in one row of the target; changes wait"
        if self._controls.paused is not None:
            what = "everything" if self._controls.changes_held else "the snapshot"
            return f"{what} is paused {_by(self._controls.paused_by)}" + (
                "" if not self._running else "; work under way is ending"
            )
        if self._controls.rows_per_s is not None and strategy.phase == "Snapshot":
            until_ms = self._controls.until_ms
            until = "" if until_ms is None else f", for {max(0, until_ms - now.wall_ms) // 1000} s more"
            return f"throttled to {self._controls.rows_per_s:,} rows/s {_by(self._controls.limited_by)}{until}"
        return strategy.reason


def _by(revision: int) -> str:
    return f"by command (revision {revision})" if revision else "by the spec"
