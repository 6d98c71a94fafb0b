"""Jobs of one live table that die, while another engine appends, changes, removes and merges rows, and rewrites files.

The oracle is what the writers made, kept without reading the table. A row must be there once, with the writer's values. Its filled
column is the writer's own value, or else the expression's; null only until the job has filled all files of a version.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from deltalake import DeltaTable, QueryBuilder, write_deltalake
from deltalake.exceptions import CommitFailedError
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from support.crashes.deaths import RANDOM, MortalJob, plan_of
from support.tables.jobs import write_yaml
from support.tables.logs import actions_in, commit_of, commits_of
from support.tables.oracle import SeenSeal, columns_of
from support.tables.other_engine import delete, update

from backfill_spark.sinks.delta.live.committer import state_of

ROWS, FILES, RATE = 36_000, 36, 1_500
NAMES = """
    SELECT value AS id, 'n' || CAST(value % 50 AS VARCHAR) AS name, value * 7919 % 1003 AS amount, CAST(NULL AS VARCHAR) AS norm
    FROM generate_series({first}, {last})"""
NORM, NO_RESULT = "nullif(upper(name), 'N7')", "n7"
MODES = ("Vectors", "Rewrites")
"""Writers of the jobs, by seed: Spark, which hides rows, and delta-rs, which rewrites files."""

SEALS_MAX = 3
POINTS = (
    "after_fence:1", "after_finish:1", "before_orphan_removal:1", "after_orphan_removal:1", "before_stage:1", "after_stage:2", "before_seal:2",
    "before_fill:1", "after_fill:1", "before_fill:2", "after_fill:2", "after_seal_commit:2", "before_ack:1", "before_finish:1",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A row as the writers left it."""

    name: str
    amount: int
    norm: str | None = None
    """The writer's own value; `None` if the job computes it."""

    @property
    def computed(self):
        """Value at the end."""
        return self.norm or (None if self.name == NO_RESULT else self.name.upper())


def seals_of(table, after=-1):
    """Return the commits of a table with a state of the job in them."""
    found = []
    for version in commits_of(table, after):
        text = state_of(actions_in(commit_of(table, version)))
        if text:
            found.append(SeenSeal(version, json.loads(text)))
    return found


