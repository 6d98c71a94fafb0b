"""A switch-over between buckets: no write to either table is lost, and the old table follows the new one until an undo.

delta-rs and Spark write both tables, and delta-rs reads them back.
"""

import pytest
from support.crashes.drivers import LastingJava, Start
from support.crashes.switch_job import KILLED, follow_back_in_process, switch_in_process
from support.source_fence.writers import REFUSED_BY_DELTA_RS, REFUSED_BY_SPARK, by_delta_rs, by_spark
from support.stores.fault_proxy import Fault
from support.switch_over.following_back import FollowingBack
from support.switch_over.names import ids_in, make_name
from support.tables.jobs import write_yaml
from support.tables.oracle import differences
from support.tables.other_engine import delete, insert

from backfill import Backfill, Settings
from backfill_spark.delta.log import head_actions

pytestmark = pytest.mark.usefixtures("environment")

ADDED = "SELECT * REPLACE (CAST({} AS BIGINT) AS id) FROM now LIMIT 1"
INSERT = "INSERT INTO {{t}} VALUES ({}, 1, '\u2028 added')"
LOG = "/_delta_log/"
ENDS_WITHIN_S = 120


@pytest.fixture
def source(spark, place):
    """A table with a deletion vector, and without a change feed: whole files can be copied back."""
    at = place("here")
    rows = spark.range(0, 200, 1, 2).selectExpr("id", "id % 7 AS kind", "cast(id AS string) AS note")
    rows.write.format("delta").option("delta.enableDeletionVectors", "true").save(at)
    spark.sql(f"DELETE FROM delta.`{at}` WHERE id % 10 = 4")
    return at


def check_refused(spark, table):
    """Both engines are refused by the fence."""
    ((_, by_sql),) = by_spark(spark, table, (INSERT.format(9999),))
    assert REFUSED_BY_SPARK in by_sql
    assert {message for _, message in by_delta_rs(table)} == {REFUSED_BY_DELTA_RS}


class TestASwitchOver:
    """Every entry of the logs is a PUT that the store accepts only for a new version."""

    def test_between_buckets_survives_a_kill_and_its_undo_keeps_all_writes(self, spark, source, place, proxy, tmp_path):
        """A switch-over and a copy back die, and an answer is lost; the old table follows the new one; both are equal at each end."""
        target, (name, flip) = place("there"), make_name(tmp_path, source)
        file = write_yaml(
            tmp_path / "job.yaml", source, target, strategy={"type": "Replica"}, after="Follow", barrier={"intervalMs": 200},
            switch={"flip": flip, "keepSource": "Following"},
        )  # fmt: skip
        job = Backfill.load(file, settings=Settings(state_dir=tmp_path / "state", cores=2))
        proxy.plain_puts.clear()

        start = Start(file, tmp_path / "state", tmp_path / "log", crash_at="after_log_entry:1")
        assert LastingJava(start, spark, switch_in_process).wait(ENDS_WITHIN_S) == KILLED
        check_refused(spark, source)
        assert (name.read_text(), job.switch(spark).end) == (source, "Switched")
        assert name.read_text() == target
        check_refused(spark, source)

        insert(target, ADDED.format(5000))
        delete(target, "id % 10 = 5")
        copied, held = len(proxy.copies), ids_in(source)
        start = Start(file, tmp_path / "state", tmp_path / "log", crash_at="after_stage:1")
        assert LastingJava(start, spark, follow_back_in_process).wait(ENDS_WITHIN_S) == KILLED
        assert len(proxy.copies) > copied
        assert ids_in(source) == held
        with FollowingBack(spark, job) as back:
            newest = head_actions(spark, target).version
            back.until(lambda state: state.version >= newest)
            assert ids_in(source) == ids_in(target) == sorted({*held, 5000} - {*range(5, 200, 10)})
            check_refused(spark, source)
            assert [*by_spark(spark, target, (INSERT.format(5001), "DELETE FROM {t} WHERE id = 7"))][-1][1] is None
            lost = Fault("lost answer", "PUT", f"{source.removeprefix('s3a:/')}{LOG}0", 1)
            proxy.faults.append(lost)
            undone = job.undo_switch(spark)
        assert (undone.end, undone.receipt.equal, lost.met, name.read_text()) == ("Undone", True, 1, source)
        assert back.error is None
        expected = sorted({5000, 5001, *range(200)} - {7, *range(4, 200, 10), *range(5, 200, 10)})
        assert ids_in(source) == ids_in(target) == expected

        insert(source, ADDED.format(6000))
        assert job.switch(spark).end == "Switched"
        assert job.complete_switch(spark).end == "Completed"
        assert differences(target, source) == []
        assert 6000 in ids_in(target)
        for table in (source, target):
            insert(table, ADDED.format(7000))
        assert [path for path in proxy.plain_puts if LOG in path and path.endswith(".json")] == []
