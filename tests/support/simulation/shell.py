"""Event loop and action executor of the simulated world: one process, one attempt."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from support.simulation.hidden import compared_rows, visible
from support.simulation.law import demand
from support.simulation.model import Filing, Merging, Staging, installed
from support.simulation.oracle import StoredState
from support.simulation.tables import Row

from backfill_core.errors import BackfillError, StagedFilesGoneError, TargetChangedError, TransientError
from backfill_core.job.job import Job
from backfill_core.job.state import JobState
from backfill_core.protocol.actions import Acknowledge, Action, CancelWork, Finish, PollSource, Seal, StartWork
from backfill_core.protocol.clock import Now
from backfill_core.protocol.commands import Pause
from backfill_core.protocol.epochs import txn_version
from backfill_core.protocol.events import (
    Event,
    PollFailed,
    Sealed,
    SealFailed,
    Tick,
    WorkCancelled,
    WorkFailed,
    WorkFinished,
)
from backfill_core.protocol.receipt import TableReceipt, VnodeMismatch
from backfill_core.protocol.work import (
    ChangesCut,
    KeyProven,
    ProveKey,
    Result,
    ShipVersions,
    StagedFile,
    Verified,
    Verify,
    VersionsShipped,
    Work,
    WorkKind,
)

if TYPE_CHECKING:
    from support.simulation.world import World

TRANSIENT = TransientError("the simulated storage is away")


class Shell:
    """One process: executes the core's actions, and answers after a delay."""

    def __init__(self, world: World, stored: JobState | None, txn: int | None, *, anew: bool) -> None:
        """Open from the stored state; nothing is written before `begin`. `anew` removes existing rows first."""
        self._world = world
        self.begun = self.stubborn = False
        self._anew = anew
        state = world.attempt_state(stored, anew=anew)
        self.attempt = state.attempt
        self._mono_s = self.attempt * 1000.0 - world.now_s
        self._opened = world.model.open(world.spec_of(self.attempt), None if anew else stored, txn, world.wall_ms)
        self._job = Job(state, self._opened.strategy, world.settings, self._now())
        self._running: dict[int, Work] = {}
        self._cancelled: set[int] = set()
        self._sealing: Seal | None = None
        self._over = False
        self._fenced = not world.given.checked_fence
        self._txn_read = txn
        self._text_read = world.target.newest.state
        self._rows_done = 0

    def _now(self) -> Now:
        return Now(self._world.now_s + self._mono_s, self._world.wall_ms)

    # ------------------------------------------------------------------ the loop
    def begin(self) -> None:
        """Start the core."""
        if self._anew and not self._take_out():
            return
        self.begun = True
        self._execute(self._job.start(self._now()))

    def _take_out(self) -> bool:
        """Remove the rows of the unfinished attempt; return whether the state that was read is still the newest one.

        Rows that a process believed dead has sealed meanwhile are removed too, so the next attempt restarts.
        """
        world, first = self._world, txn_version(self.attempt, 0)
        moved = world.target.txn not in (self._txn_read, first) or world.target.newest.state != self._text_read
        if world.target.drop_rows(first):
            world.oracle.on_drop()
            world.note(f"rows dropped under {first}")
        if not self._over:
            world.step()
        self._txn_read = world.target.txn
        if moved and not self._fenced:
            self._over = True
            world.on_finish(Finish("Failed", TransientError("the target was sealed after its state was read")))
        return not self._over

    def wake_at_s(self) -> float:
        """Return the time at which the core wants a tick, in the world's time."""
        return self._job.wake_at_s() - self._mono_s if self.begun else float("inf")

    @property
    def busy(self) -> bool:
        """Return whether work is in flight."""
        return bool(self._running)

    def tick(self) -> None:
        """Let time pass."""
        self.deliver(Tick())

    def deliver(self, event: Event) -> None:
        """Deliver one event to the core and execute its actions."""
        if self._over:
            return
        self._world.step()
        self._execute(self._job.on(event, self._now()))
        rows = self._job.view(self._now()).strategy.rows_done
        demand(rows >= self._rows_done, "the rows shown went back (R-SNAP-44)")
        self._rows_done = rows

    def _execute(self, actions: tuple[Action, ...]) -> None:
        for action in actions:
            self._world.step()
            self._world.note(action)
            match action:
                case StartWork(work=work):
                    self._start(work)
                case CancelWork(work_id=work_id):
                    self._cancel(work_id)
                case Seal():
                    demand(self._sealing is None or self._sealing == action, "two seals at once")
                    self._sealing = action
                    self._seal(action)
                case Acknowledge():
                    self._acknowledge(action)
                case PollSource():
                    self._later(0.01, 0.4, self._look)
                case Finish():
                    self._over = True
                    self._world.on_finish(action)

    def _acknowledge(self, ack: Acknowledge) -> None:
        world = self._world
        world.oracle.on_ack(ack, world.now_s)
        world.answered(ack.revision, ack.outcome)
        pause = world.oracle.paused
        if pause is not None:
            budget_s = world.settings.pause_budget_s + 0.01
            self._later(budget_s, budget_s, lambda: self._check_quiet(pause))

    def _check_quiet(self, pause: Pause) -> None:
        if not self._over:
            running = [work for id_, work in self._running.items() if id_ not in self._cancelled]
            self._world.oracle.on_quiet_due(pause, running)

    def _later(self, low_s: float, high_s: float, act: Callable[[], None]) -> None:
        self._world.after(self._world.rng.uniform(low_s, high_s), act, self)

    def land(self, act: Callable[[], None]) -> None:
        """Let a commit of a killed process land, if it still can; its answers are lost."""
        self._over = True
        act()

    # ------------------------------------------------------------------ polling and sealing
    def _look(self) -> None:
        if self._world.unlucky():
            self.deliver(PollFailed(TRANSIENT))
            return
        event = self._world.model.poll(self._world.wall_ms)
        self._world.note(event)
        self.deliver(event)

    def _seal(self, action: Seal) -> None:
        merging = any(self._world.model.txn_of(work) is not None for work in self._running.values())
        demand(not merging or action.state_only_after is not None, "a seal while a MERGE runs")
        shipping = any(isinstance(work, ShipVersions) for work in self._running.values())
        demand(not (shipping and _moves_files(action)), "files come or go while the log is shipped")
        self._later(0.02, 0.3, lambda: self._commit(action))

    def _commit(self, action: Seal) -> None:
        if not self._over:
            self._world.step()
        if self._world.unlucky():
            self._later(0.01, 0.2, lambda: self._seal_failed(action, TRANSIENT))
            return
        target, newest = self._world.target, self._world.target.newest
        present = target.txn == action.txn_version or action.state_only_after is not None
        if not (present and newest.state == action.state):
            try:
                self._check_fence()
                self._check_world(action)
                removed = [file.path for file in action.removed]
                commit = (
                    target.seal(action.txn_version, visible(target, action), action.state, removed)
                    if action.state_only_after is None
                    else target.replace_state(action.state_only_after, action.state)
                )
            except BackfillError as error:
                refused = error
                self._later(0.01, 0.2, lambda: self._seal_failed(action, refused))
                return
            newest, self._fenced = commit, True
            self._world.note(commit)
            paths = [file.path for file in action.files if file.path not in removed]
            self._world.oracle.on_seal(commit, self.attempt, paths, late=self._over)
        if self._world.unlucky():
            self._later(0.01, 0.2, lambda: self._seal_failed(action, TRANSIENT))
            return
        if action.quarantine is None:
            self._later(0.0, 0.1, lambda: self._sealed(action, newest.version))
        else:
            self._later(0.0, 0.2, lambda: self._quarantine(action, newest.version))

    def _quarantine(self, action: Seal, version: int) -> None:
        """Make the second commit, unless it exists; another process may do so at any time too."""
        assert action.quarantine is not None
        if not self._over:
            self._world.step()
        if self._world.unlucky():
            self._later(0.01, 0.2, lambda: self._seal_failed(action, TRANSIENT))
            return
        self._world.quarantine_records(action.quarantine)
        if self._world.unlucky():
            self._later(0.01, 0.2, lambda: self._seal_failed(action, TRANSIENT))
            return
        self._later(0.0, 0.1, lambda: self._sealed(action, version))

    def _check_fence(self) -> None:
        """Reject the first seal if the state that it continues is no longer the newest one.

        Raises:
            TransientError: a process believed dead has sealed meanwhile; open again.
        """
        target = self._world.target
        if not self._fenced and (target.txn, target.newest.state) != (self._txn_read, self._text_read):
            raise TransientError("the target was sealed after its state was read")

    def _check_world(self, action: Seal) -> None:
        """Reject a seal of missing files, and the last one if foreign commits followed the compared version.

        Raises:
            StagedFilesGoneError, TargetChangedError: the seal is rejected.
        """
        target = self._world.target
        if action.files and self._world.vacuumed():
            raise StagedFilesGoneError("the simulated VACUUM was quicker")
        foreign = () if action.compared is None else target.others_after(action.compared)
        if foreign:
            raise TargetChangedError("foreign commits", commits=foreign, newest=target.newest.version)

    def _seal_failed(self, action: Seal, error: BackfillError) -> None:
        if isinstance(error, TargetChangedError):
            self._sealing = None  # given up: the next seal has another receipt
        self.deliver(SealFailed(action.epoch, error))

    def _sealed(self, action: Seal, version: int) -> None:
        self._sealing = None
        if not self._over:
            self._world.oracle.on_sealed(action.state, self._world.quarantine)
        self.deliver(Sealed(action.epoch, version, self._world.commit_s(version)))
        if not self._over:
            self._check_summary(StoredState.read(action.state).job)

    def _check_summary(self, state: JobState) -> None:
        """Demand that `status` without a driver shows the rows that the driver showed when the state was durable."""
        plugin, view = installed().get(state.strategy), self._job.view(self._now())
        if plugin is None:
            return  # the plug-in is not installed here
        summary, shown = plugin.summarize(plugin.decode(state.progress)), view.strategy
        rows, live = (summary.rows_done, summary.rows_filtered), (shown.rows_done, shown.rows_filtered)
        demand(rows == live, f"the state has {rows} rows done and filtered, the driver {live}")
        demand(summary.rows_total in (None, shown.rows_total), "the state has another number of rows in all")
        demand(state.committed_ms <= (view.sealed_ms or 0), "the state was committed after it was durable")

    # ------------------------------------------------------------------ work
    def _start(self, work: Work) -> None:
        kinds = [piece.kind for piece in (*self._running.values(), work)]
        self._world.oracle.on_start(self.attempt, work, self._world.now_s, kinds.count(WorkKind.HISTORY))
        behind = self._sealing is None or not _moves_files(self._sealing)
        demand(behind or not isinstance(work, ShipVersions), "the log is shipped before files are durable")
        self._running[work.work_id] = work
        slow = self._world.rng.choice([0.3, 2.0, 6.0])
        if self._world.unlucky():
            self._later(0.05, slow, lambda: self._end_work(work, WorkFailed(work.work_id, TRANSIENT)))
        else:
            self._later(0.05, slow, lambda: self._do(work))

    def _cancel(self, work_id: int) -> None:
        if work_id in self._running:
            work = self._running[work_id]
            self._cancelled.add(work_id)
            self._later(0.05, 0.3, lambda: self._end_work(work, WorkCancelled(work_id)))

    def _end_work(self, work: Work, event: Event) -> None:
        """Answer, once."""
        if self._over or self._running.pop(work.work_id, None) is None:
            return
        txn = self._world.model.txn_of(work)
        if txn is not None and not isinstance(event, WorkFinished) and self._world.target.txn == txn:
            effect = self._opened.effect(work)
            assert isinstance(effect, Merging)
            event = WorkFinished(effect.answer(0))
        if isinstance(event, WorkFailed | WorkCancelled):
            self._world.note(event)
            self._world.oracle.on_lost(self.attempt, work.work_id)
        self.deliver(event)

    def _do(self, work: Work) -> None:
        """Apply the effect of work, and answer a little later; other events may happen in between."""
        if not self._over:
            self._world.step()
            if work.work_id not in self._running:
                return
        try:
            result = self._result(work)
        except BackfillError as error:
            self._end_work(work, WorkFailed(work.work_id, error))
            return
        if work.kind is WorkKind.HISTORY:
            self._world.note(f"work {work.work_id} has staged its rows")
            self._world.oracle.on_staged(work.work_id)
        answer: Event = WorkFinished(result)
        if self._world.unlucky():
            answer = WorkFailed(work.work_id, TRANSIENT)
        self._later(0.0, 0.3, lambda: self._end_work(work, answer))

    def _result(self, work: Work) -> Result:
        world = self._world
        match work:
            case Verify():
                result = self._verify(work)
                world.meet_others(self)
                world.oracle.on_verified(result)
                return result
            case ProveKey():
                world.oracle.on_key_proven(work.target_version)
                return KeyProven(work.work_id)
        match self._opened.effect(work):
            case Staging(segments=segments, answer=answer, bad=bad):
                staged = (self._stage(work.work_id, rows, segment) for segment, rows in enumerate(segments))
                return answer((*itertools.chain.from_iterable(staged), *self._stage_bad(work.work_id, bad)))
            case Merging(txn=txn, net=net, answer=answer):
                commit = world.target.merge(txn, net) if net else None
                if commit is not None:
                    world.note(commit)
                    world.oracle.on_merge(commit, work)
                return answer(len(net))
            case Filing(act=act):
                filed = act(world.target.newest.files, f"a{self.attempt}/s{work.work_id}")
                if isinstance(filed, ChangesCut):
                    world.oracle.on_lost(self.attempt, work.work_id)
                if isinstance(filed, VersionsShipped) and isinstance(work, ShipVersions):
                    world.oracle.on_shortened(self.attempt, replace(work, upto=filed.upto))
                return filed

    def _stage(self, work_id: int, rows: list[Row], segment: int) -> tuple[StagedFile, ...]:
        """Stage one or two files; those without rows are left out."""
        middle = self._world.rng.randint(0, len(rows))
        halves = [half for half in (rows[:middle], rows[middle:]) if half]
        name = f"a{self.attempt}/s{work_id}/{segment}"
        return tuple(
            StagedFile(f"{name}/{number}", 10 * len(half), len(half), tuple(half), segment)
            for number, half in enumerate(halves)
        )

    def _stage_bad(self, work_id: int, rows: list[Row]) -> tuple[StagedFile, ...]:
        """Stage bad records, to be found again by attempt and work."""
        if not rows:
            return ()
        self._world.staged_bad[self.attempt, work_id] = rows
        return (StagedFile(f"bad/a{self.attempt}/s{work_id}", 10 * len(rows), len(rows), quarantined_by=work_id),)

    def _verify(self, work: Verify) -> Verified:
        promise, target = self._opened.wanted(work), self._world.target
        actual = compared_rows(target, work)
        wrong = () if promise.kept_by(actual) else (VnodeMismatch(0, promise.rows.total(), actual.total()),)
        version = work.position if isinstance(work.position, int) else None
        receipt = TableReceipt(version, work.target_version, work.epoch, actual.total(), 1, "", wrong, 0.1)
        receipt = replace(receipt, complete=work.covered is None)
        return Verified(work.work_id, receipt)


def _moves_files(action: Seal) -> bool:
    return bool(action.files or action.removed)
