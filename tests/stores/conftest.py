"""One S3 server for all tests of stores, a session that reaches it through a fault proxy, and jobs between its buckets."""

import os
import subprocess
import sys
from collections import Counter
from urllib.parse import quote

import pytest
from deltalake import DeltaTable, QueryBuilder
from support.stores.fault_proxy import faulty
from support.stores.minio import NoStoreError, credentials, for_delta_rs, for_spark, running_store
from support.tables.jobs import job

from backfill_spark.driver.attempt import run_driver
from backfill_spark.settings import DriverSettings

ROWS = 400
PROCESS_S = 240


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """A real server with two buckets; the run fails with the reason if no server can be made."""
    try:
        with running_store(tmp_path_factory.mktemp("store")) as running:
            yield running
    except NoStoreError as none:
        pytest.fail(str(none), pytrace=False)


@pytest.fixture(scope="session")
def proxy(store):
    """The proxy that the session takes for the server."""
    with faulty(store.endpoint) as between:
        yield between


@pytest.fixture(scope="session")
def spark(proxy, tmp_path_factory):
    """A session whose credentials are in its environment, as in a pod."""
    from conftest import JARS

    from backfill_spark.jvm.log_stores.java_classes import bring_log_store
    from backfill_spark.jvm.session import open_session

    with pytest.MonkeyPatch.context() as patch:
        for name, value in credentials().items():
            patch.setitem(os.environ, name, value)
        session = open_session(
            app_name="stores",
            cores=2,
            memory="2g",
            jars_dir=JARS if JARS.is_dir() else None,
            conf={
                "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
                "spark.databricks.delta.snapshotPartitions": "1",
                **for_spark(proxy.endpoint),
            },
        )
        # Tests write their sources before any job installs the log store.
        bring_log_store(session, "s3a")
        yield session
        session.stop()


@pytest.fixture(scope="module")
def environment(store, spark):
    """Let delta-rs and the log reader find the store through their environment, as everywhere."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in for_delta_rs(store.endpoint).items():
            patch.setitem(os.environ, name.upper(), value)
        yield


@pytest.fixture
def place(request):
    """Return a function that gives the URI of this test's table in a bucket."""
    return lambda bucket: f"s3a://{bucket}/{request.node.name.translate(str.maketrans('[]', '--'))}/orders"


@pytest.fixture
def orders(spark, place):
    """A source of some files in the first bucket, with changes after version 0."""
    at = place("here")
    spark.range(ROWS).selectExpr("id", "id % 7 AS kind", "cast(id AS string) AS note").repartition(4).write.format(
        "delta"
    ).option("delta.enableChangeDataFeed", "true").option("delta.enableDeletionVectors", "true").save(at)
    spark.sql(f"UPDATE delta.`{at}` SET note = '\u2028 changed' WHERE id % 10 = 3")
    spark.sql(f"DELETE FROM delta.`{at}` WHERE id % 10 = 4")
    return at


@pytest.fixture
def rows(store):
    """Return a function that reads all rows of a table with another engine."""

    def read(uri):
        table = DeltaTable(quote(uri.replace("s3a:", "s3:"), safe=":/"), storage_options=for_delta_rs(store.endpoint))
        result = QueryBuilder().register("t", table).execute("SELECT id, kind, note FROM t").read_all()
        return Counter(zip(*(result.column(name).to_pylist() for name in ("id", "kind", "note")), strict=True))

    return read


@pytest.fixture
def run(spark, tmp_path):
    """Return a function that runs a job between two tables."""

    def go(at, to, **spec):
        backfill = job(at, to, **({"verify": "Final"} | spec))
        return run_driver(backfill, settings=DriverSettings(cores=2, state_dir=tmp_path / "state"), spark=spark)

    return go


@pytest.fixture
def process(tmp_path):
    """Return a function that runs a driver of a file in a separate process, with these variables for its keys, and waits for its end."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    ours = {"BACKFILL_STATE_DIR": str(tmp_path / "state"), "BACKFILL_CORES": "2", "BACKFILL_MEMORY": "1g"}

    def go(file, **keys):
        return subprocess.run(
            [sys.executable, "-m", "backfill_spark", "-f", str(file)],
            env={**bare, **keys, **ours}, capture_output=True, text=True, check=False, timeout=PROCESS_S,
        )  # fmt: skip

    return go
