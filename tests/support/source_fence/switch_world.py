"""A world for the core of a switch-over: two tables, a name, a job that follows, writers that retry; a command may die anywhere."""

from dataclasses import replace

from support.source_fence.memory_log import FIRST_MS, MemoryLog, table_head
from support.tables.jobs import job

from backfill_core.errors import BackfillError, SwitchBlockedError
from backfill_core.source_fence.fence import SWITCHING, LogEntry, Request, fence_step
from backfill_core.switch_over.mark import Mark, check_marked, give_up_step, lift_step, mark_of, record_step
from backfill_core.switch_over.obstacles import check_not_in_use
from backfill_core.switch_over.release import leave_step, return_step
from backfill_core.switch_over.source_name import source_behind
from backfill_core.switch_over.steps import Answer, Goal, Step, begin

JOB = "shop/orders"
SOURCE, TARGET = "source", "target"
SPEC = job(SOURCE, TARGET).spec
REQUEST = Request(JOB, "2026-11-26T22:00:00Z", FIRST_MS + 5000, "entry", "switch-over", SWITCHING)
BY_HAND = replace(REQUEST, reason="switch-over", purpose="")
"""Request of `backfill fence` of the same job, with the same reason."""
TIMEOUT_S = 100
LAGS = 0.2
"""Probability that a check finds a target that lags."""


class KilledError(Exception):
    """The process of the command ends here."""


class Table:
    """A log with the rows of its versions, and the writers' view of it."""

    def __init__(self, path):
        self.log = MemoryLog(replace(table_head(), path=path))
        self.rows = []
        self.foreign = 0
        """Rows that the job did not write."""

    @property
    def writable(self):
        return not self.log.head().protocol.is_fenced


class World:
    """Both tables; acknowledged rows must be in the table to which the name points, after every end.

    The spec of the job gives the source by the same name.
    """

    def __init__(self, chance, *, follows=False):
        self.chance = chance
        self.follows = follows
        """True if the source follows the target after the switch-over, so that an undo copies back."""

        self.tables = {SOURCE: Table(SOURCE), TARGET: Table(TARGET)}
        self.name, self.state = SOURCE, "state 1"
        self.acknowledged = []
        self.opened = None
        """Path that a slow writer has opened, with the number of changes of its protocol and properties."""

        self.source_was_open = False
        """True once the source accepted writes although it had a mark."""

        self.dies_in = None
        """Effects and steps after which the present command dies; `None` if it lives."""

        self.rows_were_hidden = False
        """True once readers of the name missed an acknowledged row."""

    def lost(self):
        """Return the acknowledged rows that readers of the name do not see."""
        return sorted(set(self.acknowledged) - set(self.tables[self.name].rows))

    # -------------------------------------------------------------- others
    def write(self, *, by_path=None):
        """Write a row to the table that the name points to, if it accepts one."""
        path = by_path or self.name
        table = self.tables[path]
        if path == TARGET and self.state is not None:
            return False  # writers without the feature of the job's state
        if not table.log.write():
            return False
        row = len(self.acknowledged)
        self.acknowledged.append(row)
        table.rows.append(row)
        table.foreign += path == TARGET
        return True

    def fence_by_hand(self):
        """Fence the source as a user does before a switch-over."""
        log = self.tables[SOURCE].log
        log.put(fence_step(log.head(), BY_HAND))

    def open_slowly(self):
        """Open the table as a writer does that needs time before its commit."""
        self.opened = (self.name, self._changes(self.name))

    def commit_slowly(self):
        """Commit; Delta rejects a commit if the protocol or a property changed since the table was opened."""
        path, changes = self.opened or (None, 0)
        self.opened = None
        if path is not None and self._changes(path) == changes:
            self.write(by_path=path)

    def _changes(self, path):
        return sum(operation != "WRITE" for operation in self.tables[path].log.operations)

    def follow(self):
        """Apply the source's rows to the target, as a driver does while the target has the job's state."""
        target = self.tables[TARGET]
        if self.state is None or not target.writable:
            return
        missing = [row for row in self.tables[SOURCE].rows if row not in target.rows]
        if missing:
            target.rows += missing
            target.log.write()

    def disturb(self):
        """Let others work for a while; a source with a mark accepts no write meanwhile."""
        if mark_of(self.tables[SOURCE].log.head()) is not None and self.tables[SOURCE].writable:
            self.source_was_open = True
        self.rows_were_hidden |= bool(self.lost())
        for _ in range(self.chance.randrange(3)):
            self.chance.choice([self.write, self.write, self.follow, self.open_slowly, self.commit_slowly])()

    # -------------------------------------------------------------- a command
    def effect(self):
        """Count an effect or a step of a command, which may be its last one."""
        if self.dies_in is not None:
            self.dies_in -= 1
            if self.dies_in == 0:
                raise KilledError

    def accepts_a_new_copy(self):
        """Return True if a new run of the job, which finds no state in the target, would copy the source again."""
        named, target = self.tables[self.name].log.head(), self.tables[TARGET].log.head()
        if self.state is not None or named.path == TARGET:
            return False
        try:
            check_not_in_use(named, target, SPEC, path=TARGET)
        except SwitchBlockedError:
            return False
        return True

    def settle(self):
        """Run a command again as its user does, until the source has no unfinished switch-over."""
        for _ in range(10):
            mark = mark_of(self.tables[SOURCE].log.head())
            if mark is None or mark.stage == "Switched":
                return
            self.run(Goal.UNDO if mark.stage == "Undoing" else Goal.SWITCH)

    def run(self, goal, *, dies_after=None, fails=0.0, fails_at=None, released=False, meanwhile=None):
        """Run a command; return its end.

        It dies after `dies_after` effects and steps, fails at a step, or at each with a probability. `meanwhile` has commands that run before
        a step of it.
        """
        named = self.tables[self.name].log.head()
        source = self.tables[source_behind(named, target=TARGET)].log
        mark = mark_of(source.head())
        fenced = source.head().protocol.is_fenced and source.head().fence.purpose == SWITCHING
        machine = begin(goal, mark, fenced=fenced, timeout_s=TIMEOUT_S)
        command = Command(self, mark, released=released)
        steps, self.dies_in = 0, dies_after
        while isinstance(machine.at, Step):
            self.disturb()
            if meanwhile and machine.at in meanwhile:
                self.run(meanwhile[machine.at])
                self.disturb()
            answer = Answer.FAILED
            if machine.at is not fails_at and self.chance.random() >= fails:
                try:
                    answer = command.perform(machine.at)
                except BackfillError:
                    answer = Answer.FAILED
                if self.chance.random() < fails:
                    answer = Answer.FAILED  # the effect happened, and its answer was lost
            steps += 1
            self.effect()
            machine = machine.on(answer, steps)
        return machine.at


