"""Buckets and containers that do not exist, as each store reports them."""

from functools import partial

import pytest

from backfill_spark.jvm.failures import unexplained
from backfill_spark.sinks.delta import failures as target
from backfill_spark.sources.delta import failures as source

S3A = (
    "org.apache.hadoop.fs.s3a.UnknownStoreException: `s3a://nowhere/t': getFileStatus on s3a://nowhere/t: "
    "software.amazon.awssdk.services.s3.model.NoSuchBucketException: The specified bucket does not exist "
    "(Service: S3, Status Code: 404, Request ID: 18A5):NoSuchBucket"
)
ABFS = (
    'java.io.FileNotFoundException: Operation failed: "The specified filesystem does not exist.", 404, HEAD, '
    "https://shop.dfs.core.windows.net/nowhere?upn=false&action=getStatus&timeout=90"
)
WASB = "org.apache.hadoop.fs.azure.AzureException: Container nowhere in account shop.blob.core.windows.net not found"
GCS = (
    "com.google.api.client.googleapis.json.GoogleJsonResponseException: 404 Not Found\nPOST https://storage.googleapis.com/\n"
    '{ "code" : 404, "errors" : [ { "message" : "The specified bucket does not exist.", "reason" : "notFound" } ] }'
)
PLACES = {
    "s3a": (S3A, "s3a://nowhere/t", "bucket nowhere"),
    "abfss": (
        ABFS,
        "abfss://nowhere@shop.dfs.core.windows.net/t",
        "container nowhere of account shop.dfs.core.windows.net",
    ),
    "wasbs": (
        WASB,
        "wasbs://nowhere@shop.blob.core.windows.net/t",
        "container nowhere of account shop.blob.core.windows.net",
    ),
    "gs": (GCS, "gs://nowhere/t", "bucket nowhere"),
}


@pytest.mark.parametrize(("message", "path", "place"), PLACES.values(), ids=PLACES.keys())
class TestAPlaceThatIsMissing:
    """A bucket or container that does not exist is a mistake in the spec, not damage (fault K9)."""

    @pytest.mark.parametrize(
        "explain", [target.explain_making, partial(target.explain_target, doing="the look"), target.explain_commit]
    )
    def test_the_place_of_a_target_is_named(self, message, path, place, explain):
        """Before, the hint was to restore a file."""
        error = explain(OSError(message), path=path)

        assert error.reason == "InvalidSpec"
        assert f"spec.target.delta.path: {place} does not exist" in error.message

    def test_the_place_of_a_source_is_named(self, message, path, place):
        """Before, the job retried again and again, or counted an expired version."""
        for error in (
            source.explain_look(OSError(message), path=path),
            source.explain_version(OSError(message), path=path, version=1, newest=3),
            source.explain(OSError(f"{path}: {message}"), path=path, version=1),
        ):
            assert error.reason == "InvalidSpec"
            assert f"spec.source.delta.path: {place} does not exist" in error.message

    def test_a_place_of_neither_is_no_outage(self, message, path, place):
        """An example is the place of a file that the log names."""
        error = unexplained(OSError(f"{path}: {message}"), doing=f"the copy to the {place}")

        assert error.reason == "InvalidSpec"
