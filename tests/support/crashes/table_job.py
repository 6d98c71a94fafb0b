"""Jobs of a table that die, by strategy: another engine changes the table meanwhile, also across the position of the job."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from deltalake import DeltaTable
from support.crashes.deaths import SEALS_MAX, MortalJob
from support.tables.jobs import write_yaml
from support.tables.logs import has_version
from support.tables.oracle import coming_back, violations
from support.tables.other_engine import append

FILES = 6
PINNED = 1
"""Version of the target from which on the state contains the pinned version."""

ORDERS = """
    SELECT value AS id, value * 7919 % 1003 AS customer, cast(value % 1000 AS double) AS amount,
        md5(cast(value AS string)) AS note, CASE value % 3 WHEN 0 THEN 'new' WHEN 1 THEN 'paid' ELSE 'sent' END AS status
    FROM generate_series({first}, {last})"""
MODES = ("Upsert", "Append", "Changelog")
"""Modes of the first jobs; all others are upserts, which have the most failure modes."""

READ = {"select": ["id", "customer", "amount", "upper(status) AS status"], "where": "amount < 900"}
WHOLE, GRAFTED, HIDDEN = "Whole", "Grafted", "Hidden"
WAYS = {
    WHOLE: {},
    "Projected": {"select": ["id", "note AS words", "amount"]},
    "Decoded": READ,
    GRAFTED: {"select": ["id", "customer AS client", "amount", "upper(status) AS status"]},
    HIDDEN: {"where": "amount < 900"},
}
"""Transforms of the jobs of a replica, by the copy mode of files."""

GRAFTED_FILES, GRAFTED_ROWS, GRAFTED_RATE = 16, 10_000, 12_000
"""Sizes of a job with computed columns: a smaller file is decoded, and so is one that the limit cuts."""

REWRITTEN = "w-*.parquet"
"""Files with copied column chunks; if the transform computes a column, it was joined to them."""


@dataclass(frozen=True)
class Trial:
    """A strategy, and a job of it that lives through many deaths: its copy takes seconds under the limit."""

    rows: int
    rate: int
    forms: tuple = (MappingProxyType({}),)
    """Settings of the strategy, job by job."""

    seals_max: int = SEALS_MAX
    modes: tuple = MODES
    files: int = FILES

    def form(self, seed):
        return dict(self.forms[seed % len(self.forms)])


BY_AMOUNT = {"chunkRows": 400, "maxReadAmplification": 100_000}
TRIALS = {
    # The copy takes half a minute: a job of a cold Spark removes orphans, and a driver must die there before the copy ends.
    "Snapshot": Trial(48_000, 1_500, modes=(*MODES, GRAFTED)),
    # Ordered by a column that changes, rows cross the position in both directions; ordered by the key, rows with a changed key
    # do.
    "Arrangement": Trial(
        12_000,
        1_500,
        (
            BY_AMOUNT | {"orderBy": [{"column": "amount", "direction": "Descending"}]},
            {"chunkRows": 400},
            BY_AMOUNT | {"orderBy": [{"column": "amount"}]},
        ),
    ),
    # Each attempt restarts, and one that finishes ends the job: those that die at random do so early.
    "RearrangedChain": Trial(2_400, 1_000, seals_max=4),
    # A limit cuts no file, so there are many small files.
    "Replica": Trial(48_000, 1_200, modes=tuple(WAYS), files=64),
}


@dataclass(frozen=True)
class Places:
    """Paths of a job's tables, and the settings by which a driver finds them."""

    source: str
    target: str
    conf: Mapping[str, str] = field(default_factory=dict)


def in_folder(folder):
    """Return the paths of tables on this machine."""
    return Places(f"{folder}/source", f"{folder}/target")