class Command:
    """Effects of the steps on the world, in the words of the table in `steps`."""

    def __init__(self, world, mark, *, released):
        self.world, self.mark, self.released = world, mark, released
        self.fence_version = None if mark is None else mark.fence_version
        self.held = 0
        """Rows of other writers of the target that the source has."""

    def perform(self, step):
        """Perform one step; return its answer."""
        return getattr(self, f"_{step.name.lower()}")() or Answer.DONE

    def _settled(self, path, decide):
        log = self.world.tables[path].log
        while isinstance(answer := decide(log.head()), LogEntry):
            log.put(answer)
            self.world.effect()
        return answer

    def _record(self, stage="Flipping"):
        world = self.world
        if self.mark is None:
            target = world.tables[TARGET]
            new = Mark(stage, self.fence_version, TARGET, target.log.head().version, "{}", world.name, world.state, "t")
        else:
            new = replace(self.mark, stage=stage)
        before, self.mark = self.mark, new
        self._settled(SOURCE, lambda head: record_step(head, REQUEST, new, before=before))

    def _lift(self, path, mark=None):
        self._settled(path, lambda head: lift_step(head, REQUEST, mark))

    def _others(self):
        target = self.world.tables[TARGET]
        return Answer.OTHERS_WROTE if target.foreign > self.held else Answer.DONE

    def _copy_back(self):
        """Give the source all rows of the target, in an entry that passes the fence."""
        source, target = (self.world.tables[path] for path in (SOURCE, TARGET))
        self._settled(SOURCE, lambda head: record_step(head, REQUEST, self.mark, before=self.mark))
        source.rows += [row for row in target.rows if row not in source.rows]
        self.held = target.foreign

    def _check(self):
        lags = self.world.chance.random() < LAGS
        return Answer.DONE if self.world.name == SOURCE and not lags else Answer.FAILED

    def _compare(self):
        return self._check()

    def _fence(self):
        self.fence_version = self._settled(SOURCE, lambda head: fence_step(head, REQUEST)).fence.version

    def _drain(self):
        self.world.follow()

    def _verify(self):
        tables = self.world.tables
        return Answer.DONE if sorted(tables[SOURCE].rows) == sorted(tables[TARGET].rows) else Answer.FAILED

    def _checked(self):
        check_marked(self.world.tables[SOURCE].log.head(), self.mark)

    def _release(self):
        self._checked()
        self._lift(TARGET)
        self.world.state = None
        self.world.effect()
        self._settled(TARGET, lambda head: leave_step(head, REQUEST, SOURCE, ()))

    def _flip(self):
        self._checked()
        self.world.name = TARGET

    def _settle(self):
        if self.released:
            self._lift(SOURCE, self.mark)
        else:
            self._record("Switched")

    def _give_up(self):
        self._settled(SOURCE, lambda head: give_up_step(head, REQUEST, self.mark))

    def _check_target(self):
        return self._copy_back() if self.world.follows else self._others()

    def _reconsider(self):
        return self._check_target()

    def _reverse(self):
        self._record("Undoing")

    def _hold(self):
        self._checked()
        self._settled(TARGET, lambda head: fence_step(head, REQUEST))

    def _recheck(self):
        return self._copy_back() if self.world.follows else self._others()

    def _verify_back(self):
        if not self.world.follows:
            return Answer.DONE
        tables = self.world.tables
        return Answer.DONE if sorted(tables[SOURCE].rows) == sorted(tables[TARGET].rows) else Answer.OTHERS_WROTE

    def _restore(self):
        self._checked()
        self.world.name = self.mark.previous

    def _return(self):
        self._checked()
        self._settled(TARGET, lambda head: return_step(head, REQUEST))
        self.world.state = self.mark.state

    def _last_check(self):
        return self._others()

    def _reopen(self):
        self._lift(SOURCE, self.mark)

    def _redo(self):
        self._record("Flipping")

    def _complete(self):
        self._lift(SOURCE, self.mark)
