"""Random tables through whole jobs: a seed draws types, names, layouts, engines, zones, transforms, commits and stops.

Plain Python rows define the expected rows; delta-rs reads the actual rows, or plain Spark where delta-rs cannot. The product's own
receipt is taken too, but proves nothing here. `BACKFILL_ATTACK_SEED=n` repeats one seed.
"""

import os
import shutil
import time
from random import Random

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from support import attack
from support.tables.jobs import job
from support.tables.odd_tables import NoExampleError, OddTable
from support.tables.odd_transforms import badly_skipped, draw_target, draw_transform, held

from backfill_core.errors import EXIT_COMPLETE, EXIT_STOPPED
from backfill_spark.driver.attempt import run_driver
from backfill_spark.jvm.gateway import java
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.settings import DriverSettings

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Apia", "America/St_Johns")
STARTS_MAX = 6
FINAL = range(20, 60)
"""Exit codes for a spec, a table or an environment that no retry would change."""

UNFIT = ("TargetSchemaMismatch", "InvalidSpec")
"""Reasons that a job may have for a row whose partition value cannot name a folder."""

MESSAGE_CHARACTERS_MAX = 1_500
"""Maximum length of the message for one example, in characters."""

pytestmark = [pytest.mark.timeout(0), pytest.mark.rest]


@pytest.fixture
def zones(spark):
    """Set the zones of the JVM and of the session, and restore both. Python's own zone is UTC, for values that Spark passes to it."""
    zones = java(spark).java.util.TimeZone
    before = zones.getDefault(), spark.conf.get("spark.sql.session.timeZone"), os.environ.get("TZ")

    def choose(jvm, session):
        zones.setDefault(zones.getTimeZone(jvm))
        spark.conf.set("spark.sql.session.timeZone", session)

    os.environ["TZ"] = "UTC"
    time.tzset()
    yield choose
    zones.setDefault(before[0])
    spark.conf.set("spark.sql.session.timeZone", before[1])
    os.environ.pop("TZ") if before[2] is None else os.environ.update(TZ=before[2])
    time.tzset()


class Example:
    """One job over one random table, from a seed."""

    def __init__(self, spark, tmp_path, seed, choose_zones):
        self.rng = Random(seed)
        self.spark, self.folder = spark, tmp_path / str(seed)
        self.source, self.target = str(self.folder / "source"), str(self.folder / "target")
        self.mode = self.rng.choice(("Upsert", "Upsert", "Append", "Changelog"))
        zones = self.rng.choice(ZONES), self.rng.choice(ZONES)
        choose_zones(*zones)
        self.table = OddTable(spark, self.rng, self.source, append_only=self.mode == "Append")
        self.transform = draw_transform(self.rng, self.table)
        key = self.rng.choice((["id"], ["k\u00e9y"], ["id", "k\u00e9y"]))
        limit = {"throttle": {"rowsPerSecond": 60}} if self.rng.random() < 0.2 else {}
        self.spec = {
            "source": {"key": key},
            "target": {"writeMode": self.mode, **draw_target(self.rng, self.transform)},
            "transform": self.transform.spec,
            "barrier": {"intervalMs": 150},
            "verify": self.rng.choice(("Final", "None")),
            **limit,
        }
        self.partitions = self.spec["target"].get("partitionBy", ())
        self.transform = self.transform.into(self.partitions)
        self.left = self.rng.randrange(3)
        self.stops = self.rng.randrange(2)
        self.table.story += [
            f"zones {zones}",
            f"spec {self.spec}",
            f"{self.left} commits while it runs, {self.stops} stops",
        ]

    def disturb(self, _):
        """Change the source, or stop the driver, while it runs."""
        if self.left:
            self.left -= 1
            self.table.change()
        elif self.stops:
            self.stops -= 1
            self.table.story.append("stop")
            self.stop.ask(force=self.rng.random() < 0.5)

    def readable(self):
        """Return True if plain Spark can read the source; other engines sometimes omit a table feature."""
        try:
            self.spark.read.format("delta").load(self.source).count()
        except (PySparkException, Py4JError):
            return False
        return True

    def run(self):
        """Run the job to its end; return the error, or an empty string."""
        settings = DriverSettings(state_dir=self.folder / "state", cores=2)
        for _ in range(STARTS_MAX):
            self.stop = StopSignal()
            outcome = run_driver(
                job(self.source, self.target, **self.spec),
                settings=settings,
                observe=self.disturb,
                spark=self.spark,
                stop=self.stop,
            )
            if outcome.exit_code != EXIT_STOPPED:
                break
        if outcome.exit_code != EXIT_COMPLETE:
            unfit = outcome.reason in UNFIT and self.transform.unfit(self.table.ever, self.partitions)
            refused = outcome.exit_code in FINAL and (unfit or not self.readable())
            return "" if refused else f"ended with {outcome.reason}: {outcome.message}"
        # The job ignores a commit after it has caught up.
        rows = list(self.table.rows_at(outcome.progress.consumed_version).values())
        expected = self.transform.expected(rows)
        actual = held(self.spark, self.target, self.transform.outputs)
        if actual != expected:
            return f"missing {expected - actual}, too many {actual - expected}"
        if self.mode == "Changelog":
            return ""
        kept = [row for row in rows if self.transform.passes(row)]
        return badly_skipped(self.spark, self.rng, self.target, self.transform.outputs, kept)


@pytest.mark.parametrize("case", attack.cases(4))
def test_any_table_is_copied_exactly(spark, tmp_path, zones, case):
    """The copy has every row once and every value unchanged, for any types, names, engines, zones, changes and stops."""
    failures = []
    for seed in attack.seeds(4, share=0.6, case=case):
        try:
            example = Example(spark, tmp_path, seed, zones)
        except NoExampleError as refused:
            print(f"seed {seed} is no example: {refused}", flush=True)
            continue
        wrong = example.run()
        if wrong:
            failures.append("\n".join([f"seed {seed}: {wrong[:MESSAGE_CHARACTERS_MAX]}", *example.table.story]))
            print(failures[-1], flush=True)
        shutil.rmtree(example.folder)

    assert not failures, "\n\n".join(failures)
