"""The real driver is killed with SIGKILL while the source changes; nothing is lost and nothing is doubled.

A scenario is one table and one job: attempt after attempt is killed, at a named crash point or at a seeded random
moment, until one may finish. After each death every new seal of the target is compared with the source at the
version that its state names. Two scenarios run side by side.
"""

import contextlib
import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from deltalake import DeltaTable
from support.tables.jobs import write_yaml
from support.tables.oracle import seals, violations
from support.tables.other_engine import append

from backfill.control import NotRunningError, find
from backfill_api.wire import Command, StopCommand, ThrottleCommand
from backfill_spark.crash_points import CRASH_POINTS

KILLS = int(os.environ.get("BACKFILL_KILLS", "60"))
ROWS, FILES = 48_000, 6
ORDERS = """
    SELECT value AS id, value * 7919 % 1003 AS customer, cast(value % 1000 AS double) AS amount,
        md5(cast(value AS string)) AS note, CASE value % 3 WHEN 0 THEN 'new' WHEN 1 THEN 'paid' ELSE 'sent' END AS status
    FROM generate_series({first}, {last})"""
VIEW = "SELECT id, customer, amount, upper(status) AS status FROM source WHERE amount < 900"
RATE = 4_000
"""Slow enough that some attempts die in every phase: a snapshot of twelve seconds, in pieces of attempts."""

ATTEMPT_MAX_S = 150
LOOK_S = 0.2
CHANGE_EVERY_S = (1.0, 3.0)
"""The source changes before a driver owns its target, then at such intervals; more would starve the drivers of cores."""

# In an order in which one job can meet them all; the second number: at which passing.
POINTS = (
    "after_fence:1", "after_finish:1", "before_orphan_removal:1", "after_orphan_removal:1", "before_stage:1", "after_stage:2",
    "before_seal:3", "after_seal_commit:3", "before_ack:1", "before_merge:1", "after_merge:1", "after_seal_commit:2",
    "before_finish:1",
)  # fmt: skip
MAKING = "while the table is made"
MODES = ("Upsert", "Append", "Changelog")
"""Of the first three scenarios; all others are upserts, in which most can go wrong."""
COMMANDS = {
    "before_ack:1": Command(type="Throttle", throttle=ThrottleCommand(rows_per_second=RATE)),
    # Of a job that is complete nothing is left to be resumed: it dies while it stops.
    "after_finish:1": Command(type="Stop", stop=StopCommand(force=True)),
}
"""What a driver must be told to come to a point."""


@dataclass
class Report:
    """What a scenario saw."""

    mode: str
    kills: Counter = field(default_factory=Counter)
    seals_checked: int = 0
    problems: list = field(default_factory=list)


