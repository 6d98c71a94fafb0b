"""Splits the tests into two parts: `make test` runs `first`, `make test-rest` runs `rest`.

    pytest tests/jobs --part first    every case without Spark; of each file on Spark the first case, and those marked `always`
    pytest tests/jobs --part rest     the remaining cases
    pytest tests/jobs                 both
    pytest tests/jobs --part rest --share 2/3    the remaining cases in the second of three shares: a file's cases of one seed are in one share

A case is on Spark if it uses the session or the broker of the suite, or if it is marked `spark` because it starts a process
with a separate session. Of the cases that take a seed, `first` has the seeds below `SEEDS`. A case marked `rest` is in `rest`:
it takes minutes, starts a separate Java or several drivers (ten to twenty CPU seconds) for a rare path, counts over all seeds, or
is outside a sample of all combinations.
"""

import argparse
import zlib
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
FIRST, REST, ALL = "first", "rest", "all"
SEEDS = 20
ON_SPARK = {"spark", "broker"}
"""Fixtures that need a Java process."""


def add_option(parser: pytest.Parser) -> None:
    """Add the options `--part` and `--share`."""
    parser.addoption("--part", choices=[FIRST, REST, ALL], default=ALL, help="which part of the cases to run")
    parser.addoption("--share", type=share, default=(1, 1), metavar="K/N", help="the K-th of N shares")


def share(text: str) -> tuple[int, int]:
    """Return `K/N` as two numbers.

    Raises:
        argparse.ArgumentTypeError: K is not one of 1 to N.
    """
    number, _, of = text.partition("/")
    if not (number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
        raise argparse.ArgumentTypeError(f"{text!r} is not K/N with 1 <= K <= N, such as 2/3")
    return int(number), int(of)


def is_in_share(path: Path, seed: int, number: int, of: int) -> bool:
    """Return whether the cases of a file and a seed are in a share: the same one on each machine, as long as the file has its name."""
    return (zlib.crc32(path.relative_to(ROOT).as_posix().encode()) + seed) % of == number - 1


def is_on_spark(item: pytest.Item) -> bool:
    """Return whether a case needs a session of Spark, a separate one or the suite's."""
    return not ON_SPARK.isdisjoint(item.fixturenames) or item.get_closest_marker("spark") is not None  # type: ignore[attr-defined]


def seed_of(item: pytest.Item) -> int:
    """Return the seed of a case; 0 if it has none."""
    seed = item.callspec.params.get("seed", 0) if hasattr(item, "callspec") else 0
    return seed if isinstance(seed, int) else 0


def first_part(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Return the cases of the part `first`; `items` are whole test files, in the order of collection."""
    chosen: set[pytest.Item] = set()
    begun: set[Path] = set()
    for item in items:
        if item.get_closest_marker("rest") is not None:
            continue
        if not is_on_spark(item):
            if seed_of(item) < SEEDS:
                chosen.add(item)
            continue
        if item.path not in begun or item.get_closest_marker("always") is not None:
            chosen.add(item)
        begun.add(item.path)
    return chosen


def keep(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave only the cases of the chosen part and share in `items`; report the others as deselected."""
    part, (number, of) = config.getoption("--part"), config.getoption("--share")
    first = first_part(items)
    in_part = [item for item in items if part == ALL or (item in first) == (part == FIRST)]
    kept = [item for item in in_part if is_in_share(item.path, seed_of(item), number, of)]
    left_out = set(items) - set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = kept
