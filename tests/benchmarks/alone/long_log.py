"""Measure barriers on a target with a log of 100,000 commits, while its expired files are deleted, and without that.

    python tests/benchmarks/alone/long_log.py [--commits 100000] [--barriers 40] [--runs 1] [--beside ../other-checkout]

The times of the files span 45 days, so with the default retention of 30 days a third of them has expired. Each side has a separate
Java and a separate copy of the log, and makes one commit a second. The bar: the 99th percentile is not worse than without deletions.
Then plain Spark writes one commit and its checkpoint to a third copy. The other bar: both keep the same files of the old versions.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[3]
SPAN_S, INTERVAL_S = 45 * 86_400, 1.0
CHECKPOINT = 10
"""Version of the first checkpoint; the commit of this version is repeated."""

CHECKPOINT_EVERY = 100
CLEAN_MAX_S = 500
SIDES = ("kept", "cleaned")


def session():
    """Open the session of a process."""
    from backfill_spark.jvm.session import open_session

    return open_session(app_name="long log", memory="3g", jars_dir=Path(os.environ["BACKFILL_JARS_DIR"]))


def committer(spark, path):
    """Open the committer of the table."""
    from backfill_spark.sinks.delta.committer import DeltaCommitter

    return DeltaCommitter(spark, path, app_id="app", domain="backfill.bench")


def make_log(path, commits):
    """Write a table, and repeat its last commit; the copies of one checkpoint and one checksum hold for each version."""
    from backfill_spark.rows.write_modes import APPEND
    from backfill_spark.sinks.delta.sink import DeltaSink

    spark = session()
    DeltaSink(spark, path, write_mode=APPEND, key=(), job_id="ns/job").prepare(spark.range(0).schema)
    target = committer(spark, path)
    for version in range(1, CHECKPOINT + 1):
        target.seal(version, (), "state " * 200)
        target.run_hooks()
    spark.stop()
    log, first = Path(path, "_delta_log"), f"{CHECKPOINT:020d}"
    repeated = {file.name: file.read_bytes() for file in log.iterdir() if first in file.name and ".json" in file.name}
    repeated |= {file.name: file.read_bytes() for file in log.iterdir() if f"{first}.crc" in file.name}
    checkpoint = log / f"{first}.checkpoint.parquet"
    newest = commits // CHECKPOINT * CHECKPOINT
    for version in range(CHECKPOINT + 1, newest + 1):
        for name, content in repeated.items():
            (log / name.replace(first, f"{version:020d}")).write_bytes(content)
    # Delta keeps the commits after the newest checkpoint that has expired.
    for version in {newest, *range(CHECKPOINT_EVERY, newest, CHECKPOINT_EVERY)}:
        shutil.copy(checkpoint, log / f"{version:020d}.checkpoint.parquet")
    for sums in (*log.glob(".*.checkpoint.parquet.crc"), *log.glob("._last_checkpoint.crc")):
        sums.unlink()
    hint = json.loads((log / "_last_checkpoint").read_text())
    (log / "_last_checkpoint").write_text(json.dumps({"version": newest, "size": hint["size"]}))
    now_s = time.time()
    for file in log.iterdir():
        digits = file.name.lstrip(".")[:20]
        if digits.isdigit():
            then_s = now_s - SPAN_S * (1 - int(digits) / newest)
            os.utime(file, (then_s, then_s))


def measure(path, side, barriers):
    """Make commits as a job does, with the hooks on another thread, and print the seconds of each."""
    from backfill_spark.delta.checkpoints.log_cleanup import LogCleanup

    spark = session()
    target, log = committer(spark, path), Path(path, "_delta_log")
    before = len(os.listdir(log))
    if side == "kept":
        target.hooks.cleanup = LogCleanup(spark, path, lambda: -1)  # it is never a new day
    first, taken, pause = target.read_state().txn_version + 1, [], threading.Event()
    began_s, done_s = time.monotonic(), None
    with ThreadPoolExecutor(2) as others:
        for at in range(barriers):
            due_s = time.monotonic() + INTERVAL_S
            target.seal(first + at, (), f"state {at}")
            taken.append(time.monotonic() - due_s + INTERVAL_S)
            others.submit(target.run_hooks)
            if done_s is None and at > CHECKPOINT and target.hooks.cleanup.join(0):
                done_s = time.monotonic() - began_s
            pause.wait(max(0.0, due_s - time.monotonic()))
    target.hooks.cleanup.join(CLEAN_MAX_S)
    figures = {"seconds": [round(seconds, 3) for seconds in taken], "clean_s": done_s or time.monotonic() - began_s}
    print(json.dumps({**figures, "deleted": before - len(os.listdir(log))}))
    spark.stop()


def clean_with_spark(path):
    """Let plain Spark write a commit and its checkpoint, after which it deletes expired files as for every table."""
    spark = session()
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    spark.sql(f"INSERT INTO delta.`{path}` SELECT * FROM delta.`{path}` LIMIT 0")
    spark.stop()


def kept_files(path, commits):
    """Return the names of the log's files of the old versions, without Hadoop's checksums of files."""
    names = (name for name in os.listdir(Path(path, "_delta_log")) if not name.startswith("."))
    return {name for name in names if name[:20].isdigit() and int(name[:20]) <= commits // CHECKPOINT * CHECKPOINT}


def run(root, arguments):
    """Run a part of this program in a separate process with the code of a checkout; return its last line."""
    path = os.pathsep.join(str(root.resolve() / part) for part in ("crds", "operator", "spark_app"))
    jars = os.environ.get("BACKFILL_JARS_DIR", str(ROOT / ".cache" / "jars"))
    done = subprocess.run(
        [sys.executable, __file__, *arguments],
        env={**os.environ, "PYTHONPATH": path, "BACKFILL_JARS_DIR": jars},
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip().splitlines()[-1:]


def main():
    """Measure each side with each checkout in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=100_000)
    parser.add_argument("--barriers", type=int, default=40)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--beside", type=Path, help="another checkout, measured in turn with this one")
    parser.add_argument("--table", type=Path, help="a folder for the table, which a later run uses again")
    parser.add_argument("--make", help=argparse.SUPPRESS)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--spark", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.make:
        make_log(args.make, args.commits)
    elif args.spark:
        clean_with_spark(args.spark)
    elif args.measure:
        measure(args.measure, args.sides, args.barriers)
    else:
        return compare(args)
    return 0


