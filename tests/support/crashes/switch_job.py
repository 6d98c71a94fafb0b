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
from backfill_spark.settings import DriverSettings

ORDERS = 100
KILLED = -9
TRIES_MAX = 4
ENDS_WITHIN_S = 180
COMPACTED_EVERY = 4
"""Turns between two OPTIMIZE, which a job and a copy back follow, too."""

STEPS = 9
"""Steps of a switch-over, and of an undo."""

POINTS = (
    *(f"{side}_switch_step:{step}" for side in ("before", "after") for step in range(1, STEPS + 1)),
    *(f"{side}_log_entry:{entry}" for side in ("before", "after") for entry in range(1, 5)),
    "before_stage:1",
    "after_stage:1",
)
"""Places at which a command may die; a command that does not reach its place ends normally."""


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


class SwitchJob:
    """One job, and the writers of its name."""

    def __init__(self, spark, folder, seed, *, pause_s=0.5):
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

    def lives(self, commands, ends_s=float("inf")):
        """Switch over and undo that, so many times in total or until a time; return the report."""
        with self.writers[0], self.writers[1]:
            for at in range(commands):
                if self.report.problems or time.monotonic() > ends_s:
                    break
                self._reach(("switch", "undo")[at % 2], kills=self._chance.choice((0, 1, 1, 2)))
                self._check(self._accepted(), len(self.writers))
                if at % COMPACTED_EVERY == 0:
                    self._compact()
        self._check(self._accepted(), 0)
        self.report.orders = sum(len(writer.accepted) for writer in self.writers)
        return self.report

    def _reach(self, goal, kills):
        """Run a command until its end; let it die first, up to so many times."""
        before, died = self._times(), 0
        for place in self._chance.sample(POINTS, kills):
            code = self._run(goal, place)
            died += code == KILLED
            if code == KILLED:
                self.report.kills[place.split(":")[0]] += 1
            elif code == 0:
                break  # it did not reach the place
        for _ in range(TRIES_MAX):
            code = self._run(goal, None)
            if code == 0:
                break
        else:
            self.report.problems.append(f"{goal} ended with {code}; see {self._folder / 'log'}")
        reached = self.target if goal == "switch" else self.source
        if self.name.read_text() != reached:
            self.report.problems.append(f"the name points to {self.name.read_text()} after {goal}")
        self.report.commands += 1
        for writer in self.writers:
            writer.until(1)
        if not died:
            self._measure(goal, before, reached)

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


def _command(start, spark, method):
    settings = DriverSettings(cores=1, state_dir=start.state_dir, crash_at=start.crash_at)
    try:
        result = getattr(Backfill.load(start.file, settings=settings), method)(spark)
    except BackfillError as error:
        print(f"{method}: {error.message} {error.hint}", flush=True)
        sys.exit(1)
    print(json.dumps({method: result.end, "seconds": dict(result.seconds)}), flush=True)
