"""Measure the memory of two executors at their default size while an Arrangement with live changes runs.

    python tests/benchmarks/alone/executor_memory.py --rows 2000000

Spark's cluster of one machine starts the executors, with the heap, cores and Java options of an operator's defaults. Another engine
updates, deletes and appends rows of the source all the time. The bar: no executor is lost, and none ever has more resident memory than
its container's limit, at which the kernel would kill it. `--strategy` measures another strategy.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests"))

import pyspark  # noqa: E402
from deltalake import DeltaTable  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from support.operators.observations import spec  # noqa: E402
from support.tables import other_engine  # noqa: E402
from support.tables.jobs import job  # noqa: E402

from backfill_api.spec.spec import BackfillResource  # noqa: E402
from backfill_api.status.progress import Progress  # noqa: E402
from backfill_operator.manifests.attempt import Installation, Launch  # noqa: E402
from backfill_operator.manifests.spark_conf import driver_size, executor_size, properties  # noqa: E402
from backfill_spark.driver.attempt import RunOutcome, run_driver  # noqa: E402
from backfill_spark.executors.calls import executors_removed  # noqa: E402
from backfill_spark.jvm.session import ON_A_CLUSTER, open_session  # noqa: E402
from backfill_spark.jvm.stop_signal import StopSignal  # noqa: E402
from backfill_spark.settings import DriverSettings  # noqa: E402

EXECUTORS = 2
COMMIT_ROWS = 250_000
CHANGED = 500
ORDERS = (
    "SELECT value AS id, value * 7919 % 1000003 AS customer, cast(value % 1000 AS double) AS amount, md5(cast(value AS varchar)) AS note,"
    " concat('sku-', value % 5000) AS sku FROM generate_series({first}, {last})"
)  # fmt: skip


def make(path: str, rows: int) -> None:
    """Write the source."""
    for first in range(0, rows, COMMIT_ROWS):
        other_engine.append(path, ORDERS, first, min(COMMIT_ROWS, rows - first))


def change(path: str, rows: int, ended: threading.Event, commits: list[int]) -> None:
    """Update, delete and append rows until `ended` is set."""
    while not ended.wait(0.2):
        at = len(commits) * 7 * CHANGED % rows
        other_engine.update(path, f"id >= {at} AND id < {at + CHANGED}", amount="amount + 1")
        other_engine.delete(path, f"id >= {at + CHANGED} AND id < {at + CHANGED + 10}")
        other_engine.append(path, ORDERS, rows + len(commits) * 10, 10)
        commits.append(at)


def executors(application: str) -> Iterator[Path]:
    """Yield the folder of each executor's process in `/proc`."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if application.encode() in words and any(word.endswith(b"CoarseGrainedExecutorBackend") for word in words):
            yield process


def watch(application: str, ended: threading.Event, peaks_mib: dict[str, float]) -> None:
    """Record the largest resident memory of each executor until `ended` is set."""
    while not ended.wait(0.25):
        for process in executors(application):
            try:
                lines = (process / "status").read_text().splitlines()
            except OSError:
                continue
            sizes = dict(line.split(":", 1) for line in lines)
            peaks_mib[process.name] = int(sizes["VmHWM"].split()[0]) / 1024


def session(launch: Launch, folder: Path) -> SparkSession:
    """Open a session whose executors have the sizes of a launch."""
    executor, jars = executor_size(launch), Path(os.environ["BACKFILL_JARS_DIR"])
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    memory_mib = executor.heap_mib + executor.overhead_mib
    conf = {
        "spark.master": f"local-cluster[{EXECUTORS},{executor.cores},{memory_mib}]",
        "spark.executor.memory": properties(launch)["spark.executor.memory"],
        "spark.executor.cores": str(executor.cores),
        "spark.executor.extraClassPath": ":".join(str(jar) for jar in sorted(jars.glob("*.jar"))),
        "spark.sql.warehouse.dir": str(folder),
    }  # fmt: skip
    memory = f"{driver_size(launch).heap_mib}m"
    return open_session(app_name="executor-memory", cores=2, memory=memory, jars_dir=jars, conf=ON_A_CLUSTER | conf)


def run_until(made: BackfillResource, spark: SparkSession, settings: DriverSettings, seconds: float) -> RunOutcome:
    """Run a job until its target has caught up, or for this time."""
    stop = StopSignal()
    timer = threading.Timer(seconds, stop.ask, kwargs={"force": False})
    timer.start()

    def observe(progress: Progress) -> None:
        if progress.caught_up and not stop.requested:
            stop.ask(force=False)

    outcome = run_driver(made, settings=settings, spark=spark, observe=observe, stop=stop)
    timer.cancel()
    return outcome


def measured(args: argparse.Namespace, folder: Path) -> dict[str, object]:
    """Run the job, and return the figures."""
    source, target = str(folder / "source"), str(folder / "target")
    make(source, args.rows)
    given = spec(executor={"instances": EXECUTORS})
    launch = Launch("shop", "orders", "uid", 1, "Run", given, Installation("spark:1"))
    size = executor_size(launch)
    spark = session(launch, folder)
    peaks_mib: dict[str, float] = {}
    commits: list[int] = []
    ended = threading.Event()
    beside = [
        threading.Thread(target=watch, args=(spark.sparkContext.applicationId, ended, peaks_mib)),
        threading.Thread(target=change, args=(source, args.rows, ended, commits)),
    ]
    for thread in beside:
        thread.start()
    began_s = time.monotonic()
    try:
        made = job(
            source, target, strategy={"type": args.strategy}, after="Follow",
            transform={"select": ["id", "customer + 0 AS customer", "amount", "upper(note) AS note", "sku"]},
        )  # fmt: skip
        outcome = run_until(made, spark, DriverSettings(state_dir=folder / "state", cores=2), args.seconds)
    finally:
        ended.set()
        for thread in beside:
            thread.join()
    lost = executors_removed(spark, ())
    rows = DeltaTable(target).count()
    logs = Path(pyspark.__file__).parent / "work" / spark.sparkContext.applicationId
    spark.stop()
    shutil.rmtree(logs, ignore_errors=True)  # Spark keeps the logs of executors in its own folder
    return {
        "strategy": args.strategy, "rows": args.rows, "outcome": outcome.outcome, "seconds": round(time.monotonic() - began_s, 1),
        "commits of the other engine": 3 * len(commits), "rows in the target": rows, "executors lost": len(lost),
        "peak MiB of each executor": sorted(round(peak) for peak in peaks_mib.values()),
        "limit MiB": size.heap_mib + size.overhead_mib, "heap MiB": size.heap_mib,
    }  # fmt: skip


def main() -> int:
    """Measure; return 1 if the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument(
        "--seconds", type=float, default=240, help="stop the job after this time, if it has not caught up"
    )
    parser.add_argument("--strategy", default="Arrangement")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="backfill-executors-") as folder:
        figures = measured(args, Path(folder))
    print(json.dumps(figures, indent=1), flush=True)
    peaks = figures["peak MiB of each executor"]
    assert isinstance(peaks, list)
    return int(
        bool(figures["executors lost"]) or len(peaks) != EXECUTORS or max(peaks) > int(str(figures["limit MiB"]))
    )


if __name__ == "__main__":
    sys.exit(main())