class Scenario:
    """One table, one job, many deaths."""

    def __init__(self, folder, seed):
        self.folder = folder
        self.random = random.Random(seed)
        self.source, self.target = f"{folder}/source", f"{folder}/target"
        self.name = f"crash-{seed}"
        self.mode = MODES[seed] if seed < len(MODES) else MODES[0]
        self.report = Report(self.mode)
        self.checked = -1
        self.fresh_id = 10_000_000  # no key from here on was ever used; a step that takes some moves it
        self.file = write_yaml(
            folder / "job.yaml", self.source, self.target, name=self.name, verify="Final", target={"writeMode": self.mode},
            transform={"select": ["id", "customer", "amount", "upper(status) AS status"], "where": "amount < 900"},
            throttle={"rowsPerSecond": RATE}, barrier={"intervalMs": 500},
        )  # fmt: skip
        for first in range(0, ROWS, ROWS // FILES):
            append(self.source, ORDERS, first, ROWS // FILES)

    def change(self):
        """Write one commit to the source, as some other engine does."""
        table, pick = DeltaTable(self.source), self.random.randrange(1000)
        match self.random.randrange(6) if self.mode != "Append" else self.random.choice([0, 5]):
            case 0:
                append(self.source, ORDERS, self.fresh_id, 50)
                self.fresh_id += 50
            case 1 | 2:
                changed = {"amount": "cast((cast(amount AS bigint) + 37) % 1000 AS double)", "status": "'sent'"}
                table.update(updates=changed, predicate=f"id % 97 = {pick % 97}")
            case 3:
                table.delete(f"id % 499 = {pick % 499}")
            case 4:
                table.update(updates={"id": f"id + {self.fresh_id}"}, predicate=f"id < {ROWS} AND id % 997 = {pick}")
                self.fresh_id += ROWS
            case _:
                table.optimize.compact()

    def attempt(self, point=None, delay_s=None):
        """Run the driver until it dies or ends; return its exit code."""
        env = dict(os.environ, BACKFILL_STATE_DIR=f"{self.folder}/state", BACKFILL_CORES="1", BACKFILL_MEMORY="1g")
        if point in POINTS:
            env["BACKFILL_CRASH_AT"] = point
        with open(f"{self.folder}/driver.log", "a") as log:
            driver = subprocess.Popen(
                [sys.executable, "-m", "backfill_spark", "-f", str(self.file)],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=env, start_new_session=True,
            )  # fmt: skip
        timers = [threading.Timer(ATTEMPT_MAX_S, self.kill, [driver])]
        timers[0].start()
        if point == MAKING:
            threading.Thread(target=self.kill_while_made, args=[driver, delay_s], daemon=True).start()
        self.change()
        change_at = 0.0
        while driver.poll() is None:
            fenced = bool(seals(self.target, self.checked))
            if point is None and delay_s and len(timers) == 1 and fenced:
                # A random moment of its work, not of the start of a JVM: counted from the fence.
                timers.append(threading.Timer(delay_s, self.kill, [driver]))
                timers[1].start()
            if fenced and time.monotonic() >= change_at:
                self.change()
                change_at = time.monotonic() + self.random.uniform(*CHANGE_EVERY_S)
            if point in COMMANDS:
                self.command(COMMANDS[point])
            with contextlib.suppress(subprocess.TimeoutExpired):
                driver.wait(LOOK_S)
        for timer in timers:
            timer.cancel()
        self.kill(driver)
        return driver.returncode

    def kill(self, driver):
        """Kill the driver and its JVM, as the death of a container does."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)

    def kill_while_made(self, driver, delay_s):
        """Kill it so long after the target's folder is there; seals come seconds later."""
        while driver.poll() is None and not Path(self.target).exists():
            threading.Event().wait(0.001)
        threading.Event().wait(delay_s)
        self.kill(driver)

    def command(self, command):
        with contextlib.suppress(NotRunningError):
            find(Path(f"{self.folder}/state"), None).command(command, wait_s=3)

    def check(self):
        """Compare every seal that was not seen before."""
        for seal in seals(self.target, self.checked):
            self.report.problems += violations(self.source, self.target, seal, VIEW)
            self.report.seals_checked += 1
            self.checked = seal.version

    def run(self, plan):
        for point, delay_s in plan:
            code = self.attempt(point, delay_s)
            if code == -signal.SIGKILL:
                self.report.kills[point.split(":")[0] if point else "random moment"] += 1
            elif code != 0:
                self.report.problems.append(f"{self.name}: attempt with {point or delay_s} ended with {code}")
            self.check()
            if code == 0 and seals(self.target)[-1].state["finished"]:
                break
        code = self.attempt()
        self.check()
        last = seals(self.target)[-1].state
        if code != 0 or not last["finished"] or last["receipt"]["mismatches"]:
            log = open(f"{self.folder}/driver.log").read()[-1500:]
            self.report.problems.append(f"{self.name}: not complete at the end: exit {code}\n{log}")
        return self.report


def plan_of(seed):
    """Return the deaths of a scenario: every named point in the first one, random moments in the others."""
    if seed == 0:
        return [(point, None) for point in POINTS]
    chance = random.Random(seed)
    return [(MAKING, chance.uniform(0, 0.2)), *((None, chance.uniform(0.1, 6)) for _ in range(7))]


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Run scenarios, two at a time, until there were as many deaths as asked for, and one of each mode.

    A job that finished cannot be killed any more, so the number of scenarios is not known beforehand.
    """
    seeds, found, lock = itertools.count(), [], threading.Lock()
    tmp_path_factory.getbasetemp()  # two threads at once would make two

    def lane(_number):
        while True:
            with lock:
                seed = next(seeds)
            enough = sum(sum(report.kills.values()) for report in found) >= KILLS or len(found) >= KILLS
            if seed >= len(MODES) and enough:
                break
            report = Scenario(tmp_path_factory.mktemp(f"s{seed}"), seed).run(plan_of(seed))
            found.append(report)
            kills = sum(report.kills.values())
            print(f"\nscenario {seed}: {kills} kills, {report.seals_checked} seals, {report.problems}", flush=True)

    with ThreadPoolExecutor(2) as lanes:
        list(lanes.map(lane, range(2)))
    return found


class TestDeathChangesNothing:
    """Exactly once, whatever dies when (R-SNAP-37, R-SNAP-38, R-SNAP-39)."""

    def test_every_seal_and_every_end_is_what_its_state_says(self, reports):
        """0 rows lost, 0 doubled."""
        assert [problem for report in reports for problem in report.problems] == []
        assert sum(report.seals_checked for report in reports) >= KILLS / 2

    def test_each_named_point_was_died_at(self, reports):
        """A crash point that is never reached proves nothing."""
        died = sum((report.kills for report in reports), Counter())
        print(dict(died))

        assert {MAKING} | {point.split(":")[0] for point in POINTS} <= set(died)
        # A table has no bad records.
        assert {one for one in CRASH_POINTS if "quarantine" not in one} == {point.split(":")[0] for point in POINTS}

    def test_each_way_of_writing_died(self, reports):
        """What a MERGE forgives, an append does not."""
        assert {report.mode for report in reports if report.kills} == set(MODES)

    def test_there_were_as_many_deaths_as_asked_for(self, reports):
        """The suite says what it did, not what it planned."""
        assert sum(sum(report.kills.values()) for report in reports) >= KILLS
