"""A job whose drivers die one after the other, until one may finish; after each death every new commit is compared.

Some die with their Java. The Java of most survives and ends its current work. Some are frozen, and wake when another driver is
at work. The kind of job (`table_job`, `topic_job`) defines the copied rows and the expected target.
"""

import contextlib
import itertools
import random
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from support.crashes.drivers import LastingJava, OwnJava, Start
from support.tables.logs import is_begun
from support.tables.oracle import seals

from backfill.control import DriverSilentError, DriverStartingError, NotRunningError, find
from backfill_api.wire import Command, StopCommand, ThrottleCommand
from backfill_core.errors import FencedError, TransientError

SILENT_MAX_S, ATTEMPT_MAX_S = 300, 900
"""Limits for a driver that does not reach the point of its death: seconds without a seal, and seconds of life."""

LOOK_S = 0.05
CHANGES_MAX = 5
"""The source changes before a driver owns its target, then after its first seals: a slow machine is not flooded."""

SEALS_MAX = 7
"""A driver that dies at random dies after at most this many seals: a slow machine gives it more time."""

WOKEN_S = 15.0
"""Longest life of a woken driver while another one owns its target; its next commit should reveal the owner."""

FOUND_ANOTHER = {TransientError.exit_code, FencedError.exit_code}
"""Exit codes of a woken driver: the target moved, or was taken over."""

MAKING, RANDOM, FROZEN = "while the table is made", "random moment", "frozen and woken"
ANYWHERE = frozenset({MAKING, RANDOM, FROZEN})


@dataclass(frozen=True)
class Death:
    """Death of an attempt: at a point, or with a delay after a number of seals, with its Java or without."""

    kind: str
    delay_s: float = 0.0
    seals: int = 1
    with_java: bool = False

    @property
    def point(self):
        """Return the crash point with its passing; `None` for the other kinds."""
        return self.kind if ":" in self.kind else None


FINISHES = Death("none")


def plan_of(seed, points, seals_max):
    """Return the deaths of a job: every named point for the first job, random times for the others."""
    if seed == 0:
        return [Death(point) for point in points]
    chance = random.Random(seed)

    def moment(kind, *, with_java=False):
        return Death(kind, chance.uniform(0, 0.4), chance.randint(1, seals_max), with_java)

    moments = [moment(kind) for kind in [RANDOM] * 8 + [FROZEN] * 2]
    chance.shuffle(moments)
    made = Death(MAKING, chance.uniform(0, 0.2), with_java=True)
    return [made, *moments[:4], moment(RANDOM, with_java=True), *moments[4:]]


class Patience:
    """Time limits of waiting for a driver."""

    def __init__(self):
        self._seals, self._since = -1, 0.0
        self._began = time.monotonic()

    def ends(self, count):
        """Return whether the driver sealed nothing for too long, or lived for too long."""
        now = time.monotonic()
        if count != self._seals:
            self._seals, self._since = count, now
        return now > self._since + SILENT_MAX_S or now > self._began + ATTEMPT_MAX_S


@dataclass
class Report:
    """Results of one job."""

    name: str
    mode: str = "Append"
    kills: Counter = field(default_factory=Counter)
    fenced: int = 0
    """Woken drivers that ended by themselves."""

    seals_checked: int = 0
    problems: list = field(default_factory=list)

    def __str__(self):
        return f"{self.name} ({self.mode}): {self.kills.total()} kills, {self.fenced} fenced, {self.seals_checked} seals, {self.problems}"


