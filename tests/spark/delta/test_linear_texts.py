"""Messages of Hadoop, Delta and Kafka are parsed in linear time, with the same results as before."""

from __future__ import annotations

import pytest

from backfill_spark.delta.properties import DEFAULT_FILE_SECONDS, kept_seconds
from backfill_spark.sinks.delta.staging import listed_files
from backfill_spark.sources.kafka.failures import explain_look


class TestAListOfFiles:
    def test_a_list_of_files_has_the_size_of_each_path(self) -> None:
        """It may be of any file system. Folders may have any name, also one of the keywords."""
        text = (
            "[LocatedFileStatus{path=file:/t/path=1/a.parquet; isDirectory=false; length=12; replication=1; modification_time=0},"
            " S3ALocatedFileStatus{path=s3a://b/t/b c.parquet; isDirectory=false; length=3; isEmptyDirectory=FALSE},"
            " LocatedFileStatus{path=/t/c.parquet; isDirectory=false; length=0; replication=1}]"
        )

        assert listed_files(text) == {"/t/path=1/a.parquet": 12, "/t/b c.parquet": 3, "/t/c.parquet": 0}
        assert listed_files("[]") == {}


class TestARetention:
    @pytest.mark.parametrize(
        ("text", "seconds"),
        [("interval 1 day", 86_400), ("INTERVAL 2 Hours 30 minutes", 9_000), ("interval 1 week", 604_800), ("nonsense", DEFAULT_FILE_SECONDS),
         (f"interval {'9' * 5_000} days", DEFAULT_FILE_SECONDS)],
    )  # fmt: skip
    def test_a_retention_is_read(self, text: str, seconds: int) -> None:
        """The owner of a source writes it; a number of 5,000 digits ended the job as `Unexpected`."""
        assert kept_seconds({"delta.deletedFileRetentionDuration": text}.get) == min(seconds, 30 * 86_400)


class TestAnErrorOfKafka:
    @pytest.mark.parametrize(
        "text",
        ["Invalid value a SECRET for configuration sasl.jaas.config: no", "Invalid value SECRET", "Invalid value SECRET provided for x"],
    )  # fmt: skip
    def test_an_error_of_kafka_does_not_repeat_a_value(self, text: str) -> None:
        """A JAAS configuration contains a password.

        If no known ending follows it, the rest of the message is dropped.
        """
        error = explain_look(RuntimeError(text), topic="orders", address="b:1")

        assert "SECRET" not in str(error)
