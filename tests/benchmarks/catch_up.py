"""Compare a replica that catches up with change feed and MERGE, in our job and in a plain stream; measure its lag and its receipt.

Part of `run.py --only replica`. Jobs that follow are paused while the source changes, and resumed in turn: each ships the
same versions. The lag is the time from the commit of another engine to the commit of the job that contains it.
"""

import shutil
import statistics
import threading
import time
from pathlib import Path

from by_strategy import Newcomers
from delta.tables import DeltaTable as SparkTable
from deltalake import DeltaTable
from support.tables.oracle import seals

from backfill_api.wire import Command

BARS = {
    "replica_catchup_vs_merge": ("ratio", 8, "higher"), "replica_receipt_share": ("ratio", 0.5, "lower"),
    "replica_lag_p50": ("s", 2, "lower"), "replica_lag_p99": ("s", 4, "lower"),
}  # fmt: skip

JOBS = {
    "replica": {"strategy": {"type": "Replica"}, "source": {"key": []}},
    "merge": {"strategy": {"type": "Snapshot"}},
}
CATCH_UP_MAX_S = 600
SMALL_COMMITS = 1000
LAG_COMMITS = 60
LAG_EVERY_S = 1.0


def replica(bench):
    """Measure every figure."""
    receipts(bench)
    plain = bench.source
    bench.source = f"{bench.scratch}/changing"
    try:
        shutil.copytree(plain, bench.source)
        bench.spark.sql(f"ALTER TABLE delta.`{bench.source}` SET TBLPROPERTIES (delta.enableDeletionVectors = true)")
        followers = {name: Follower(bench, name, spec) for name, spec in JOBS.items()}
        try:
            newcomers = Newcomers(bench.source)
            catch_up(bench, followers, newcomers)
            followers["merge"].end()
            lag(bench, followers["replica"], newcomers)
        finally:
            for follower in followers.values():
                follower.end()
    finally:
        shutil.rmtree(bench.source, ignore_errors=True)
        bench.source = plain


def receipts(bench):
    """Copy with a receipt at the end, and measure the share of the receipt."""
    shares = []
    for at in range(bench.runs + 1):
        began = time.monotonic()
        outcome = bench.ours(transform={}, verify="Final", **JOBS["replica"])
        if at:  # the first one warms
            seconds = time.monotonic() - began
            shares.append(outcome.receipt.seconds / (seconds - outcome.receipt.seconds))
            bench.seconds.setdefault("replica_with_receipt", []).append(seconds)
    bench.put("replica_receipt_share", statistics.median(shares))


class Follower:
    """The driver process of a job that follows the source."""

    def __init__(self, bench, name, spec):
        """Start it, and wait until it has caught up."""
        self.bench, self.name, self.target = bench, name, bench.fresh(f"follows-{name}")
        self.process = bench.driver(name, self.target, transform={}, after="Follow", **spec)
        bench.until(lambda: self.client().progress().phase == "Live", CATCH_UP_MAX_S)

    def client(self):
        return self.bench.client(self.name)

    def command(self, kind):
        self.client().apply(Command(type=kind), 60)

    def has(self, version):
        """Return True if the target contains a version of the source."""
        state = newest_state(self.target)
        return state is not None and reached(state) >= version

    def brings(self, version):
        """Resume, return the seconds until the target contains a version, and pause again."""
        began = time.monotonic()
        self.command("Resume")
        seconds = self.bench.until(lambda: self.has(version), CATCH_UP_MAX_S) - began
        self.command("Pause")
        return seconds

    def end(self):
        self.bench.end(self.process)


def newest_state(target):
    """Return the strategy's part of the newest state; `None` before the first."""
    for file in sorted(Path(target, "_delta_log").glob("*.json"), reverse=True)[:20]:
        if states := seals(target, int(file.stem) - 1):
            return states[-1].progress
    return None


def reached(progress):
    """Return the version of the source that a state has reached."""
    return max(progress.get(name, -1) for name in ("shipped", "consumed"))