class MortalJob:
    """One job, many deaths."""

    POINTS: tuple = ()
    """Crash points in an order in which one job can meet them all; the number after the colon is the passing."""

    def __init__(self, spark, folder, strategy, seed, *, rate, seals_max=SEALS_MAX, target=None):
        """Take a Spark, a folder of this machine for the job's file, state and log, and the target's place, by default in that folder."""
        self.spark, self.folder, self.seed, self.seals_max = spark, folder, seed, seals_max
        self.name = f"crash-{strategy.lower()}-{seed}"
        self.file, self.target = folder / "job.yaml", target or f"{folder}/target"
        self.report = Report(self.name)
        self.checked = -1
        self.commands = {
            "before_ack:1": Command(type="Throttle", throttle=ThrottleCommand(rows_per_second=rate)),
            # A complete job has nothing left to resume, so it dies while it stops.
            "after_finish:1": Command(type="Stop", stop=StopCommand(force=True)),
        }
        """Commands that bring a driver to a point."""

    distance_max_ms: int | None = None
    """See `drivers.Start`."""

    planned: tuple = ()
    """The deaths of a test that defines them; empty if the seed decides."""

    # -------------------------------------------------------------- defined by a kind of job
    def deaths(self):
        """Return the deaths of its drivers."""
        return plan_of(self.seed, self.POINTS, self.seals_max)

    def write(self, *, limited):
        """Write the job's file: with a limit, so that many deaths fit into its copy, or without."""
        raise NotImplementedError

    def change(self):
        """Change the source once, as some other program does."""

    def changing(self):
        """Return a context in which the source keeps changing by itself."""
        return contextlib.nullcontext()

    def wrong(self, new):
        """Return the errors of the target at each of the new seals."""
        raise NotImplementedError

    def seals(self, after=-1):
        """Return the commits with a state above a version, oldest first."""
        return seals(self.target, after)

    # -------------------------------------------------------------- a life
    def run(self, enough=lambda: False):
        """Let driver after driver die until there are enough deaths, then let the last one finish; return the report."""
        self.write(limited=True)
        with self.changing():
            for death in self.planned or self.deaths():
                if enough():
                    break
                codes = self.freeze_and_wake(death) if death.kind == FROZEN else [self.attempt(death)]
                for code in codes:
                    self.count(death, code)
                self.check()
                if 0 in codes and self.seals()[-1].state["finished"]:
                    break
        self.write(limited=False)
        code = self.attempt(FINISHES)
        self.check()
        last = self.seals()[-1].state
        if code != 0 or not last["finished"] or last["receipt"]["mismatches"]:
            self.problem(f"not complete at the end: exit {code}: {self.said()}")
        return self.report

    def count(self, death, code):
        if code == -signal.SIGKILL:
            self.report.kills[death.kind.split(":")[0]] += 1
        elif death.kind == FROZEN and code in FOUND_ANOTHER:
            self.report.fenced += 1
        elif code:
            self.problem(f"attempt with {death} ended with {code}: {self.said()}")

    def check(self):
        """Compare every new seal."""
        new = self.seals(self.checked)
        if new:
            for problem in self.wrong(new):
                self.problem(problem)
            self.report.seals_checked += len(new)
            self.checked = new[-1].version

    def problem(self, message):
        self.report.problems.append(f"{self.name}: {message}")

    def said(self):
        """Return the end of the drivers' log."""
        return (self.folder / "driver.log").read_text()[-9000:]

    # -------------------------------------------------------------- attempts
    def start(self, death, state="state"):
        """Start a driver."""
        start = Start(self.file, self.folder / state, self.folder / "driver.log", death.point, self.distance_max_ms)
        return OwnJava(start) if death.with_java else LastingJava(start, self.spark)

    def attempt(self, death):
        """Run a driver until it dies or ends; return its exit code."""
        driver = self.start(death)
        if death.kind == MAKING:
            self.kill_while_made(driver, death.delay_s)
        self.change()
        changes, patience = 0, Patience()
        while (code := driver.wait(LOOK_S)) is None:
            sealed = len(self.seals(self.checked))
            if death.kind == RANDOM and sealed >= death.seals:
                # A random time of its work, not of the start of a JVM: counted from the fence, which is a seal.
                driver.wait(death.delay_s)
                driver.kill()
            elif patience.ends(sealed):
                self.give_up(driver, death)
            elif changes < min(sealed, CHANGES_MAX):
                self.change()
                changes += 1
            if death.kind in self.commands:
                self.command(self.commands[death.kind])
        return code

    def kill_while_made(self, driver, delay_s):
        """Kill a driver `delay_s` after the target's folder exists; seals come seconds later."""
        while driver.wait(0.001) is None and not is_begun(self.target):
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
        first.wait(WOKEN_S)
        for driver in (first, second):
            driver.kill()
        return [first.wait(0), second.wait(0)]

    def works(self, driver, death):
        """Wait for the seals after which a driver is to die; return whether it is still alive then."""
        before = max((seal.version for seal in self.seals()), default=-1)
        patience = Patience()
        while driver.wait(LOOK_S) is None and (sealed := len(self.seals(before))) < death.seals:
            if patience.ends(sealed):
                self.give_up(driver, death)
        return driver.wait(death.delay_s) is None

    def give_up(self, driver, death):
        self.problem(f"{death} was not reached in {SILENT_MAX_S} s: {self.said()}")
        driver.kill()

    def command(self, command):
        with contextlib.suppress(NotRunningError, DriverSilentError, DriverStartingError):
            find(self.folder / "state", None).command(command, wait_s=3)


def lives(make, kills, jobs_min):
    """Run jobs, two at a time, until `kills` drivers died and `jobs_min` jobs began; return the reports.

    A job that finished cannot be killed any more, so the number of jobs is not known beforehand.

    Args:
        make: Makes the job of a seed.
        kills: Deaths in all.
        jobs_min: Number of jobs that meet all deaths of their plans.
    """
    seeds, reports, lock = itertools.count(), [], threading.Lock()
    began = time.monotonic()

    def enough():
        return sum(report.kills.total() for report in reports) >= kills or len(reports) >= max(kills, jobs_min)

    def lane(_number):
        while True:
            with lock:
                seed = next(seeds)
                if seed >= jobs_min and enough():
                    break
                job = make(seed)
                reports.append(job.report)
            job.run(enough if seed >= jobs_min else lambda: False)
            print(f"\n{time.monotonic() - began:.0f} s: {job.report}", flush=True)

    with ThreadPoolExecutor(2) as lanes:
        list(lanes.map(lane, range(2)))
    died = sum((report.kills for report in reports), Counter())
    print(f"\n{died.total()} kills in {time.monotonic() - began:.0f} s: {dict(died)}", flush=True)
    return reports
