"""A fence on a real S3 server: the store itself decides which of two writers made a version."""

from pathlib import Path
from urllib.parse import quote

import pytest
from deltalake import DeltaTable
from support.source_fence.writers import REFUSED_BY_DELTA_RS, by_delta_rs, by_spark, newest
from support.stores.fault_proxy import Fault
from support.stores.objects import objects_at

from backfill_core.errors import PermissionDeniedError
from backfill_core.source_fence.fence import Request
from backfill_core.source_fence.table_protocol import FENCED
from backfill_spark.delta.spark_internals import put_commit
from backfill_spark.driver.fence import fence_log, unfence_log
from backfill_spark.sources.delta.fenced_log import DeltaFencedLog

OURS = Request("shop/orders", "2026-11-26T22:00:00Z", 1_795_000_000_000, "entry-1", "change 4711")
PROBE = "/_delta_log/_probe"
INSERT = "INSERT INTO {t} SELECT id + 1000, kind, note FROM {t} WHERE id = 1"


def fenced(spark, path):
    return fence_log(DeltaFencedLog(spark, path), OURS, timeout_s=60)


def unfenced(spark, path):
    return unfence_log(DeltaFencedLog(spark, path), OURS, force=False, timeout_s=60)


def probes(path):
    return [name for name in objects_at(path) if Path(name).name.startswith("_probe")]


class TestAFenceOnS3:
    """The entry is a PUT that the store accepts only for a new version."""

    def test_a_fence_stops_writers_and_no_reader(self, spark, orders, environment, rows):
        """Spark and delta-rs, as on a disk; the probe of the store is removed."""
        before, by_rs = rows(orders), quote(orders.replace("s3a:", "s3:"), safe=":/")

        done = fenced(spark, orders)

        ((_, message),) = by_spark(spark, orders, (INSERT,))
        assert FENCED in message
        assert {message for _, message in by_delta_rs(by_rs)} == {REFUSED_BY_DELTA_RS}
        assert rows(orders) == before
        assert (newest(spark, orders), done.fence.version) == (3, 3)
        assert put_commit(spark, orders, 3, ["{}"]) is False
        assert unfenced(spark, orders).version == 4
        assert [*by_spark(spark, orders, (INSERT,))] == [(INSERT, None)]
        assert DeltaTable(by_rs).version() == 5
        assert probes(orders) == []

    def test_an_entry_whose_answer_is_lost_is_found(self, spark, orders, proxy, environment):
        """Amazon's client repeats the PUT, and the store refuses it: the version exists, with this job's fence."""
        lost = Fault("lost answer", "PUT", f"{orders.removeprefix('s3a:/')}/_delta_log/{3:020d}.json", 1)
        proxy.faults.append(lost)

        done = fenced(spark, orders)

        assert (lost.met, done.fence.version, newest(spark, orders)) == (1, 3, 3)
        unfenced(spark, orders)

    def test_a_log_is_checked_once_for_all_its_entries(self, spark, orders, proxy, environment):
        """A switch-over checks both logs before its fence, so writers do not wait for the requests of the check."""
        log = DeltaFencedLog(spark, orders)
        log.check()
        probed = Fault("denied", "PUT", f"{orders.removeprefix('s3a:/')}{PROBE}", 1000)
        proxy.faults.append(probed)

        fence_log(log.at(orders), OURS, timeout_s=60)
        unfence_log(log, OURS, force=False, timeout_s=60)
        with pytest.raises(PermissionDeniedError):
            DeltaFencedLog(spark, orders).check()
        proxy.faults.remove(probed)

        assert newest(spark, orders) == 4

    def test_a_user_who_may_not_write_the_log_is_refused(self, spark, orders, proxy, environment):
        """The hint names the folder; the table stays as it is."""
        denied = Fault("denied", "PUT", f"{orders.removeprefix('s3a:/')}/_delta_log/", 1000)
        proxy.faults.append(denied)

        with pytest.raises(
            PermissionDeniedError, match=r"the log of \S+ cannot be written: .*Access Denied"
        ) as refused:
            fenced(spark, orders)
        proxy.faults.remove(denied)

        assert "write access to the _delta_log folder" in refused.value.hint
        assert newest(spark, orders) == 2
