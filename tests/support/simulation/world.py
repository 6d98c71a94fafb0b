"""The simulated world: the real core `Job` with a virtual clock, tables in memory, faults and crashes.

One heap of steps, one seed, no real time: the same seed is the same world. The world does the work of the event loop and of the
action executor (spark_app/backfill_spark/driver/). Every step may be the last of an attempt: work in flight is lost or lands,
and a new attempt opens from the target's state.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random

from support.simulation.knobs import rescaled, stacked
from support.simulation.knobs.refreshed import Refreshes
from support.simulation.law import demand
from support.simulation.model import Model, model_of
from support.simulation.oracle import Oracle, StoredState
from support.simulation.scenario import Scenario
from support.simulation.seeds.story import describe
from support.simulation.shell import Shell
from support.simulation.tables import Row, Target

from backfill_api.spec.override import Width
from backfill_api.spec.spec import BackfillSpec
from backfill_core.errors import BackfillError
from backfill_core.job.auto_pace import COMMIT_SECONDS
from backfill_core.job.phase import JobSettings
from backfill_core.job.state import JobState
from backfill_core.pacing import auto_throttle
from backfill_core.protocol.actions import Finish
from backfill_core.protocol.commands import Command, Pause, Rescale, Resume, Stop, Throttle, VerifyNow
from backfill_core.protocol.epochs import txn_version
from backfill_core.protocol.events import CommandReceived, StopRequested
from backfill_core.protocol.publication import Publication
from backfill_core.protocol.quarantine import AnnouncedRecords

WALL_MS = 1_700_000_000_000
STEPS_MAX = 60_000
TICKS_AT_ONCE_MAX = 50
OTHERS_MAX = 3


class Crashed(Exception):
    """The process is gone."""


COMMITS_IN_A_SECOND = auto_throttle.AutoSettings(
    {COMMIT_SECONDS: auto_throttle.Target("commits take", " s", 1.0)}, 2, 40
)


class World:
    """One world; `run` brings it to its end or raises `Broken`."""

    def __init__(self, given: Scenario, model: type[Model] | None = None) -> None:
        """Make the tables; nothing happens before `run`. The model is that of the strategy, unless another one is given."""
        self.given = given
        self.rng = Random(given.seed)
        self.model = (model or model_of(given.strategy))(given)
        self.upstream: World | None = None
        """The world of the job whose target is the source."""

        if given.stacked:
            self.upstream = World(stacked.upstream(given)).run()
            stacked.stack(self.model, given, self.upstream.target.commits)
        self.target = Target()
        self.quarantine = Target()
        """The table of the bad records; its commits have no state."""

        self.staged_bad: dict[tuple[int, int], list[Row]] = {}
        """Bad records by attempt and work."""

        self.oracle = Oracle(self.model, self.target, given)
        self.spec = self.model.spec(given)
        self._fixed = given.mode in self.model.FIXED_WIDTH_MODES
        self.now_s = 0.0
        self.calm_at_s = given.trouble_s
        self.refreshes = Refreshes(self)
        self.steps = self.crashes = self.stops = self.vacuums = self.others = self.chains = 0
        self.acts = 0
        """Acts that could have failed."""

        self.crashed_at: list[int] = []
        self.failed_at: list[int] = []
        self._noted: list[tuple[float, object]] = []
        self._heap: list[tuple[float, float, int, Shell | None, Callable[[], None]]] = []
        self._order = itertools.count()
        self._shell: Shell | None = None
        self._complete = False
        self.lost: BackfillError | None = None
        """Error of a job whose source lost unread records."""

        self._revision = itertools.count(1)
        self._unanswered: dict[int, Command] = {}
        self._delivered = 0
        self.settings = JobSettings(
            commit_every=given.commit_every,
            verify_final=given.verify_final,
            auto=COMMITS_IN_A_SECOND if given.auto else None,
            publish=given.publish,
            fixed_width=rescaled.FIXED if self._fixed else {},
        )

    # ------------------------------------------------------------------ time
    @property
    def wall_ms(self) -> int:
        """Return the time of day."""
        return WALL_MS + round(self.now_s * 1000)

    def commit_s(self, version: int) -> float:
        """Return the duration that a commit reports."""
        return 2.5 if self.given.auto and Random(version // 3).random() < 0.3 else 0.1

    @property
    def calm(self) -> bool:
        """Return whether the time of trouble is over."""
        return self.now_s >= self.calm_at_s

    def after(self, delay_s: float, act: Callable[[], None], shell: Shell | None = None) -> None:
        """Run an act later; acts of the same time run in any order. The acts of a shell die with it."""
        entry = (self.now_s + delay_s, self.rng.random(), next(self._order), shell, act)
        heapq.heappush(self._heap, entry)

    def _chance(self, what: str, number: int) -> Random:
        """Return the chance of one planned event: leaving it out changes no other event."""
        return Random(f"{self.given.seed}/{what}/{number}")

    def _plan(self, what: str, count: int, act: Callable[[int], None]) -> None:
        """Schedule the events that the script keeps, at any time of the trouble."""
        script = self.given.script
        kept = range(count) if script is None else getattr(script, what)
        for number in kept:
            rng = self._chance(what, number)
            at_s = rng.uniform(0, self.given.trouble_s)
            heapq.heappush(self._heap, (at_s, rng.random(), next(self._order), None, partial(act, number)))

    def unlucky(self) -> bool:
        """Return whether this act fails."""
        if self.calm:
            return False
        script, fails = self.given.script, self.rng.random() < self.given.faults
        self.acts += 1
        if self.acts in script.faults if script is not None else fails:
            self.failed_at.append(self.acts)
            return True
        return False

    def vacuumed(self) -> bool:
        """Return whether the staged files of a seal are gone."""
        gone = not self.calm and bool(self.given.vacuums) and self.rng.random() < self.given.vacuums
        self.vacuums += gone
        return gone

    def quarantine_records(self, announced: AnnouncedRecords) -> None:
        """Commit bad records to their separate table, unless this transaction is already in it."""
        if (self.quarantine.txn or -1) >= announced.txn:
            return
        rows = [row for work_id in announced.works for row in self.staged_bad[announced.attempt, work_id]]
        demand(len(rows) == announced.rows, f"{announced.rows} bad records were announced, and {len(rows)} are staged")
        self.quarantine.seal(announced.txn, {f"bad/{announced.txn}": rows}, "")
        self.note(f"bad records: {len(rows)} more in their own table, under {announced.txn}")

    def meet_others(self, shell: Shell) -> None:
        """Let another writer change the target, now or soon."""
        if self.others < OTHERS_MAX and self.given.others and self.rng.random() < self.given.others:
            self.others += 1
            self.after(self.rng.uniform(0, 0.4), self.target.rewrite, shell)

    def step(self) -> None:
        """Count a step of the process, and maybe end it there.

        Raises:
            Crashed: this was its last.
        """
        self.steps += 1
        demand(self.steps < STEPS_MAX, "the job does not come to an end (steps)")
        script, dies = self.given.script, self.steps == self.given.crash_at
        if not dies and not self.calm:
            drawn = self.rng.random() < self.given.crashes
            dies = drawn if script is None else self.steps in script.crashes
        if dies:
            self.crashed_at.append(self.steps)
            raise Crashed

    def note(self, what: object) -> None:
        """Keep an event, a message or an action, for a reader who must understand a seed."""
        self._noted.append((self.now_s, what))

    @property
    def history(self) -> list[str]:
        """The events, a line each."""
        return [f"{at_s:8.3f} {message}" for at_s, what in self._noted if (message := describe(what))]

    # ------------------------------------------------------------------ running
    def run(self) -> World:
        """Continue until the job is complete."""
        self._plan("commits", self.given.commits, self.change_source)
        self._plan("commands", self.given.commands, self._command)
        self._plan("signals", self.given.signals, self._signal)
        self._plan("rescales", self.given.rescales, self._rescale)
        self.after(self.given.trouble_s, self.calm_down)
        if self.given.mixed:
            self._begin_mixed()
        self.open()
        ticks, ticked_s = 0, -1.0
        while not self._complete:
            demand(self.now_s < self.calm_at_s + 600, "the job does not come to an end (time)")
            wake_s = self._shell.wake_at_s() if self._shell else float("inf")
            if self._heap and self._heap[0][0] < wake_s:
                self._next_act()
                continue
            self.now_s = max(self.now_s, wake_s)
            ticks = ticks + 1 if self.now_s == ticked_s else 0
            ticked_s = self.now_s
            demand(ticks < TICKS_AT_ONCE_MAX, "the core asks to be woken for nothing")
            assert self._shell is not None
            self._guarded(self._shell.tick)
        return self

    def _next_act(self) -> None:
        at_s, _, _, shell, act = heapq.heappop(self._heap)
        self.now_s = max(self.now_s, at_s)
        if shell is None or shell is self._shell:
            self._guarded(act)
        elif shell.stubborn:
            shell.land(act)

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Crashed:
            self.crashes += 1
            self.note(f"CRASH after step {self.steps}: the process is gone")
            self._lose_shell()

    def _lose_shell(self) -> None:
        if self._shell is not None:
            self._shell.stubborn = self.given.stubborn
        self._shell = None
        # If the dead process still writes, the next one must come at once to meet it.
        self.after(self.rng.uniform(0, 0.2) if self.given.stubborn else self.rng.uniform(0.5, 3.0), self.open)

    # ------------------------------------------------------------------ attempts
    def _begin_mixed(self) -> None:
        """Let the target hold the state of another release's attempt: vnodes at different positions."""
        progress = self.model.mixed()
        rows = [*self.model.expected(progress).rows.elements()]
        state = replace(self.attempt_state(None, anew=False), epoch=1, progress=progress, rows_done=len(rows))
        commit = self.target.seal(txn_version(1, 1), {"mixed/0": rows}, state.encode())
        self.oracle.on_seal(commit, 1, ["mixed/0"], late=False)
        self.note(commit)

    def spec_of(self, attempt: int) -> BackfillSpec:
        """Return the spec of an attempt."""
        return rescaled.spec_of(self.spec, self.given, attempt)

    def open(self) -> None:
        """Open an attempt from the target's state; the time until its fence is another process's chance."""
        stored = self.target.newest
        state = None if stored.state is None else JobState.decode(stored.state)
        # Rows were removed and no seal followed: the state no longer describes them.
        dropped = state is not None and self.target.txn == (state.attempt + 1) << 32
        if state is not None and state.finished and not dropped:
            state = self.refreshes.after_end(state)
            if state is None:
                return
        anew = dropped or (state is not None and self._starts_over(stored.state))
        self._delivered = 0 if state is None else state.controls.revision
        try:
            shell = Shell(self, state, self.target.txn, anew=anew)
        except BackfillError as error:
            self.end_for_good(error)
            return
        self.oracle.on_reopen(shell.attempt, self.now_s)
        self._shell = shell
        self.note(f"attempt {shell.attempt} opens from {'nothing' if state is None else f'epoch {state.epoch}'}")
        self.after(self.rng.choice([0.0, 2.0]), shell.begin, shell)
        for revision, command in sorted(self._unanswered.items()):
            if self.calm or self.rng.random() < 0.7:
                self.after(self.rng.uniform(0.1, 4.0), self._delivery(revision, command))

    def _starts_over(self, text: str | None) -> bool:
        """Return whether the rows of the last attempt must be removed."""
        return self.model.starts_over(StoredState.read(text).progress)

    def on_finish(self, finish: Finish) -> None:
        """End an attempt."""
        shell = self._shell
        assert shell is not None
        if finish.outcome == "Complete":
            demand(not shell.busy, "complete with work under way")
            self.end()
            return
        if finish.outcome == "Stopped":
            self.stops += 1
            demand(not shell.busy, "stopped with work under way")
        elif finish.error is None or not finish.error.retryable:
            self.end_for_good(finish.error)
            return
        self._lose_shell()

    def end_for_good(self, error: BackfillError | None) -> None:
        """End a job that cannot continue: only the source's losses may cause that, and the target must hold the rows of its state."""
        demand(error is not None and self.model.lost(error), f"failed for good: {error!r}")
        self.note(f"the job ends: {error}")
        self.lost = error
        self._complete, self._shell = True, None

    def end(self) -> None:
        self.oracle.on_complete()
        self.oracle.on_sealed(self.target.newest.state or "", self.quarantine)
        if self.refreshes.begin():
            self._shell = None
            return
        if self.upstream is not None:
            newest = self.target.newest
            progress = StoredState.read(newest.state).progress
            self.chains += stacked.check_chain(self.upstream, self.model, progress, newest.rows)
        self._complete, self._shell = True, None

    # ------------------------------------------------------------------ commands
    def change_source(self, _: int) -> None:
        self.note(f"source: {self.model.change_source() or 'it changes'}")

    def _command(self, number: int) -> None:
        rng = self._chance("command", number)
        commands: list[Command] = [
            Pause(everything=rng.random() < 0.4, force=rng.random() < 0.4),
            Resume(),
            Throttle(rng.choice(self._rates), rng.choice([None, None, 3.0])),
            VerifyNow(),
            Stop(force=rng.random() < 0.5),
        ]
        self._send(rng.choice(commands))

    @property
    def _rates(self) -> list[int | None]:
        """Limits of commands; files of 20,000 rows are read ahead of high ones, and sliced under low ones."""
        high: list[int | None] = [100_000, 150_000, 400_000]
        return [None, 0, 1, 5, 50, *(high if (self.given.rows_per_s or 0) >= high[0] else [])]

    def _rescale(self, number: int) -> None:
        self._send(rescaled.command(self._chance("rescale", number)))

    def _signal(self, number: int) -> None:
        """Ask the process to end, whatever it is doing; before it has begun it cannot receive signals."""
        if self._shell is not None and self._shell.begun:
            self.note("user: a signal asks the process to end")
            self._shell.deliver(StopRequested(force=self._chance("signal", number).random() < 0.5))

    def _send(self, command: Command) -> None:
        revision = next(self._revision)
        self._unanswered[revision] = command
        for _ in range(self.rng.choice([1, 1, 2])):
            self.after(self.rng.choice([0.0, 0.01, 1.5]), self._delivery(revision, command))
        if self.rng.random() < 0.1:
            self.after(self.rng.uniform(0, 5), self._delivery(revision, command, attempt_off=-1))

    def _delivery(self, revision: int, command: Command, attempt_off: int = 0) -> Callable[[], None]:
        def deliver() -> None:
            shell = self._shell
            if shell is None or not shell.begun:
                if self.calm and revision in self._unanswered:
                    self.after(1.0, deliver)
                return
            refused = self._fixed and isinstance(command, Rescale)
            accepted = attempt_off == 0 and revision > self._delivered and not refused
            self._delivered = revision if accepted else self._delivered
            self.oracle.on_command(revision, command, accepted=accepted)
            self.note(f"user: command {revision} is {command}{'' if accepted else ', and comes too late'}")
            shell.deliver(CommandReceived(shell.attempt + attempt_off, revision, command))

        return deliver

    def answered(self, revision: int, outcome: str) -> None:
        """Record an acknowledged command; a user who wants the job to end repeats one that was too late."""
        if outcome == "WrongAttempt":
            return
        command = self._unanswered.pop(revision, None)
        if self.calm and isinstance(command, Resume | Throttle) and outcome == "Superseded":
            self._send(Resume() if isinstance(command, Resume) else Throttle(None))

    def calm_down(self) -> None:
        """Undo the effects of commands, as a user would who wants the job to end."""
        self._send(Resume())
        self._send(Throttle(None))

    def attempt_state(self, state: JobState | None, *, anew: bool) -> JobState:
        """Return the initial state of a new attempt, as the driver makes it; `anew` resets all progress."""
        before = state or JobState("job", "spec", attempt=0, epoch=0, strategy=self.given.strategy)
        before = before.begun_anew() if anew else before
        if state is None and self.given.hidden:
            before = replace(before, publication=Publication())
        width = Width() if self._fixed else rescaled.width_of(self.given, before.attempt + 1, self.model.chunk_rows)
        controls = before.controls.under_spec(self.given.paused, self.given.rows_per_s, width=width)
        return replace(before, attempt=before.attempt + 1, controls=controls.at(self.wall_ms))
