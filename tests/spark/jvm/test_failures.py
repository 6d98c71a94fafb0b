"""The reason of an exception that neither source nor target knows: a defect of the product is no failure that may pass (fault D11)."""

import pytest

from backfill_spark.delta.statistics.moments import read_moment
from backfill_spark.jvm.failures import unexplained
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


class SparkError(Exception):
    """An exception of Spark that no side knows."""


class TestAnErrorOfOurOwnCode:
    """Is `Unexpected`, and no Spark job's."""

    @pytest.mark.parametrize("error", DEFECTS, ids=lambda one: type(one).__name__)
    def test_is_unexpected_and_ends_the_attempt(self, error):
        """The same call would fail again."""
        found = unexplained(error, doing="a Spark job")

        assert (found.reason, found.exit_code, found.ends_attempt) == ("Unexpected", 1, True)
        assert "Spark" not in found.message
        assert type(error).__name__ in found.message
        assert "Report" in found.hint

    def test_names_its_line_and_is_in_the_log(self, caplog):
        """A report without the traceback says nothing."""
        with pytest.raises(ValueError, match="Invalid") as raised:
            read_moment("no timestamp", zoned=True)
        found = unexplained(raised.value, doing="a Spark job")

        assert found.message.startswith("backfill_spark.delta.statistics.moments, line ")
        assert "Traceback" in caplog.text

    @pytest.mark.parametrize("error", [OSError("no"), ConnectionResetError(), MemoryError(), SparkError("no")])
    def test_others_may_pass(self, error):
        """A disk, a network, the memory of the machine, and what Spark says."""
        assert unexplained(error, doing="a Spark job").reason == "Transient"


class TestARowThatCannotBeComputed:
    """Is a failure of the transform only if there is one."""

    def test_of_a_transform_is_blamed_on_it(self):
        """Its field is named."""
        found = Transform(("1 / id AS x",), None).explain_failure(SparkError(ROW))

        assert found.reason == "InvalidTransform"

    @pytest.mark.parametrize(
        ("transform", "said"),
        [(Transform(None, None), ROW), (Transform(("id",), "id > 1"), OURS)],
        ids=["none", "ours"],
    )
    def test_of_an_expression_that_the_product_added_is_not(self, transform, said):
        """A user cannot correct it (fault D13)."""
        assert transform.explain_failure(SparkError(said)) is None

    def test_is_no_failure_that_may_pass(self):
        """The row is there at the next attempt, too."""
        assert unexplained(SparkError(ROW), doing="a Spark job").reason == "Unexpected"