def compare(args):
    """Print the figures of all sides; return 0 if the bar is met."""
    roots = [root for root in (args.beside, ROOT) if root]
    taken, kept = {}, {}
    with tempfile.TemporaryDirectory(
        prefix="backfill-log-", dir=None if args.table is None else args.table.parent
    ) as scratch:
        table = args.table or Path(scratch, "table")
        if not table.exists():
            run(ROOT, ["--make", str(table), "--commits", str(args.commits)])
        for _ in range(args.runs):
            for side in args.sides.split(","):
                for root in roots:
                    copy = Path(scratch, "copy")
                    shutil.copytree(table, copy, copy_function=os.link)
                    (line,) = run(root, ["--measure", str(copy), "--sides", side, "--barriers", str(args.barriers)])
                    kept[side, root] = kept_files(copy, args.commits)
                    shutil.rmtree(copy)
                    print(side, root, line, flush=True)
                    taken.setdefault((side, root), []).append(json.loads(line))
        copy = Path(scratch, "copy")
        shutil.copytree(table, copy, copy_function=os.link)
        run(ROOT, ["--spark", str(copy)])
        by_spark, before = kept_files(copy, args.commits), kept_files(table, args.commits)
    different = kept.get(("cleaned", ROOT), by_spark) ^ by_spark
    print(
        f"{len(before)} files before, plain Spark keeps {len(by_spark)}; kept by one side only: {len(different)}",
        *sorted(different)[:4],
    )
    p99 = {}
    for (side, root), figures in taken.items():
        seconds = sorted(second for figure in figures for second in figure["seconds"])
        p99[side, root] = seconds[len(seconds) * 99 // 100]
        print(f"{side} {root}: p50 {statistics.median(seconds):.2f} s, p99 {p99[side, root]:.2f} s")
    met = not different and len(by_spark) < len(before)
    met = met and (len(p99) < len(SIDES) or p99["cleaned", ROOT] <= p99["kept", ROOT] * 1.1)
    print(f"the bar {'is met' if met else 'is NOT met'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
