"""Measure a filter that 10 % of the rows fail: hidden rows next to rewritten files, and next to a plain Delta write.

    python tests/benchmarks/alone/hidden_rows.py --rows 20000000 --runs 3

The source has 64 files. No statistics decide the filter. Rounds are interleaved, after rounds that warm up; seconds are medians of whole jobs,
from the start of the driver to its end, in a session that is open. The bar: the plain write takes at least 4 times as long as the job that hides rows.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from support.tables.jobs import job  # noqa: E402
from support.tables.oracle import rows_in  # noqa: E402

from backfill_spark.driver.attempt import run_driver  # noqa: E402
from backfill_spark.jvm.session import open_session  # noqa: E402
from backfill_spark.settings import DriverSettings  # noqa: E402

BAR = 4
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


def main():
    """Print the seconds of each round, and the ratios of the medians."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rows", type=int, default=20_000_000)
    arguments.add_argument("--runs", type=int, default=3)
    arguments.add_argument(
        "--sides", default="Hidden,Rewritten,Delta write", help="some of these, without spaces after commas"
    )
    given = arguments.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="backfill-hidden-"))
    jars = os.environ.get("BACKFILL_JARS_DIR")
    spark = open_session(app_name="hidden rows", cores=2, memory="3g", jars_dir=Path(jars) if jars else None)
    source, target = f"{folder}/source", f"{folder}/target"
    spark.range(0, given.rows, 1, FILES).selectExpr(*COLUMNS).write.format("delta").save(source)
    expected = spark.read.format("delta").load(source).where(WHERE).count()
    sides = {name: SIDES[name] for name in given.sides.split(",")}
    seconds = {name: [] for name in sides}
    for run in range(-WARM_ROUNDS, given.runs):
        for name, write in sides.items():
            shutil.rmtree(target, ignore_errors=True)
            os.sync()
            began = time.monotonic()
            write(spark, source, target, folder / "state")
            took = time.monotonic() - began
            print(f"{name:>11} {took:6.2f} s", flush=True)
            assert rows_in(target) == expected
            if run >= 0:
                seconds[name].append(took)
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    print(f"{given.rows:,} rows; medians: " + ", ".join(f"{name} {value:.2f} s" for name, value in middle.items()))
    for name in [name for name in middle if name != "Delta write"] if "Delta write" in middle else []:
        ratio = middle["Delta write"] / middle[name]
        verdict = "" if name != "Hidden" else f" (bar {BAR}: {'holds' if ratio >= BAR else 'MISSED'})"
        print(f"Delta write / {name}: {ratio:.2f}{verdict}")
    spark.stop()
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
