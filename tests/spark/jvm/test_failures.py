"""Reason of an exception that source and target cannot explain.

A defect of the product is not transient (fault D11).
"""

import pytest

from backfill_spark.delta.statistics.moments import read_moment
from backfill_spark.jvm.failures import Trouble, trouble_of, unexplained
from backfill_spark.rows.transform import Transform

DEFECTS = [
    OverflowError("date value out of range"),
    KeyError("w"),
    TypeError("no"),
    AttributeError("no"),
    AssertionError(),
]
ROW = "[NUMERIC_VALUE_OUT_OF_RANGE] no. SQLSTATE: 22003"
OURS = "[USER_RAISED_EXCEPTION] backfill: statistics exclude a row of file:/lake/s/a.parquet. SQLSTATE: P0001"


S3A = (
    "org.apache.hadoop.fs.s3a.{}: PUT 0-byte object on orders: software.amazon.awssdk.services.s3.model.S3Exception: {} "
    "(Service: S3, Status Code: {}, Request ID: 18A5)"
)
"""Message of Hadoop's S3 client: a class, the store's message and code, and the status."""

ANSWERS = [
    ("AWSBadRequestException", "KMS.DisabledException", 400, Trouble.DENIED),
    ("AWSBadRequestException", "KMS.NotFoundException", 400, Trouble.DENIED),
    ("AWSBadRequestException", "KMS.KMSInvalidStateException", 400, Trouble.DENIED),
    ("AWSBadRequestException", "AuthorizationHeaderMalformed", 400, Trouble.DENIED),
    ("AWSRedirectException", "PermanentRedirect", 301, Trouble.DENIED),
    ("AWSBadRequestException", "InvalidRequest", 400, Trouble.REJECTED),
    ("AWSUnsupportedFeatureException", "NotImplemented", 501, Trouble.REJECTED),
    ("AWSBadRequestException", "KMS.ThrottlingException", 400, Trouble.AWAY),
    ("AWSBadRequestException", "RequestTimeout", 400, Trouble.AWAY),
    ("AWSServiceThrottledException", "SlowDown", 503, Trouble.AWAY),
    ("AWSStatus500Exception", "InternalError", 500, Trouble.AWAY),
]


class SparkError(Exception):
    """An exception of Spark that neither side explains."""


class TestAnErrorOfOurOwnCode:
    """A defect of the product gets the reason `Unexpected`, and its message does not blame a Spark job."""

    @pytest.mark.parametrize("error", DEFECTS, ids=lambda defect: type(defect).__name__)
    def test_a_defect_is_unexpected_and_ends_the_attempt(self, error):
        """The same call would fail again."""
        explained = unexplained(error, doing="a Spark job")

        assert (explained.reason, explained.exit_code, explained.ends_attempt) == ("Unexpected", 1, True)
        assert "Spark" not in explained.message
        assert type(error).__name__ in explained.message
        assert "Report" in explained.hint

    def test_the_error_names_its_line_and_is_in_the_log(self, caplog):
        """A report without the traceback is useless."""
        with pytest.raises(ValueError, match="Invalid") as raised:
            read_moment("no timestamp", zoned=True)
        explained = unexplained(raised.value, doing="a Spark job")

        assert explained.message.startswith("backfill_spark.delta.statistics.moments, line ")
        assert "Traceback" in caplog.text

    @pytest.mark.parametrize("error", [OSError("no"), ConnectionResetError(), MemoryError(), SparkError("no")])
    def test_other_errors_may_pass(self, error):
        """The cause is a disk, a network, the memory of the machine, or an error that Spark reports."""
        assert unexplained(error, doing="a Spark job").reason == "Transient"


class TestAnAnswerOfAStore:
    """An answer that stays the same is no outage, which would count no failure."""

    @pytest.mark.parametrize(("name", "code", "status", "trouble"), ANSWERS)
    def test_only_a_busy_or_silent_store_is_away(self, name, code, status, trouble):
        """Before, each answer with status 400 or 501 was an outage, and such a job never failed."""
        assert trouble_of(OSError(S3A.format(name, code, status))) is trouble

    def test_a_rejected_request_counts_a_failure_and_names_the_settings(self):
        """The cause is unknown, so a retry may help, but not without end."""
        explained = unexplained(OSError(S3A.format("AWSBadRequestException", "InvalidRequest", 400)), doing="a read")

        assert (explained.reason, explained.outside) == ("Transient", False)
        assert "fs.s3a" in explained.hint


class TestARowThatCannotBeComputed:
    """A row that cannot be computed is a failure of the transform only if the job has one."""

    def test_a_failing_row_of_a_transform_is_blamed_on_it(self):
        """The message names the field."""
        explained = Transform(("1 / id AS x",), None).explain_failure(SparkError(ROW))

        assert explained.reason == "InvalidTransform"

    @pytest.mark.parametrize(
        ("transform", "message"),
        [(Transform(None, None), ROW), (Transform(("id",), "id > 1"), OURS)],
        ids=["none", "ours"],
    )
    def test_a_failing_expression_that_the_product_added_is_not_blamed_on_the_transform(self, transform, message):
        """A user cannot correct it (fault D13)."""
        assert transform.explain_failure(SparkError(message)) is None

    def test_a_row_that_cannot_be_computed_is_no_failure_that_may_pass(self):
        """The next attempt reads the same row."""
        assert unexplained(SparkError(ROW), doing="a Spark job").reason == "Unexpected"
