"""A job on a job: the source is the target of another job, whose whole life was simulated before.

Each commit of that target is a version of the source: seals, commits of only a state, and MERGEs. Another one removes all rows
before an attempt starts over, after which the same keys come back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from support.replica.filed_table import FiledTable, NamedFile
from support.simulation.law import demand
from support.simulation.model import Model, Progress
from support.simulation.oracle import StoredState
from support.simulation.scenario import Scenario, scenario
from support.simulation.tables import APPEND, CHANGELOG, UPSERT, Commit, Row
from support.simulation.versions import DELETE, INSERT, UPDATE, Change, TableModel, VersionedTable

if TYPE_CHECKING:
    from support.simulation.world import World

FILES = "Files"
GROWING = (("Snapshot", APPEND), ("Arrangement", APPEND))
"""Jobs whose targets only grow, and have no MERGE."""

CHANGING = (("Snapshot", UPSERT), ("Arrangement", UPSERT), ("RearrangedChain", UPSERT), ("Replica", FILES))
UPSTREAM = {APPEND: GROWING, UPSERT: CHANGING, CHANGELOG: CHANGING, FILES: (*GROWING, ("Replica", FILES))}
"""Strategies and modes of the other job, by the mode of the job that reads its target."""


def upstream(given: Scenario) -> Scenario:
    """Return the world of the other job; the seed determines it."""
    rng = Random(f"{given.seed}/upstream")
    strategy, mode = rng.choice(UPSTREAM[given.mode])
    return replace(scenario(strategy, (mode,), rng.randrange(1_000_000)), rows=rng.choice([12, 60]), loses=None)


class _Commits:
    """The commits of a target, of which a reader has seen some."""

    def __init__(self, rng: Random, commits: Sequence[Commit]) -> None:
        self._rng, self._left = rng, list(reversed(commits))

    def before_the_job(self) -> list[Commit]:
        """Return the commits before the reading job begins: at least the one that creates the table."""
        return self._take(1 + self._rng.randrange(1 + len(self._left) // 2))

    def next(self) -> list[Commit]:
        """Return the next ones; empty if the other job has ended."""
        return self._take(self._rng.choice([1, 2, 5]))

    def _take(self, count: int) -> list[Commit]:
        return [self._left.pop() for _ in range(min(count, len(self._left)))]


def rows_of(commit: Commit) -> dict[int, int]:
    """Return the rows of a commit by key."""
    rows: dict[int, int] = dict(commit.rows.elements())
    demand(len(rows) == commit.rows.total(), "the target of the other job has two rows with one key")
    return rows


def _described(commits: list[Commit], version: int) -> str:
    kinds = ", ".join(commit.kind for commit in commits)
    return f"up to version {version}: {kinds} of the other job" if commits else "the other job has ended"


class StackedTable(VersionedTable):
    """The target of another job as a table with a change feed; `commit` shows its next versions."""

    def __init__(self, seed: int, commits: Sequence[Commit], *, sparse: bool, filtered: bool) -> None:
        """Show the versions from before the job."""
        super().__init__(seed, rows=0, append_only=False, sparse=sparse, filtered=filtered)
        self._unseen = _Commits(self._rng, commits)
        self._versions.clear()
        self.changes.clear()
        self._add(self._unseen.before_the_job())

    def commit(self) -> str:
        """See the class."""
        commits = self._unseen.next()
        self._add(commits)
        return _described(commits, self.version)

    def _add(self, commits: list[Commit]) -> None:
        for commit in commits:
            before, after = self._versions[-1] if self._versions else {}, rows_of(commit)
            self._versions.append(after)
            self.changes.append(tuple(_changes(commit.version, before, after)))


def _changes(version: int, before: dict[int, int], after: dict[int, int]) -> list[Change]:
    gone = [Change(version, DELETE, key, before[key]) for key in sorted(before.keys() - after.keys())]
    new = [Change(version, INSERT, key, after[key]) for key in sorted(after.keys() - before.keys())]
    kept = [key for key in sorted(before.keys() & after.keys()) if before[key] != after[key]]
    return [*gone, *new, *(Change(version, UPDATE, key, after[key], before[key]) for key in kept)]


class StackedFiles(FiledTable):
    """The same with the files of that target under separate names; rows that a version does not contain are hidden."""

    def __init__(self, seed: int, commits: Sequence[Commit], *, filtered: bool) -> None:
        """Show the versions from before the job."""
        super().__init__(seed, rows=0, sparse=False, filtered=filtered)
        self._whole: dict[str, tuple[str, dict[Row, None]]] = {}
        """Name, and rows of any version in their order, by path."""

        for path, rows in (item for commit in commits for item in commit.files.items()):
            name = f"{self._rng.randrange(1 << 16):04x}{len(self._whole)}"
            self._whole.setdefault(path, (name, {}))[1].update(dict.fromkeys(rows))
        self._unseen = _Commits(self._rng, commits)
        self._versions.clear()
        self.changes.clear()
        self.files.clear()
        self._add(self._unseen.before_the_job())

    def commit(self) -> str:
        """See the class."""
        commits = self._unseen.next()
        self._add(commits)
        return _described(commits, self.version)

    def _add(self, commits: list[Commit]) -> None:
        for commit in commits:
            self._versions.append(rows_of(commit))
            self.changes.append(())
            self.files.append(dict(self._named(path, rows) for path, rows in commit.files.items()))

    def _named(self, path: str, live: Sequence[Row]) -> tuple[str, NamedFile]:
        name, whole = self._whole[path]
        hidden = frozenset(position for position, row in enumerate(whole) if row not in live)
        return name, NamedFile(tuple(whole), hidden, len(whole))


def stack(model: Model, given: Scenario, commits: Sequence[Commit]) -> None:
    """Let a model read the target of another job."""
    assert isinstance(model, TableModel)
    if isinstance(model.table, FiledTable):
        model.table = StackedFiles(given.seed, commits, filtered=model.filtered)
    else:
        model.table = StackedTable(given.seed, commits, sparse=model.table.sparse, filtered=model.filtered)


def check_chain(other: World, model: Model, progress: Progress, actual: Counter[Row]) -> bool:
    """Compare the rows after two stacked jobs with the promise of the first job's state about its source.

    Returns false if they cannot be compared: a MERGE of the first job has no state, and a changelog has no rows of the source.
    """
    assert isinstance(model, TableModel)
    commit = other.target.commits[model.compared(progress).version]
    if model.mode == CHANGELOG or commit.kind == "merge":
        return False
    promised = Counter[Row]()
    if commit.kind not in ("create", "drop"):
        promised = other.model.expected(StoredState.read(commit.state).progress).rows
    expected = Counter({row: count for row, count in promised.items() if model.table.passes(row[1])})
    demand(
        actual == expected,
        f"two jobs: missing {sorted(expected - actual)[:5]}, surplus {sorted(actual - expected)[:5]}",
    )
    return True
