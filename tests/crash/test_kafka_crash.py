"""The real driver is killed with SIGKILL while producers write to the topic that it copies; nothing is lost and nothing is doubled.

A scenario is one topic and one job. Producers write plain records and transactions, some of which abort or stay open for a
while; some records cannot be parsed. Attempt after attempt is killed, at a named crash point or at a seeded random moment, until one
may finish. Another client library says what is committed, another implementation of Delta what the tables hold. Each commit of the
target is compared: it holds exactly the records at the offsets that its state names.
"""

import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from support.kafka.topics import Topics, producing, transacting
from support.tables.oracle import columns_of, seals

from backfill.control import NotRunningError, find
from backfill_api.wire import Command, StopCommand, ThrottleCommand

KILLS = int(os.environ.get("BACKFILL_KILLS", "60"))
PARTITIONS, HISTORY = 3, 9_000
RATE = 800
"""Slow enough that some attempts die while history is read: of twelve seconds, in pieces of attempts."""

BAD_EVERY = 97
ATTEMPT_MAX_S, END_MAX_S = 300, 900
LOOK_S = 0.2
PRODUCE_EVERY_S = (0.2, 0.8)
OPEN_S = 3.0
"""So long one of the transactions is open: nothing behind it is committed meanwhile."""

# In an order in which one job can meet them all; the second number: at which passing.
POINTS = (
    "after_fence:1", "after_finish:1", "before_seal:3", "after_seal_commit:3", "before_ack:1", "before_quarantine:1",
    "after_quarantine:2", "after_seal_commit:2", "before_orphan_removal:1", "after_orphan_removal:1", "before_quarantine:2",
    "before_finish:1",
)  # fmt: skip
COMMANDS = {
    "before_ack:1": Command(type="Throttle", throttle=ThrottleCommand(rows_per_second=RATE)),
    # Of a job that is complete nothing is left to be resumed: it dies while it stops.
    "after_finish:1": Command(type="Stop", stop=StopCommand(force=True)),
}
"""What a driver must be told to come to a point."""


