"""Measure the time and the memory to pin a source of many files, and compare with the code of another checkout.

    python tests/benchmarks/many_files.py --files 100000 [--beside ../other-checkout] [--heap 2g]

The script writes the log, with a commit for each 1,000 files and statistics of ten columns; pinning opens no data file, so none exists.
Each side has two cores and a separate JVM. The limit for 100,000 files: session and pin in 20 s, and 2.5 GB of memory in all.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from backfill_spark.jvm.gateway import java

ROOT = Path(__file__).parents[2]
COLUMNS = ["id", *(f"c{at}" for at in range(9))]
COMMIT_FILES = 1000
BAR_S, BAR_MIB = 20, 2560


def make_log(path: Path, files: int) -> None:
    """Write the log of a table with this many files, none of which exists."""
    (path / "_delta_log").mkdir(parents=True)
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in COLUMNS]
    schema = json.dumps({"type": "struct", "fields": fields})
    table = {"id": "many", "format": {"provider": "parquet", "options": {}}, "schemaString": schema}
    first = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {**table, "partitionColumns": [], "configuration": {}, "createdTime": 0}},
    ]
    for version in range(-(-files // COMMIT_FILES)):
        actions = first if version == 0 else []
        adds = [add(at) for at in range(version * COMMIT_FILES, min(files, (version + 1) * COMMIT_FILES))]
        lines = [{"commitInfo": {"timestamp": version, "operation": "WRITE"}}, *actions, *adds]
        text = "".join(json.dumps(action) + "\n" for action in lines)
        (path / "_delta_log" / f"{version:020d}.json").write_text(text, encoding="utf-8")


def add(at: int) -> dict:
    """Return one file as an action of a commit."""
    least, most = (dict.fromkeys(COLUMNS, at * 10 + more) for more in (0, 9))
    stats = {"numRecords": 10, "minValues": least, "maxValues": most, "nullCount": dict.fromkeys(COLUMNS, 0)}
    name = f"part-{at:05d}-6ba7b810-9dad-11d1-80b4-00c04fd430c8-c000.snappy.parquet"
    file = {"path": name, "partitionValues": {}, "size": 900, "modificationTime": 0, "dataChange": True}
    return {"add": {**file, "stats": json.dumps(stats, separators=(",", ":"))}}


def peak_mib(process: str) -> float:
    """Return the peak memory of a process."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def measure(path: str, heap: str) -> None:
    """Pin the table with the code on the path, and print time and memory."""
    from backfill_spark.jvm.session import open_session
    from backfill_spark.sources.delta.source import DeltaTableSource

    began_s = time.monotonic()
    spark = open_session(app_name="many files", memory=heap, jars_dir=Path(os.environ["BACKFILL_JARS_DIR"]))
    opened_s = time.monotonic()
    pinned = DeltaTableSource(spark, path, key=("id",)).pin(None)
    pinned_s = time.monotonic()
    process = java(spark).java.lang.ProcessHandle.current()
    pid, java_cpu_s = str(process.pid()), process.info().totalCpuDuration().get().toMillis() / 1000
    print(
        json.dumps(
            {
                "files": len(pinned.rows), "session_s": round(opened_s - began_s, 1), "pin_s": round(pinned_s - opened_s, 1),
                "cpu_s": round(time.process_time() + java_cpu_s, 1),
                "python_mib": round(peak_mib("self")), "java_mib": round(peak_mib(pid)), "fingerprint": pinned.fingerprint,
            }
        )
    )  # fmt: skip
    spark.stop()


def main() -> int:
    """Measure each checkout in a separate process, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--heap", default="2g")
    parser.add_argument("--beside", type=Path, help="another checkout, measured first")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        measure(args.measure, args.heap)
        return 0
    with tempfile.TemporaryDirectory(prefix="backfill-files-") as scratch:
        table = Path(scratch, "s")
        make_log(table, args.files)
        figures = [run(root, table, args.heap) for root in (args.beside, ROOT) if root]
    ours = figures[-1]
    same = len({side["fingerprint"] for side in figures}) == 1
    total_s, total_mib = ours["session_s"] + ours["pin_s"], ours["python_mib"] + ours["java_mib"]
    met = same and total_s <= BAR_S and total_mib <= BAR_MIB
    print(f"{total_s:.1f} s, {total_mib} MiB: the bar {'is met' if met else 'is NOT met'}")
    return 0 if met else 1


def run(root: Path, table: Path, heap: str) -> dict:
    """Return the figures of one checkout; its lines go to standard output too."""
    path = os.pathsep.join(str(root.resolve() / part) for part in ("crds", "operator", "spark_app"))
    jars = os.environ.get("BACKFILL_JARS_DIR", str(ROOT / ".cache" / "jars"))
    done = subprocess.run(
        [sys.executable, __file__, "--measure", str(table), "--heap", heap],
        env={**os.environ, "PYTHONPATH": path, "BACKFILL_JARS_DIR": jars},
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    line = done.stdout.strip().splitlines()[-1]
    print(f"{root}: {line}", flush=True)
    return json.loads(line)


if __name__ == "__main__":
    sys.exit(main())
