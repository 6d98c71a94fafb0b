"""Run suites of tests as lanes next to each other, print where the time went, and end with one line for all of them.

    python build-tools/run_tests.py --part first plain spark jobs    one pytest process for each lane, all at once
    python build-tools/run_tests.py plain -- -k throttle             arguments after `--` go to pytest
    python build-tools/run_tests.py --sum                            the closing line of all reports in build/reports
    python build-tools/run_tests.py --compare                        check that the parts have each case exactly once

A failed test fails the run, and is not repeated. tests/flaky.toml lists known flaky tests with their causes; their
failures are reported as flaky and never count as passed. A run in which no test ran fails. Each suite belongs
to exactly one lane. `jobs` and `spark` have the tests with a Spark session. `control`, `reconcile` and `faults` have the
tests of the operator, which mostly wait for timers. `core` has the tests without I/O, and `plain` all other tests.
Two runs in one clone would overwrite each other's reports, so the second one ends at once.
"""

import argparse
import fcntl
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parent.parent
REPORTS = ROOT / "build" / "reports"
NO_SUITE = {"support", "benchmarks"}
OWN_LANE = {"crash", "e2e", "metastore", "monitoring", "stores"}
SPLIT = {"attack", "control_plane", "jobs"}
"""Folders whose subfolders and test modules are suites."""

OF_JOBS = {"tests/jobs/strategies"}
"""Suites of whole jobs that run in the lane `spark`, so that both lanes with a Spark session end at the same time."""

ON_SPARK = {
    "spark": {"tests/spark", "tests/python_api", "tests/attack/tables", "tests/kills", "tests/topics"} | OF_JOBS,
    "jobs": {"tests/jobs"},
}
"""Lanes whose tests share one Spark session each. A single lane would take longer, because its tests wait for barriers. A third
lane would cost more CPU time than it saves, because each Java loads and compiles the code again. Only one lane starts a broker."""

WITHOUT_WAITING = {"core": {"tests/core", "tests/simulation"}}
"""A lane that only computes. It fills the time in which the others wait."""

NICE = {"spark": 2, "jobs": 5, "core": 10}
"""Lanes that yield the CPU to tests with time limits of ten seconds; the longest one yields the least, and `core` to all others."""

OPERATOR = "tests/control_plane"
OF_THE_OPERATOR = {
    "faults": {f"{OPERATOR}/faults"},
    "reconcile": {f"{OPERATOR}/informer", f"{OPERATOR}/reconcile", f"{OPERATOR}/launches", f"{OPERATOR}/whole"},
    "control": {OPERATOR},
}
"""Lanes whose tests wait longer than they compute. One lane would take longer than all lanes that compute."""

NAMED = ON_SPARK | OF_THE_OPERATOR | WITHOUT_WAITING
"""Lanes with their folders, which contain suites. A suite belongs to the first matching lane, or else to `plain`."""

NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
"""Variable that images of containers set. With it, each lane and each process of a test compiles all modules again."""

ALL = "all"
NOTHING_COLLECTED = 5
USAGE = 2
LINES_OF_A_FAILURE = 30
"""Number of last lines of each failure that are printed at the end: enough for an assertion with the compared values."""

SLOWEST = 15
FLAKY = "flaky: "
"""Prefix of the skip reason of a failed test that tests/flaky.toml lists (see tests/support/flaky.py)."""


def environment() -> dict[str, str]:
    """Return the environment of pytest: compiled modules are stored."""
    return {name: value for name, value in os.environ.items() if name != NO_BYTECODE}


def has_tests(path: Path) -> bool:
    """Return whether a path is a test module or a folder that contains one."""
    return path.match("test_*.py") or any(path.glob("**/test_*.py"))


def suites() -> list[str]:
    """Return the folders of tests, relative to the project; a folder in `SPLIT` is replaced by its subfolders and modules."""
    tops = [path for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name not in NO_SUITE]
    paths = [inner for top in tops for inner in (top.iterdir() if top.name in SPLIT else [top])]
    return sorted(str(path.relative_to(ROOT)) for path in paths if has_tests(path))


