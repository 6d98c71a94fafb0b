"""A table and its copy that change roles: each switch-over and each undo may be killed, while two engines write to the name."""

import json
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

from deltalake import DeltaTable
from support.crashes.drivers import LastingJava, Start
from support.switch_over.names import Writer, ids_in, make_name
from support.tables.jobs import make_orders, write_yaml

from backfill import Backfill
from backfill.errors import BackfillError
from backfill_core.source_fence.table_protocol import FENCED, SWITCH
from backfill_spark.settings import DriverSettings

ORDERS = 100
KILLED = -9
TRIES_MAX = 4
ENDS_WITHIN_S = 180
COMPACTED_EVERY = 4
"""Turns between two OPTIMIZE, which a job and a copy back follow, too."""


def _sides(point, passes):
    return [f"{side}_{point}:{number}" for number in range(1, passes + 1) for side in ("before", "after")]


SWITCH_STEPS = (
    "Checking", "Comparing", "Fencing", "Draining", "Verifying", "Recording", "Releasing", "Flipping", "Settling",
)  # fmt: skip
UNDO_STEPS = (
    "CheckingTarget", "Reversing", "Holding", "Rechecking", "VerifyingBack", "Restoring", "Returning", "LastCheck",
    "Reopening",
)  # fmt: skip
STEPS = {"switch": SWITCH_STEPS, "undo": UNDO_STEPS}
"""Steps of a command that no earlier one left unfinished, in order."""

WITHIN = {
    "switch": (*_sides("log_entry", 5), "before_seal:1", "after_seal_commit:1"),
    "undo": (*_sides("log_entry", 7), *_sides("stage", 2)),
}
"""Places inside steps: entries of a log, commits of the driver that follows, files that are copied back."""

ALIVE = 4
"""Commands without a kill in each deck; they show how long writers wait."""

AGAIN = 1 / 3
"""Chance of a second kill, at any place."""


def places(goal):
    """Return each place at which a command may die, with its name for the report."""
    sides = ("before", "after")
    steps = [
        (f"{side}_switch_step:{number}", f"{goal} {side} {step}")
        for number, step in enumerate(STEPS[goal], 1) for side in sides
    ]  # fmt: skip
    return [*steps, *((place, f"{goal} {place}") for place in WITHIN[goal])]


class Deck:
    """Deals each place once in an order of its seed, then all again: no place is left to chance."""

    def __init__(self, goal, seed):
        self._goal = goal
        self._order = [*places(goal), *[None] * ALIVE]
        random.Random(f"{goal} {seed}").shuffle(self._order)

    def deal(self, number):
        """Return the place of a command with its name; `None` for a command that lives."""
        return self._order[number % len(self._order)]

    def any(self, chance):
        """Return any place, for a command that continues another one: the name does not tell its step."""
        place, _ = chance.choice(places(self._goal))
        return place, f"{self._goal}, continued: {place.split(':')[0]}"


class SparkWriter(Writer):
    """The same writer, with Spark."""

    def __init__(self, name, first, spark, **pauses):
        super().__init__(name, first, **pauses)
        self._spark = spark.newSession()

    def insert(self, path, order):
        """Append an order to a table."""
        table = f"delta.`{path}`"
        self._spark.sql(f"INSERT INTO {table} SELECT CAST({order} AS BIGINT), 1L, 1.0D, 'n', 'new'")


@dataclass
class Report:
    """Results of all turns."""

    commands: int = 0
    """Switch-overs and undos that reached their end."""

    kills: Counter = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    gaps_s: dict[str, list[float]] = field(default_factory=lambda: {"switch": [], "undo": []})
    """Seconds between the last order that one table accepted and the first of the other one, for commands without a kill."""

    orders: int = 0
    errors: int = 0
    """Runs that ended with an error and were repeated."""


