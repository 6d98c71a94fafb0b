"""Reasons for which a source cannot be read. The errors do not blame the target or another table."""

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
from backfill_spark.sources.delta.source import DeltaTableSource

GONE = "java.io.FileNotFoundException: File file:{} does not exist"


class TestAColumnWithoutAType:
    """Delta Kernel reads no table with one; VOID is no table feature, so the hint to drop a feature did not help (fault B12)."""

    @pytest.mark.parametrize(("column", "named"), [("v VOID", "'v'"), ("n STRUCT<a: INT, v: VOID>", "'n'")])
    def test_the_column_is_named_with_the_next_step(self, spark, tmp_path, column, named):
        """The user must learn the column, and that a select without it does not help."""
        spark.sql(f"CREATE TABLE delta.`{tmp_path}` (id BIGINT, void INT, {column}) USING delta")

        with pytest.raises(
            UnsupportedSourceFeatureError, match=f"cannot be read: {named} has the type VOID"
        ) as refused:
            DeltaTableSource(spark, str(tmp_path), key=()).pin(None)

        assert "DROP COLUMN" in refused.value.hint
        assert "Drop the feature" not in refused.value.hint


class TestAFileThatIsGone:
    """Expired is final, so the file must be one of the source."""

    @pytest.mark.parametrize("source", ["/lake/orders", "file:/lake/orders", "/lake/orders/"])
    def test_a_missing_file_of_the_source_is_expired(self, source):
        """Only this case ends the job for good."""
        error = explain(Exception(GONE.format("/lake/orders/part-0.parquet")), path=source, version=3)

        assert isinstance(error, SnapshotExpiredError)

    @pytest.mark.parametrize("file", ["/lake/orders_copy/p.parquet", "/old/lake/orders/p.parquet", "/lake/orders-2/p"])
    def test_a_missing_file_of_another_table_is_not_explained(self, file):
        """A missing file of the target proves nothing about the source."""
        assert explain(Exception(GONE.format(file)), path="/lake/orders", version=3) is None

    def test_a_missing_file_of_the_change_feed_is_expired(self):
        """The snapshot may still be complete when its changes are gone."""
        gone = GONE.format("/lake/orders/_change_data/c.parquet")

        assert isinstance(explain(Exception(gone), path="/lake/orders", version=3), ChangeFeedExpiredError)
        assert explain(Exception(gone), path="/lake/or", version=3) is None

    def test_a_file_without_read_permission_is_not_expired(self):
        """Java uses one exception for both."""
        denied = "java.io.FileNotFoundException: /lake/orders/p.parquet (Permission denied)"

        assert isinstance(explain(Exception(denied), path="/lake/orders", version=3), PermissionDeniedError)


class TestALookAtTheSource:
    """Errors of a poll blame the source."""

    @pytest.fixture
    def path(self, spark, tmp_path):
        make_orders(spark, str(tmp_path / "s"), 10, files=1)
        return str(tmp_path / "s")

    def test_a_poll_of_a_folder_without_a_table_names_the_path(self, spark, tmp_path):
        """The message has the path instead of a stack trace."""
        with pytest.raises(SourceNotFoundError, match="not a Delta table"):
            DeltaTableSource(spark, str(tmp_path / "none"), key=()).head()

    def test_a_poll_of_a_table_with_an_unsupported_feature_names_it(self, spark, path):
        """A newer release may add such a feature."""
        commit = Path(path, "_delta_log", f"{1:020d}.json")
        features = {"readerFeatures": ["fromTheFuture"], "writerFeatures": ["fromTheFuture"]}
        commit.write_text(json.dumps({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}) + "\n")

        with pytest.raises(UnsupportedSourceFeatureError, match=r"the source .*fromTheFuture"):
            DeltaTableSource(spark, path, key=()).pin(None)

    @pytest.mark.parametrize(
        ("name", "error"),
        [("org.apache.hadoop.security.AccessControlException", PermissionDeniedError),
         ("java.net.SocketTimeoutException", TransientError)],
    )  # fmt: skip
    def test_a_failing_poll_has_a_reason(self, spark, name, error):
        """An outage is retried, and a missing permission is not."""
        made = java(spark)
        for part in name.split("."):
            made = getattr(made, part)
        explained = explain_look(Py4JJavaError("a call", made("no")), path="/lake/orders")

        assert isinstance(explained, error)
        assert "the source /lake/orders" in explained.message

    @pytest.mark.parametrize("name", ["_change_type", "_Commit_Version", "_commit_timestamp"])
    def test_a_table_with_a_column_of_the_change_feed_is_refused(self, spark, tmp_path, name):
        """The feed could not be read, after the whole copy."""
        spark.range(3).withColumnRenamed("id", name).write.format("delta").save(str(tmp_path / "s"))

        with pytest.raises(UnsupportedSourceFeatureError, match=name):
            DeltaTableSource(spark, str(tmp_path / "s"), key=()).pin(None)

    def test_a_partition_column_that_delta_does_not_find_is_refused(self, spark, tmp_path):
        """Delta's filters drop every file: a `where` on such a column yields no row and no error."""
        path = str(tmp_path / "s")
        spark.sql(
            f"CREATE TABLE delta.`{path}` (id BIGINT, ```t``` STRING) USING delta PARTITIONED BY (```t```) "
            "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
        )

        with pytest.raises(UnsupportedSourceFeatureError, match="begins or ends with a backtick"):
            DeltaTableSource(spark, path, key=()).pin(None)


class TestAStoreThatRefuses:
    """A refusal by S3 for keys or a wrong clock is no outage, for any HTTP status."""

    @pytest.mark.parametrize(
        ("message", "hint"),
        [
            ("The AWS Access Key Id you provided does not exist in our records.", "AWS_ACCESS_KEY_ID"),
            ("The provided token has expired. (Service: S3, Status Code: 400)", "AWS_SESSION_TOKEN"),
            ("The difference between the request time and the current time is too large.", "clock"),
            ("No AWS Credentials provided by WebIdentityTokenFileCredentialsProvider", "AWS_WEB_IDENTITY_TOKEN_FILE"),
            ("Access Denied (Service: S3, Status Code: 403)", "Grant this user read access"),
        ],
    )
    def test_the_hint_names_the_correction(self, message, hint):
        """These are Amazon's messages. The tests of stores cover those of MinIO."""
        error = explain_look(Exception(message), path="s3a://here/orders")

        assert isinstance(error, PermissionDeniedError)
        assert hint in error.hint

    @pytest.mark.parametrize(
        "trouble", ["busy (Service: Sts, Status Code: 503)", "Rate exceeded (Service: Sts, Status Code: 400)"]
    )
    def test_a_credential_service_with_trouble_is_transient(self, trouble):
        """Hadoop reports denied access, but a job of weeks must survive a minute of that."""
        assert isinstance(
            explain_look(
                Exception(f"AccessDeniedException: No AWS Credentials provided: {trouble}"), path="s3a://here/orders"
            ),
            TransientError,
        )
