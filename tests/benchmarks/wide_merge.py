"""Compare a MERGE of few changes into a table of many columns with the same MERGE as Spark plans it.

    python tests/benchmarks/wide_merge.py [--columns 1000] [--runs 3]

Both sides take turns in one session; planning is most of their time. The figures are medians of seconds.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from pyspark.sql import functions as F

from backfill_spark.jvm.session import open_session
from backfill_spark.rows.changes import net_changes
from backfill_spark.rows.transform import Transform
from backfill_spark.rows.write_modes import UPSERT
from backfill_spark.sinks.delta import row_changes
from backfill_spark.sinks.delta.sink import DeltaSink

ROWS, CHANGED_EVERY = 3000, 30
JARS = Path(__file__).parents[2] / ".cache" / "jars"


def main():
    """Print the seconds of each side and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--columns", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    spark = open_session(app_name="wide", cores=2, memory="4g", jars_dir=JARS, java_home=None)
    columns = [F.col("id").cast("string" if at % 3 == 0 else "int").alias(f"c{at}") for at in range(args.columns)]
    rows = spark.range(ROWS).select("id", *columns)
    with tempfile.TemporaryDirectory() as folder:
        target = DeltaSink(spark, f"{folder}/target", write_mode=UPSERT, key=("id",), job_id="wide")
        target.prepare(rows.schema)
        rows.write.format("delta").mode("append").save(target.path)
        seconds: dict[str, list[float]] = {"ours": [], "plain": []}
        for run in range(args.runs + 1):
            for side, wide_columns in (("ours", row_changes.WIDE_COLUMNS), ("plain", args.columns * 2)):
                row_changes.WIDE_COLUMNS, ours = wide_columns, row_changes.WIDE_COLUMNS
                changed = rows.where(F.col("id") % CHANGED_EVERY == run).withColumn("c1", F.lit(run))
                change = changed.withColumns({"_change_type": F.lit("insert"), "_commit_version": F.lit(run)})
                net = target.as_stored(net_changes(change, Transform(), ("id",))).localCheckpoint()
                begun = time.monotonic()
                target.merge(net, app_id="wide", txn_version=2 * run + (side == "plain") + 1)
                took = time.monotonic() - begun
                row_changes.WIDE_COLUMNS = ours
                if run:  # the first round warms Java up
                    seconds[side].append(took)
    ours, plain = (statistics.median(seconds[side]) for side in ("ours", "plain"))
    print(f"{args.columns} columns: ours {ours:.1f} s, plain {plain:.1f} s, ratio {ours / plain:.2f}")
    spark.stop()


if __name__ == "__main__":
    main()