class Producers:
    """What writes to one topic, on a thread, until it is told to end."""

    def __init__(self, address, topic, seed):
        self._address, self._topic, self._random = address, topic, random.Random(f"producers/{seed}")
        self._numbers = itertools.count(1)
        self._ended = threading.Event()
        self._failed = None
        self.aborted = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def history(self):
        """Write what is there before the job begins: plain records, and transactions of which every third aborts."""
        with producing(self._address) as send:
            self._some(send, HISTORY // 2)
        with transacting(self._address) as transaction:
            for number in range(6):
                with transaction(abort=number % 3 == 2) as send:
                    self._some(send, HISTORY // 12)
                self.aborted += number % 3 == 2

    def start(self):
        self._thread.start()

    def end(self):
        """Return when all that was begun is committed or aborted."""
        self._ended.set()
        self._thread.join()
        if self._failed is not None:
            raise self._failed

    def _run(self):
        try:
            with producing(self._address) as send, transacting(self._address) as transaction:
                while not self._ended.wait(self._random.uniform(*PRODUCE_EVERY_S)):
                    self._turn(send, transaction)
        except Exception as error:
            self._failed = error

    def _turn(self, send, transaction):
        many = self._random.choice([1, 5, 40])
        match self._random.randrange(8):
            case 0:
                with transaction(abort=True) as held:
                    self._some(held, many)
                self.aborted += 1
            case 1:
                with transaction() as held:
                    self._some(held, many)
                    self._some(send, many)
                    self._ended.wait(OPEN_S)
            case 2 | 3:
                with transaction() as held:
                    self._some(held, many)
            case _:
                self._some(send, many)

    def _some(self, send, count):
        for _ in range(count):
            number = next(self._numbers)
            value = b"no number" if number % BAD_EVERY == 0 else json.dumps({"number": number}).encode()
            send(self._topic, value, str(number).encode(), partition=self._random.randrange(PARTITIONS))


@dataclass
class Report:
    """What a scenario saw."""

    kills: Counter = field(default_factory=Counter)
    seals_checked: int = 0
    records: int = 0
    bad: int = 0
    aborted: int = 0
    problems: list = field(default_factory=list)


def held_by(progress):
    """Return the offsets `[start, stop)` that a stored state names, by partition, as the rules write it (R-SRC-44)."""
    held = {}
    for name, one in progress["splits"].items():
        start, live = progress["starts"][name], progress["live"][name]
        end = start if one["target_offset"] is None else int(one["target_offset"]) + 1
        backfilling = isinstance(one["state"], dict) and "Backfilling" in one["state"]
        last = one["state"]["Backfilling"] if backfilling else None
        reached = (start if last is None else int(last) + 1) if backfilling else end
        held[int(name)] = ((start, reached), (end, live))
    return held


def placed(path, version=None):
    """Return how often each record stands in a table, by partition and offset."""
    return Counter(columns_of(path, "partition", "offset", version=version))


class Scenario:
    """One topic, one job, many deaths."""

    def __init__(self, folder, address, seed):
        self.folder, self.name = folder, f"kafka-crash-{seed}"
        self.target, self.bad = f"{folder}/target", f"{folder}/bad"
        self.topics = Topics(address)
        self.topic = self.topics.create(partitions=PARTITIONS)
        self.producers = Producers(address, self.topic, seed)
        self.producers.history()
        self.report = Report()
        self.checked, self.given_up = -1, False
        self.file = Path(folder, "job.yaml")
        source = {
            "bootstrapServers": address,
            "topic": self.topic,
            "onBadRecord": "Quarantine",
            "quarantinePath": self.bad,
        }
        number = "from_json(cast(value AS string), 'number BIGINT').number AS number"
        spec = {
            "source": {"type": "Kafka", "kafka": source},
            "target": {"type": "Delta", "delta": {"path": self.target, "writeMode": "Append"}},
            "strategy": {"type": "SourceSplits"},
            "transform": {"select": ["`partition`", "offset", "cast(key AS string) AS key", number]},
            "barrier": {"intervalMs": 500}, "throttle": {"rowsPerSecond": RATE}, "verify": "Final",
        }  # fmt: skip
        document = {
            "apiVersion": "backfill.dev/v1alpha1",
            "kind": "Backfill",
            "metadata": {"name": self.name},
            "spec": spec,
        }
        self.file.write_text(yaml.safe_dump(document))

    def attempt(self, point=None, delay_s=None, longest_s=ATTEMPT_MAX_S):
        """Run the driver until it dies or ends, or for so long; return its exit code."""
        env = dict(os.environ, BACKFILL_STATE_DIR=f"{self.folder}/state", BACKFILL_CORES="1", BACKFILL_MEMORY="1g")
        if point is not None:
            env["BACKFILL_CRASH_AT"] = point
        with open(f"{self.folder}/driver.log", "a") as log:
            driver = subprocess.Popen(
                [sys.executable, "-m", "backfill_spark", "-f", str(self.file)],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=env, start_new_session=True,
            )  # fmt: skip
        timers = [threading.Timer(longest_s, self.give_up, [driver])]
        timers[0].start()
        while driver.poll() is None:
            if delay_s is not None and len(timers) == 1 and seals(self.target, self.checked):
                # A random moment of its work, not of the start of a JVM: counted from the fence.
                timers.append(threading.Timer(delay_s, self.kill, [driver]))
                timers[1].start()
            if point in COMMANDS:
                with contextlib.suppress(NotRunningError):
                    find(Path(f"{self.folder}/state"), None).command(COMMANDS[point], wait_s=3)
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

    def give_up(self, driver):
        """Kill a driver that comes neither to its point nor to its end: that is no death that was asked for."""
        self.given_up = True
        self.kill(driver)

    def check(self):
        """Compare every commit that was not seen before, and the table of bad records as it is now."""
        committed = self.topics.committed(self.topic)
        unparsed = {place for place, record in committed.items() if record.value == b"no number"}
        new = seals(self.target, self.checked)
        for seal in new:
            held = held_by(seal.progress)
            wanted = {
                (partition, offset)
                for partition, offset in committed
                if any(start <= offset < stop for start, stop in held.get(partition, ()))
            }
            found = placed(self.target, seal.version)
            self.compare(f"commit {seal.version}", found, wanted - unparsed)
            counted = seal.state.get("quarantine", {"rows": 0})["rows"]
            if counted != len(wanted & unparsed):
                self.report.problems.append(
                    f"{self.name}: {counted} bad records said, {len(wanted & unparsed)} are held"
                )
            self.report.seals_checked += 1
            self.checked = seal.version
        if new:
            self.check_bad(new[-1].state.get("quarantine"), wanted & unparsed)

    def check_bad(self, said, wanted):
        """After a death between the two commits what is announced may be missing: all of it."""
        found, announced = placed(self.bad), (said or {}).get("announced")
        missing = sum((Counter(wanted) - found).values())
        if missing and (announced is None or missing != announced["rows"]):
            self.report.problems.append(f"{self.name}: {missing} bad records are missing, {announced} is announced")
        surplus = found - Counter(wanted)
        if surplus:
            self.report.problems.append(f"{self.name}: bad records too often, or not held: {sorted(surplus)[:5]}")

    def compare(self, where, found, wanted):
        missing, surplus = Counter(wanted) - found, found - Counter(wanted)
        if missing or surplus:
            words = f"missing {sorted(missing)[:5]} of {len(missing)}, surplus {sorted(surplus)[:5]} of {len(surplus)}"
            self.report.problems.append(f"{self.name}: {where}: {words}")

    def run(self, plan):
        self.producers.start()
        try:
            for point, delay_s in plan:
                code = self.attempt(point, delay_s)
                if self.given_up:
                    self.report.problems.append(
                        f"{self.name}: {point or 'a random moment'} took more than {ATTEMPT_MAX_S} s"
                    )
                    self.given_up = False
                elif code == -signal.SIGKILL:
                    self.report.kills[point.split(":")[0] if point else "random moment"] += 1
                elif code != 0:
                    self.report.problems.append(f"{self.name}: attempt with {point or delay_s} ended with {code}")
                self.check()
                if code == 0 and seals(self.target)[-1].state["finished"]:
                    break
        finally:
            self.producers.end()
        return self.finish()

    def finish(self):
        """Let the job end, and compare what it has then."""
        code = self.attempt(longest_s=END_MAX_S)
        self.check()
        last = seals(self.target)[-1].state
        if code != 0 or not last["finished"] or last["receipt"]["mismatches"]:
            log = open(f"{self.folder}/driver.log").read()[-1500:]
            self.report.problems.append(f"{self.name}: not complete at the end: exit {code}\n{log}")
        self.report.records = sum(placed(self.target).values())
        self.report.bad = sum(placed(self.bad).values())
        self.report.aborted = self.producers.aborted
        if last.get("quarantine", {"rows": 0})["rows"] != self.report.bad:
            self.report.problems.append(f"{self.name}: the state does not say how many bad records there are")
        return self.report


def plan_of(seed):
    """Return the deaths of a scenario: every named point in the first one, random moments in the others."""
    if seed == 0:
        return [(point, None) for point in POINTS]
    chance = random.Random(f"deaths/{seed}")
    return [(None, chance.uniform(0.1, 6)) for _ in range(10)]


@pytest.fixture(scope="module")
def reports(tmp_path_factory, broker):
    """Run scenarios until there were as many deaths as asked for: a job that finished cannot be killed any more."""
    found, began_s = [], time.monotonic()
    for seed in itertools.count():
        found.append(Scenario(tmp_path_factory.mktemp(f"k{seed}"), broker.address, seed).run(plan_of(seed)))
        seconds = time.monotonic() - began_s
        print(f"\nscenario {seed}: {found[-1]}, {seconds:.0f} s", flush=True)
        if sum(sum(report.kills.values()) for report in found) >= KILLS or len(found) >= KILLS:
            return found
    raise AssertionError


class TestDeathChangesNothing:
    """Exactly once, whatever dies when (R-SRC-28, R-SRC-29)."""

    def test_every_commit_and_every_end_is_what_its_state_says(self, reports):
        """0 records lost, 0 doubled; those that no parser takes are in their own table, once."""
        assert [problem for report in reports for problem in report.problems] == []
        assert sum(report.seals_checked for report in reports) >= KILLS / 2
        assert all(report.records > HISTORY // 2 and report.bad > 0 and report.aborted > 0 for report in reports)

    def test_each_named_point_was_died_at(self, reports):
        """A crash point that is never reached proves nothing."""
        died = sum((report.kills for report in reports), Counter())
        print(dict(died))

        assert {point.split(":")[0] for point in POINTS} <= set(died)

    def test_there_were_as_many_deaths_as_asked_for(self, reports):
        """The suite says what it did, not what it planned."""
        assert sum(sum(report.kills.values()) for report in reports) >= KILLS
