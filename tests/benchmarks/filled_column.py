"""Fill a new column of a table with seven others in place, next to `UPDATE`, and both while another writer merges once a second.

Part of `run.py --only filled`. `UPDATE` takes turns with the job, warm, with and without deletion vectors; figures are medians. The log
gives the table's files an age of an hour, so the job finds none of them in use before the writer begins. The writer fills the column of
its own rows, and retries nothing: a failed transaction counts. It shares the machine's cores with the job.
"""

import json
import os
import random
import shutil
import threading
import time
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from support.tables.jobs import job
from support.tables.logs import actions_in, commit_of, commits_of

from backfill_spark.driver.attempt import run_driver

BARS = {"update_vs_filled": ("ratio", 5, "higher"), "filled_writer_failures": ("ratio", 0.02, "lower")}

VALUE = "upper(status)"
UPDATE = f"UPDATE {{}} SET status_norm = {VALUE} WHERE status_norm IS NULL"
MERGE = f"""
    MERGE INTO {{}} AS t USING (SELECT id, 'paid' AS status FROM range({{first}}, {{last}})) AS s
    ON t.id = s.id AND t.id >= {{first}} AND t.id < {{last}}
    WHEN MATCHED THEN UPDATE SET t.status = s.status, t.status_norm = {VALUE.replace("status", "s.status")}"""
MERGED_ROWS, MERGE_EVERY_S = 100, 1.0
TRIES_MAX, WARM_WRITES = 5, 5
AGE_MS = 3_600_000
VECTORS = {"without_vectors": "false", "with_vectors": "true"}


def filled(bench):
    """Measure every figure."""
    for vectors in VECTORS.values():
        update(bench, table(bench, vectors))
        fill(bench, table(bench, vectors))
    for _ in range(bench.runs):
        for name, vectors in VECTORS.items():
            path = table(bench, vectors)
            bench.timed(f"update_{name}", lambda path=path: update(bench, path))
            bench.extra[f"update_{name}_bytes"] = bytes_written(path)
        path = table(bench, "true")
        bench.timed("filled", lambda path=path: fill(bench, path))
        check_filled(bench, path)
        bench.extra["filled_bytes"] = bytes_written(path)
    middle = bench.middle()
    bench.extra["update_with_vectors_vs_filled"] = round(middle["update_with_vectors"] / middle["filled"], 2)
    bench.put("update_vs_filled", middle["update_without_vectors"] / middle["filled"])
    for name, work in (("update", try_update), ("filled", fill)):
        path = table(bench, "true")
        with Writer(bench.spark, path, bench.rows) as writer:
            writer.wait()
            result = bench.timed(f"{name}_with_a_writer", lambda work=work, path=path: work(bench, path))
        if name == "filled":
            check_filled(bench, path)
        bench.extra[f"{name}_with_a_writer"] = {"transactions": writer.tried, "failed": writer.failed, "result": result}
        bench.extra[f"{name}_with_a_writer_bytes"] = bytes_written(path)
    bench.put("filled_writer_failures", writer.failed / writer.tried)
    bench.extra["writer_alone_s"] = round(writer.alone_s, 2)


def table(bench, vectors):
    """Return a table with the source's rows, and a new column; its files are the source's."""
    path = bench.fresh("filled")
    shutil.copytree(bench.source, path, copy_function=os.link)
    age(Path(path, "_delta_log"))
    properties = f"'delta.enableChangeDataFeed' = 'false', 'delta.enableDeletionVectors' = '{vectors}'"
    bench.spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ({properties})")
    bench.spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS (status_norm STRING)")
    os.sync()
    return path


def age(log):
    """Make the files of a log an hour older."""
    for checksum in (*log.glob("*.crc"), *log.glob(".*.crc")):
        checksum.unlink(missing_ok=True)  # it repeats the files' times
    for commit in log.glob("*.json"):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        for add in (action["add"] for action in actions if "add" in action):
            add["modificationTime"] -= AGE_MS
        commit.unlink()  # a link to the source's
        commit.write_text("".join(f"{json.dumps(action)}\n" for action in actions))


def update(bench, path):
    """Fill the column in one transaction."""
    bench.spark.sql(UPDATE.format(f"delta.`{path}`"))


def try_update(bench, path):
    """Fill it while a writer commits; return the number of failed tries, and the result."""
    for failed in range(TRIES_MAX):
        try:
            update(bench, path)
        except (Py4JJavaError, PySparkException) as error:
            if "DELTA_CONCURRENT" not in str(error):
                raise
        else:
            return f"{failed} tries failed, then it committed"
    return f"{TRIES_MAX} tries failed"


def fill(bench, path):
    """Fill the column file by file; return how the job ended. The caller checks the values: `check_filled`."""
    spec = {"strategy": {"type": "InPlace"}, "transform": {"set": {"status_norm": VALUE}}, "source": {"key": []}}
    outcome = run_driver(
        job(path, path, name="bench", barrier={"intervalMs": 1000}, **spec), settings=bench.settings, spark=bench.spark
    )
    assert outcome.outcome == "Complete", outcome
    bench.extra["filled_steps_s"] = {step.name: step.seconds for step in outcome.progress.steps}
    return outcome.outcome


def check_filled(bench, path):
    """Compare every value with its expression, after the time is taken: `UPDATE` is not checked either."""
    left = bench.spark.read.format("delta").load(path).where(f"status_norm IS DISTINCT FROM {VALUE}").count()
    assert left == 0, left


def bytes_written(path):
    """Return the bytes of the files that versions with a filled column added."""
    commits = (actions_in(commit_of(path, version)) for version in commits_of(path, 0))
    return sum(action["add"]["size"] for commit in commits for action in commit if "add" in action)


class Writer:
    """Another writer of a table: one MERGE a second, from a thread; `wait` returns once it is warm."""

    def __init__(self, spark, path, rows):
        self._spark, self._path, self._rows = spark.newSession(), path, rows
        self._ended, self._warm, self._chance = threading.Event(), threading.Event(), random.Random(7)
        self._thread = threading.Thread(target=self._run)
        self._failure = None
        self.tried = self.failed = 0
        self.alone_s = 0.0

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def wait(self):
        """Wait until the first transactions have committed, and count from here."""
        self._warm.wait()
        self.tried = self.failed = 0

    def _run(self):
        try:
            while not self._ended.wait(max(0.0, MERGE_EVERY_S - self._merge())):
                pass
        except Exception as error:
            self._failure = error
            self._warm.set()

    def _merge(self):
        """Commit once; return the seconds."""
        first, began = self._chance.randrange(self._rows - MERGED_ROWS), time.monotonic()
        try:
            self._spark.sql(MERGE.format(f"delta.`{self._path}`", first=first, last=first + MERGED_ROWS))
        except (Py4JJavaError, PySparkException) as error:
            if "DELTA_CONCURRENT" not in str(error):
                raise
            self.failed += 1
        passed, self.tried = time.monotonic() - began, self.tried + 1
        if not self._warm.is_set():
            self.alone_s = passed
            if self.tried >= WARM_WRITES:
                self._warm.set()
        return passed
