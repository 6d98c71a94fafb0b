"""Jobs in a SparkSession of the caller, in a separate process: their results, and the state of the session afterwards.

The session has the settings of a user: the time zone of Berlin, no ANSI mode, tags and a job group, and Delta by `spark.jars`.
To save minutes, it compiles no code for its ten rows, and rebuilds a table's state in two tasks instead of fifty.
"""

import json
import os
import subprocess
import sys

import pytest
from conftest import JARS
from support.endings import assert_ending

pytestmark = [pytest.mark.spark, pytest.mark.rest]

SESSION = """
import json, os, signal, sys, threading
from pathlib import Path
from pyspark.sql import SparkSession
from backfill_spark.jvm.gateway import hadoop_conf, java_session, python_gateway

def say(**fields):
    print(json.dumps(fields), flush=True)

def session(delta=True, jars=True):
    builder = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false").config("spark.log.level", "OFF")
        .config("spark.sql.session.timeZone", "Europe/Berlin").config("spark.sql.ansi.enabled", "false")
        .config("spark.driver.memory", "1g").config("spark.sql.warehouse.dir", sys.argv[1] + "/warehouse")
        .config("spark.sql.codegen.wholeStage", "false").config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.databricks.delta.snapshotPartitions", "2")
    )
    if jars:
        builder = builder.config("spark.jars", ",".join(map(str, Path(sys.argv[2]).glob("*.jar"))))
    if delta:
        builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension").config(
            "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        )
    return builder.getOrCreate()

from backfill import Backfill, Settings
folder = Path(sys.argv[1])
settings = Settings(state_dir=folder / "state", cores=2)

def job(name, **spec):
    return Backfill.of({
        "apiVersion": "backfill.dev/v1alpha1", "kind": "Backfill", "metadata": {"name": name},
        "spec": {
            "source": {"type": "Delta", "delta": {"path": "orders", "key": ["id"]}},
            "target": {"type": "Delta", "delta": {"path": name}}, **spec,
        },
    }, folder=folder, settings=settings)
"""

LACKING = (
    SESSION
    + """
from backfill.errors import SessionUnfitError
try:
    job("copy").run(session(delta=False, jars=len(sys.argv) > 3))
except SessionUnfitError as unfit:
    say(message=unfit.message, reason=unfit.reason, hint=unfit.hint, code=unfit.exit_code)
"""
)

WHOLE = (
    SESSION
    + """
def quiet(progress):
    pass

spark = session()
orders = f"delta.`{folder}/orders`"
spark.range(0, 10, 1, 2).selectExpr("id", "id AS n", "timestamp_seconds(1719792000) AS at").write.format("delta").option(
    "delta.enableChangeDataFeed", "true"
).save(f"{folder}/orders")
context = spark.sparkContext
context.setJobGroup("mine", "my own")
context.setLocalProperty("spark.scheduler.pool", "my pool")
spark.conf.set("spark.sql.shuffle.partitions", "3")

def observed():
    conf = {name: value for name, value in spark.conf.getAll.items() if "lastCommitVersion" not in name}
    names = ("spark.jobGroup.id", "spark.job.description", "spark.scheduler.pool")
    # pyspark answers with the session that it holds for active; whose JVM half that is, is the question.
    active = java_session(SparkSession.getActiveSession()).equals(java_session(spark))
    return [conf, [context.getLocalProperty(name) for name in names], active, signal.getsignal(signal.SIGINT).__name__]

before = observed()
copy = job("copy", verify="Final", transform={"select": ["id", "n", "cast(at AS string) AS said"]})
plan = copy.plan(spark)
outcome = copy.run(spark, on_progress=quiet)
at = spark.read.format("delta").load(f"{folder}/copy").select("said").distinct().collect()
say(case="run", rows=plan.rows, state=outcome.state, receipt=len(outcome.receipt.mismatches), at=[row["said"] for row in at],
    after=copy.status(spark).state)
say(case="left", same=observed() == before, threads=sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("work")))

follow = job("follow", after="Follow")
run = follow.start(spark)
run.until_reachable()
acks = []
other = threading.Thread(target=lambda: acks.extend([follow.pause(wait_s=60), follow.resume(wait_s=60)]))
other.start()
other.join()
spark.sql(f"UPDATE {orders} SET n = 7 WHERE id < 3")
deadline = threading.Event()
for _ in range(600):
    if run.progress.changes_done >= 3 or run.done or deadline.wait(0.2):
        break
equal = follow.verify().mismatches == ()
try:
    follow.run(spark, on_progress=quiet)
    second = {}
except Exception as error:
    second = {"reason": error.reason, "hint": error.hint, "code": error.exit_code}
run.stop()
say(case="commands", acks=[ack.outcome for ack in acks], changes=run.progress.changes_done, equal=equal, second=second,
    state=run.wait(120).state, after=follow.status(spark).state, same=observed() == before)

threading.Timer(4, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    follow.run(spark, on_progress=quiet)
    stopped = "no"
except KeyboardInterrupt:
    stopped = "yes"
say(case="interrupt", stopped=stopped, after=follow.status(spark).state, alive=spark.range(3).count(), same=observed() == before)
try:
    copy.run()
except Exception as error:
    say(case="none given", reason=error.reason)

def result_of(call):
    try:
        return call()
    except Exception as error:
        return [type(error).__name__, getattr(error, "message", "")]

def stores(size):
    return job("follow", after="Follow", spark={"conf": {"spark.hadoop.io.file.buffer.size": size}})

size = hadoop_conf(spark).getRaw("io.file.buffer.size")
say(case="stores", same=result_of(lambda: stores(size).status(spark).state), other=result_of(lambda: stores("1024").status(spark)))

run = follow.start(spark)
run.until_reachable()
os.kill(python_gateway(spark).proc.pid, signal.SIGKILL)
dead = {"wait": result_of(lambda: run.wait(120))[0]}
for name in ("plan", "run", "status", "compare"):
    dead[name] = result_of(lambda: getattr(copy, name)(spark))[0]
say(case="dead", **dead)
"""
)