class FillJob(MortalJob):
    """One live table, one column, many deaths."""

    POINTS, distance_max_ms = POINTS, 0

    def __init__(self, spark, folder, strategy, seed):
        super().__init__(spark, folder, strategy, seed, rate=RATE, seals_max=SEALS_MAX)
        self.mode = self.report.mode = MODES[seed % len(MODES)]
        self.random, self.fresh_id, self.refused = random.Random(seed), 0, 0
        self.truth: dict[int, Row] = {}
        self.past: list[tuple[int, dict[int, Row]]] = []
        """Rows of each version that a writer made."""

        for _ in range(FILES):
            self.append(ROWS // FILES)
        self.hides = self.mode == MODES[0]
        if self.hides:
            self.run_sql("ALTER TABLE {} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
        self.remember(self.truth)

    # -------------------------------------------------------------- defined by `MortalJob`
    def deaths(self):
        """Commits keep a distance of up to two minutes in a process that no test can change, so it dies after its first one."""
        return [
            replace(death, seals=1) if death.with_java and death.kind == RANDOM else death
            for death in plan_of(self.seed, self.POINTS, self.seals_max)
        ]

    def write(self, *, limited):
        """The limit makes many commits."""
        limit = {"throttle": {"rowsPerSecond": RATE}} if limited else {}
        write_yaml(
            self.file, self.target, self.target, name=self.name, verify="Final", barrier={"intervalMs": 200}, source={"key": []},
            strategy={"type": "InPlace"}, transform={"set": {"norm": NORM}}, **limit,
        )  # fmt: skip

    def seals(self, after=-1):
        """See `MortalJob`."""
        return seals_of(self.target, after)

    def wrong(self, new):
        """Compare the rows at each seal with those of the writers; at the end none is left to fill."""
        problems = [problem for seal in new for problem in self.differences(seal.version, ended=False)]
        filled = new[-1].progress["filled"]
        return problems if filled is None else [*problems, *self.differences(filled, ended=True)]

    def differences(self, version, *, ended):
        """Return the errors of a version."""
        expected = next(rows for made, rows in reversed(self.past) if made <= version)
        stored = columns_of(self.target, "id", "name", "amount", "norm", version=version)
        seen = {number: (name, amount, norm) for number, name, amount, norm in stored}
        where = f"version {version}"
        if len(seen) != len(stored) or seen.keys() != expected.keys():
            return [f"{where}: {len(stored)} rows, {len(seen)} ids, should be {len(expected)}"]
        wrong = [number for number, row in expected.items() if not is_right(row, seen[number], ended=ended)]
        return (
            [f"{where}: {len(wrong)} wrong rows, {wrong[0]}: {seen[wrong[0]]}, {expected[wrong[0]]}"] if wrong else []
        )

    def change(self):
        """Commit once as another writer, which retries nothing: a transaction that meets a commit of the job fails."""
        pick = self.random.randrange(1000)
        kinds: list[Callable[[int], None]] = [
            self.append_some,
            self.amounts,
            self.names,
            self.own,
            self.delete,
            self.compact,
        ]
        kind = self.random.choice([*kinds, self.merge] if self.hides else kinds)
        before = dict(self.truth)
        try:
            kind(pick)
        except (CommitFailedError, PySparkException, Py4JJavaError) as error:
            if not isinstance(error, CommitFailedError) and "DELTA_CONCURRENT" not in str(error):
                raise
            self.refused += 1
            self.truth = before
            return
        self.remember(self.truth)

    # -------------------------------------------------------------- writers
    def remember(self, rows):
        """Store the rows of the newest version that another writer made."""
        after = self.past[-1][0] if self.past else -1
        foreign = [version for version in commits_of(self.target, after) if not is_ours(self.target, version)]
        if foreign:
            self.past.append((foreign[-1], dict(rows)))

    def append(self, rows):
        """Add rows without a value."""
        first, self.fresh_id = self.fresh_id, self.fresh_id + rows
        query = NAMES.format(first=first, last=self.fresh_id - 1)
        write_deltalake(self.target, QueryBuilder().execute(query).read_all(), mode="append")
        self.truth |= {number: Row(f"n{number % 50}", number * 7919 % 1003) for number in range(first, self.fresh_id)}

    def append_some(self, pick):
        """Add a few rows."""
        self.append(20 + pick % 20)

    def amounts(self, pick):
        """Change a column that no expression reads."""
        self.update(pick, amount="amount + 1")
        self.change_rows(pick, lambda row: replace(row, amount=row.amount + 1))

    def names(self, pick):
        """Change the column that the expression reads; the value is to be computed again."""
        self.update(pick, name=f"'m{pick}'", norm="nullif('', '')")
        self.change_rows(pick, lambda row: replace(row, name=f"m{pick}", norm=None))

    def own(self, pick):
        """Set a value that the job must keep."""
        self.update(pick, norm=f"'own {pick}'")
        self.change_rows(pick, lambda row: replace(row, norm=f"own {pick}"))

    def delete(self, pick):
        """Remove rows."""
        where = f"id % 499 = {pick % 499}"
        self.run_sql(f"DELETE FROM {{}} WHERE {where}") if self.hides else delete(self.target, where)
        self.truth = {number: row for number, row in self.truth.items() if number % 499 != pick % 499}

    def compact(self, pick):
        """Write small files again, as a few large ones."""
        del pick
        self.run_sql("OPTIMIZE {}") if self.hides else DeltaTable(self.target).optimize.compact()

    def merge(self, pick):
        """Remove a row, change one and insert one."""
        first, self.fresh_id = self.fresh_id, self.fresh_id + 1
        self.run_sql(f"""
            MERGE INTO {{}} AS t USING (SELECT explode(array({pick}, {pick + 1}, {first})) AS id) AS s ON t.id = s.id
            WHEN MATCHED AND s.id = {pick} THEN DELETE WHEN MATCHED THEN UPDATE SET t.amount = -1
            WHEN NOT MATCHED AND s.id = {first} THEN INSERT (id, name, amount) VALUES (s.id, 'new', 5)""")
        changed = {pick + 1: replace(self.truth[pick + 1], amount=-1)} if pick + 1 in self.truth else {}
        self.truth = (
            {number: row for number, row in self.truth.items() if number != pick} | changed | {first: Row("new", 5)}
        )

    def update(self, pick, **columns):
        """Set columns of some rows."""
        where = f"id % 97 = {pick % 97}"
        assigned = ", ".join(f"{name} = {value}" for name, value in columns.items())
        self.run_sql(f"UPDATE {{}} SET {assigned} WHERE {where}") if self.hides else update(
            self.target, where, **columns
        )

    def change_rows(self, pick, change):
        """Let the oracle have the rows of `update`."""
        self.truth |= {number: change(row) for number, row in self.truth.items() if number % 97 == pick % 97}

    def run_sql(self, text):
        """Run a statement on the table in Spark."""
        self.spark.sql(text.format(f"delta.`{self.target}`"))


def is_ours(table, version):
    """Return True if a version is a commit of the job."""
    return any(
        "backfill" in str((action.get("commitInfo") or {}).get("engineInfo"))
        for action in actions_in(commit_of(table, version))
    )


def is_right(row, seen, *, ended):
    """Return True if a reader saw a row as the writers and the job left it."""
    allowed = {row.computed} if ended else {row.computed, row.norm}
    return seen[:2] == (row.name, row.amount) and seen[2] in allowed
