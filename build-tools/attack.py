"""Let the suites of attacks look for unknown faults, each for a third of the minutes.

    python build-tools/attack.py 60             tables, objects, terminal: twenty minutes each
    python build-tools/attack.py 10 objects     one of them, for all of the ten
    python build-tools/attack.py 60 -- -x       what follows `--` goes to pytest

All are tried, also after one that failed; the last line counts the tests of all. What a suite found stands in its output
with the seed that found it: `BACKFILL_ATTACK_SEED=n` tries that one again.
"""

import os
import sys

import run_tests

SUITES = ("tables", "objects", "terminal")


def main(arguments: list[str]) -> int:
    """Do what the module's docstring shows; return 0 when nothing was found."""
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
