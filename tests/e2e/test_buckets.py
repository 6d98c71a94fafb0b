"""A real S3 server on this machine, outside the node: the images copy a live table from bucket to bucket, with keys from a Secret;
Spark's event log is in a bucket too."""

import itertools
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.node.real_job import MEMORY, Job, delete_all, example
from support.stores.minio import NoStoreError, credentials, for_delta_rs, for_spark, running_store
from support.stores.objects import Keys, objects_at
from support.stores.roles import assumed_role, none_written_below
from support.tables.other_engine import append, delete

FILES, ROWS_OF_A_FILE = 40, 1000
ROWS = "SELECT value AS order_id, concat('\u2028 ', value % 7, ' é') AS note FROM generate_series({first}, {last})"
LIMIT = 2000
"""Rows a second: twenty seconds of copying, so that the driver is killed in the middle."""

WATCHED = {"source": "s3a://here/watched", "target": "s3a://there/watched"}
EVENTS = "s3a://there/events"


@pytest.fixture(scope="module")
def store(real_node, tmp_path_factory):
    """A server that pods reach."""
    try:
        with running_store(tmp_path_factory.mktemp("store"), real_node.address_of_this_machine()) as running:
            yield running
    except NoStoreError as none:
        pytest.fail(str(none), pytrace=False)


@pytest.fixture(scope="module")
def environment(store):
    """Let delta-rs find the store by its environment."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in for_delta_rs(store.endpoint).items():
            patch.setitem(os.environ, name.upper(), value)
        yield


def write(table, number):
    """Add a file of rows whose ids are in no other file; every fifth time delete some of its rows."""
    first = number * ROWS_OF_A_FILE
    append(table, ROWS, first, ROWS_OF_A_FILE)
    if number % 5 == 4:
        delete(table, f"order_id >= {first} AND order_id < {first + 10}")


@pytest.fixture
def source(environment):
    """Make the table that the example names; it grows until the test is over."""
    table = example("bucket-to-bucket.yaml")["spec"]["source"]["delta"]["path"]
    for number in range(FILES):
        write(table, number)
    over = threading.Event()

    def grow():
        for number in itertools.count(FILES):
            if over.wait(0.5):
                return
            write(table, number)

    with ThreadPoolExecutor(1) as writer:
        growing = writer.submit(grow)
        yield table
        over.set()
        growing.result(60)


class BucketJob(Job):
    """A Backfill whose tables are in buckets; its status reports the progress."""

    def host(self, end):
        """Return the path of the source or of the target."""
        return self.backfill["spec"][end]["delta"]["path"]

    def signs(self):
        """Return the progress of the job."""
        return self.history(), self.status().get("progress"), self.drivers()


def bucket_job(node, store, name="bucket-to-bucket", **spec):
    """Return the example as a job for the store, with small pods."""
    backfill = example("bucket-to-bucket.yaml")
    spec = backfill["spec"] | {"backoff": {"initialSeconds": 1}} | spec
    spec["spark"] = {"conf": for_spark(store.endpoint)} | spec["spark"]
    for role in ("driver", "executor"):
        spec[role]["resources"] = {"requests": {"cpu": "100m", "memory": MEMORY[role]}}
    return BucketJob(node, backfill | {"metadata": {"name": name}, "spec": spec})


def test_the_example_copies_from_bucket_to_bucket(node, store, source):
    """Its driver is killed, the next one continues, and both sides are equal at the version of the receipt."""
    keys = {name.removeprefix("AWS_"): value for name, value in credentials().items()}
    node.keep_secret("lake", keys, node.restricted)
    job = bucket_job(node, store, throttle={"rowsPerSecond": LIMIT}, spark={}).apply()

    job.until("rows", lambda: 0 < job.rows_done() < FILES * ROWS_OF_A_FILE)
    job.kill_pod(job.driver())
    job.until("the next attempt", lambda: job.status().get("attempts") == 2 and job.status()["phase"] == "Running")
    job.commanded("unlimited", throttle={"rowsPerSecond": None})
    receipt = job.until_complete(attempts=2, failures=0)["receipt"]

    job.equals_the_source()
    assert receipt["sourceVersion"] > FILES
    logs = node.operator_log() + job.kubectl("logs", "--selector=backfill.dev/role=driver", "--tail=-1", check=False)
    assert credentials()["AWS_SECRET_ACCESS_KEY"] not in logs + job.kubectl(
        "get", "backfills,pods,configmaps", "-o", "yaml"
    )
    job.delete()


def test_a_job_without_rights_to_its_event_log_works_without_one(node, store, environment):
    """The status names the folder and the store's answer. Nothing is left in the folder; a job with the rights has its log there."""
    append(WATCHED["source"], ROWS, 0, ROWS_OF_A_FILE)
    refused = assumed_role(store.endpoint, Keys(*credentials().values()), none_written_below("there/events"))
    given = {"ACCESS_KEY_ID": refused.access, "SECRET_ACCESS_KEY": refused.secret, "SESSION_TOKEN": refused.session}
    node.keep_secret("lake", given, node.restricted)
    job = watched(node, store, "unlogged", token=True).apply()

    status = job.until_complete(attempts=1, failures=0)
    assert "EventLogRefused" in status["progress"]["warningCodes"]
    [warning] = [text for text in status["progress"]["warnings"] if "eventLog" in text]
    assert warning.startswith(f"spec.spark.eventLog.path: cannot write to {EVENTS}: "), warning
    assert "AccessDenied" in warning
    assert list(objects_at(EVENTS)) == []
    job.equals_the_source()

    node.keep_secret(
        "lake", {name.removeprefix("AWS_"): value for name, value in credentials().items()}, node.restricted
    )
    logged = watched(node, store, "logged").apply()
    status = logged.until_complete(attempts=1, failures=0)
    assert "EventLogRefused" not in status["progress"].get("warningCodes", ())
    assert {path.partition("/")[0].partition("_v2_")[0] for path in objects_at(EVENTS)} == {"eventlog"}
    delete_all([job, logged])


def watched(node, store, name, *, token=False):
    """Return a job with an event log, whose keys include a session token if they are those of a role."""
    source, target = (
        {"type": "Delta", "delta": {"path": path}} for path in (WATCHED["source"], f"{WATCHED['target']}-{name}")
    )
    job = bucket_job(node, store, name, source=source, target=target, spark={"eventLog": {"path": EVENTS}})
    if token:
        [container] = job.backfill["spec"]["driver"]["template"]["spec"]["containers"]
        session = {"name": "AWS_SESSION_TOKEN", "valueFrom": {"secretKeyRef": {"name": "lake", "key": "SESSION_TOKEN"}}}
        container["env"].append(session)
    return job