def lane_of(suite: str) -> str:
    """Return the lane of a suite."""
    name = suite.split("/")[1]
    named = (lane for lane, inside in NAMED.items() if any(Path(suite).is_relative_to(folder) for folder in inside))
    return name if name in OWN_LANE else next(named, "plain")


def folders(lane: str) -> list[str]:
    """Return the suites of a lane, or the folder with that name; empty if it has no tests."""
    return [suite for suite in suites() if lane_of(suite) == lane or suite in {f"tests/{lane}", f"tests/attack/{lane}"}]


@dataclass(frozen=True)
class Count:
    """Number of tests by result."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: "Count") -> "Count":
        return Count(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    def __str__(self) -> str:
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {self.failed} failed{skipped}"


def parsed(report: Path) -> ET.Element | None:
    """Return a JUnit report; `None` if it is missing or truncated."""
    try:
        return ET.parse(report).getroot()  # noqa: S314 (pytest wrote it)
    except (FileNotFoundError, ET.ParseError):
        return None


def read(report: Path) -> Count:
    """Count the tests of a JUnit report; a missing or truncated report is a failure."""
    root = parsed(report)
    if root is None:
        return Count(failed=1)
    total = Count()
    for suite in root.iter("testsuite"):
        failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped = int(suite.get("skipped", 0))
        total += Count(int(suite.get("tests", 0)) - failed - skipped, failed, skipped)
    return total


def results(report: Path) -> Iterator[tuple[str, ET.Element]]:
    """Yield the name of each test of a JUnit report with each of its results that is not a pass."""
    root = parsed(report)
    for case in [] if root is None else root.iter("testcase"):
        for result in case:
            if result.tag in {"failure", "error", "skipped"}:
                yield f"{case.get('classname')}.{case.get('name')}", result


def failures(report: Path) -> list[str]:
    """Return the name of each failed test with the end of its message; empty if there is no report."""
    named = []
    for name, result in results(report):
        if result.tag != "skipped":
            lines = (result.text or result.get("message") or "").strip().splitlines()[-LINES_OF_A_FAILURE:]
            named.append("\n".join([f"{result.tag}: {name}", *lines]))
    return named


def flaky(report: Path) -> list[str]:
    """Return the name and the listed cause of each test that failed and is known to be flaky."""
    reasons = ((name, result.get("message") or "") for name, result in results(report) if result.tag == "skipped")
    return [f"{name}: {reason.removeprefix(FLAKY)}" for name, reason in reasons if reason.startswith(FLAKY)]


def seconds_by_file(report: Path) -> Counter[str]:
    """Return the seconds that the tests of each file took, fixtures included."""
    root = parsed(report)
    seconds: Counter[str] = Counter()
    for case in [] if root is None else root.iter("testcase"):
        parts = (case.get("classname") or "").split(".")
        module = next((at for at, part in enumerate(parts) if part.startswith("test_")), len(parts) - 1)
        seconds["/".join(parts[: module + 1]) + ".py"] += float(case.get("time") or 0)
    return seconds


class Lane:
    """One pytest process; its output is forwarded line by line with the lane's name."""

    def __init__(self, name: str, part: str, extra: list[str], *, alone: bool) -> None:
        self.name = name
        self.report = REPORTS / f"{name if part == ALL else f'{name}-{part}'}.xml"
        self.report.unlink(missing_ok=True)
        # Each lane has a separate cache, because another lane would overwrite it.
        cache = ["-o", f"cache_dir={REPORTS / name}.cache"]
        command = [
            sys.executable,
            "-u",
            "-m",
            "pytest",
            "-q",
            f"--junit-xml={self.report}",
            "--part",
            part,
            *folders(name),
            *extra,
            *cache,
        ]
        self.process = subprocess.Popen(
            ["nice", "-n", str(NICE.get(name, 0)), *command],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.prefix = "" if alone else f"{name:>9} | "
        self.summary = ""
        self.code = 0
        self.cpu_s = 0.0
        self.reader = threading.Thread(target=self.forward)
        self.reader.start()

    def forward(self) -> None:
        """Print the output of pytest until it ends; its last line counts the deselected cases."""
        for line in self.process.stdout or ():
            self.summary = line.strip() or self.summary
            print(f"{self.prefix}{line}", end="", flush=True)

    def wait(self) -> None:
        """Wait for the end; record the exit code, and the CPU time of the process and its children."""
        self.reader.join()
        _, status, usage = os.wait4(self.process.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        self.process.returncode = code
        self.code = 0 if code == NOTHING_COLLECTED else code
        self.cpu_s = usage.ru_utime + usage.ru_stime


def run(names: list[str], extra: list[str], part: str = ALL) -> int:
    """Run the lanes; return 0 if every test passed."""
    REPORTS.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    there = [name for name in names if folders(name)]
    lanes = [Lane(name, part, extra, alone=len(names) == 1) for name in there]
    for lane in lanes:
        lane.wait()
    print_times(lanes)
    bad = [lane for lane in lanes if lane.code != 0]
    for lane in bad:
        for failure in failures(lane.report):
            print(f"{lane.name}: {failure}", flush=True)
        if not failures(lane.report):
            print(f"{lane.name} ended with {lane.code}, though no test of it failed: see above", flush=True)
    total = sum((read(lane.report) for lane in lanes), Count())
    if lanes and not bad and total.passed == 0:
        print("no test ran: the chosen tests do not exist, or all of them were skipped", flush=True)
        return 1
    for lane in lanes:
        for name in flaky(lane.report):
            print(f"flaky, failed: {name}", flush=True)
    print(f"{total} in {time.monotonic() - started:.0f} s", flush=True)
    return 1 if bad else 0


def print_times(lanes: list[Lane]) -> None:
    """Print the slowest files, and for each lane its last line (cases run and deselected) and its CPU time."""
    if not lanes:
        return
    seconds = sum((seconds_by_file(lane.report) for lane in lanes), Counter[str]())
    print(f"the {SLOWEST} slowest files, in seconds:", flush=True)
    for file, took in seconds.most_common(SLOWEST):
        print(f"{took:8.1f}  {file}", flush=True)
    for lane in lanes:
        print(f"{lane.name}: {lane.cpu_s:.0f} s of CPU; {lane.summary}", flush=True)


def collected(part: str, inside: list[str] | None = None) -> list[str]:
    """Return the sorted node ids that pytest collects for a part, in some folders or in all lanes."""
    inside = inside or [folder for lane in ("plain", *NAMED) for folder in folders(lane)]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--part", part, *inside]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=True)
    return sorted(line for line in done.stdout.splitlines() if "::" in line)


def compare() -> int:
    """Return 0 if the two parts together have each case exactly once."""
    with ThreadPoolExecutor() as collections:
        first, rest, whole = collections.map(collected, ("first", "rest", ALL))
    print(f"{len(first)} cases in `make test`, {len(rest)} in `make test-rest`, {len(whole)} in all", flush=True)
    twice, nowhere = set(first) & set(rest), set(whole) ^ set(first + rest)
    for name in sorted(twice | nowhere):
        print(f"not exactly once: {name}", flush=True)
    return 0 if sorted(first + rest) == whole else 1


@contextmanager
def only_run() -> Iterator[None]:
    """Lock the reports of this clone; another run ends with a message."""
    REPORTS.mkdir(parents=True, exist_ok=True)
    with (REPORTS / ".lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            print(
                f"tests: another run uses this clone (process {lock.read().strip()}). Wait until it ends, or use another clone.",
                file=sys.stderr,
            )
            raise SystemExit(USAGE) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def main(arguments: list[str]) -> int:
    """Run the program as the module's docstring shows."""
    if arguments[:1] == ["--sum"]:
        print(sum((read(report) for report in sorted(REPORTS.glob("*.xml"))), Count()))
        return 0
    if arguments[:1] == ["--compare"]:
        return compare()
    end = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", choices=["first", "rest", ALL], default=ALL, help="see tests/support/parts.py")
    parser.add_argument("lanes", nargs="+")
    given = parser.parse_args(arguments[:end])
    with only_run():
        return run(given.lanes, arguments[end + 1 :], given.part)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
