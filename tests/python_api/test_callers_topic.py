"""A topic in a caller's session: records have the same values as on the command line."""

import pytest
from pyspark.sql import SparkSession
from support.kafka.jobs import job_of
from support.kafka.topics import producing
from support.sessions.callers import callers_session
from support.tables.oracle import columns_of

from backfill_spark.jvm.callers_session import separate_session


class TestTopicInACallersSession:
    """Records have the same values as on the command line."""

    @pytest.mark.rest
    def test_times_are_in_the_zone_of_the_job(self, topics, spark, broker, tmp_path):
        """The zone of the caller and of the default session do not apply, and pyspark's active session stays the caller's."""
        topic = topics.create(partitions=1)
        with producing(broker.address) as send:
            send(topic, b"1", partition=0, timestamp_ms=1_719_792_000_000)
        with callers_session(spark, {"spark.sql.session.timeZone": "America/New_York"}) as caller:
            before = SparkSession.getActiveSession()
            run = job_of(separate_session(caller, {}), broker.address, tmp_path)
            outcome = run(topic, transform={"select": ["offset", "cast(timestamp AS string) AS said"]})
            assert SparkSession.getActiveSession() is before

        assert outcome.reason == "Complete", outcome.message
        assert columns_of(str(tmp_path / "t"), "said") == [("2024-07-01 00:00:00",)]
