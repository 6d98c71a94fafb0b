"""Measure a plan of a table with a million files, and commits to a target while it grows to half a million.

    python tests/benchmarks/alone/million_files.py [--only plan,commits] [--files 1000000] [--sizes 0,100000,500000] [--barriers 150]

Files of the source do not exist, except for the sample; a target's files never do. The bars: a plan in 90 s and 4 GiB of memory, Java
and Python together; the 99th percentile of a commit of 100 files at most twice that of an empty target.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from support.tables.jobs import write_yaml  # noqa: E402
from support.tables.long_listing import COLUMNS, add, make_listing  # noqa: E402

PLAN_S, PLAN_MIB, GROWTH = 90, 4096, 2.0
STRATEGIES = ("Replica", "Snapshot")
COMMIT_FILES, INTERVAL_S, WARM_UP, BULK = 100, 0.5, 30, 10_000


def memory_mib(pid):
    """Return the memory of a process and of its children, by program."""
    kinds = {"python": 0.0, "java": 0.0}
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return kinds
    resident = re.search(r"VmRSS:\s+(\d+)", status)
    name = "java" if "java" in status.split("\n", 1)[0] else "python"
    kinds[name] += int(resident[1]) / 1024 if resident else 0.0
    for child in children:
        for kind, more in memory_mib(child).items():
            kinds[kind] += more
    return kinds


def measure_plan(table, strategy, folder):
    """Plan a job in a separate process; return its seconds and its peak memory."""
    spec = write_yaml(folder / f"{strategy}.yaml", str(table), str(folder / "target"), strategy={"type": strategy})
    began_s, peaks, pause = time.monotonic(), {"python": 0.0, "java": 0.0, "both": 0.0}, threading.Event()
    command = [sys.executable, "-m", "backfill_cli", "plan", "-f", str(spec)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as planning:
        while planning.poll() is None:
            memory = memory_mib(planning.pid)
            for kind, mib in {**memory, "both": sum(memory.values())}.items():
                peaks[kind] = max(peaks[kind], mib)
            pause.wait(0.1)
    seconds = round(time.monotonic() - began_s, 1)
    return {
        "code": planning.returncode,
        "seconds": seconds,
        **{f"{kind}_mib": round(mib) for kind, mib in peaks.items()},
    }


def plan(args, folder):
    """Plan a job of each strategy; return True if the bars are met."""
    table, met = args.table or folder / "table", True
    if not table.exists():
        make_listing(str(table), args.files)
    for strategy in STRATEGIES:
        figures = measure_plan(table, strategy, folder)
        met &= figures["code"] == 0 and figures["seconds"] <= PLAN_S and figures["both_mib"] <= PLAN_MIB
        print(strategy, json.dumps(figures), flush=True)
    return met


class GrowingTarget:
    """A target that gets commits of files which do not exist."""

    def __init__(self, spark, path):
        """Create the table."""
        from backfill_spark.rows.write_modes import APPEND
        from backfill_spark.sinks.delta.committer import DeltaCommitter
        from backfill_spark.sinks.delta.sink import DeltaSink

        columns = spark.range(0).selectExpr(*(f"id AS {name}" for name in COLUMNS), "current_date() AS day")
        sink = DeltaSink(spark, path, write_mode=APPEND, key=(), job_id="ns/job", partition_by=("day",))
        sink.prepare(columns.schema)
        self.committer = DeltaCommitter(spark, path, app_id="app", domain="backfill.bench")
        self.files = self.epoch = 0

    def commit(self, files):
        """Commit this many files; return the seconds."""
        from backfill_core.protocol.work import StagedFile
        from backfill_spark.delta.added_files import CommitLine

        numbers = range(self.files, self.files + files)
        staged = [StagedFile(f"{at}", 1000, 100_000, CommitLine(add(at, 1000))) for at in numbers]
        self.files, self.epoch = self.files + files, self.epoch + 1
        began_s = time.monotonic()
        self.committer.seal(self.epoch, staged, "state " * 200)
        return time.monotonic() - began_s

    def hooks(self):
        """Run the hooks of past commits; return the seconds."""
        began_s = time.monotonic()
        self.committer.run_hooks()
        return time.monotonic() - began_s


def commits(args, folder):
    """Commit to a target of each size, with the hooks on another thread; return True if the bar is met."""
    from backfill_spark.jvm.session import open_session

    spark = open_session(app_name="growth", memory="2g", jars_dir=Path(os.environ["BACKFILL_JARS_DIR"]))
    target, p99, pause = GrowingTarget(spark, str(folder / "grown")), [], threading.Event()
    for _ in range(WARM_UP):
        target.commit(COMMIT_FILES)
        target.hooks()
    for size in map(int, args.sizes.split(",")):
        while target.files < size:
            target.commit(min(BULK, size - target.files))
        target.hooks()
        seconds, hooks = [], []
        with ThreadPoolExecutor(2) as others:
            for _ in range(args.barriers):
                due_s = time.monotonic() + INTERVAL_S
                seconds.append(target.commit(COMMIT_FILES))
                hooks.append(others.submit(target.hooks))
                pause.wait(max(0.0, due_s - time.monotonic()))
        p99.append(sorted(seconds)[len(seconds) * 99 // 100])
        ran = [hook.result() for hook in hooks]
        figures = {"p50_s": statistics.median(seconds), "p99_s": p99[-1], "hooks_max_s": max(ran), "hooks_s": sum(ran)}
        print(target.files, json.dumps({name: round(value, 3) for name, value in figures.items()}), flush=True)
    spark.stop()
    return max(p99) <= GROWTH * p99[0]


def main():
    """Measure the parts, and return 0 if their bars are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="plan,commits")
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument(
        "--table", type=Path, help="a table for the plan, made if missing, which a later run uses again"
    )
    parser.add_argument("--sizes", default="0,100000,500000")
    parser.add_argument("--barriers", type=int, default=150)
    args = parser.parse_args()
    met = True
    for part in args.only.split(","):
        with tempfile.TemporaryDirectory(prefix="backfill-million-") as folder:
            part_met = {"plan": plan, "commits": commits}[part](args, Path(folder))
        print(f"{part}: the bar {'is met' if part_met else 'is NOT met'}", flush=True)
        met &= part_met
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
