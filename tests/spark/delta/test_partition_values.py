"""Partition values of instants, local times and days: the JVM's zone does not change them."""

import pytest
from deltalake import DeltaTable, QueryBuilder

from backfill_spark.delta.partition_values import instant, partition_of
from backfill_spark.jvm import session
from backfill_spark.jvm.gateway import java
from backfill_spark.rows.write_modes import APPEND
from backfill_spark.sinks.delta.committer import DeltaCommitter
from backfill_spark.sinks.delta.sink import DeltaSink

ZONES = ("Europe/Berlin", "America/New_York", "Pacific/Apia")
MOMENTS = [
    # The hours that summer time skips and doubles: Berlin's, New York's; and the day that Samoa left out.
    *("2021-03-28 01:59:59.999999", "2021-03-28 02:00:00", "2021-03-28 02:30:00.1", "2021-03-28 03:00:00"),
    *("2021-10-31 02:30:00", "2021-10-31 03:00:00", "2021-03-14 02:30:00", "2021-11-07 01:30:00"),
    *("2011-12-30 00:00:00", "2011-12-31 12:00:00"),
    # The days that the Gregorian calendar skips, and around them.
    *("1582-10-04 23:59:59", "1582-10-05 00:00:00", "1582-10-10 12:00:00", "1582-10-15 00:00:00"),
    *("1883-11-18 12:00:00", "1893-04-01 00:00:00", "1900-01-01 00:00:00", "1900-02-28 12:00:00"),
    *("2024-02-29 23:59:59.999999", "1969-12-31 23:59:59.5", "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"),
    *("+12345-01-02 03:04:05.1", "-0044-03-15 01:02:03"),
]  # fmt: skip


@pytest.fixture
def in_zone(spark):
    """Set the zone of the JVM; the session's own stays UTC."""
    zones = java(spark).java.util.TimeZone
    before = zones.getDefault()
    yield lambda name: zones.setDefault(zones.getTimeZone(name))
    zones.setDefault(before)


class TestInEveryZone:
    """A JVM uses the zone of its machine, and Java's older classes parse strings in it."""

    def test_sealed_values_are_the_staged_ones(self, spark, tmp_path, in_zone):
        """An engine without a JVM reads them as partition values and as plain columns."""
        values = ", ".join(f"'{moment}'" for moment in MOMENTS)
        rows = spark.sql(f"SELECT posexplode(array({values})) AS (id, text)").repartition(1)
        rows = rows.selectExpr("id", "cast(text AS timestamp) AS at", "cast(text AS timestamp_ntz) AS local",
                               "cast(text AS date) AS day", "unix_micros(at) AS at_is", "cast(local AS string) AS local_is",
                               "unix_date(day) AS day_is").localCheckpoint()  # fmt: skip
        path, by = str(tmp_path / "t"), ("at", "local", "day")
        sink = DeltaSink(spark, path, write_mode=APPEND, key=(), job_id="j", partition_by=by)
        sink.prepare(rows.schema)
        for number, zone in enumerate(ZONES):
            in_zone(zone)
            committer = DeltaCommitter(spark, path, app_id="a", domain="backfill.x")
            committer.seal(number + 1, committer.measure(sink.stage(rows, attempt=1, work_id=number)), "s")

        read = QueryBuilder().register("t", DeltaTable(path)).execute(
            """SELECT count(*) FILTER (WHERE cast(at AS bigint) = at_is AND cast(day AS int) = day_is), count(*),
               count(*) FILTER (WHERE cast(local AS bigint) = at_is), count(DISTINCT at) FROM t"""
        ).read_all().to_batches()[0]  # fmt: skip
        expected = len(MOMENTS) * len(ZONES)
        assert [read.column(index)[0].as_py() for index in range(4)] == [expected, expected, expected, len(MOMENTS)]

    def test_a_reader_in_another_zone_sees_the_same_instants(self, spark, tmp_path):
        """A string without a zone would be another instant in that session."""
        rows = spark.sql("SELECT 1 AS id, timestamp_micros(1700000000123456) AS at")
        path = str(tmp_path / "t")
        sink = DeltaSink(spark, path, write_mode=APPEND, key=(), job_id="j", partition_by=("at",))
        sink.prepare(rows.schema)
        committer = DeltaCommitter(spark, path, app_id="a", domain="backfill.x")
        committer.seal(1, committer.measure(sink.stage(rows, attempt=1, work_id=1)), "s")

        there = spark.newSession()
        there.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        row = there.read.format("delta").load(path).selectExpr("unix_micros(at) AS at").first()
        assert row["at"] == 1700000000123456

    def test_a_session_in_another_zone_stages_the_same_instants(self, spark, tmp_path):
        """Its folders would be named in that zone, and in autumn two hours share a name."""
        there = spark.newSession()
        there.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
        rows = there.sql("SELECT explode(array(1635638400, 1635642000)) AS id, timestamp_seconds(id) AS at")
        path = str(tmp_path / "t")
        sink = DeltaSink(there, path, write_mode=APPEND, key=(), job_id="j", partition_by=("at",))
        sink.prepare(rows.schema)
        committer = DeltaCommitter(there, path, app_id="a", domain="backfill.x")
        committer.seal(1, committer.measure(sink.stage(rows, attempt=1, work_id=1)), "s")

        assert spark.read.format("delta").load(path).where("unix_seconds(at) = id").count() == 2

    def test_the_product_s_jvms_are_in_utc(self, spark):
        """This holds for drivers and, by separate options, for executors."""
        assert java(spark).java.lang.System.getProperty("user.timezone") == "UTC"
        assert session.ONE_ZONE in session.ON_A_CLUSTER["spark.executor.defaultJavaOptions"]


class TestTexts:
    """Partition values on their way from the name of a folder to the log."""

    def test_values_are_read_from_folders(self):
        """The commit has the decoded values of the folders."""
        assert partition_of("/t/backfill-1/a1/s1/p=a%20b/q=__HIVE_DEFAULT_PARTITION__/f.parquet", ("q", "p")) == (
            ("q", None), ("p", "a b"),
        )  # fmt: skip

    @pytest.mark.parametrize(
        ("folder", "logged"),
        [
            ("2021-03-28 02:30:00", "2021-03-28T02:30:00.000000Z"),
            ("2021-03-28 02:30:00.1", "2021-03-28T02:30:00.100000Z"),
            ("+12345-01-02 03:04:05.000001", "+12345-01-02T03:04:05.000001Z"),
        ],
    )
    def test_an_instant_is_logged_with_its_zone(self, folder, logged):
        """A reader in another zone must see the same instant."""
        assert instant(folder) == logged

    def test_a_string_that_is_no_instant_is_refused(self):
        """A half-parsed string would move rows to another partition."""
        with pytest.raises(ValueError, match="noon"):
            instant("noon")

    def test_an_empty_string_is_escaped(self):
        """Spark would name its folder as that of null (fault B4). In a column of another type a tilde stays."""
        path = "/t/backfill-1/a1/s1/p=~/q=~~a/r=a/s=__HIVE_DEFAULT_PARTITION__/n=~/f.parquet"

        assert partition_of(path, ("p", "q", "r", "s", "n"), {"p", "q", "r", "s"}) == (
            ("p", ""), ("q", "~a"), ("r", "a"), ("s", None), ("n", "~"),
        )  # fmt: skip
