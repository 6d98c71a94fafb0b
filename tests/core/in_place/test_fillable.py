"""Tables, columns and expressions that are refused by name."""

import pytest

from backfill_core.errors import InvalidTransformError, UnsupportedTargetFeatureError
from backfill_core.in_place.fillable import FillExpressions, TableToFill, check_fillable, check_names


def table(**fields):
    """Return a table with the columns of orders."""
    return TableToFill("/lake/orders", **{"columns": ("id", "day", "status", "status_norm"), **fields})


def expressions(column="status_norm", text="upper(status)", reads=("status",), where=None, where_reads=()):
    """Return one expression."""
    return FillExpressions({column: text}, {column: frozenset(reads)}, where, frozenset(where_reads))


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

    def test_with_a_feed_is_accepted_if_commits_are_rewrites(self):
        """No feed records a rewrite, and a table that only grows may be rewritten."""
        properties = {"delta.enableChangeDataFeed": "true", "delta.appendOnly": "true"}

        check_fillable(table(properties=properties, data_change=False), expressions())

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
        check_fillable(
            table(), expressions(reads=("status_norm",), where="length(status_norm) > 3", where_reads=("status_norm",))
        )

    def test_that_reads_a_filled_column_needs_a_condition_that_filled_rows_can_fail(self):
        """A condition on other columns holds for a filled row, too: OPTIMIZE removes the tag, and its value would change twice."""
        with pytest.raises(InvalidTransformError, match="setWhere reads no filled column"):
            check_fillable(table(), expressions(reads=("status_norm",), where="id < 9", where_reads=("id",)))

    def test_that_the_job_added_must_not_be_renamed(self):
        """A second column would be added, and the renamed one would keep its nulls."""
        with pytest.raises(InvalidTransformError, match="dropped or renamed"):
            check_fillable(table(began=True), expressions("added"))
        check_fillable(table(began=True), expressions())
        check_fillable(table(), expressions("added"))

    def test_is_no_field_of_another_column(self):
        """A column with a dot in its name would be added, and the field would stay null."""
        with pytest.raises(InvalidTransformError, match=r"'status\.norm', which is no column"):
            check_fillable(table(), expressions("status.norm"))
        check_fillable(table(columns=("id", "status", "status.norm")), expressions("status.norm"))

    def test_is_not_named_twice_in_other_case(self):
        """Delta would reject the second one after the first one is added."""
        with pytest.raises(InvalidTransformError, match="'low' and 'LOW'"):
            check_names(["low", "status", "LOW"])

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

    def test_of_an_added_column_are_not_computed_for_rows_that_the_condition_excludes(self):
        """The check of a few rows would refuse a job whose condition excludes the rows that have no value."""
        assert expressions("share", "1 div part", ("part",), "part <> 0", ("part",)).outputs(("id", "part")) == (
            "`id`",
            "`part`",
            "CASE WHEN (part <> 0) THEN (1 div part) END AS `share`",
        )
        assert expressions("share", "1", (), "share IS NULL", ("share",)).outputs(()) == ("(1) AS `share`",)

    def test_may_end_with_a_comment(self):
        """It must not hide the rest of the column's SQL."""
        assert expressions(text="1 -- one", where="x > 1 -- few").outputs(("status_norm",)) == (
            "CASE WHEN (x > 1 -- few\n) THEN (1 -- one\n) ELSE `status_norm` END AS `status_norm`",
        )

    def test_have_another_tag_after_a_change(self):
        """Files of the earlier expression are filled again."""
        assert expressions().tag({}) != expressions(text="lower(status)").tag({})
        assert expressions().tag({}) != expressions(where="true").tag({})

    def test_have_another_tag_for_another_column_of_the_same_name(self):
        """A column that was dropped and added again is null in files with the tag of the dropped one."""
        assert expressions().used == {"status", "status_norm"}
        assert expressions().tag({"status": "col-1 string"}) != expressions().tag({"status": "col-2 string"})
