"""Compare the main job with its baselines: interleaved rounds, warm, medians.

    python tests/benchmarks/run.py --rows 20000000 --runs 5 --out build/bench/latest.json [--only copies,streams]
    python tests/benchmarks/run.py --only growth                10^7 and 10^8 rows, once
    python tests/benchmarks/run.py --only strategies            each next to Snapshot: the copy, live changes, a kill
    python tests/benchmarks/run.py --only ways                  files that are copied without decoding
    python tests/benchmarks/run.py --only large --runs 3        a copy of 10 GiB next to `cp`
    python tests/benchmarks/run.py --only replica               a replica that catches up, next to MERGE; its lag and its receipt
    python tests/benchmarks/run.py --only filled --rows 8000000 --runs 3   a column filled in place, next to UPDATE; with a busy writer
    python tests/benchmarks/run.py --only kafka                 a topic of a real broker

It writes the JSON, prints a table, and draws docs/images/bench.svg. Each part runs in a separate process on a separate copy of the
source, so `--only` accepts any parts in any order. Seconds of different parts or runs are not comparable. Compare the ratios,
whose two sides are always of one part.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import by_strategy  # noqa: E402
import catch_up  # noqa: E402
import file_ways  # noqa: E402
import filled_column  # noqa: E402
import kafka_topic  # noqa: E402
import limits  # noqa: E402
import parts  # noqa: E402
import picture  # noqa: E402
from support.bench_report import write_report  # noqa: E402
from support.tables.jobs import job, write_yaml  # noqa: E402
from support.tables.oracle import seals  # noqa: E402

from backfill.control import DriverSilentError, DriverStartingError, NotRunningError, find  # noqa: E402
from backfill_api.wire import Command, PauseCommand  # noqa: E402
from backfill_spark.driver.attempt import run_driver  # noqa: E402
from backfill_spark.jvm.session import open_session  # noqa: E402
from backfill_spark.receipts.row_sums import take_receipt  # noqa: E402
from backfill_spark.settings import DriverSettings  # noqa: E402

BARS = {
    "vs_plain_delta": ("ratio", 1.30, "higher"), "vs_plain_parquet": ("ratio", 0.90, "higher"),
    "vs_stream_append": ("ratio", 1.0, "higher"), "vs_stream_merge": ("ratio", 4.0, "higher"),
    "seal_p50": ("ms", 150, "lower"), "seal_p99": ("ms", 300, "lower"),
    **limits.BARS, "pause_quiet": ("s", 2.5, "lower"),
    "pause_forced": ("s", 0.5, "lower"), "restart_first_seal": ("s", 15, "lower"), "receipt_share": ("ratio", 0.35, "lower"),
    **by_strategy.BARS, **file_ways.BARS, **catch_up.BARS, **kafka_topic.BARS, **filled_column.BARS,
}  # fmt: skip


DECODED = {
    "select": ["id", "customer", "amount", "CAST(ts AS TIMESTAMP) AS ts"]
    + [f"CAST({name} AS STRING) AS {name}" for name in ("sku", "note", "status")]
}
"""The transform of every job except those of `file_ways`: most columns are computed, at no cost, so that all files are decoded."""

STREAM_RUNS = 3
"""The slow baselines run three times, independently of `--runs`."""


class Bench:
    """State of a part: a session that opens on first use, figures, and seconds by name."""

    def __init__(self, rows, runs, scratch):
        self.rows, self.runs, self.scratch = rows, runs, Path(scratch)
        self.source = f"{scratch}/source"
        self.settings = DriverSettings.from_environ().model_copy(
            update={"state_dir": self.scratch / "state", "check_unique": False}
        )
        self.figures, self.seconds, self.extra = {}, {}, {}
        # The number of the source's 64 files that is copied in a second: a comparable trigger commits about as often.
        self.trigger_files = 3

    @cached_property
    def spark(self):
        """The session of the part; parts that only run driver processes open none."""
        return open_session(app_name="bench", cores=self.settings.cores, memory="6g", jars_dir=self.settings.jars_dir)

    def close(self):
        """Stop the session, if the part opened one."""
        if "spark" in self.__dict__:
            self.__dict__.pop("spark").stop()

    def put(self, name, value):
        self.figures[name] = round(value, 3)
        print(f"  {name} = {value:.3f} {BARS[name][0]} (bar {BARS[name][1]})", flush=True)

    def fresh(self, name):
        path = f"{self.scratch}/{name}"
        shutil.rmtree(path, ignore_errors=True)
        return path

    def make(self, files=64):
        self.spark.range(0, self.rows, 1, files).selectExpr(
            "id", "id * 7919 % 1000003 AS customer", "rand(7) * 1000 AS amount",
            "timestamp_seconds(1700000000 + id % 10000000) AS ts", "concat('sku-', id % 5000) AS sku",
            "md5(cast(id AS string)) AS note",
            "element_at(array('new', 'paid', 'sent', 'done'), cast(id % 4 + 1 AS int)) AS status",
        ).write.format("delta").option("delta.enableChangeDataFeed", "true").save(self.source)  # fmt: skip

    # ------------------------------------------------------------ copies
    def plain(self, fmt):
        self.spark.read.format("delta").load(self.source).write.format(fmt).save(self.fresh(fmt))

    def stream_append(self):
        target = self.fresh("stream")
        reader = (
            self.spark.readStream.format("delta").option("maxFilesPerTrigger", self.trigger_files).load(self.source)
        )
        writer = reader.writeStream.format("delta").option("checkpointLocation", self.fresh("checkpoint"))
        writer.trigger(availableNow=True).start(target).awaitTermination()

    def stream_merge(self):
        target = self.fresh("merged")
        self.spark.read.format("delta").load(self.source).limit(0).write.format("delta").option(
            "delta.enableDeletionVectors", "true"
        ).save(target)
        from delta.tables import DeltaTable

        def merge(batch, _number):
            table = DeltaTable.forPath(batch.sparkSession, target)
            changes = batch.where("_change_type <> 'update_preimage'").drop(
                "_change_type", "_commit_version", "_commit_timestamp"
            )
            table.alias("t").merge(
                changes.alias("s"), "t.id = s.id"
            ).whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

        reader = self.spark.readStream.format("delta").option("readChangeFeed", "true").option("startingVersion", 0)
        writer = (
            reader.option("maxFilesPerTrigger", self.trigger_files).load(self.source).writeStream.foreachBatch(merge)
        )
        writer.option("checkpointLocation", self.fresh("checkpoint")).trigger(
            availableNow=True
        ).start().awaitTermination()

    def ours(self, settings=None, **spec):
        target, last = self.fresh("ours"), []
        outcome = run_driver(
            job(self.source, target, name="bench", **{"transform": DECODED, **spec}),
            settings=settings or self.settings,
            observe=last.append,
            spark=self.spark,
        )
        assert outcome.outcome == "Complete", outcome
        assert outcome.progress.rows_done == self.rows
        return outcome

    def timed(self, name, work):
        began = time.monotonic()
        result = work()
        self.seconds.setdefault(name, []).append(time.monotonic() - began)
        print(f"  {name}: {self.seconds[name][-1]:.1f} s", flush=True)
        return result

    def warm(self):
        """Warm the JVM with four rounds: a job calls more code than a plain copy, and still became faster after two."""
        for _ in range(4):
            self.plain("parquet")
            self.plain("delta")
            self.ours()

    def copies(self):
        self.warm()
        p50, p99 = [], []
        for _ in range(self.runs):
            self.timed("parquet", lambda: self.plain("parquet"))
            self.timed("delta", lambda: self.plain("delta"))
            progress = self.timed("ours", self.ours).progress
            p50.append(progress.seal_ms_p50)
            p99.append(progress.seal_ms_p99)
        middle = self.middle()
        for name in ("delta", "parquet"):
            self.put(f"vs_plain_{name}", middle[name] / middle["ours"])
        self.put("seal_p50", statistics.median(p50))
        self.put("seal_p99", statistics.median(p99))

    def streams(self):
        """Measure our job before the streams: tens of micro-batches leave a JVM in which every copy is a quarter slower."""
        self.warm()
        for _ in range(STREAM_RUNS):
            self.timed("ours", self.ours)
        for _ in range(STREAM_RUNS):
            self.timed("stream_append", self.stream_append)
            self.timed("stream_merge", self.stream_merge)
        middle = self.middle()
        for name in ("stream_append", "stream_merge"):
            self.put(f"vs_{name}", middle[name] / middle["ours"])

    def middle(self):
        return {name: statistics.median(values) for name, values in self.seconds.items()}

    def receipts(self):
        """Verify one target once per round, and compare with plain Delta copies."""
        began = time.monotonic()
        self.ours(settings=self.settings.model_copy(update={"check_unique": None}), verify="Final")
        self.extra["ours_with_key_proof_and_receipt_s"] = round(time.monotonic() - began, 1)
        target, seconds = f"{self.scratch}/ours", []
        for _ in range(self.runs):
            if len(self.seconds.get("delta", ())) < self.runs:
                self.timed("delta", lambda: self.plain("delta"))
            read = self.spark.read.format("delta")
            receipt = take_receipt(
                read.load(self.source), read.load(target), key=("id",), vnodes=256,
                source_version=0, target_version=seals(target)[-1].version, epoch=0,
            )  # fmt: skip
            assert not receipt.mismatches
            seconds.append(receipt.seconds)
        self.put("receipt_share", statistics.median(seconds) / self.middle()["delta"])

    # ------------------------------------------------------------ control
    def driver(self, name, target, **spec):
        spec = {"transform": DECODED, **spec}
        file = write_yaml(self.scratch / f"{name}.yaml", self.source, target, name=name, **spec)
        env = dict(os.environ, BACKFILL_STATE_DIR=str(self.settings.state_dir), BACKFILL_CHECK_UNIQUE="false")
        return subprocess.Popen(
            [sys.executable, "-m", "backfill_spark", "-f", str(file)],
            stdout=subprocess.DEVNULL, env=env, start_new_session=True,
        )  # fmt: skip

    def until(self, holds, limit_s=90):
        deadline, pause = time.monotonic() + limit_s, threading.Event()
        while time.monotonic() < deadline:
            try:
                if holds():
                    return time.monotonic()
            except (NotRunningError, DriverSilentError, DriverStartingError, FileNotFoundError, IndexError):
                pass
            pause.wait(0.02)
        raise TimeoutError

    def client(self, name):
        return find(self.settings.state_dir, f"default/{name}")

    def end(self, process):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def control(self):
        target = self.fresh("controlled")
        process = self.driver("controlled", target)
        self.until(lambda: self.client("controlled").progress().rows_done > 0)
        client = self.client("controlled")
        for name, force in (("pause_quiet", False), ("pause_forced", True)):
            taken = []
            for _ in range(3):
                client.command(Command(type="Resume"), 10)
                self.until(lambda: not client.progress().quiet)
                began = time.monotonic()
                client.command(Command(type="Pause", pause=PauseCommand(force=force)), 10)
                taken.append(self.until(lambda: client.progress().quiet) - began)
            self.put(name, statistics.median(taken))
        client.command(Command(type="Resume"), 10)
        self.end(process)
        fences, firsts = [], []
        for _ in range(3):
            last = seals(target)[-1]
            began = time.monotonic()
            process = self.driver("controlled", target)
            fences.append(self.until(lambda last=last: seals(target, last.version)) - began)
            # The fence is a seal too, but has no rows: users wait for the next one.
            firsts.append(self.until(lambda last=last: self.rows_after(target, last)) - began)
            self.end(process)
        self.extra["restart_fence_s"] = round(statistics.median(fences), 2)
        self.put("restart_first_seal", statistics.median(firsts))

    @staticmethod
    def rows_after(target, last):
        return [seal for seal in seals(target, last.version) if seal.state["rowsDone"] > last.state["rowsDone"]]

    def throttle(self):
        """Run `limits`."""
        limits.throttle(self)

    # ------------------------------------------------------------ strategies
    def strategies(self):
        """Run `by_strategy`; not part of `make bench`."""
        by_strategy.strategies(self)

    # ------------------------------------------------------------ files that are copied
    def ways(self):
        """Run `file_ways`, before the streams like the copies."""
        file_ways.ways(self)

    def large(self):
        """Run the large part of `file_ways`; not part of `make bench`, because it takes 30 GB of disk."""
        file_ways.large(self)

    def replica(self):
        """Run `catch_up`."""
        catch_up.replica(self)

    def filled(self):
        """Run `filled_column`; not part of `make bench`, because commits keep a distance of minutes from a busy writer."""
        filled_column.filled(self)

    # ------------------------------------------------------------ a topic
    def kafka(self):
        """Run `kafka_topic`; not part of `make bench`."""
        kafka_topic.kafka(self)

    # ------------------------------------------------------------ growth
    def growth(self):
        """Measure seconds and the size of the state for ten times the rows and files. Not part of `make bench`."""
        for rows in (10_000_000, 100_000_000):
            self.rows, self.source = rows, self.fresh(f"source{rows}")
            self.make(files=rows // 312_500)
            for _ in range(3 if rows == 10_000_000 else 0):
                self.ours()  # a cold JVM would make the smaller table look slow
            self.timed(f"ours_{rows}", self.ours)
            self.extra[f"state_bytes_{rows}"] = len(json.dumps(seals(f"{self.scratch}/ours")[-1].state))
            shutil.rmtree(self.source)


# ---------------------------------------------------------------- parts, each in a separate process
def run_part(args):
    """Run one part in this process; write its figures to `args.out`."""
    bench = Bench(args.rows, args.runs, args.scratch)
    try:
        getattr(bench, args.part)()
    finally:
        bench.close()
    measured = {"figures": bench.figures, "seconds": bench.seconds, "extra": bench.extra}
    Path(args.out).write_text(json.dumps(measured))


def report(by_part, args):
    """Write the figures of all parts, print them, and draw."""
    figures = {name: value for part in by_part.values() for name, value in part["figures"].items()}
    seconds = {
        name: {key: [round(value, 2) for value in values] for key, values in part["seconds"].items()}
        for name, part in by_part.items()
    }
    extra = {name: value for part in by_part.values() for name, value in part["extra"].items()}
    more = {"rows": args.rows, "runs": args.runs, "seconds": seconds, "extra": extra}
    document = write_report(args.out, figures, BARS, **more)
    images = ROOT / "docs" / "images"
    if {"copies", "streams"} <= set(by_part):
        picture.draw(document, images / "bench.svg")
    if "ways" in by_part:
        file_ways.draw(document, images / "ways.svg")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", default="build/bench/latest.json")
    parser.add_argument("--only", default="copies,receipts,ways,streams,replica,control,throttle")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--scratch", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.part:
        run_part(args)
        return 0
    scratch = tempfile.mkdtemp(prefix="backfill-bench-")
    try:
        by_part = parts.run(args.only.split(","), args, scratch)
        report({name: part for name, part in by_part.items() if part is not None}, args)
        failed = [name for name, part in by_part.items() if part is None]
        for name in failed:
            print(f"part {name} failed, see above", flush=True)
        return 1 if failed else 0
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
