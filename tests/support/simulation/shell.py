"""What the loop and the executor do, in the simulated world: one process, one attempt."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from support.simulation.oracle import demand
from support.simulation.tables import APPEND, UPSERT, Row

from backfill_core import strategies
from backfill_core.errors import BackfillError, StagedFilesGoneError, TargetChangedError, TransientError
from backfill_core.job.job import Job
from backfill_core.job.state import JobState
from backfill_core.protocol.messages import (
    Acknowledge,
    Action,
    ApplyChanges,
    CancelWork,
    ChangesApplied,
    Discard,
    Event,
    Finish,
    Head,
    HeadMoved,
    KeyProven,
    LookAtHead,
    LookFailed,
    Pause,
    ProveKey,
    ReadSplit,
    Receipt,
    Result,
    Seal,
    Sealed,
    SealFailed,
    SplitStaged,
    StagedFile,
    StartWork,
    Tick,
    Verified,
    Verify,
    VnodeMismatch,
    Work,
    WorkCancelled,
    WorkFailed,
    WorkFinished,
)
from backfill_core.protocol.strategy import Now, Pinned, Strategy

if TYPE_CHECKING:
    from support.simulation.world import World

TRANSIENT = TransientError("the simulated storage is away")


class Shell:
    """One process: carries out the core's actions, and answers after a while."""

    def __init__(self, world: World, stored: JobState | None, txn: int | None) -> None:
        """Open from the stored state; nothing is written before `begin`."""
        self._world = world
        self.begun = self.stubborn = False
        pinned = world.upstream.version if stored is None else stored.progress["version"]
        self._version = pinned
        state = world.attempt_state(stored)
        self.attempt = state.attempt
        self._mono_s = self.attempt * 1000.0 - world.now_s
        strategy = self._strategy()
        if stored is not None:
            strategy.resume(stored.progress, txn)
        self._job = Job(state, strategy, world.settings, self._now())
        self._running: dict[int, Work] = {}
        self._cancelled: set[int] = set()
        self._sealing: Seal | None = None
        self._over = False
        self._fenced = not world.given.checked_fence
        self._txn_read = txn
        self._rows_done = 0

    def _strategy(self) -> Strategy:
        world, version = self._world, self._version
        files = world.upstream.layout(version)
        pinned = Pinned(
            version=version,
            timestamp_ms=world.wall_ms,
            table_id="upstream",
            fingerprint=f"v{version}",
            rows=tuple(file.of for file in files),
            rows_live=sum(len(file.rows) for file in files),
        )
        return strategies.discover()[world.given.strategy].build(world.spec, pinned)

    def _now(self) -> Now:
        return Now(self._world.now_s + self._mono_s, self._world.wall_ms)

    # ------------------------------------------------------------------ the loop
    def begin(self) -> None:
        """Start the core."""
        self.begun = True
        self._execute(self._job.start(self._now()))

    def wake_at_s(self) -> float:
        """Return when the core wants a tick, in the world's time."""
        return self._job.wake_at_s() - self._mono_s if self.begun else float("inf")

    @property
    def busy(self) -> bool:
        """Is work under way?"""
        return bool(self._running)

    def tick(self) -> None:
        """Let time pass."""
        self.deliver(Tick())

    def deliver(self, event: Event) -> None:
        """Hand one event to the core and carry out what it says."""
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
            self._world.note(str(action)[:160])
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
                case LookAtHead():
                    self._later(0.01, 0.4, self._look)
                case Discard():
                    pass
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
            running: list[object] = [work for id_, work in self._running.items() if id_ not in self._cancelled]
            self._world.oracle.on_quiet_due(pause, running)

    def _later(self, low_s: float, high_s: float, deed: Callable[[], None]) -> None:
        self._world.after(self._world.rng.uniform(low_s, high_s), deed, self)

    def land(self, deed: Callable[[], None]) -> None:
        """Let a commit of a killed process land, if it still can; its answers reach nobody."""
        self._over = True
        deed()

    # ------------------------------------------------------------------ looking and sealing
    def _look(self) -> None:
        if self._world.unlucky():
            self.deliver(LookFailed(TRANSIENT))
            return
        self.deliver(HeadMoved(Head(self._world.upstream.version, self._world.wall_ms)))

    def _seal(self, action: Seal) -> None:
        merging = any(isinstance(work, ApplyChanges) for work in self._running.values())
        demand(not merging or self._world.given.mode != UPSERT, "a seal while a MERGE runs")
        self._later(0.02, 0.3, lambda: self._commit(action))

    def _commit(self, action: Seal) -> None:
        if not self._over:
            self._world.step()
        if self._world.unlucky():
            self._later(0.01, 0.2, lambda: self._seal_failed(action, TRANSIENT))
            return
        target, newest = self._world.target, self._world.target.newest
        if not (target.txn == action.txn_version and newest.state == action.state):
            try:
                self._check_fence()
                self._check_world(action)
                commit = target.seal(action.txn_version, _rows(action.files), action.state)
            except BackfillError as error:
                refused = error
                self._later(0.01, 0.2, lambda: self._seal_failed(action, refused))
                return
            newest, self._fenced = commit, True
            paths = [file.path for file in action.files]
            self._world.oracle.on_seal(commit, self.attempt, paths, late=self._over)
        if self._world.unlucky():
            self._later(0.01, 0.2, lambda: self._seal_failed(action, TRANSIENT))
            return
        self._later(0.0, 0.1, lambda: self._sealed(action, newest.version))

    def _check_fence(self) -> None:
        """Refuse the first seal when the state that it continues is not the newest any more.

        Raises:
            TransientError: a process that was believed dead has sealed meanwhile; open again.
        """
        if not self._fenced and self._world.target.txn != self._txn_read:
            raise TransientError("the target was sealed after its state was read")

    def _check_world(self, action: Seal) -> None:
        """Refuse a seal of files that are gone, and the last one when others came after what was compared.

        Raises:
            StagedFilesGoneError, TargetChangedError: so it is.
        """
        target = self._world.target
        if action.files and self._world.vacuumed():
            raise StagedFilesGoneError("the simulated VACUUM was quicker")
        others = () if action.compared is None else target.others_after(action.compared)
        if others:
            raise TargetChangedError("others came", commits=others, newest=target.newest.version)

    def _seal_failed(self, action: Seal, error: BackfillError) -> None:
        if isinstance(error, TargetChangedError):
            self._sealing = None  # given up: the next one has another receipt
        self.deliver(SealFailed(action.epoch, error))

    def _sealed(self, action: Seal, version: int) -> None:
        self._sealing = None
        self.deliver(Sealed(action.epoch, version, 0.1))

    # ------------------------------------------------------------------ work
    def _start(self, work: Work) -> None:
        splits = sum(isinstance(one, ReadSplit) for one in self._running.values())
        self._world.oracle.on_start(self.attempt, work, self._world.now_s, splits + isinstance(work, ReadSplit))
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
        landed = isinstance(work, ApplyChanges) and self._world.given.mode == UPSERT
        if landed and not isinstance(event, WorkFinished) and self._world.target.txn == work.txn_version:  # type: ignore[union-attr]
            event = WorkFinished(ChangesApplied(work.work_id, 0))
        if isinstance(event, WorkFailed | WorkCancelled):
            self._world.oracle.on_lost(self.attempt, work.work_id)
        self.deliver(event)

    def _do(self, work: Work) -> None:
        """The effect of work, and a little later its answer; between them anything may happen."""
        if not self._over:
            self._world.step()
            if work.work_id not in self._running:
                return
        match work:
            case ReadSplit():
                result: Result = self._read(work)
                self._world.oracle.on_staged(work.work_id)
            case ApplyChanges():
                result = self._apply(work)
            case Verify():
                result = self._verify(work)
                self._world.meet_others(self)
                self._world.oracle.on_verified(result)
            case ProveKey():
                result = KeyProven(work.work_id)
                self._world.oracle.on_key_proven(work.target_version)
        answer: Event = WorkFinished(result)
        if self._world.unlucky():
            answer = WorkFailed(work.work_id, TRANSIENT)
        self._later(0.0, 0.3, lambda: self._end_work(work, answer))

    def _read(self, work: ReadSplit) -> SplitStaged:
        upstream, mode = self._world.upstream, self._world.given.mode
        files: list[StagedFile] = []
        for part, span in enumerate(work.parts):
            rows = upstream.covered(self._version, [span])
            if mode not in (UPSERT, APPEND):
                rows = [("insert", self._version, *row) for row in rows]
            files += self._stage(work.work_id, rows, part)
        read = sum(file.rows for file in files)
        demand(read == len(upstream.read(self._version, work.pieces)), "the parts of a split are not the split")
        return SplitStaged(work.work_id, tuple(files), None if self._world.filtered else read)

    def _stage(self, work_id: int, rows: list[Row], part: int = 0) -> tuple[StagedFile, ...]:
        """Stage one or two files; those without rows are left out."""
        middle = self._world.rng.randint(0, len(rows))
        halves = [half for half in (rows[:middle], rows[middle:]) if half]
        name = f"a{self.attempt}/s{work_id}/{part}"
        return tuple(
            StagedFile(f"{name}/{number}", 10 * len(half), len(half), tuple(half), part)
            for number, half in enumerate(halves)
        )

    def _apply(self, work: ApplyChanges) -> ChangesApplied:
        world = self._world
        if world.given.mode == UPSERT:
            net = world.upstream.net(work.after, work.upto)
            if not net:
                return ChangesApplied(work.work_id, 0)
            commit = world.target.merge(work.txn_version, net)
            if commit is not None:
                world.oracle.on_merge(commit, work)
            return ChangesApplied(work.work_id, len(net))
        rows: list[Row] = world.upstream.logged(work.after, work.upto)
        if world.given.mode == APPEND:
            rows = [(key, value) for _, _, key, value in rows if world.upstream.passes(value)]
        files = self._stage(work.work_id, rows)
        return ChangesApplied(work.work_id, len(rows), files)

    def _verify(self, work: Verify) -> Verified:
        world = self._world
        stored = {"version": self._version, "consumed": work.source_version, "done": work.done or ()}
        phase = "Live" if work.done is None else "Snapshot"
        wanted = world.oracle.expected({"snapshot": {**stored, "phase": phase}})
        found = world.target.commits[work.target_version].rows
        wrong = () if wanted == found else (VnodeMismatch(0, wanted.total(), found.total()),)
        receipt = Receipt(work.source_version, work.target_version, work.epoch, found.total(), 1, "", wrong, 0.1)
        return Verified(work.work_id, receipt)


def _rows(files: tuple[StagedFile, ...]) -> list[Row]:
    handles: list[Any] = [file.handle for file in files]
    return list(itertools.chain.from_iterable(handles))