class TableJob(MortalJob):
    """One table, one job, many deaths."""

    POINTS = (
        "after_fence:1", "after_finish:1", "before_orphan_removal:1", "after_orphan_removal:1", "before_stage:1",
        "after_stage:2", "before_seal:3", "after_seal_commit:3", "before_ack:1", "before_merge:1", "after_merge:1",
        "after_seal_commit:2", "before_finish:1",
    )  # fmt: skip

    def __init__(self, spark, folder, strategy, seed, places=None, trial=None):
        trial, places = trial or TRIALS[strategy], places or in_folder(folder)
        mode = trial.modes[seed] if seed < len(trial.modes) else trial.modes[0]
        if mode == GRAFTED:
            trial = replace(trial, rows=GRAFTED_FILES * GRAFTED_ROWS, rate=GRAFTED_RATE, files=GRAFTED_FILES)
        super().__init__(
            spark, folder, strategy, seed, target=places.target, rate=trial.rate, seals_max=trial.seals_max
        )
        self.trial, self.mode, self.report.mode = trial, mode, mode
        self.strategy, self.random = strategy, random.Random(seed)
        self.source, self.conf = places.source, dict(places.conf)
        self.ships = ships(strategy)
        self.transform = WAYS.get(self.mode, READ)
        self.POINTS = points_of(strategy)
        self.fresh_id = 10_000_000  # no key from here on was ever used; a step that uses some advances it
        rows = trial.rows // trial.files
        for first in range(0, trial.rows, rows):
            append(self.source, ORDERS, first, rows)

    def run(self, enough=lambda: False):
        """Run the job; report a problem if a job with computed columns joined none to a copied file."""
        report = super().run(enough)
        # Files of a bucket are not visible here.
        if self.mode == GRAFTED and Path(self.target).is_dir() and not list(Path(self.target).rglob(REWRITTEN)):
            self.problem("no file has a computed column joined to copied ones")
        return report

    def write(self, *, limited):
        """Without a limit the job also reads as much at once as it can."""
        member = self.strategy[0].lower() + self.strategy[1:]
        form = {name: value for name, value in self.trial.form(self.seed).items() if limited or name != "chunkRows"}
        write_yaml(
            self.file, self.source, self.target, name=self.name, verify="Final", barrier={"intervalMs": 200},
            source={"key": [] if self.ships else ["id"]}, target=self.replica_target if self.ships else {"writeMode": "Upsert" if self.mode == GRAFTED else self.mode},
            strategy={"type": self.strategy, member: form}, transform=self.transform,
            **({"throttle": {"rowsPerSecond": self.trial.rate}} if limited else {}),
            **({"spark": {"conf": self.conf}} if self.conf else {}),
        )  # fmt: skip

    @property
    def replica_target(self):
        """Settings of the target of a job that ships the log."""
        return {"filteredRows": "Hidden"} if self.mode == HIDDEN else {}

    def change(self):
        """Write one commit to the source, as another engine does."""
        table, pick = DeltaTable(self.source), self.random.randrange(1000)
        kind = self.random.randrange(7) if self.mode != "Append" else self.random.choice([0, 6])
        # This engine rewrites all files into one, which would be the whole history: a replica cuts none, and a cut one is
        # decoded.
        pinned = has_version(self.target, PINNED)
        match kind if pinned or not (self.ships or self.mode == GRAFTED) else 0:
            case 0:
                append(self.source, ORDERS, self.fresh_id, 50)
                self.fresh_id += 50
            case 1 | 2:
                changed = {"amount": "cast((cast(amount AS bigint) + 37) % 1000 AS double)", "status": "'sent'"}
                table.update(updates=changed, predicate=f"id % 97 = {pick % 97}")
            case 3:
                table.delete(f"id % 499 = {pick % 499}")
            case 4 | 5:
                # Move keys behind the last key or before the first.
                moved = self.random.choice([f"id + {self.fresh_id}", f"-{self.fresh_id} - id"])
                part = f"id >= 0 AND id < {self.trial.rows} AND id % 97 = {pick % 97}"
                table.update(updates={"id": moved}, predicate=part)
                self.fresh_id += self.trial.rows
            case _:
                table.optimize.compact()

    def wrong(self, new):
        """Compare the target with the source, by the strategy's promise."""
        columns, where = ", ".join(self.transform.get("select", ["*"])), self.transform.get("where", "true")
        view = f"SELECT {columns} FROM source WHERE {where}"
        twice = [f"{path} comes back under its vector" for path in coming_back(self.target)]
        return twice + [violation for seal in new for violation in violations(self.source, self.target, seal, view)]


def ships(strategy):
    """Return whether a strategy copies files, and writes no rows with a MERGE."""
    return strategy == "Replica"


def points_of(strategy):
    """Return the crash points that a job of a strategy meets: a replica merges nothing."""
    return tuple(point for point in TableJob.POINTS if not (ships(strategy) and "_merge:" in point))