def lines(script, tmp_path, *arguments):
    """Run a script; return its lines of JSON."""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path), str(JARS), *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


class TestASessionThatLacksDelta:
    """The session is rejected before any table is read; the hint contains the lines to copy."""

    @pytest.mark.parametrize(
        ("arguments", "lacks", "lines_of_hint"),
        [((), "the jars", 4), (("jars",), "the settings", 3)],
        ids=["jars", "settings"],
    )
    def test_the_hint_contains_the_missing_lines(self, tmp_path, arguments, lacks, lines_of_hint):
        """Delta's own error names neither its jars nor their version."""
        (refused,) = lines(LACKING, tmp_path, *arguments)

        assert_ending(refused, "SessionUnfit", refused["code"])
        assert refused["message"] == f"the Spark session lacks {lacks} of Delta."
        hint = refused["hint"].splitlines()
        assert len(hint) == lines_of_hint
        assert all(line.strip().startswith('.config("spark.') for line in hint[1:])


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """The answers of one process that runs two jobs in one session, by case."""
    return {answer.pop("case"): answer for answer in lines(WHOLE, tmp_path_factory.mktemp("lake"))}


class TestACallersSession:
    """The job works as in any other process, and leaves the caller's session unchanged."""

    def test_a_job_runs_to_its_receipt(self, answers):
        """Relative paths start at the job's folder, and times are in UTC, as on the command line."""
        assert answers["run"] == {
            "rows": 10, "state": "Complete", "receipt": 0, "at": ["2024-07-01 00:00:00"], "after": "Finished",
        }  # fmt: skip

    def test_the_session_is_unchanged_afterwards(self, answers):
        """Its settings, job group, pool, active session and handler of Ctrl-C are unchanged, and no thread of the job remains."""
        assert answers["left"] == {"same": True, "threads": []}

    def test_a_second_job_receives_commands_from_another_thread(self, answers):
        """It runs in the same session; a second run of the same job is refused meanwhile."""
        second = answers["commands"].pop("second")
        assert_ending(second, "AlreadyRunning", second["code"])
        assert answers["commands"] == {
            "acks": ["Applied", "Applied"], "changes": 3, "equal": True, "state": "Stopped",
            "after": "Stopped", "same": True,
        }  # fmt: skip

    def test_an_interrupt_stops_the_job_and_not_the_session(self, answers):
        """pyspark's own handler would cancel every job of the process."""
        assert answers["interrupt"] == {"stopped": "yes", "after": "Stopped", "alive": 3, "same": True}

    def test_a_run_needs_the_session_that_is_active(self, answers):
        """An embedded session would take over the caller's, and stop it."""
        assert answers["none given"] == {"reason": "SessionUnfit"}

    def test_a_different_setting_of_hadoop_is_refused_by_name(self, answers):
        """Neither Spark nor Kernel reads it from a session: the job would read another store than its spec defines."""
        refused = "the Spark session lacks spark.hadoop.io.file.buffer.size of spec.spark.conf."

        assert answers["stores"] == {"same": "Stopped", "other": ["SessionUnfitError", refused]}

    def test_a_java_process_that_died_is_named(self, answers):
        """The first call used to raise a socket error instead."""
        assert answers["dead"] == dict.fromkeys(("wait", "plan", "run", "status", "compare"), "JavaDiedError")
