"""The automatic limit on a real S3 server that refuses requests above a capacity."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread

import pytest
from support.stores.fault_proxy import Fault
from support.stores.minio import ACCESS_KEY, SECRET_KEY
from support.stores.objects import Keys, Request, ask
from support.tables.jobs import job

from backfill_spark.driver.attempt import run_driver
from backfill_spark.driver.plan import plan_job
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.jvm.store_requests import StoreRequests
from backfill_spark.settings import DriverSettings

KEYS = Keys(ACCESS_KEY, SECRET_KEY)
ROWS, FILES = 1_000, 4_000
CAPACITY = 200
"""Requests per second."""

SETTLES_S, MEASURED_S = 30, 40


@pytest.fixture
def many_files(spark, store, place, tmp_path):
    """A table of many small files: the same file under many names."""
    uri = place("here")
    folder = uri.removeprefix("s3a:/")
    spark.range(ROWS).coalesce(1).write.parquet(f"file:{tmp_path}/part")
    content = next((tmp_path / "part").glob("*.parquet")).read_bytes()

    def put(path, body):
        assert ask(store.endpoint, Request("PUT", f"{folder}/{path}", body=body), KEYS).status == 200

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: put(f"part-{number:05}.parquet", content), range(FILES)))
    schema = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    adds = [
        {"add": {"path": f"part-{number:05}.parquet", "partitionValues": {}, "size": len(content), "modificationTime": 0,
                 "dataChange": True, "stats": json.dumps({"numRecords": ROWS})}}
        for number in range(FILES)
    ]  # fmt: skip
    first = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {"id": "many-files", "format": {"provider": "parquet", "options": {}}, "partitionColumns": [],
                      "configuration": {}, "schemaString": json.dumps(schema), "createdTime": 0}},
    ]  # fmt: skip
    log = "\n".join(json.dumps(action) for action in (*first, *adds))
    put("_delta_log/00000000000000000000.json", log.encode())
    return uri


class TestAStoreWithACapacity:
    """A job finds the rate that a store serves, from a floor far below it."""

    def test_a_job_settles_below_the_capacity_of_its_store(
        self, spark, proxy, place, many_files, environment, tmp_path
    ):
        """Within 30 seconds; then it uses 80 % of the capacity, and less than 1 % of its requests are refused."""
        auto = {"storeErrors": 1, "floor": 5_000, "ceiling": 1_000_000}
        backfill = job(
            many_files,
            place("there"),
            strategy={"type": "Replica"},
            throttle={"auto": auto},
            barrier={"intervalMs": 1000},
            source={"key": []},
        )
        stop, ended, seen = StopSignal(), Event(), []
        settings = DriverSettings(cores=2, state_dir=tmp_path / "state")
        proxy.capacity = CAPACITY
        try:
            runner = Thread(
                target=lambda: (
                    run_driver(backfill, settings=settings, spark=spark, stop=stop, observe=seen.append),
                    ended.set(),
                )
            )
            runner.start()
            deadline_s = time.monotonic() + 120
            while not any(progress.rows_done for progress in seen):
                assert not ended.wait(0.2)
                assert time.monotonic() < deadline_s
            began_s = int(time.monotonic())
            assert not ended.wait(SETTLES_S + MEASURED_S)
        finally:
            stop.ask(force=True)
            runner.join(60)
            proxy.capacity = None
        seconds = range(began_s + SETTLES_S, began_s + SETTLES_S + MEASURED_S)
        served = sum(proxy.served[second] for second in seconds)
        refused = sum(proxy.overloaded[second] for second in seconds)
        by_second = [(proxy.served[second], proxy.overloaded[second]) for second in range(began_s, seconds.stop)]
        assert served / MEASURED_S >= 0.8 * CAPACITY, by_second
        assert refused / (served + refused) < 0.01, by_second
        assert any(": the store refuses " in progress.reason for progress in seen)


class TestTheCountsOfTheClient:
    def test_refused_requests_are_counted_as_the_store_counts_them(self, spark, proxy, orders):
        """Each refused try counts, also those that Amazon's client repeats itself."""
        requests = StoreRequests(spark, [orders])
        before, served = requests.read(), len(proxy.faults)
        proxy.faults.append(Fault("slow down", "GET", "", times=7))
        spark.read.format("delta").load(orders).count()
        after = requests.read()

        assert proxy.faults[served].met == 7
        assert after.refused - before.refused == 7
        assert after.requests - before.requests > 7

    def test_a_local_folder_counts_nothing(self, spark, tmp_path):
        """Its file system has statistics, but no requests."""
        assert not StoreRequests(spark, [str(tmp_path)]).counted


class TestAPlan:
    def test_names_the_table_whose_requests_are_not_counted(self, spark, orders, environment, tmp_path):
        """Its store may be the busy one; the other table is in the store."""
        auto = {"storeErrors": 1, "floor": 1, "ceiling": 2}
        backfill = job(orders, str(tmp_path / "target"), throttle={"auto": auto})
        plan = plan_job(backfill, settings=DriverSettings(cores=2, state_dir=tmp_path / "state"), spark=spark)

        [warning] = [warning for warning in plan.warnings if warning.reason == "RequestsUncounted"]
        assert f"{tmp_path}/target" in warning.message
