"""Measures a repair in one warm session: of 4 damaged vnodes beside a receipt and a MERGE, and of 4 damaged files beside a decoded copy.

python tests/benchmarks/alone/repair.py --rows 8000000 --runs 3 --scratch /tmp/repair
"""

import argparse
import json
import shutil
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from support.tables.jobs import job, make_orders

from backfill_spark.driver.attempt import run_driver
from backfill_spark.driver.offline_verify import verify_offline
from backfill_spark.jvm.session_scope import session_scope
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.repair.repair import repair_target
from backfill_spark.settings import DriverSettings

VNODES, DAMAGED, FILES = 256, 4, 64


def timed(do):
    """Return the seconds of a call, and its result."""
    began_s = time.monotonic()
    result = do()
    return time.monotonic() - began_s, result


def of_vnodes(spark, settings, folder, source, runs):
    """Return the seconds of repairs of rows, of receipts, and of MERGEs of as many rows."""
    target, merged = str(folder / "rows"), str(folder / "merged")
    backfill = job(source, target, verify="Final")
    assert run_driver(backfill, settings=settings, spark=spark).outcome == "Complete"
    shutil.copytree(target, merged)
    wrong = f"pmod(xxhash64(id), {VNODES}) < {DAMAGED}"
    spark.sql(f"SELECT * FROM delta.`{source}` WHERE {wrong}").write.parquet(str(folder / "changed"))
    figures = {"repair": [], "receipt": [], "merge": [], "rows": 0}
    for _ in range(runs):
        spark.sql(f"UPDATE delta.`{target}` SET amount = -1 WHERE {wrong}")
        receipt_s, (receipt, *_) = timed(lambda: verify_offline(backfill, settings=settings, spark=spark))
        assert len(receipt.mismatches) == DAMAGED
        repair_s, done = timed(lambda: repair_target(backfill, settings=settings, spark=spark))
        assert done.receipt.equal
        spark.sql(f"UPDATE delta.`{merged}` SET amount = -1 WHERE {wrong}")
        merge = f"""MERGE INTO delta.`{merged}` t USING parquet.`{folder}/changed` s ON t.id = s.id
            WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""
        merge_s, _ = timed(lambda merge=merge: spark.sql(merge).collect())
        figures["repair"].append(repair_s)
        figures["receipt"].append(receipt_s)
        figures["merge"].append(merge_s)
        figures["rows"] = done.rows.updated
    return figures


def of_files(spark, settings, folder, source, runs):
    """Return the seconds of repairs of files, and of decoded copies by Spark."""
    target = folder / "files"
    backfill = job(source, str(target), source={"key": []}, strategy={"type": "Replica"}, verify="Final")
    assert run_driver(backfill, settings=settings, spark=spark).outcome == "Complete"
    figures = {"repair": [], "decoded": []}
    for run in range(runs):
        copies = sorted(Path(path) for path in spark.read.format("delta").load(str(target)).inputFiles())
        for uri in copies[:DAMAGED]:
            file = Path(str(uri).removeprefix("file:"))
            file.write_bytes(file.read_bytes()[:-100])
        repair_s, done = timed(lambda: repair_target(backfill, settings=settings, spark=spark))
        assert (done.receipt.equal, done.files_copied) == (True, DAMAGED)
        rows, copy = spark.read.format("delta").load(source), str(folder / f"decoded{run}")
        decoded_s, _ = timed(lambda rows=rows, copy=copy: rows.write.format("delta").save(copy))
        shutil.rmtree(copy)
        figures["repair"].append(repair_s)
        figures["decoded"].append(decoded_s)
    return figures


def main():
    """Print the medians and the two ratios as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--scratch", type=Path, required=True)
    args = parser.parse_args()
    settings = DriverSettings(state_dir=args.scratch / "state", cores=2, memory="3g")
    with session_scope({}, settings, app_name="repair", given=None, stop=StopSignal()) as spark:
        source = str(args.scratch / "source")
        make_orders(spark, source, args.rows, files=FILES)
        rows = of_vnodes(spark, settings, args.scratch, source, args.runs)
        files = of_files(spark, settings, args.scratch, source, args.runs)
    middle = {name: statistics.median(values) for name, values in rows.items() if name != "rows"}
    of_files_s = {name: statistics.median(values) for name, values in files.items()}
    print(
        json.dumps(
            {
                "rows": args.rows,
                "rowsRepaired": rows["rows"],
                "vnodes_s": middle,
                "vnodes_ratio": middle["repair"] / (middle["receipt"] + middle["merge"]),
                "files_s": of_files_s,
                "files_ratio": of_files_s["repair"] / of_files_s["decoded"],
                "runs": {"vnodes": rows, "files": files},
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
