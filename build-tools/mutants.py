"""Plant known bugs one by one, each in a scratch copy, and check that the test of the bug fails.

    python build-tools/mutants.py              every bug of tests/mutants, after the named tests passed without one
    python build-tools/mutants.py --cheap      those whose tests need no Spark; of them, `--share 1/2` is every second one
    python build-tools/mutants.py late-merge   some bugs, by name
    python build-tools/mutants.py --list       print all bugs

An uncaught bug means that a test is missing. If the source line of a bug has changed, the program fails before it runs
tests: see `planted_bugs.Mutant.misfits`.
"""

import argparse
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import hypothesis  # noqa: F401 - loaded once, before the forks
import pydantic  # noqa: F401
import pytest
from planted_bugs import ROOT, Mutant, listed, load

SOURCE_ROOTS = ("crds", "operator", "spark_app")
COPIED = ("build-tools", "charts", "crds", "docs", "examples", "operator", "requirements", "spark_app", "tests")
SECONDS_MAX = 300
"""Time limit of a test. A planted bug that makes its test hang is not caught."""

FAILED = 1
"""Exit code of pytest if tests ran and some failed."""


def copy_to(folder: Path) -> Path:
    """Copy the files that tests need, without compiled ones: Python does not notice a change within a second."""
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(ROOT / "pyproject.toml", folder / "pyproject.toml")
    return folder


class TestRun:
    """Tests of a copy in a separate process, created by a fork so that third-party modules are already imported."""

    def __init__(self, root: Path, tests: list[str], only: str) -> None:
        """Start."""
        self.started = time.monotonic()
        self._log = root / "said.log"
        self.pid = os.fork()
        if self.pid == 0:
            os._exit(_test(root, tests, only, self._log))

    def poll(self) -> int | None:
        """Return pytest's exit code; `None` while it runs, a negative number after the time limit."""
        done, status = os.waitpid(self.pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() - self.started > SECONDS_MAX:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            return -signal.SIGKILL
        return None

    @property
    def said(self) -> str:
        """Output of the tests."""
        return self._log.read_text()


def _test(root: Path, tests: list[str], only: str, log: Path) -> int:
    """Run the tests in the child process; return the exit code."""
    output = log.open("wb")
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    os.chdir(root)
    paths = [str(root / name) for name in SOURCE_ROOTS]
    sys.path[:0] = paths
    # For the processes that tests start.
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    sys.dont_write_bytecode = True
    options = ["-q", "-x", "-rf", "--no-header", "-p", "no:cacheprovider", *(("-k", only) if only else ())]
    try:
        return int(pytest.main([*options, *tests]))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def seen(run: TestRun, code: int) -> str | None:
    """Return `None` if a test failed as expected, or else a message."""
    if code == FAILED and "\nFAILED " in run.said:
        return None
    return f"NOT CAUGHT (pytest ended with {code}):\n{run.said[-1500:]}"


def judge(chosen: list[Mutant], jobs: int) -> int:
    """Plant each bug in one of `jobs` copies, and run its test there; return the number of caught bugs."""
    waiting, caught = list(chosen), 0
    with contextlib.ExitStack() as scratch:
        free = [
            copy_to(Path(scratch.enter_context(tempfile.TemporaryDirectory(prefix="mutants-")))) for _ in range(jobs)
        ]
        running: list[tuple[Mutant, Path, TestRun]] = []
        while waiting or running:
            while waiting and free:
                mutant, root = waiting.pop(0), free.pop()
                mutant.plant(root)
                running.append((mutant, root, TestRun(root, [mutant.test], mutant.only)))
            time.sleep(0.05)
            for mutant, root, run in list(running):
                code = run.poll()
                if code is None:
                    continue
                missed = seen(run, code)
                caught += missed is None
                print(f"{mutant.name}: {missed or f'caught in {time.monotonic() - run.started:.1f} s'}", flush=True)
                mutant.heal(root)
                running.remove((mutant, root, run))
                free.append(root)
    return caught


def untouched_pass(chosen: list[Mutant]) -> bool:
    """Return whether the tests pass without a bug; a test that fails anyway catches nothing."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        root = copy_to(Path(scratch))
        for only in sorted({mutant.only for mutant in chosen}):
            run = TestRun(root, sorted({mutant.test for mutant in chosen if mutant.only == only}), only)
            while (code := run.poll()) is None:
                time.sleep(0.05)
            if code != 0:
                print(f"without a planted bug:\n{run.said[-3000:]}")
                return False
    return True


def share(text: str) -> tuple[int, int]:
    """Return `K/N` as two numbers.

    Raises:
        ValueError: K is not one of 1 to N.
    """
    number, of = map(int, text.split("/"))
    if not 1 <= number <= of:
        raise ValueError(text)
    return number, of


def main(arguments: list[str]) -> int:
    """Return 0 if every chosen bug was caught."""
    parser = argparse.ArgumentParser(description="Plant known bugs, and check that their tests fail.")
    parser.add_argument("names", nargs="*", help="names of bugs; all bugs by default")
    parser.add_argument("--cheap", action="store_true", help="only the bugs whose tests need no Spark")
    parser.add_argument(
        "--share", type=share, default=(1, 1), metavar="K/N", help="every N-th of these, from the K-th on"
    )
    parser.add_argument("--list", action="store_true", help="print all planted bugs and plant none")
    parser.add_argument("--jobs", type=int, default=2, help="number of concurrent tests")
    given = parser.parse_args(arguments)
    if given.list:
        print(listed())
        return 0
    everything = load()
    unknown = set(given.names) - {mutant.name for mutant in everything}
    misfits = [misfit for mutant in everything if (misfit := mutant.misfits(ROOT))] + [
        f"{name}: unknown" for name in unknown
    ]
    if misfits:
        print("\n".join(misfits))
        return 1
    chosen = [
        mutant
        for mutant in everything
        if (mutant.name in given.names or not given.names) and (mutant.cheap or not given.cheap)
    ]
    number, of = given.share
    chosen = chosen[number - 1 :: of]
    os.nice(10)
    started = time.monotonic()
    if not given.cheap and not untouched_pass(chosen):
        return 1
    caught = judge(chosen, given.jobs)
    print(f"{caught} of {len(chosen)} planted bugs caught in {time.monotonic() - started:.0f} s")
    return 0 if caught == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
