"""Tables, columns and expressions that are refused by name."""

import pytest

from backfill_core.errors import InvalidTransformError, UnsupportedTargetFeatureError
from backfill_core.in_place.fillable import FillExpressions, TableToFill, check_fillable


def table(**fields):
    """Return a table with the columns of orders."""
    return TableToFill("/lake/orders", **{"columns": ("id", "day", "status", "status_norm"), **fields})


def expressions(column="status_norm", text="upper(status)", reads=("status",), where=None):
    """Return one expression."""
    return FillExpressions({column: text}, {column: frozenset(reads)}, where)


class TestATable:
    """Whose commits or rows this release cannot preserve."""

    @pytest.mark.parametrize(
        ("fields", "named"),
        [
            ({"features": frozenset({"backfill.fenced"})}, "a fence"),
            ({"features": frozenset({"catalogManaged"})}, "catalogManaged"),
            ({"properties": {"delta.enableRowTracking": "true"}}, "row tracking"),
            ({"properties": {"delta.enableChangeDataFeed": "true"}}, "enableChangeDataFeed, for which"),
            ({"properties": {"DELTA.appendOnly": " TRUE"}}, "appendOnly, which forbids"),
        ],
    )
    def test_is_refused_with_the_feature(self, fields, named):
        """Nothing is read or written before."""
        with pytest.raises(UnsupportedTargetFeatureError, match=named):
            check_fillable(table(**fields), expressions())

    def test_without_such_a_feature_is_accepted(self):
        """A supported but disabled feature changes nothing."""
        check_fillable(table(properties={"delta.enableRowTracking": "false"}), expressions())


class TestAColumn:
    """Of `set`."""

    @pytest.mark.parametrize(
        ("column", "fields", "named"),
        [
            ("day", {"partitions": ("day",)}, "a partition column"),
            ("day", {"clustering": ("day",)}, "a clustering column"),
            ("id", {"key": ("id",)}, "a key column"),
            ("Status_Norm", {}, "the table's column is 'status_norm'"),
        ],
    )
    def test_is_refused_with_its_name(self, column, fields, named):
        """Two columns that differ in case would be one for Spark."""
        with pytest.raises(InvalidTransformError, match=named):
            check_fillable(table(**fields), expressions(column))

    def test_that_reads_a_filled_column_needs_a_condition(self):
        """A file that was rewritten is computed again, from the filled value."""
        with pytest.raises(InvalidTransformError, match="reads status_norm"):
            check_fillable(table(), expressions(reads=("status_norm",)))
        check_fillable(table(), expressions(reads=("status_norm",), where="length(status_norm) > 3"))

    def test_must_exist_in_set(self):
        """An empty job would tag files for nothing."""
        with pytest.raises(InvalidTransformError, match="empty"):
            check_fillable(table(), FillExpressions({}, {}))


class TestTheExpressions:
    """Spark computes whole columns, and keeps the values of rows that the condition excludes."""

    def test_keep_values_that_are_not_null(self):
        """By default only nulls are filled."""
        assert expressions().outputs(("id", "status_norm")) == (
            "`id`",
            "CASE WHEN `status_norm` IS NULL THEN (upper(status)) ELSE `status_norm` END AS `status_norm`",
        )

    def test_use_the_condition_of_the_user(self):
        """Names may contain backticks."""
        assert expressions("a`b", "1", (), "x > 1").outputs(("a`b",)) == (
            "CASE WHEN (x > 1) THEN (1) ELSE `a``b` END AS `a``b`",
        )

    def test_have_another_tag_after_a_change(self):
        """Files of the earlier expression are filled again."""
        assert expressions().tag != expressions(text="lower(status)").tag
        assert expressions().tag != expressions(where="true").tag
