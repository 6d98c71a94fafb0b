"""Preparations of a new Java only save time: they leave nothing behind, and their failures change nothing."""

import tempfile

from backfill_core.pacing.warm_up import WarmUp
from backfill_spark.jvm.gateway import java
from backfill_spark.opening.warm_up import CASE_TABLES, start_warm_ups

ENDS_S = 60


class OnACluster:
    """Stands for a session whose executors are on other machines."""

    class sparkContext:  # noqa: N801 - the name in Spark
        """Context of a cluster."""

        master = "k8s://https://kubernetes.default.svc"


class TestPreparations:
    """They run beside the checks of a job."""

    def test_leave_no_file_and_no_setting(self, spark, tmp_path, monkeypatch):
        """The class exists, and the rows are removed again."""
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        pool = spark.sparkContext.getLocalProperty("spark.scheduler.pool")

        threads = start_warm_ups(spark, tuple(WarmUp))
        for thread in threads:
            thread.join(ENDS_S)

        assert {thread.name for thread in threads} == {"case_tables", "first_write"}
        assert not any(thread.is_alive() for thread in threads)
        assert list(tmp_path.iterdir()) == []
        assert spark.sparkContext.getLocalProperty("spark.scheduler.pool") == pool
        assert java(spark).java.lang.Class.forName(CASE_TABLES) is not None

    def test_do_nothing_in_a_session_of_the_caller_or_on_a_cluster(self):
        """The caller's session stays unchanged, and executors on other machines gain nothing."""
        assert start_warm_ups(None, tuple(WarmUp)) == []
        assert start_warm_ups(OnACluster(), tuple(WarmUp)) == []

    def test_fail_without_a_message_to_the_user(self, spark, tmp_path, monkeypatch):
        """A full disk delays the first rows, and the job reports it if it matters."""
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))

        (thread,) = start_warm_ups(spark, [WarmUp.FIRST_WRITE])
        thread.join(ENDS_S)

        assert not thread.is_alive()
