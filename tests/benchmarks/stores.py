"""Measure copies from bucket to bucket on a real S3 server of this machine, with s5cmd and a plain Delta write as baselines.

    python tests/benchmarks/stores.py --objects 2000 --kib 1024 --runs 5 [--big 6 --big-kib 1048576] [--out build/bench/stores.json]

Each way copies the same objects; targets are deleted after each run, and the figures are medians. Source objects have the same content
under different names. The server counts the bytes that it sends and receives, so bytes that pass the driver are counted by neither side.
`copy_s` is the step Copy of the job, `job_s` the whole job: session and JVM run already, as those of the plain write do.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])

from support.stores.minio import ACCESS_KEY, SECRET_KEY, compiled, credentials, for_spark, running_store  # noqa: E402
from support.stores.objects import Keys, Request, ask  # noqa: E402

from backfill_api.load import load_backfill  # noqa: E402
from backfill_spark.driver.attempt import run_driver  # noqa: E402
from backfill_spark.jvm.gateway import hadoop_conf, java  # noqa: E402
from backfill_spark.jvm.log_stores.java_classes import bring_log_store  # noqa: E402
from backfill_spark.jvm.session import open_session  # noqa: E402
from backfill_spark.settings import DriverSettings  # noqa: E402

S5CMD = "github.com/peak/s5cmd/v2@v2.3.0"
ROW_BYTES = 40
"""Bytes of a row in an uncompressed file: five columns of 8 bytes."""

BARS = {"of_s5cmd": 1.5, "of_plain": 15.0, "driver_bytes": 0.01, "receipt": 0.1}
METRICS_CACHED_S = 12
"""The server renews its counts every 10 seconds."""


class Bench:
    """One server, one session, and one source table."""

    def __init__(self, spark, store, s5cmd, scratch, args):
        """Store them."""
        self.spark, self.store, self.s5cmd, self.scratch, self.args = spark, store, s5cmd, scratch, args
        self.source, self.bytes = "s3a://here/source", 0

    def make(self, objects, kib):
        """Write the source: one file under many names, and a log."""
        rows = kib * 1024 // ROW_BYTES
        columns = ["id", *(f"rand({seed}) AS c{seed}" for seed in range(4))]
        folder = self.scratch / "part"
        frame = self.spark.range(0, rows, 1, 1).selectExpr(*columns)
        frame.write.option("compression", "uncompressed").parquet(f"file:{folder}")
        content, keys = next(folder.glob("*.parquet")).read_bytes(), Keys(ACCESS_KEY, SECRET_KEY)

        def put(path, body):
            assert ask(self.store.endpoint, Request("PUT", f"/here/source/{path}", body=body), keys).status == 200

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda at: put(f"part-{at:06}.parquet", content), range(objects)))
        put("_delta_log/00000000000000000000.json", _log(frame.schema.json(), objects, len(content), rows).encode())
        self.bytes = objects * len(content)

    def by_s5cmd(self):
        """Return the seconds of `s5cmd cp` of all objects."""
        began_s = time.monotonic()
        workers = ["--numworkers", str(self.args.workers)]
        command = [self.s5cmd, *workers, "cp", "s3://here/source/*.parquet", "s3://there/s5cmd/"]
        environ = {**os.environ, "S3_ENDPOINT_URL": self.store.endpoint, "AWS_REGION": "us-east-1"}
        subprocess.run([str(part) for part in command], env=environ, check=True, stdout=subprocess.DEVNULL)
        seconds = time.monotonic() - began_s
        self._remove("s3a://there/s5cmd")
        return {"s5cmd_s": seconds}

    def by_plain_write(self):
        """Return the seconds in which Spark reads the table and writes it as another one."""
        began_s = time.monotonic()
        self.spark.read.format("delta").load(self.source).write.format("delta").save("s3a://there/plain")
        seconds = time.monotonic() - began_s
        self._remove("s3a://there/plain")
        return {"plain_s": seconds}

    def by_job(self):
        """Return the seconds of a job and of its steps, and the share of its bytes that the server sent and received."""
        target, seen = "s3a://there/job", []
        spec = {
            "source": {"type": "Delta", "delta": {"path": self.source}},
            "target": {"type": "Delta", "delta": {"path": target}},
            "strategy": {"type": "Replica"}, "verify": "Final", "barrier": {"intervalMs": 200},
        }  # fmt: skip
        document = {
            "apiVersion": "backfill.dev/v1alpha1",
            "kind": "Backfill",
            "metadata": {"name": "stores"},
            "spec": spec,
        }
        settings = DriverSettings(cores=2, state_dir=self.scratch / "state")
        before, began_s = self._traffic(), time.monotonic()
        outcome = run_driver(
            load_backfill(document), settings=settings, spark=self.spark,
            observe=lambda progress: seen.append((time.monotonic(), progress.step)),
        )  # fmt: skip
        ended_s, sent = time.monotonic(), self._traffic() - before
        assert (outcome.outcome, outcome.message) == ("Complete", "")
        assert outcome.receipt.equal
        self._remove(target)
        times = [*seen, (ended_s, "")]
        steps = dict.fromkeys(("Copy", "Receipt"), 0.0)
        for (at_s, step), (next_s, _) in pairwise(times):
            if step in steps:
                steps[step] += next_s - at_s
        return {
            "job_s": ended_s - began_s, "copy_s": steps["Copy"], "receipt_s": steps["Receipt"],
            "driver_bytes": sent / self.bytes,
        }  # fmt: skip

    def _traffic(self):
        """Return the bytes that the server sent and received so far."""
        time.sleep(METRICS_CACHED_S)
        with urllib.request.urlopen(f"{self.store.endpoint}/minio/v2/metrics/node") as answer:
            text = answer.read().decode()
        return sum(
            float(count) for count in re.findall(r"^minio_s3_traffic_\w+_bytes\{[^}]*\} (\S+)", text, re.MULTILINE)
        )

    def _remove(self, uri):
        path = java(self.spark).org.apache.hadoop.fs.Path(uri)
        path.getFileSystem(hadoop_conf(self.spark)).delete(path, True)


def _log(schema, objects, size_bytes, rows):
    """Return the first version of a table of equal files."""
    adds = [
        {"add": {"path": f"part-{at:06}.parquet", "partitionValues": {}, "size": size_bytes, "modificationTime": 0,
                 "dataChange": True, "stats": json.dumps({"numRecords": rows})}}
        for at in range(objects)
    ]  # fmt: skip
    first = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {"id": "stores", "format": {"provider": "parquet", "options": {}}, "partitionColumns": [],
                      "configuration": {}, "schemaString": schema, "createdTime": 0}},
    ]  # fmt: skip
    return "\n".join(json.dumps(action) for action in (*first, *adds))


def _rounded(figures):
    return json.dumps({name: round(value, 3) for name, value in figures.items() if name != "runs"})


def measured(args, objects, kib):
    """Return the medians of all ways for a number of objects of a size."""
    os.environ.update(credentials())
    with tempfile.TemporaryDirectory(prefix="backfill-stores-") as folder:
        scratch = Path(folder)
        (scratch / "store").mkdir()
        with running_store(scratch / "store", MINIO_PROMETHEUS_AUTH_TYPE="public") as store:
            conf = {"spark.sql.warehouse.dir": folder, **for_spark(store.endpoint)}
            jars = os.environ.get("BACKFILL_JARS_DIR")
            spark = open_session(
                app_name="stores", cores=2, memory="2g", jars_dir=None if jars is None else Path(jars), conf=conf
            )
            bring_log_store(spark, "s3a")
            bench = Bench(spark, store, compiled("s5cmd", S5CMD), scratch, args)
            bench.make(objects, kib)
            ways = (bench.by_s5cmd, bench.by_job, bench.by_plain_write)
            runs = []
            for _ in range(args.runs):
                runs.append({name: value for way in ways for name, value in way().items()})
                print(_rounded(runs[-1]), flush=True)
            java(
                spark
            ).org.apache.hadoop.fs.FileSystem.closeAll()  # Java keeps clients of this server, and the next size has another one
            spark.stop()
    figures = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    ratios = {
        "of_s5cmd": figures["copy_s"] / figures["s5cmd_s"], "of_plain": figures["plain_s"] / figures["copy_s"],
        "receipt": figures["receipt_s"] / figures["copy_s"], "driver_bytes": figures["driver_bytes"],
    }  # fmt: skip
    mb_per_s = bench.bytes / 1e6 / figures["copy_s"]
    return {"objects": objects, "kib": kib, "mb_per_s": mb_per_s, **figures, **ratios, "runs": runs}


def main():
    """Measure both sizes, print the figures and the bars, and write them to a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=2000)
    parser.add_argument("--kib", type=int, default=1024)
    parser.add_argument("--big", type=int, default=0, help="number of large objects; 0: none")
    parser.add_argument("--big-kib", type=int, default=1 << 20)
    parser.add_argument("--workers", type=int, default=32, help="requests of s5cmd at once")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("build/bench/stores.json"))
    args = parser.parse_args()
    sizes = [(args.objects, args.kib), *([(args.big, args.big_kib)] if args.big else [])]
    results = [measured(args, *size) for size in sizes]
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps({"bars": BARS, "results": results}, indent=1))
    for result in results:
        print(_rounded(result), flush=True)
    print(f"bars: {json.dumps(BARS)}; of_plain is a least value, the others are largest ones")


if __name__ == "__main__":
    main()
