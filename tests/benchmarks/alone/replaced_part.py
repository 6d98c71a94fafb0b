"""Measure the replacement of 5 % of a table under a writer elsewhere, next to `replaceWhere` of plain Spark.

    python tests/benchmarks/alone/replaced_part.py --rows 4000000 --runs 3

The table has 20 partitions of `--rows` rows. One of them is replaced by the rows of a source with the same layout: by a job with
`scope`, and by a Spark job with `replaceWhere`. Rounds are interleaved. During both, another writer commits a row to another partition
every second. A reader counts the new rows meanwhile: it must see none of them or all of them. The bar: the job needs at most 1.1 times as long.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from deltalake import DeltaTable, QueryBuilder  # noqa: E402
from support.tables.jobs import job  # noqa: E402

from backfill_spark.driver.attempt import run_driver  # noqa: E402
from backfill_spark.jvm.session import open_session  # noqa: E402
from backfill_spark.settings import DriverSettings  # noqa: E402

BAR = 1.1
PARTS, REPLACED = 20, 3
SCOPE = f"part = {REPLACED}"
COLUMNS = (
    "id", "id * 7919 % 1003 AS customer", "cast(id % 1000 AS double) AS amount", "md5(cast(id AS string)) AS note",
    "'{status}' AS status", f"{REPLACED} AS part",
)  # fmt: skip
NAMES = ["id", "customer", "amount", "note", "status", "part"]
COMPUTED = ["id + 0 AS id", "customer + 0 AS customer", "amount + 0 AS amount", "concat(note, '') AS note", "concat(status, '') AS status", "part"]  # fmt: skip


def make(spark, path, rows, status):
    """Write one partition in eight files."""
    columns = [column.format(status=status) for column in COLUMNS]
    frame = spark.range(0, rows, 1, 8).selectExpr(*columns)
    frame.write.format("delta").partitionBy("part").save(str(path))


def spread(path):
    """Give a table of one partition the other 19, whose files are links to the same bytes."""
    log = path / "_delta_log" / f"{0:020d}.json"
    lines = log.read_text().splitlines()
    for line in list(lines):
        add = json.loads(line).get("add")
        for part in range(PARTS) if add else ():
            if part != REPLACED:
                (path / f"part={part}").mkdir(exist_ok=True)
                other = f"part={part}/{Path(add['path']).name}"
                os.link(path / add["path"], path / other)
                lines.append(json.dumps({"add": {**add, "path": other, "partitionValues": {"part": str(part)}}}))
    log.write_text("".join(f"{line}\n" for line in lines))
    for crc in (path / "_delta_log").glob("*.crc"):
        crc.unlink()
    for crc in (path / "_delta_log").glob(".*.crc"):
        crc.unlink()


class Others:
    """A writer in another partition, and a reader that counts the new rows."""

    def __init__(self, spark, path):
        """Start both."""
        self._spark, self._path, self._ended = spark, str(path), threading.Event()
        self.seen, self.committed, self.failure = set(), 0, None
        self._threads = [threading.Thread(target=run) for run in (self._write, self._read)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _write(self):
        while not self._ended.wait(1):
            self._spark.sql(f"INSERT INTO delta.`{self._path}` SELECT 1L, 2L, 3D, 'n', 'theirs', 7")
            self.committed += 1

    def _read(self):
        while not self._ended.wait(0.5):
            query = f"SELECT count(*) AS n FROM t WHERE part = {REPLACED} AND status = 'new'"
            rows = QueryBuilder().register("t", DeltaTable(self._path)).execute(query).read_all()
            self.seen.add(rows["n"][0].as_py())


def by_job(spark, source, target, state, select):
    """Return the seconds of a job; it must complete."""
    spec = job(
        str(source), str(target), source={"key": []}, transform={"where": SCOPE, "select": select},
        target={"writeMode": "Append", "publish": "WhenComplete", "scope": SCOPE},
    )  # fmt: skip
    began = time.monotonic()
    ended = run_driver(spec, settings=DriverSettings(state_dir=state, cores=2), spark=spark)
    assert ended.outcome == "Complete", ended.message
    return time.monotonic() - began


def by_spark(spark, source, target, _state, select):
    """Return the seconds of `replaceWhere`."""
    began = time.monotonic()
    rows = spark.read.format("delta").load(str(source)).where(SCOPE).selectExpr(*select)
    rows.write.format("delta").mode("overwrite").option("replaceWhere", SCOPE).save(str(target))
    return time.monotonic() - began


def main():
    """Print the seconds of each round, and the ratio of the medians."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rows", type=int, default=4_000_000)
    arguments.add_argument("--runs", type=int, default=3)
    arguments.add_argument("--decoded", action="store_true", help="compute each column, so that no file can be copied")
    given = arguments.parse_args()
    select = COMPUTED if given.decoded else NAMES
    folder = Path(tempfile.mkdtemp(prefix="backfill-scope-"))
    jars = os.environ.get("BACKFILL_JARS_DIR")
    spark = open_session(app_name="replaced part", cores=2, memory="3g", jars_dir=Path(jars) if jars else None)
    make(spark, folder / "source", given.rows, "new")
    seconds = {by_job: [], by_spark: []}
    for run in range(-1, given.runs):
        for replace, measured in seconds.items():
            target = folder / f"{replace.__name__}{run}"
            make(spark, target, given.rows, "old")
            spread(target)
            with Others(spark, target) as others:
                took = replace(spark, folder / "source", target, folder / "state", select)
            wrong = others.seen - {0, given.rows}
            print(f"{replace.__name__:>9} {took:6.2f} s, {others.committed} foreign commits, partial reads: {wrong or 'none'}", flush=True)  # fmt: skip
            assert not wrong
            if run >= 0:  # the first round warms up
                measured.append(took)
    job_s, spark_s = (statistics.median(seconds[side]) for side in (by_job, by_spark))
    verdict = "holds" if job_s <= BAR * spark_s else "MISSED"
    print(f"scope {job_s:.2f} s, replaceWhere {spark_s:.2f} s: ratio {job_s / spark_s:.2f}, bar {BAR}: {verdict}")
    spark.stop()


if __name__ == "__main__":
    main()
