"""One S3 server for all tests of stores, and a session that reaches it by a proxy which can make trouble."""

import os

import pytest
from support.stores.fault_proxy import faulty
from support.stores.minio import NoStoreError, credentials, for_spark, running_store


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """A real server with two buckets; without a way to make one the run fails, and says why."""
    try:
        with running_store(tmp_path_factory.mktemp("store")) as running:
            yield running
    except NoStoreError as none:
        pytest.fail(str(none), pytrace=False)


@pytest.fixture(scope="session")
def proxy(store):
    """What the session takes for the server."""
    with faulty(store.endpoint) as between:
        yield between


@pytest.fixture(scope="session")
def spark(proxy, tmp_path_factory):
    """A session whose credentials are in its environment, as in a pod."""
    from conftest import JARS

    from backfill_spark.jvm.log_stores.s3 import bring_log_store
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
        # Tests write their sources before a job opens anything.
        bring_log_store(session)
        yield session
        session.stop()
