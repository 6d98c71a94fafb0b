"""Rows of files follow the job's session, whichever session a caller made the default or the active one (fault D1)."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from deltalake import QueryBuilder, write_deltalake
from support.sessions.callers import callers_session

from backfill_core.errors import SessionUnfitError
from backfill_spark.delta.spark_internals import SparkDeltaLog
from backfill_spark.jvm.gateway import activate

NOON = """arrow_cast('2024-07-01T12:00:00Z', 'Timestamp(Microsecond, Some("UTC"))')"""
ZONES = ("America/New_York", "Asia/Kolkata", "Pacific/Apia")


@pytest.fixture
def hours(spark, tmp_path):
    """Read a table of delta-rs on a separate thread: a timestamp in a file, and one as a partition value without a zone."""
    path = str(tmp_path / "t")
    rows = QueryBuilder().execute(f"SELECT {NOON} AS at, {NOON} AS hour").read_all()
    write_deltalake(path, rows, partition_by=["hour"])

    def read(begin):
        begin()
        log = SparkDeltaLog(spark, path)
        snapshot = log.updated()
        rows = log.frame(snapshot.allFiles().collectAsList(), snapshot)
        return tuple(rows.selectExpr("cast(at AS string)", "cast(hour AS string)").first())

    def on_a_thread(begin):
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(read, begin).result()

    return on_a_thread


class TestRowsOfFiles:
    """Delta reads them in the active session of a thread, or in the default session if there is none."""

    @pytest.mark.parametrize("zone", ZONES)
    def test_rows_follow_the_settings_of_the_job(self, spark, hours, zone):
        """The product's threads make the job's session the active one."""
        with callers_session(spark, {"spark.sql.session.timeZone": zone}):
            assert hours(lambda: activate(spark)) == ("2024-07-01 12:00:00", "2024-07-01 12:00:00")

    def test_rows_of_another_session_are_refused(self, spark, hours):
        """They would have other values without an error."""
        with (
            callers_session(spark, {"spark.sql.session.timeZone": ZONES[0]}),
            pytest.raises(SessionUnfitError, match="another Spark session than the job's"),
        ):
            hours(lambda: None)