class SwitchJob:
    """One job, and the writers of its name."""

    def __init__(self, spark, folder, seed, *, pause_s=1.0):
        self._spark, self._folder, self._chance = spark, folder, random.Random(seed)
        self.source, self.target = str(folder / "orders"), str(folder / "orders_v2")
        make_orders(spark, self.source, ORDERS, files=1)
        self.name, flip = make_name(folder, self.source)
        self.file = write_yaml(
            folder / "job.yaml", self.source, self.target, strategy={"type": "Replica"}, after="Follow",
            switch={"flip": flip, "keepSource": "Following"}, barrier={"intervalMs": 200},
        )  # fmt: skip
        pauses = {"pause_s": pause_s, "retry_s": 0.05}
        self.writers = [
            Writer(self.name, 1_000_000, **pauses), SparkWriter(self.name, 2_000_000, spark, **pauses),
        ]  # fmt: skip
        self.report = Report()
        self._decks = {goal: Deck(goal, seed) for goal in STEPS}

    def lives(self, commands, ends_s=float("inf"), *, first=0):
        """Switch over and undo that, so many times in total or until a time; return the report.

        `first` commands of another run with this seed had the first places of the decks.
        """
        with self.writers[0], self.writers[1]:
            for at in range(commands):
                if self.report.problems or time.monotonic() > ends_s:
                    break
                self._reach(("switch", "undo")[at % 2], (first + at) // 2)
                self._check(self._accepted(), len(self.writers))
                if at % COMPACTED_EVERY == 0:
                    self._compact()
        self._check(self._accepted(), 0)
        self.report.orders = sum(len(writer.accepted) for writer in self.writers)
        return self.report

    def _reach(self, goal, number):
        """Run a command until its end; let it die first at the next place, and sometimes once more."""
        before, died, code = self._times(), 0, None
        for place, name in self._deaths(goal, number):
            code = self._run(goal, place)
            if code != KILLED:
                break  # it did not reach the place
            died += 1
            self.report.kills[name] += 1
        for _ in range(TRIES_MAX):
            if code == 0 or (died and goal == "undo" and self._is_undone()):
                code = 0
                break
            self.report.errors += code not in (None, KILLED)
            code = self._run(goal, None)
        if code != 0:
            self.report.problems.append(f"{goal} ended with {code}; see {self._folder / 'log'}")
        reached = self.target if goal == "switch" else self.source
        if self.name.read_text() != reached:
            self.report.problems.append(f"the name points to {self.name.read_text()} after {goal}")
        self.report.commands += 1
        for writer in self.writers:
            writer.until(1)
        if not died and not self.report.problems:
            self._measure(goal, before, reached)

    def _is_undone(self):
        """Return True if an undo died after its last entry: no fence is left, and the name points to the source."""
        properties = [DeltaTable(path).metadata().configuration for path in (self.source, self.target)]
        return self.name.read_text() == self.source and not any({FENCED, SWITCH} & held.keys() for held in properties)

    def _deaths(self, goal, number):
        deck = self._decks[goal]
        first = deck.deal(number)
        if first is None:
            return []
        return [first, deck.any(self._chance)] if self._chance.random() < AGAIN else [first]

    def _run(self, goal, place):
        start = Start(self.file, self._folder / "state", self._folder / "log", crash_at=place)
        process = LastingJava(start, self._spark, switch_in_process if goal == "switch" else undo_in_process)
        code = process.wait(ENDS_WITHIN_S)
        if code is None:
            process.kill()
            self.report.problems.append(f"{goal} did not end")
        return code

    def _times(self):
        """Return the times and folders of all accepted orders."""
        return sorted(order for writer in self.writers for order in list(writer.accepted))

    def _measure(self, goal, before, reached):
        now = self._times()
        first = next(at for at in range(len(before), len(now)) if now[at][1] == reached)
        self.report.gaps_s[goal].append(round(now[first][0] - now[first - 1][0], 3))

    def _accepted(self):
        return [identity for writer in self.writers for identity in writer.ids]

    def _check(self, accepted, pending_max):
        """Compare the table of the name with the accepted orders; `pending_max` orders may just be accepted."""
        held = Counter(ids_in(self.name.read_text()))
        lost = [order for order in (*range(ORDERS), *accepted) if not held[order]]
        doubled = [order for order, times in held.items() if times > 1]
        more = [order for order in held if order >= ORDERS and order not in set(accepted)] if not pending_max else []
        if lost or doubled or more:
            self.report.problems.append(f"lost: {lost[:5]}, doubled: {doubled[:5]}, unknown: {more[:5]}")

    def _compact(self):
        try:
            DeltaTable(self.name.read_text()).optimize.compact()
        except Exception as error:
            print(f"OPTIMIZE met a writer: {error}", file=sys.stderr)


def switch_in_process(start, spark):
    """Switch a table over, in a process with a session."""
    _command(start, spark, "switch")


def undo_in_process(start, spark):
    """Undo that."""
    _command(start, spark, "undo_switch")


def follow_back_in_process(start, spark):
    """Copy back, until another command ends it."""
    settings = DriverSettings(cores=1, state_dir=start.state_dir, crash_at=start.crash_at)
    Backfill.load(start.file, settings=settings).follow_back(spark)


def _command(start, spark, method):
    settings = DriverSettings(cores=1, state_dir=start.state_dir, crash_at=start.crash_at)
    try:
        result = getattr(Backfill.load(start.file, settings=settings), method)(spark)
    except BackfillError as error:
        print(f"{method}: {error.message} {error.hint}", flush=True)
        sys.exit(1)
    print(json.dumps({method: result.end, "seconds": dict(result.seconds)}), flush=True)
