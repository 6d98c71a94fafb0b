"""Run suites of tests as lanes beside each other, and end with one line for all of them.

    python build-tools/run_tests.py spark rules control   one pytest process each, three at a time, one closing line
    python build-tools/run_tests.py rules -- -k throttle  what follows `--` goes to pytest
    python build-tools/run_tests.py --sum                 the closing line of all reports of build/reports

A test that fails is run once more, alone, when all lanes are done: on a machine whose neighbours take its cores, a promise
of ten seconds may take eleven. If it passes then, the closing line counts it as passed and names it as one to look at.
More than three failures, or a lane that ends badly without one, stop the other lanes at once: that is no bad hour.
What failed is told again before the closing line, where the end of a log shows it. A run in which no test ran fails: it
has shown nothing. A folder of tests belongs to exactly one lane; a new folder belongs to `spark` until it says otherwise
here.
"""

import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parent.parent
REPORTS = ROOT / "build" / "reports"
NO_SUITE = {"support", "benchmarks"}
ATTACKS = {"tables", "objects", "terminal"}
"""Suites below tests/attack, each a lane: a small steady form in `make test`, as long as one likes in `make attack`."""
OWN_LANE = {"crash", "e2e", "attack", "stores"}
CONTROL = {"control_plane"}
JOBS = {"jobs"}
RULES = {"core", "simulation", "api", "words", "architecture", "cli"}
TESTS_FAILED = 1
NOTHING_COLLECTED = 5
TOLD_LINES = 30
"""Of each failure, at the end: enough for an assertion with what it compared."""
AT_ONCE = 3
"""Lanes beside each other. On two cores the third takes what the operator's tests leave while they wait."""
LAST_IN_LINE = {"spark", "jobs", "tables"}
"""Lanes that wait minutes for Spark step back for those that promise something within ten seconds."""
AGAIN_MAX = 3
"""So many failed tests of a run are run once more; more than that have one cause, and it is no bad hour."""
ONCE = {"crash", "e2e"} | ATTACKS
"""Lanes that meet chance: what they found once counts, even if it is not found again."""


def folders(lane: str) -> list[str]:
    """Return the test folders of a lane; none of one that has no tests yet."""
    if lane in ATTACKS:
        folder = ROOT / "tests" / "attack" / lane
        return [f"tests/attack/{lane}"] if any(folder.glob("**/test_*.py")) else []
    everything = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.glob("**/test_*.py"))}
    chosen = {
        "rules": everything & RULES,
        "control": everything & CONTROL,
        "jobs": everything & JOBS,
        "spark": everything - RULES - CONTROL - JOBS - NO_SUITE - OWN_LANE,
    }.get(lane, {lane})
    return [f"tests/{name}" for name in sorted(chosen & everything)]


@dataclass(frozen=True)
class Count:
    """How many tests ended how."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: "Count") -> "Count":
        return Count(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    def __str__(self) -> str:
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {self.failed} failed{skipped}"


def parsed(report: Path) -> ET.Element | None:
    """Return a JUnit report; None when it is missing or cut off."""
    try:
        return ET.parse(report).getroot()  # noqa: S314 (pytest wrote it)
    except (FileNotFoundError, ET.ParseError):
        return None


def read(report: Path) -> Count:
    """Count a JUnit report; one that is missing or cut off is a failure."""
    root = parsed(report)
    if root is None:
        return Count(failed=1)
    total = Count()
    for suite in root.iter("testsuite"):
        failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped = int(suite.get("skipped", 0))
        total += Count(int(suite.get("tests", 0)) - failed - skipped, failed, skipped)
    return total


def failures(report: Path) -> list[str]:
    """Name each failed test of a JUnit report, with the end of what it said; nothing of a report that is not there."""
    root = parsed(report)
    told = []
    for case in [] if root is None else root.iter("testcase"):
        for found in case:
            if found.tag in {"failure", "error"}:
                lines = (found.text or found.get("message") or "").strip().splitlines()[-TOLD_LINES:]
                told.append("\n".join([f"{found.tag}: {case.get('classname')}.{case.get('name')}", *lines]))
    return told


def forgive(report: Path) -> list[str]:
    """Take the failures out of a JUnit report, because the tests passed when they ran again; return the tests' names."""
    root = parsed(report)
    assert root is not None
    names = []
    for suite in root.iter("testsuite"):
        suite.set("failures", "0")
        suite.set("errors", "0")
        for case in suite.iter("testcase"):
            if found := [one for one in case if one.tag in {"failure", "error"}]:
                names.append(f"{case.get('classname')}.{case.get('name')}")
                for one in found:
                    case.remove(one)
                    ET.SubElement(case, "system-out").text = f"failed at first: {one.text or one.get('message')}"
    ET.ElementTree(root).write(report)
    return names


