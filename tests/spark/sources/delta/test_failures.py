"""Why a source cannot be read, in our words: neither the target's fault, nor another table's."""

import json
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from support.tables.jobs import make_orders

from backfill_core.errors import (
    ChangeFeedExpiredError,
    PermissionDeniedError,
    SnapshotExpiredError,
    SourceNotFoundError,
    TransientError,
    UnsupportedSourceFeatureError,
)
from backfill_spark.jvm.gateway import java
from backfill_spark.sources.delta.failures import explain, explain_look
from backfill_spark.sources.delta.source import DeltaSource

GONE = "java.io.FileNotFoundException: File file:{} does not exist"


class TestAColumnWithoutAType:
    """Delta Kernel reads no table with one; VOID is no table feature, so the hint to drop a feature did not help (fault B12)."""

    @pytest.mark.parametrize(("column", "named"), [("v VOID", "'v'"), ("n STRUCT<a: INT, v: VOID>", "'n'")])
    def test_is_named_with_what_to_do(self, spark, tmp_path, column, named):
        """The user must learn which column, and that a select without it does not help."""
        spark.sql(f"CREATE TABLE delta.`{tmp_path}` (id BIGINT, void INT, {column}) USING delta")

        with pytest.raises(
            UnsupportedSourceFeatureError, match=f"cannot be read: {named} has the type VOID"
        ) as refused:
            DeltaSource(spark, str(tmp_path), key=()).pin(None)

        assert "DROP COLUMN" in refused.value.hint
        assert "Drop the feature" not in refused.value.hint


class TestAFileThatIsGone:
    """Expired is for ever, so it must be a file of the source."""

    @pytest.mark.parametrize("source", ["/lake/orders", "file:/lake/orders", "/lake/orders/"])
    def test_of_the_source(self, source):
        """Only this case ends the job for good."""
        error = explain(Exception(GONE.format("/lake/orders/part-0.parquet")), path=source, version=3)

        assert isinstance(error, SnapshotExpiredError)

    @pytest.mark.parametrize("file", ["/lake/orders_copy/p.parquet", "/old/lake/orders/p.parquet", "/lake/orders-2/p"])
    def test_of_a_neighbour(self, file):
        """A missing file of the target says nothing about the source."""
        assert explain(Exception(GONE.format(file)), path="/lake/orders", version=3) is None

    def test_of_the_feed(self):
        """The snapshot may still be complete when its changes are gone."""
        gone = GONE.format("/lake/orders/_change_data/c.parquet")

        assert isinstance(explain(Exception(gone), path="/lake/orders", version=3), ChangeFeedExpiredError)
        assert explain(Exception(gone), path="/lake/or", version=3) is None

    def test_that_may_not_be_read_is_not_gone(self):
        """Java says both with one exception."""
        denied = "java.io.FileNotFoundException: /lake/orders/p.parquet (Permission denied)"

        assert isinstance(explain(Exception(denied), path="/lake/orders", version=3), PermissionDeniedError)


class TestALookAtTheSource:
    """The hint is at the source."""

    @pytest.fixture
    def path(self, spark, tmp_path):
        make_orders(spark, str(tmp_path / "s"), 10, files=1)
        return str(tmp_path / "s")

    def test_that_is_no_table(self, spark, tmp_path):
        """The path is named, not the stack trace."""
        with pytest.raises(SourceNotFoundError, match="not a Delta table"):
            DeltaSource(spark, str(tmp_path / "none"), key=()).head()

    def test_with_a_feature_that_cannot_be_read(self, spark, path):
        """Such as one of a newer release."""
        commit = Path(path, "_delta_log", f"{1:020d}.json")
        features = {"readerFeatures": ["fromTheFuture"], "writerFeatures": ["fromTheFuture"]}
        commit.write_text(json.dumps({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}) + "\n")

        with pytest.raises(UnsupportedSourceFeatureError, match=r"the source .*fromTheFuture"):
            DeltaSource(spark, path, key=()).pin(None)

    @pytest.mark.parametrize(
        ("name", "error"),
        [("org.apache.hadoop.security.AccessControlException", PermissionDeniedError),
         ("java.net.SocketTimeoutException", TransientError)],
    )  # fmt: skip
    def test_that_fails(self, spark, name, error):
        """An outage is tried again, and a missing right is not."""
        made = java(spark)
        for part in name.split("."):
            made = getattr(made, part)
        found = explain_look(Py4JJavaError("a call", made("no")), path="/lake/orders")

        assert isinstance(found, error)
        assert "the source /lake/orders" in found.message

    @pytest.mark.parametrize("name", ["_change_type", "_Commit_Version", "_commit_timestamp"])
    def test_with_a_column_that_the_feed_has_too(self, spark, tmp_path, name):
        """The feed could not be read, after the whole copy."""
        spark.range(3).withColumnRenamed("id", name).write.format("delta").save(str(tmp_path / "s"))

        with pytest.raises(UnsupportedSourceFeatureError, match=name):
            DeltaSource(spark, str(tmp_path / "s"), key=()).pin(None)

    def test_partitioned_by_a_name_that_delta_does_not_find(self, spark, tmp_path):
        """Its filters drop every file: a `where` on such a column yields no row, and no error."""
        path = str(tmp_path / "s")
        spark.sql(
            f"CREATE TABLE delta.`{path}` (id BIGINT, ```t``` STRING) USING delta PARTITIONED BY (```t```) "
            "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
        )

        with pytest.raises(UnsupportedSourceFeatureError, match="begins or ends with a backtick"):
            DeltaSource(spark, path, key=()).pin(None)


class TestAStoreThatRefuses:
    """What S3 says of keys and of the clock is no outage, whatever the status of the answer."""

    @pytest.mark.parametrize(
        ("said", "hint"),
        [
            ("The AWS Access Key Id you provided does not exist in our records.", "AWS_ACCESS_KEY_ID"),
            ("The provided token has expired. (Service: S3, Status Code: 400)", "AWS_SESSION_TOKEN"),
            ("The difference between the request time and the current time is too large.", "clock"),
            ("No AWS Credentials provided by WebIdentityTokenFileCredentialsProvider", "AWS_WEB_IDENTITY_TOKEN_FILE"),
            ("Access Denied (Service: S3, Status Code: 403)", "Grant this user read access"),
        ],
    )
    def test_the_hint_says_what_to_correct(self, said, hint):
        """Amazon's words; those of MinIO are met by the tests of stores."""
        error = explain_look(Exception(said), path="s3a://here/orders")

        assert isinstance(error, PermissionDeniedError)
        assert hint in error.hint

    @pytest.mark.parametrize(
        "trouble", ["busy (Service: Sts, Status Code: 503)", "Rate exceeded (Service: Sts, Status Code: 400)"]
    )
    def test_who_gives_the_keys_may_have_trouble(self, trouble):
        """Hadoop says that access is denied; a job of weeks must live through a minute of that."""
        assert isinstance(
            explain_look(
                Exception(f"AccessDeniedException: No AWS Credentials provided: {trouble}"), path="s3a://here/orders"
            ),
            TransientError,
        )
