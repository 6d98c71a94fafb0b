"""A replica equals its source at one version at every commit, through changes of columns and rows."""

import json
import random
from contextlib import suppress

import pytest
from pyspark.errors import PySparkException
from support.attack import SECONDS, seeds
from support.replica.pair import FOLLOW, Pair
from support.replica.random_schema import RandomTable
from support.tables.jobs import job
from support.tables.logs import actions_in, commit_of, commits_of
from support.tables.oracle import coming_back, seals

from backfill_spark.driver.attempt import run_driver
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.settings import DriverSettings

pytestmark = pytest.mark.rest

BATCHES = 24 if SECONDS else 6
"""Number of batches of changes, each shipped before the next. The job stops twice, a third of the way apart, and another attempt resumes it."""

REFUSED = ("SchemaChanged", "UnsupportedSourceFeature")
"""Reasons with which a job may end at a change that it does not follow."""


def changed(pair, table, count):
    """Make this many changes that Delta accepts."""
    for _ in range(20 * count):
        statements = table.change()
        with suppress(PySparkException):
            pair.sql(*statements)
            count -= bool(statements)
        if not count:
            return


def followed(pair, table, rng, spec):
    """Run attempts while the source changes; return the outcome of the last one."""
    left, stops = [BATCHES], {BATCHES // 3, 2 * BATCHES // 3}
    outcome = None
    while left[0] and (outcome is None or outcome.outcome == "Stopped"):
        stop = StopSignal()

        def observe(progress, stop=stop):
            if not progress.caught_up or progress.consumed_version != pair.head:
                return
            if not left[0]:
                stop.ask(force=False)
                return
            left[0] -= 1
            changed(pair, table, rng.choice([1, 1, 2, 4]))
            if left[0] in stops:
                stops.discard(left[0])
                stop.ask(force=rng.random() < 0.5)

        backfill = job(pair.source, pair.target, **FOLLOW, **spec)
        settings = DriverSettings(cores=2, state_dir=pair.folder / "state")
        outcome = run_driver(backfill, settings=settings, spark=pair.spark, observe=observe, stop=stop)
    return outcome


def defaults(table, version):
    """Return the defaults of a table's columns at a version, from its log, which was never cleaned."""
    commits = (actions_in(commit_of(table, number)) for number in reversed(commits_of(table)) if number <= version)
    metadata = next(action["metaData"] for actions in commits for action in actions if "metaData" in action)
    fields = json.loads(metadata["schemaString"])["fields"]
    return {
        field["name"]: default for field in fields if (default := field["metadata"].get("CURRENT_DEFAULT")) is not None
    }


def wrong(pair, view):
    """Return the commits of the target that differ from the source at the version that they record."""
    differing = []
    for seal in seals(pair.target):
        at = seal.state["replica"]
        if at["phase"] == "Snapshot":
            continue
        source, target = (
            pair.spark.read.format("delta").option("versionAsOf", version).load(path)
            for version, path in ((at["shipped"], pair.source), (seal.version, pair.target))
        )
        source.createOrReplaceTempView("source")
        expected = pair.spark.sql(view)
        columns = [[(field.name, field.dataType) for field in frame.schema] for frame in (expected, target)]
        column_defaults = [
            defaults(path, version) for version, path in ((at["shipped"], pair.source), (seal.version, pair.target))
        ]
        rows = [sorted(repr(row) for row in frame.collect()) for frame in (expected, target)]
        if columns[0] != columns[1] or rows[0] != rows[1] or column_defaults[0] != column_defaults[1]:
            differing.append((seal.version, at["shipped"], *map(len, rows)))
    return differing


def test_a_replica_is_its_source_at_each_commit(spark, tmp_path):
    """It found that a file returned with its old deletion vector, and Spark lost the rows of that file after a checkpoint."""
    for seed in seeds(1, share=0.3):
        rng = random.Random(seed)
        pair = Pair(spark, tmp_path / str(seed))
        table = RandomTable(spark, pair.source, rng)
        pair.sql(*table.made())
        pair.sql(*table.insert())
        where = {"where": "id * 2 % 3 <> 1"} if rng.random() < 0.3 else {}
        outcome = followed(pair, table, rng, {"transform": where} if where else {})

        assert wrong(pair, f"SELECT * FROM source WHERE {where.get('where', 'true')}") == []
        assert coming_back(pair.target) == []
        assert outcome.outcome == "Stopped" or outcome.reason in REFUSED, outcome.message
