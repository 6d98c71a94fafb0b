"""The real driver is killed with SIGKILL while the source changes; nothing is lost and nothing is doubled.

A scenario is one table and one job of a strategy: attempt after attempt is killed, at a named crash point or at a seeded
random moment, until one may finish. Some die with their Java; of most the Java lives on and ends what it was at; some are
frozen, and wake when another attempt is at work. After each death every new seal of the target is compared with the
source, as the strategy promises it. Two scenarios run side by side.
"""

import contextlib
import itertools
import os
import random
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import pytest
from deltalake import DeltaTable
from support.drivers.mortal import LastingJava, OwnJava, Start
from support.tables.jobs import write_yaml
from support.tables.oracle import seals, violations
from support.tables.other_engine import append

from backfill.control import NotRunningError, find
from backfill_api.wire import Command, StopCommand, ThrottleCommand
from backfill_core.errors import FencedError, TransientError
from backfill_spark.crash_points import CRASH_POINTS

KILLS = int(os.environ.get("BACKFILL_KILLS", "60"))
"""Of each strategy."""

FILES = 6
ORDERS = """
    SELECT value AS id, value * 7919 % 1003 AS customer, cast(value % 1000 AS double) AS amount,
        md5(cast(value AS string)) AS note, CASE value % 3 WHEN 0 THEN 'new' WHEN 1 THEN 'paid' ELSE 'sent' END AS status
    FROM generate_series({first}, {last})"""
VIEW = "SELECT id, customer, amount, upper(status) AS status FROM source WHERE amount < 900"
SILENT_MAX_S = 300
"""A driver that seals nothing for so long does not come to where it is to die."""

LOOK_S = 0.05
CHANGES_MAX = 5
"""The source changes before a driver owns its target, then after its first seals: a slow machine is not flooded."""

SEALS_MAX = 7
"""A driver that dies at random dies after so many seals at most: a slow machine gives it more time."""

POINTS = (
    "after_fence:1", "after_finish:1", "before_orphan_removal:1", "after_orphan_removal:1", "before_stage:1", "after_stage:2",
    "before_seal:3", "after_seal_commit:3", "before_ack:1", "before_merge:1", "after_merge:1", "after_seal_commit:2",
    "before_finish:1",
)  # fmt: skip
"""In an order in which one job can meet them all; the second number: at which passing."""

MAKING, RANDOM, FROZEN = "while the table is made", "random moment", "frozen and woken"
FOUND_ANOTHER = {TransientError.exit_code, FencedError.exit_code}
"""What a woken driver may end with: its target moved, or was taken over."""

MODES = ("Upsert", "Append", "Changelog")
"""Of the first three scenarios; all others are upserts, in which most can go wrong."""


@dataclass(frozen=True)
class Trial:
    """A strategy, and a job of it that lives through many deaths: its copy takes seconds under the limit."""

    rows: int
    rate: int
    forms: tuple = (MappingProxyType({}),)
    """Its settings, scenario by scenario."""

    def form(self, seed):
        return dict(self.forms[seed % len(self.forms)])


BY_AMOUNT = {"chunkRows": 400, "maxReadAmplification": 100_000}
TRIALS = {
    "Snapshot": Trial(12_000, 1_500),
    # By a column that changes, rows cross the position in both directions; by the key, those do whose key changes.
    "Arrangement": Trial(
        12_000,
        1_500,
        (
            BY_AMOUNT | {"orderBy": [{"column": "amount", "direction": "Descending"}]},
            {"chunkRows": 400},
            BY_AMOUNT | {"orderBy": [{"column": "amount"}]},
        ),
    ),
    # Each attempt begins anew: a copy of two seconds, so that some die behind it.
    "RearrangedChain": Trial(2_400, 1_500),
}


@dataclass(frozen=True)
class Death:
    """How an attempt is to die: at a point or so long after a number of seals, with its Java or without."""

    kind: str
    delay_s: float = 0.0
    seals: int = 1
    with_java: bool = False

    @property
    def point(self):
        return self.kind if self.kind in POINTS else None


def plan_of(seed):
    """Return the deaths of a scenario: every named point in the first one, random moments in the others."""
    if seed == 0:
        return [Death(point) for point in POINTS]
    chance = random.Random(seed)

    def moment(kind, *, with_java=False):
        return Death(kind, chance.uniform(0, 0.4), chance.randint(1, SEALS_MAX), with_java)

    moments = [moment(kind) for kind in [RANDOM] * 8 + [FROZEN] * 2]
    chance.shuffle(moments)
    made = Death(MAKING, chance.uniform(0, 0.2), with_java=True)
    return [made, *moments[:4], moment(RANDOM, with_java=True), *moments[4:]]


class Silence:
    """How long a driver has sealed nothing."""

    def __init__(self):
        self._seals, self._since = -1, 0.0

    def too_long(self, there):
        if there != self._seals:
            self._seals, self._since = there, time.monotonic()
        return time.monotonic() > self._since + SILENT_MAX_S


