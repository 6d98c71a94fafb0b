"""Measure who streams files between two stores at the lowest cost: Java in the driver, or `obstore` in a process or in Spark's tasks.

    python tests/benchmarks/alone/streamed_copies.py [--sizes 200x1,24x16,2x256] [--runs 3] [--streams 4] [--tls] [--conf NAME=VALUE] [--out FILE]

Two S3 servers run on this machine, so processor seconds of the copying processes per GiB are the figure that compares; the seconds
depend on the servers, which share its cores. Each way copies the same objects with the same number of streams and takes the CRC-32C
of the bytes; the digests must be equal. Targets are deleted after each run, and figures are medians of runs by turns.
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
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

TESTS = Path(__file__).parents[2]
sys.path.insert(0, str(TESTS))

MIB = 1 << 20
STREAMS = 4
WHOLE_MAX, PART_BYTES, PARTS_AT_ONCE = 32 * MIB, 16 * MIB, 2
"""Larger objects are sent in parts, of which a stream holds three: two that are sent, and one that is read."""

EXECUTORS = 2
WARM_UP = ((24, 16), (200, 1))
"""Objects and their MiB; Java compiles the code of its client meanwhile."""

MISSING = "This benchmark needs two packages: pip install obstore google-crc32c"


# ------------------------------------------------------------------ the mover that is measured; runs in tasks, too
def streamed(stores: dict, names: list[str], streams: int) -> dict[str, str]:
    """Copy objects from one store to another; return the CRC-32C of each, hexadecimal.

    Args:
        stores: Settings of `from` and `to`, for `S3Store`.
        names: Keys, the same in both buckets.
        streams: Objects at once.
    """
    import google_crc32c
    import obstore
    from obstore.store import S3Store

    source, target = (S3Store(**stores[side]) for side in ("from", "to"))

    def copy(name: str) -> str:
        answer = obstore.get(source, name)
        if answer.meta["size"] <= WHOLE_MAX:
            content = bytes(answer.bytes())
            obstore.put(target, name, content, use_multipart=False)
            return f"{google_crc32c.value(content):08x}"
        digest = 0
        with obstore.open_writer(target, name, buffer_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE) as writer:
            for chunk in answer.stream(min_chunk_size=MIB):
                digest = google_crc32c.extend(digest, chunk)
                writer.write(chunk)
        return f"{digest:08x}"

    with ThreadPoolExecutor(streams) as pool:
        return dict(zip(names, pool.map(copy, names), strict=True))


# ------------------------------------------------------------------ processor time
def tree_s(pid: int, without: frozenset[int]) -> float:
    """Return the processor seconds of a process, of its ended and of its running children, without some and without Spark's Python.

    Spark's parent of Python processes does not wait for them, so the system forgets their time: each task returns its own.
    """
    if b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes():
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    seconds = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    for thread in Path(f"/proc/{pid}/task").iterdir():
        children = list[str]()
        with suppress(OSError):  # the thread has just ended
            children = (thread / "children").read_text().split()
        seconds += sum(tree_s(int(child), without) for child in children if int(child) not in without)
    return seconds


class Bench:
    """Two servers, one session with executors, and objects of one size."""

    def __init__(self, spark, stores, servers, streams):
        """Store them."""
        self.spark, self.stores, self.servers, self.streams = spark, stores, servers, streams
        self.names, self.tasks_s = [], 0.0

    def make(self, objects, mib):
        """Put objects of random bytes into the source."""
        import obstore
        from obstore.store import S3Store

        source = S3Store(**self.stores["from"])
        self.names = [f"objects/{mib}-{at:04}" for at in range(objects)]
        for name in self.names:
            obstore.put(source, name, os.urandom(mib * MIB), chunk_size=PART_BYTES)

    def remove(self, side):
        """Remove all objects of one side."""
        import obstore
        from obstore.store import S3Store

        obstore.delete(S3Store(**self.stores[side]), self.names)

    def by_driver(self):
        """Copy as a job does: threads of the driver, with streams of Hadoop's S3 client."""
        from backfill_spark.file_copies import bytes as moved
        from backfill_spark.jvm.workers import at_once

        moved.STREAMS_AT_ONCE = self.streams
        copier = moved.ByteCopier(self.spark, "s3a://here/objects", "s3a://there/objects")
        assert copier.threads == 0, "the store would copy the objects itself"

        def copy(name):
            below = name.removeprefix("objects/")
            return copier.copy(below, below, check=lambda: None).digest

        return dict(zip(self.names, at_once([partial(copy, name) for name in self.names], self.streams), strict=True))

    def by_process(self):
        """Copy by `obstore` in one process; its start counts."""
        job = json.dumps({"stores": self.stores, "names": self.names, "streams": self.streams})
        command = [sys.executable, __file__, "--stream"]
        done = subprocess.run(command, input=job, check=True, stdout=subprocess.PIPE, text=True)
        return json.loads(done.stdout)

    def by_tasks(self):
        """Copy by `obstore` in tasks, one on each executor; the start of Python counts, that of the executors does not."""
        shares = [self.names[at::EXECUTORS] for at in range(EXECUTORS)]
        stores, streams = self.stores, max(1, self.streams // EXECUTORS)

        def task(names):
            return streamed(stores, names, streams), time.process_time()

        done = self.spark.sparkContext.parallelize(shares, EXECUTORS).map(task).collect()
        self.tasks_s += sum(cpu_s for _, cpu_s in done)
        return {name: digest for digests, _ in done for name, digest in digests.items()}

    def measure(self, way):
        """Return seconds, processor seconds of the movers and of the servers, and the digests."""
        servers = [server.pid for server in self.servers]

        def movers():
            return tree_s(os.getpid(), frozenset(servers)) + self.tasks_s

        cpu_s, server_s, began_s = movers(), sum(tree_s(pid, frozenset()) for pid in servers), time.monotonic()
        digests = getattr(self, way)()
        figures = {
            "s": time.monotonic() - began_s,
            "cpu_s": movers() - cpu_s,
            "server_s": sum(tree_s(pid, frozenset()) for pid in servers) - server_s,
        }
        self.remove("to")
        return figures, digests


def rounded(figures):
    """Return figures as text."""
    return json.dumps({name: round(value, 2) for name, value in figures.items()})


WAYS = ("by_driver", "by_process", "by_tasks")


def measured(bench, objects, mib, runs):
    """Return the medians of all ways for one size, per GiB too."""
    bench.make(objects, mib)
    taken, gib = {way: [] for way in WAYS}, objects * mib / 1024
    for run in range(runs):
        digests = {}
        for way in WAYS[run % len(WAYS) :] + WAYS[: run % len(WAYS)]:
            figures, digests[way] = bench.measure(way)
            taken[way].append(figures)
            print(f"{objects}x{mib}", way, rounded(figures), flush=True)
        assert digests["by_driver"] == digests["by_process"] == digests["by_tasks"]
    bench.remove("from")
    result = {}
    for way, of_way in taken.items():
        median = {name: statistics.median(figures[name] for figures in of_way) for name in of_way[0]}
        result[way] = {**median, "cpu_s_per_gib": median["cpu_s"] / gib, "mb_per_s": gib * 1073.741824 / median["s"]}
    return {"objects": objects, "mib": mib, "ways": result, "runs": taken}


# ------------------------------------------------------------------ two servers and a session
def settings_of(endpoint, bucket, made):
    """Return the settings of `obstore` for a bucket; over TLS the payload is not signed, as by Hadoop's client."""
    from support.stores.minio import ACCESS_KEY, SECRET_KEY

    tls = made is not None
    client = {"root_certificate": made.read_text()} if tls else {"allow_http": True}
    return {
        "bucket": bucket, "endpoint": endpoint, "region": "us-east-1", "access_key_id": ACCESS_KEY,
        "secret_access_key": SECRET_KEY, "virtual_hosted_style_request": False, "unsigned_payload": tls,
        "client_options": client,
    }  # fmt: skip


def run(args):
    """Measure all sizes in one session."""
    import pyspark
    from support.stores.minio import credentials, for_spark
    from support.stores.tls import certificate, started

    from backfill_spark.jvm.session import open_session

    os.environ |= {**credentials(), "PYSPARK_PYTHON": sys.executable}
    with tempfile.TemporaryDirectory(prefix="backfill-streamed-") as name:
        folder, servers = Path(name), []
        made, trusted = certificate(folder) if args.tls else (None, None)
        if made is not None:
            os.environ["SSL_CERT_FILE"] = str(made)
        try:
            servers += [started(folder / side, made) for side in ("one", "two")]
            one, two = servers
            conf = {
                **for_spark(one.endpoint), "spark.hadoop.fs.s3a.bucket.there.endpoint": two.endpoint,
                "spark.master": f"local-cluster[{EXECUTORS},1,1024]", "spark.python.worker.reuse": "false",
                "spark.sql.warehouse.dir": name, **dict(setting.split("=", 1) for setting in args.conf),
            }  # fmt: skip
            options = {"spark.driver.extraJavaOptions": f"-Djavax.net.ssl.trustStore={trusted} "
                       "-Djavax.net.ssl.trustStorePassword=changeit"} if args.tls else {}  # fmt: skip
            jars = Path(os.environ["BACKFILL_JARS_DIR"]) if "BACKFILL_JARS_DIR" in os.environ else None
            spark = open_session(app_name="streamed", memory="2g", jars_dir=jars, conf=conf, spec_conf=options)
            stores = {
                "from": settings_of(one.endpoint, "here", made), "to": settings_of(two.endpoint, "there", made),
            }  # fmt: skip
            bench = Bench(spark, stores, servers, args.streams)
            try:
                print("warm-up, not counted:", flush=True)
                for size in WARM_UP:
                    measured(bench, *size, 1)
                return [measured(bench, *map(int, size.split("x")), args.runs) for size in args.sizes.split(",")]
            finally:
                logs = Path(pyspark.__file__).parent / "work" / spark.sparkContext.applicationId
                spark.stop()
                shutil.rmtree(logs, ignore_errors=True)  # Spark keeps the logs of executors in its own folder
        finally:
            for server in servers:
                server.stop()


def main():
    """Measure, print a table, and write the figures to a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="200x1,24x16,2x256", help="numbers of objects and their MiB")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--streams", type=int, default=STREAMS)
    parser.add_argument("--tls", action="store_true", help="servers with certificates, as real stores have")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of the session")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--stream", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    try:
        import google_crc32c  # noqa: F401
        import obstore  # noqa: F401
    except ImportError:
        return MISSING
    if args.stream:
        print(json.dumps(streamed(**json.load(sys.stdin))))
        return 0
    results = run(args)
    for result in results:
        for way, figures in result["ways"].items():
            print(f"{result['objects']}x{result['mib']}", way, "median", rounded(figures), flush=True)
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps({"tls": args.tls, "streams": args.streams, "results": results}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
