"""Measure a filter that 10 % of the rows fail: hidden rows next to rewritten files, and next to a plain Delta write.

    python tests/benchmarks/alone/hidden_rows.py --rows 20000000 --runs 3
    python tests/benchmarks/alone/hidden_rows.py --buckets --rows 20000000 --sides "Hidden,Delta write"

With `--buckets`, source and target are in two buckets of a real S3 server of this machine; else on its disk. The source has 64 files. No statistics decide the filter. Rounds are interleaved, after rounds that warm up; seconds are medians of whole jobs,
from the start of the driver to its end, in a session that is open. The bar: the plain write takes at least 4 times as long as the job that hides rows, and 6 times between buckets.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from support.stores.minio import credentials, for_delta_rs, for_spark, running_store  # noqa: E402
from support.tables.jobs import job  # noqa: E402
from support.tables.oracle import rows_in  # noqa: E402

from backfill_spark.driver.attempt import run_driver  # noqa: E402
from backfill_spark.jvm.gateway import hadoop_conf, java  # noqa: E402
from backfill_spark.jvm.log_stores.java_classes import bring_log_store  # noqa: E402
from backfill_spark.jvm.session import open_session  # noqa: E402
from backfill_spark.settings import DriverSettings  # noqa: E402

BARS = {"disk": 4, "buckets": 6}
FILES, WARM_ROUNDS = 64, 2
WHERE = "customer % 10 <> 3"
COLUMNS = (
    "id", "id * 7919 % 1000003 AS customer", "rand(7) * 1000 AS amount", "timestamp_seconds(1700000000 + id % 10000000) AS ts",
    "concat('sku-', id % 5000) AS sku", "md5(cast(id AS string)) AS note",
    "element_at(array('new', 'paid', 'sent', 'done'), cast(id % 4 + 1 AS int)) AS status",
)  # fmt: skip


def by_job(filtered_rows):
    """Return a function that runs a job."""

    def run(spark, source, target, state):
        spec = job(
            source, target, source={"key": []}, strategy={"type": "Replica"}, transform={"where": WHERE},
            target={"filteredRows": filtered_rows}, barrier={"intervalMs": 1000},
        )  # fmt: skip
        ended = run_driver(spec, settings=DriverSettings(state_dir=state, cores=2), spark=spark)
        assert ended.outcome == "Complete", ended.message

    return run


def by_spark(spark, source, target, _state):
    """Write the rows that pass into a new table."""
    spark.read.format("delta").load(source).where(WHERE).write.format("delta").save(target)


SIDES = {"Hidden": by_job("Hidden"), "Rewritten": by_job("Rewritten"), "Delta write": by_spark}


@contextmanager
def on_disk(folder):
    """Give the folders of source and target, and no settings of Spark."""
    yield f"{folder}/source", f"{folder}/target", {}


@contextmanager
def in_buckets(folder):
    """The same in two buckets of a server, which runs while the block does."""
    (folder / "store").mkdir()
    with running_store(folder / "store") as store:
        os.environ |= credentials() | {name.upper(): value for name, value in for_delta_rs(store.endpoint).items()}
        yield "s3a://here/source", "s3a://there/target", for_spark(store.endpoint)


def remove(spark, target):
    """Remove the target of the round before, and write what is left in the page cache."""
    path = java(spark).org.apache.hadoop.fs.Path(target)
    path.getFileSystem(hadoop_conf(spark)).delete(path, True)
    os.sync()


def rounds(spark, source, target, given, state):
    """Return the seconds of each round by side, without the rounds that warm up."""
    spark.range(0, given.rows, 1, FILES).selectExpr(*COLUMNS).write.format("delta").save(source)
    expected = spark.read.format("delta").load(source).where(WHERE).count()
    seconds = {name: [] for name in given.sides.split(",")}
    for run in range(-WARM_ROUNDS, given.runs):
        for name, taken in seconds.items():
            remove(spark, target)
            began = time.monotonic()
            SIDES[name](spark, source, target, state)
            took = time.monotonic() - began
            print(f"{name:>11} {took:6.2f} s", flush=True)
            assert rows_in(target) == expected
            if run >= 0:
                taken.append(took)
    return seconds


def main():
    """Print the seconds of each round, and the ratios of the medians."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rows", type=int, default=20_000_000)
    arguments.add_argument("--runs", type=int, default=3)
    arguments.add_argument("--buckets", action="store_true", help="copy between two buckets of an S3 server")
    arguments.add_argument(
        "--sides", default="Hidden,Rewritten,Delta write", help="some of these, without spaces after commas"
    )
    given = arguments.parse_args()
    folder, jars = Path(tempfile.mkdtemp(prefix="backfill-hidden-")), os.environ.get("BACKFILL_JARS_DIR")
    with in_buckets(folder) if given.buckets else on_disk(folder) as (source, target, conf):
        spark = open_session(
            app_name="hidden rows", cores=2, memory="3g", jars_dir=Path(jars) if jars else None, conf=conf
        )
        bring_log_store(spark, "s3a")
        seconds = rounds(spark, source, target, given, folder / "state")
        spark.stop()
    shutil.rmtree(folder)
    bar = BARS["buckets" if given.buckets else "disk"]
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    print(f"{given.rows:,} rows; medians: " + ", ".join(f"{name} {value:.2f} s" for name, value in middle.items()))
    for name in [name for name in middle if name != "Delta write"] if "Delta write" in middle else []:
        ratio = middle["Delta write"] / middle[name]
        verdict = "" if name != "Hidden" else f" (bar {bar}: {'holds' if ratio >= bar else 'MISSED'})"
        print(f"Delta write / {name}: {ratio:.2f}{verdict}")


if __name__ == "__main__":
    main()
