"""A real S3 server on this machine, beside the node: the images copy a live table from bucket to bucket, with keys from a Secret."""

import base64
import json
import threading

import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from support.node.real_job import MEMORY, Job, example
from support.stores.minio import NoStoreError, credentials, for_delta_rs, for_spark, running_store

FILES, ROWS_OF_A_FILE = 40, 1000
ROWS = "SELECT value AS order_id, concat('\u2028 ', value % 7, ' é') AS note FROM generate_series({first}, {last})"
LIMIT = 2000
"""Rows a second: twenty seconds of copying, so that the driver is killed in the middle."""


@pytest.fixture(scope="module")
def store(real_node, tmp_path_factory):
    """A server that pods reach."""
    try:
        with running_store(tmp_path_factory.mktemp("store"), real_node.address_of_this_machine()) as running:
            yield running
    except NoStoreError as none:
        pytest.fail(str(none), pytrace=False)


class Table:
    """A table of a bucket, as another engine writes and reads it."""

    def __init__(self, store, uri):
        self.uri, self._options = uri.replace("s3a:", "s3:"), for_delta_rs(store.endpoint)

    def append(self, number):
        """Add a file of rows whose ids nothing else has; every fifth time delete some of it."""
        first = number * ROWS_OF_A_FILE
        made = QueryBuilder().execute(ROWS.format(first=first, last=first + ROWS_OF_A_FILE - 1)).read_all()
        write_deltalake(self.uri, made, mode="append", storage_options=self._options)
        if number % 5 == 4:
            self._at().delete(f"order_id >= {first} AND order_id < {first + 10}")

    def rows(self, version=None):
        """Return the rows of a version, sorted."""
        found = QueryBuilder().register("t", self._at(version)).execute("SELECT order_id, note FROM t").read_all()
        return sorted(zip(*(found.column(name).to_pylist() for name in ("order_id", "note")), strict=True))

    def _at(self, version=None):
        return DeltaTable(self.uri, version=version, storage_options=self._options)


@pytest.fixture
def source(store, request):
    """Return the table that the example names; it grows until the test is over."""
    table = Table(store, example("bucket-to-bucket.yaml")["spec"]["source"]["delta"]["path"])
    for number in range(FILES):
        table.append(number)
    over = threading.Event()

    def write():
        number = FILES
        while not over.wait(0.5):
            table.append(number)
            number += 1

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    yield table
    over.set()
    writer.join(30)


class BucketJob(Job):
    """A Backfill whose tables are in buckets: how far it is stands in its status."""

    def signs(self):
        """Return how far the job is."""
        return self.history(), self.status().get("progress"), self.drivers()


def test_the_example_copies_from_bucket_to_bucket(node, store, source):
    """With executors; its driver is killed, the next one goes on, and both sides are equal at the version of the receipt."""
    held = {name.removeprefix("AWS_"): base64.b64encode(text.encode()).decode() for name, text in credentials().items()}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "lake"}, "data": held}
    node.kubectl("apply", "-f", "-", stdin=json.dumps(secret), namespace=node.restricted)
    backfill = example("bucket-to-bucket.yaml")
    spec = backfill["spec"] | {"throttle": {"rowsPerSecond": LIMIT}, "backoff": {"initialSeconds": 1}}
    spec["spark"] = {"conf": for_spark(store.endpoint)}
    for role in ("driver", "executor"):
        spec[role]["resources"] = {"requests": {"cpu": "100m", "memory": MEMORY[role]}}
    job = BucketJob(node, backfill | {"spec": spec}).apply()

    job.until("rows", lambda: 0 < job.rows_done() < FILES * ROWS_OF_A_FILE)
    job.kill_pod(job.driver())
    job.until("the next attempt", lambda: job.status().get("attempts") == 2 and job.status()["phase"] == "Running")
    job.commanded("unlimited", throttle={"rowsPerSecond": None})
    receipt = job.until_complete(attempts=2, failures=1)["receipt"]

    target = Table(store, spec["target"]["delta"]["path"])
    wanted = source.rows(receipt["sourceVersion"])
    assert target.rows() == wanted
    assert (receipt["mismatches"], receipt["rows"]) == (0, len(wanted))
    assert receipt["sourceVersion"] > FILES
    said = node.operator_log() + job.kubectl("logs", "--selector=backfill.dev/role=driver", "--tail=-1", check=False)
    assert credentials()["AWS_SECRET_ACCESS_KEY"] not in said + job.kubectl(
        "get", "backfills,pods,configmaps", "-o", "yaml"
    )
    job.delete()
