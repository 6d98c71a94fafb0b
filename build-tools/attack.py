"""Run the attack suites to find unknown faults, each for a third of the time.

    python build-tools/attack.py 60             tables, objects, terminal: twenty minutes each
    python build-tools/attack.py 10 objects     one suite, for ten minutes
    python build-tools/attack.py 60 -- -x       arguments after `--` go to pytest

Every suite runs, even after a failure; the last line counts the tests of all suites. The output contains each fault with
its seed: `BACKFILL_ATTACK_SEED=n` runs that seed again.
"""

import os
import sys

import run_tests

SUITES = ("tables", "objects", "terminal")


def main(arguments: list[str]) -> int:
    """Run the program as the module's docstring shows; return 0 if no fault was found."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    minutes, *chosen = arguments[:end]
    suites = [suite for suite in chosen or SUITES if run_tests.folders(suite)]
    seconds = float(minutes) * 60 / max(1, len(suites))
    os.environ["BACKFILL_ATTACK_SECONDS"] = f"{seconds:.0f}"
    worst = 0
    for suite in suites:
        print(f"attack: {suite}, {seconds / 60:.1f} min", flush=True)
        worst = max(worst, run_tests.run([suite], ["-s", *arguments[end + 1 :]]))
    print(sum((run_tests.read(run_tests.REPORTS / f"{suite}.xml") for suite in suites), run_tests.Count()))
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
