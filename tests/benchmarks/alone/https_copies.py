"""Measure a driver that copies a table between two stores over TLS, with two executors and without any.

    python tests/benchmarks/alone/https_copies.py --mib 646 --runs 3

Each run is a process with a new Java, which has the options that the operator gives the driver of a Replica job. The bar: executors make
it not slower. The driver copies the files itself, so executors must not change what its Java can do.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests"))

import pyspark  # noqa: E402
from support.operators.observations import spec  # noqa: E402
from support.stores.minio import credentials, for_spark  # noqa: E402
from support.stores.tls import certificate, started  # noqa: E402
from support.tables.jobs import job  # noqa: E402

from backfill_operator.manifests.attempt import Installation, Launch  # noqa: E402
from backfill_operator.manifests.spark_conf import properties  # noqa: E402
from backfill_spark.driver.attempt import run_driver  # noqa: E402
from backfill_spark.jvm.log_stores.java_classes import S3, bring_log_store  # noqa: E402
from backfill_spark.jvm.session import ON_A_CLUSTER, open_session  # noqa: E402
from backfill_spark.settings import DriverSettings  # noqa: E402

FILES, ROW_BYTES = 32, 1024
SOURCE, TARGET = "s3a://here/orders", "s3a://there/orders"
EXECUTORS = (0, 2)


def session(executors, given):
    """Open a session as in a pod: the operator's options of Java, and executors of the same machine."""
    described = spec(executor={"instances": executors}, strategy={"type": "Replica"})
    made = properties(Launch("shop", "orders", "uid", 1, "Run", described, Installation("spark:1")))
    jars = Path(os.environ.get("BACKFILL_JARS_DIR", ROOT / ".cache" / "jars"))
    conf = {
        **for_spark(given["one"]), "spark.hadoop.fs.s3a.bucket.there.endpoint": given["two"],
        "spark.driver.memory": made["spark.driver.memory"], "spark.sql.warehouse.dir": given["folder"],
    }  # fmt: skip
    if executors:
        os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
        conf |= ON_A_CLUSTER | {
            "spark.master": f"local-cluster[{executors},1,1024]", "spark.executor.memory": "640m",
            "spark.executor.extraClassPath": ":".join(str(jar) for jar in sorted(jars.glob("*.jar"))),
        }  # fmt: skip
    trusted = f"-Djavax.net.ssl.trustStore={given['trusted']} -Djavax.net.ssl.trustStorePassword=changeit"
    options = f"{trusted} {made.get('spark.driver.defaultJavaOptions', '')}"
    return open_session(
        app_name="https-copies", jars_dir=jars, conf=conf, spec_conf={"spark.driver.extraJavaOptions": options}
    )


def copy(executors, given):
    """Copy the table once; print the seconds from the first call to the end, without the start of Java."""
    spark = session(executors, given)
    bring_log_store(spark, S3)
    if given["make"]:
        note = f"array_join(transform(sequence(1, {ROW_BYTES // 32}), k -> md5(concat(id, '-', k))), '') AS note"
        rows = spark.range(0, given["make"] * 1024, 1, FILES).selectExpr("id", note)
        rows.write.format("delta").option("compression", "uncompressed").mode("overwrite").save(SOURCE)
    spark.range(0, 8, 1, 8).count()  # executors have started, so they do not take the cores of the copy
    began_s = time.monotonic()
    settings = DriverSettings(state_dir=Path(given["folder"], "state"), cores=2)
    outcome = run_driver(job(SOURCE, given["target"], strategy={"type": "Replica"}), settings=settings, spark=spark)
    print(json.dumps({"s": time.monotonic() - began_s, "outcome": outcome.outcome}))
    logs = Path(pyspark.__file__).parent / "work" / spark.sparkContext.applicationId
    spark.stop()
    shutil.rmtree(logs, ignore_errors=True)  # Spark keeps the logs of executors in its own folder


def run(executors, given):
    """Copy the table in a new process; return the seconds."""
    arguments = [sys.executable, __file__, "--copy", json.dumps({**given, "executors": executors})]
    done = subprocess.run(arguments, stdout=subprocess.PIPE, text=True, check=True)
    result = json.loads(done.stdout.strip().splitlines()[-1])
    assert result["outcome"] == "Complete", result
    return result["s"]


def measured(args, folder):
    """Measure each number of executors in turn; return the seconds of each."""
    authority, trusted = certificate(folder)
    os.environ |= {**credentials(), "SSL_CERT_FILE": str(authority)}
    one, two = servers = [started(folder / name, authority) for name in ("one", "two")]
    given = {"one": one.endpoint, "two": two.endpoint, "folder": str(folder), "trusted": str(trusted)}
    taken = {executors: [] for executors in EXECUTORS}
    try:
        run(0, {**given, "target": f"{TARGET}-first", "make": args.mib})
        for number in range(args.runs):
            for executors in EXECUTORS if number % 2 == 0 else EXECUTORS[::-1]:
                target = f"{TARGET}-{number}-{executors}"
                taken[executors].append(run(executors, {**given, "target": target, "make": 0}))
                print(f"  {executors} executors: {taken[executors][-1]:.1f} s", flush=True)
    finally:
        for server in servers:
            server.stop()
    return taken


def main():
    """Measure; return 1 if the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=646)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--copy", type=json.loads, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.copy is not None:
        copy(args.copy["executors"], args.copy)
        return 0
    with tempfile.TemporaryDirectory(prefix="backfill-https-") as folder:
        taken = measured(args, Path(folder))
    none, two = (statistics.median(taken[executors]) for executors in EXECUTORS)
    print(f"median without executors {none:.1f} s, with two {two:.1f} s: {two / none:.2f}")
    return int(two > none * 1.1)


if __name__ == "__main__":
    sys.exit(main())