class Lane:
    """One pytest process, its output forwarded line by line under its name."""

    def __init__(self, name: str, extra: list[str], *, alone: bool, again: bool = False) -> None:
        self.name = name
        self.report = REPORTS / f"{name}{'.again' * again}.xml"
        self.report.unlink(missing_ok=True)
        # Each lane notes what failed in a cache of its own: another lane would overwrite it.
        noted = [
            "-o",
            f"cache_dir={REPORTS / name}.cache",
            *(("--last-failed", "--last-failed-no-failures=none") * again),
        ]
        command = [
            sys.executable,
            "-u",
            "-m",
            "pytest",
            "-q",
            f"--junit-xml={self.report}",
            *folders(name),
            *extra,
            *noted,
        ]
        self.process = subprocess.Popen(
            ["nice", "-n", "10", *command] if name in LAST_IN_LINE else command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.prefix = "" if alone else f"{name:>8} | "
        self.told = True
        self.reader = threading.Thread(target=self.forward)
        self.reader.start()

    def forward(self) -> None:
        """Print what pytest says until it has no more to say."""
        for line in self.process.stdout or ():
            if self.told:
                print(f"{self.prefix}{line}", end="", flush=True)

    def stop(self) -> None:
        """End it as Ctrl-C does: pytest tears down and reports what it has. What it says of that is not news."""
        self.told = False
        self.process.send_signal(signal.SIGINT)

    @property
    def may_run_again(self) -> bool:
        """Did it end with a few failed tests, and nothing worse? An interrupted one did not."""
        return (
            self.name not in ONCE and self.process.poll() == TESTS_FAILED and 0 < read(self.report).failed <= AGAIN_MAX
        )

    def poll(self) -> int | None:
        """Return the exit code, None while it runs; a lane without tests has not failed."""
        code = self.process.poll()
        return 0 if code == NOTHING_COLLECTED else code


def run(names: list[str], extra: list[str]) -> int:
    """Run the lanes; return 0 when every test passed, at once or when it was run again."""
    REPORTS.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    lanes = ran([name for name in names if folders(name)], extra, alone=len(names) == 1)
    bad = [lane for lane in lanes if lane.poll() != 0]
    for lane in bad:
        for failure in failures(lane.report):
            print(f"{lane.name}: {failure}", flush=True)
        if not failures(lane.report):
            print(f"{lane.name} ended with {lane.poll()}, though no test of it failed: see above", flush=True)
    late: list[str] = []
    if bad and all(lane.may_run_again for lane in bad) and sum(read(lane.report).failed for lane in bad) <= AGAIN_MAX:
        late = [name for lane in bad for name in passed_again(lane, extra)]
        bad = [lane for lane in bad if failures(lane.report)]
    total = sum((read(lane.report) for lane in lanes), Count())
    if lanes and not bad and total.passed == 0:
        print("no test ran: what was chosen is not there, or all of it was skipped", flush=True)
        return 1
    for name in late:
        print(f"passed only when it was run again: {name}", flush=True)
    print(f"{total} in {time.monotonic() - started:.0f} s", flush=True)
    return 1 if bad else 0


def ran(waiting: list[str], extra: list[str], *, alone: bool) -> list[Lane]:
    """Run the lanes, three at a time, until all are done or one fails for good."""
    lanes: list[Lane] = []
    running: list[Lane] = []
    while running or waiting:
        while waiting and len(running) < AT_ONCE:
            lanes.append(Lane(waiting.pop(0), extra, alone=alone))
            running.append(lanes[-1])
        time.sleep(0.1)
        for lane in [lane for lane in running if lane.poll() is not None]:
            running.remove(lane)
            if lane.poll() != 0 and not lane.may_run_again:
                waiting.clear()
                for other in running:
                    print(f"{lane.name} failed: stopping {other.name}", flush=True)
                    other.stop()
    for lane in lanes:
        lane.reader.join()
    return lanes


def passed_again(lane: Lane, extra: list[str]) -> list[str]:
    """Run what failed in a lane once more; return the names of its tests if all of them passed, else nothing."""
    print(f"{lane.name}: what failed runs once more, alone", flush=True)
    again = Lane(lane.name, extra, alone=False, again=True)
    again.process.wait()
    again.reader.join()
    there = read(again.report)
    again.report.unlink(missing_ok=True)
    if again.poll() != 0 or there.failed or there.passed < read(lane.report).failed:
        return []
    return forgive(lane.report)


def main(arguments: list[str]) -> int:
    """Do what the module's docstring shows."""
    if arguments[:1] == ["--sum"]:
        print(sum((read(report) for report in sorted(REPORTS.glob("*.xml"))), Count()))
        return 0
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return run(arguments[:end], arguments[end + 1 :])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