@dataclass
class Report:
    """What a scenario saw."""

    mode: str
    kills: Counter = field(default_factory=Counter)
    seals_checked: int = 0
    problems: list = field(default_factory=list)


class Scenario:
    """One table, one job, many deaths."""

    def __init__(self, spark, folder, strategy, seed):
        self.spark, self.folder = spark, folder
        self.strategy, self.seed, self.trial = strategy, seed, TRIALS[strategy]
        self.random = random.Random(seed)
        self.source, self.target = f"{folder}/source", f"{folder}/target"
        self.name = f"crash-{strategy.lower()}-{seed}"
        self.mode = MODES[seed] if seed < len(MODES) else MODES[0]
        self.report = Report(self.mode)
        self.checked = -1
        self.fresh_id = 10_000_000  # no key from here on was ever used; a step that takes some moves it
        self.commands = {
            "before_ack:1": Command(type="Throttle", throttle=ThrottleCommand(rows_per_second=self.trial.rate)),
            # Of a job that is complete nothing is left to be resumed: it dies while it stops.
            "after_finish:1": Command(type="Stop", stop=StopCommand(force=True)),
        }
        """What a driver must be told to come to a point."""

        self.write(throttle={"rowsPerSecond": self.trial.rate})
        for first in range(0, self.trial.rows, self.trial.rows // FILES):
            append(self.source, ORDERS, first, self.trial.rows // FILES)

    def write(self, **spec):
        """Write the job's file; without a limit it reads as much at once as it likes."""
        member = self.strategy[0].lower() + self.strategy[1:]
        form = {name: value for name, value in self.trial.form(self.seed).items() if spec or name != "chunkRows"}
        strategy = {"type": self.strategy, member: form}
        self.file = write_yaml(
            self.folder / "job.yaml", self.source, self.target, name=self.name, verify="Final",
            target={"writeMode": self.mode}, strategy=strategy, barrier={"intervalMs": 200},
            transform={"select": ["id", "customer", "amount", "upper(status) AS status"], "where": "amount < 900"}, **spec,
        )  # fmt: skip

    def change(self):
        """Write one commit to the source, as some other engine does."""
        table, pick = DeltaTable(self.source), self.random.randrange(1000)
        match self.random.randrange(7) if self.mode != "Append" else self.random.choice([0, 6]):
            case 0:
                append(self.source, ORDERS, self.fresh_id, 50)
                self.fresh_id += 50
            case 1 | 2:
                changed = {"amount": "cast((cast(amount AS bigint) + 37) % 1000 AS double)", "status": "'sent'"}
                table.update(updates=changed, predicate=f"id % 97 = {pick % 97}")
            case 3:
                table.delete(f"id % 499 = {pick % 499}")
            case 4 | 5:
                # Behind the last key or before the first.
                moved = self.random.choice([f"id + {self.fresh_id}", f"-{self.fresh_id} - id"])
                part = f"id >= 0 AND id < {self.trial.rows} AND id % 97 = {pick % 97}"
                table.update(updates={"id": moved}, predicate=part)
                self.fresh_id += self.trial.rows
            case _:
                table.optimize.compact()

    # -------------------------------------------------------------- attempts
    def start(self, death, state="state"):
        """Start a driver."""
        start = Start(self.file, self.folder / state, self.folder / "driver.log", death.point)
        return OwnJava(start) if death.with_java else LastingJava(start, self.spark)

    def attempt(self, death):
        """Run a driver until it dies or ends; return its exit code."""
        driver = self.start(death)
        if death.kind == MAKING:
            self.kill_while_made(driver, death.delay_s)
        self.change()
        changes, silence = 0, Silence()
        while (code := driver.wait(LOOK_S)) is None:
            there = len(seals(self.target, self.checked))
            if death.kind == RANDOM and there >= death.seals:
                # A random moment of its work, not of the start of a JVM: counted from the fence, which is a seal.
                driver.wait(death.delay_s)
                driver.kill()
            elif silence.too_long(there):
                self.give_up(driver, death)
            elif changes < min(there, CHANGES_MAX):
                self.change()
                changes += 1
            if death.kind in self.commands:
                self.command(self.commands[death.kind])
        return code

    def kill_while_made(self, driver, delay_s):
        """Kill it so long after the target's folder is there; seals come seconds later."""
        while driver.wait(0.001) is None and not Path(self.target).exists():
            pass
        driver.wait(delay_s)
        driver.kill()

    def freeze_and_wake(self, death):
        """Freeze a driver, let another one take the target over, wake the first, kill both; return their exit codes."""
        first = self.start(death)
        self.change()
        if not self.works(first, death):
            return [first.wait(0)]
        first.freeze()
        second = self.start(death, "state-elsewhere")
        self.works(second, death)
        self.change()
        first.wake()
        self.change()
        first.wait(death.delay_s)
        for driver in (first, second):
            driver.kill()
        return [first.wait(0), second.wait(0)]

    def works(self, driver, death):
        """Wait for the seals after which it is to die; is the driver still alive then?"""
        before = max((seal.version for seal in seals(self.target)), default=-1)
        silence = Silence()
        while driver.wait(LOOK_S) is None and (there := len(seals(self.target, before))) < death.seals:
            if silence.too_long(there):
                self.give_up(driver, death)
        return driver.wait(death.delay_s) is None

    def give_up(self, driver, death):
        self.report.problems.append(f"{self.name}: {death} was not reached in {SILENT_MAX_S} s: {self.said()}")
        driver.kill()

    def command(self, command):
        with contextlib.suppress(NotRunningError):
            find(self.folder / "state", None).command(command, wait_s=3)

    # -------------------------------------------------------------- what came of it
    def check(self):
        """Compare every seal that was not seen before."""
        for seal in seals(self.target, self.checked):
            self.report.problems += [f"{self.name}: {one}" for one in violations(self.source, self.target, seal, VIEW)]
            self.report.seals_checked += 1
            self.checked = seal.version

    def run(self):
        for death in plan_of(self.seed):
            codes = self.freeze_and_wake(death) if death.kind == FROZEN else [self.attempt(death)]
            for code in codes:
                if code == -signal.SIGKILL:
                    self.report.kills[death.kind.split(":")[0]] += 1
                elif code and not (death.kind == FROZEN and code in FOUND_ANOTHER):
                    self.report.problems.append(f"{self.name}: attempt with {death} ended with {code}: {self.said()}")
            self.check()
            if 0 in codes and seals(self.target)[-1].state["finished"]:
                break
        self.write()  # what is left takes no time
        code = self.attempt(Death("none"))
        self.check()
        last = seals(self.target)[-1].state
        if code != 0 or not last["finished"] or last["receipt"]["mismatches"]:
            self.report.problems.append(f"{self.name}: not complete at the end: exit {code}: {self.said()}")
        return self.report

    def said(self):
        """Return the end of what the drivers said."""
        return (self.folder / "driver.log").read_text()[-1500:]


@pytest.fixture(scope="module", params=[*TRIALS])
def reports(request, spark, tmp_path_factory):
    """Run scenarios of a strategy, two at a time, until there were as many deaths as asked for, and one of each mode.

    A job that finished cannot be killed any more, so the number of scenarios is not known beforehand.
    """
    seeds, found, lock = itertools.count(), [], threading.Lock()
    tmp_path_factory.getbasetemp()  # two threads at once would make two
    began = time.monotonic()

    def lane(_number):
        while True:
            with lock:
                seed = next(seeds)
            enough = sum(sum(report.kills.values()) for report in found) >= KILLS or len(found) >= KILLS
            if seed >= len(MODES) and enough:
                break
            folder = tmp_path_factory.mktemp(f"{request.param}-{seed}")
            report = Scenario(spark, folder, request.param, seed).run()
            found.append(report)
            kills = sum(report.kills.values())
            seconds = time.monotonic() - began
            print(
                f"\n{request.param} {seed}: {kills} kills, {report.seals_checked} seals, {seconds:.0f} s, {report.problems}",
                flush=True,
            )

    with ThreadPoolExecutor(2) as lanes:
        list(lanes.map(lane, range(2)))
    died = sum((report.kills for report in found), Counter())
    print(f"\n{request.param}: {died.total()} kills in {time.monotonic() - began:.0f} s: {dict(died)}", flush=True)
    return found


class TestDeathChangesNothing:
    """Exactly once, whatever dies when (R-SNAP-37, R-SNAP-38, R-SNAP-39, R-ARR-38, R-ARR-42, R-CHAIN-15)."""

    def test_every_seal_and_every_end_is_what_its_state_says(self, reports):
        """0 rows lost, 0 doubled."""
        assert [problem for report in reports for problem in report.problems] == []
        assert sum(report.seals_checked for report in reports) >= KILLS / 2

    def test_each_named_point_was_died_at(self, reports):
        """A crash point that is never reached proves nothing."""
        died = sum((report.kills for report in reports), Counter())

        assert {MAKING, RANDOM, FROZEN} | {point.split(":")[0] for point in POINTS} <= set(died)
        # A table has no bad records.
        assert {one for one in CRASH_POINTS if "quarantine" not in one} == {point.split(":")[0] for point in POINTS}

    def test_each_way_of_writing_died(self, reports):
        """What a MERGE forgives, an append does not."""
        assert {report.mode for report in reports if report.kills} == set(MODES)

    def test_there_were_as_many_deaths_as_asked_for(self, reports):
        """The suite says what it did, not what it planned."""
        assert sum(sum(report.kills.values()) for report in reports) >= KILLS