def catch_up(bench, followers, newcomers):
    """Update 1 % and 10 % of the rows in all files, and make many small commits; each side ships the same versions."""
    stream = Stream(bench)
    for follower in followers.values():
        follower.command("Pause")
    changes = [("1_percent", lambda: update(bench, 100))] * bench.runs
    changes += [("10_percent", lambda: update(bench, 10)), ("1000_commits", lambda: small_commits(newcomers))]
    for name, change in changes:
        change()
        version = DeltaTable(bench.source).version()
        for job, follower in followers.items():
            bench.seconds.setdefault(f"{job}_{name}", []).append(follower.brings(version))
        bench.timed(f"stream_{name}", stream.brings)
        print(f"  {name}: { ({job: round(bench.seconds[f'{job}_{name}'][-1], 2) for job in followers}) }", flush=True)
    middle = bench.middle()
    bench.put("replica_catchup_vs_merge", middle["merge_1_percent"] / middle["replica_1_percent"])
    for name in dict(changes):
        bench.extra[f"replica_vs_merge_{name}"] = round(middle[f"merge_{name}"] / middle[f"replica_{name}"], 2)
        bench.extra[f"replica_vs_stream_{name}"] = round(middle[f"stream_{name}"] / middle[f"replica_{name}"], 2)


def update(bench, share):
    """Update one of `share` rows, in every file."""
    bench.spark.sql(f"UPDATE delta.`{bench.source}` SET amount = amount + 1 WHERE id % {share} = 7")


def small_commits(newcomers):
    """Append one row per commit, with another engine."""
    for _ in range(SMALL_COMMITS):
        newcomers.commit()


class Stream:
    """The hand-written alternative: the change feed, and a MERGE of each micro-batch into a plain copy."""

    def __init__(self, bench):
        self.bench, self.target, self.version = bench, bench.fresh("streamed"), DeltaTable(bench.source).version()
        writer = bench.spark.read.format("delta").load(bench.source).write.format("delta")
        writer.option("delta.enableDeletionVectors", "true").save(self.target)

    def brings(self):
        reader = self.bench.spark.readStream.format("delta").option("readChangeFeed", "true")
        reader = reader.option("startingVersion", self.version + 1).load(self.bench.source)
        writer = reader.writeStream.foreachBatch(self.merge).option(
            "checkpointLocation", self.bench.fresh("checkpoint")
        )
        writer.trigger(availableNow=True).start().awaitTermination()
        self.version = DeltaTable(self.bench.source).version()

    def merge(self, batch, _number):
        changes = batch.where("_change_type <> 'update_preimage'").drop(
            "_change_type", "_commit_version", "_commit_timestamp"
        )
        table = SparkTable.forPath(batch.sparkSession, self.target)
        merge = table.alias("t").merge(changes.alias("s"), "t.id = s.id")
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()


def lag(bench, follower, newcomers):
    """Commit once a second with another engine, and measure the time until a reader of the target sees each commit."""
    follower.command("Resume")
    late_s, ended = [], threading.Event()
    for _ in range(LAG_COMMITS):
        due = time.monotonic() + LAG_EVERY_S
        newcomers.commit()
        committed, version = newcomers.committed_s[-1], DeltaTable(bench.source).version()
        threading.Thread(target=note_arrival, args=(bench, follower, version, committed, late_s)).start()
        ended.wait(max(0.0, due - time.monotonic()))
    bench.until(lambda: len(late_s) == LAG_COMMITS)
    late_s.sort()
    bench.extra["replica_lag_s"] = [round(seconds, 2) for seconds in late_s]
    bench.put("replica_lag_p50", statistics.median(late_s))
    bench.put("replica_lag_p99", late_s[len(late_s) * 99 // 100])


def note_arrival(bench, follower, version, committed, late_s):
    late_s.append(bench.until(lambda: follower.has(version)) - committed)
