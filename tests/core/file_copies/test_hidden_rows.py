"""Tests of `backfill_core.file_copies`: copies whose rows that fail the filter are hidden."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_core.errors import AccountingError
from backfill_core.file_copies.copy_modes import (
    PARTLY_COMPUTED_ROWS_MIN,
    Decoded,
    Excluded,
    Hiding,
    PartlyComputed,
    Projected,
    Reason,
    Whole,
    name_of,
    of_file,
    of_table,
)
from backfill_core.file_copies.facts import ColumnFacts, Computed, FileFacts, TableFacts, Taken, TransformFacts
from backfill_core.file_copies.filters import Column, Comparator, Compare, Literal, Nulls, Opaque, Values
from backfill_core.file_copies.hidden_rows import Outcome, outcome
from backfill_core.file_copies.unknown_columns import likely

LONG = '"long"'
POSITIVE = Compare(Comparator.LESS, Literal(0), Column("a"))
UNDECIDED, PASSES, FAILS = Values(-5, 5, Nulls.NONE), Values(1, 5, Nulls.NONE), Values(-5, 0, Nulls.NONE)


def table(*names, **facts):
    return TableFacts(tuple(ColumnFacts(name, name, LONG) for name in names), **facts)


SOURCE, TARGET = table("a", "b"), table("a", "b", vectors=True)
HIDES = TransformFacts({"a": Taken("a"), "b": Taken("b")}, POSITIVE, hides=True)


def mode_of(values, transform=HIDES, target=TARGET, source=SOURCE, rows=PARTLY_COMPUTED_ROWS_MIN):
    file = FileFacts(rows, {"a": 0, "b": 0}, values={"a": values})
    return of_file(of_table(transform, source, target), transform, source, target, file)


class TestAFileWithSomeRowsThatPass:
    """It is copied, and its failing rows are hidden, wherever a copy may have a deletion vector."""

    def test_statistics_decide_first(self):
        """A file of which all rows pass or fail needs no read of the filter's columns."""
        assert [mode_of(values) for values in (UNDECIDED, PASSES, FAILS)] == [Hiding(Whole()), Whole(), Excluded()]
        assert name_of(Hiding(Whole())) == "Hidden"

    def test_rows_are_hidden_only_where_a_user_asks(self):
        """By default, no row that the filter leaves out is in any file of the target."""
        assert mode_of(UNDECIDED, replace(HIDES, hides=False)) == Decoded(Reason.FILTER)

    def test_a_target_without_vectors_gets_no_failing_row(self):
        """Readers of such a table see every row of its files."""
        assert mode_of(UNDECIDED, target=replace(TARGET, vectors=False)) == Decoded(Reason.FILTER)

    def test_a_filter_that_statistics_never_decide_is_no_reason_to_decode(self):
        """Every row is judged, so any expression works."""
        opaque = replace(HIDES, condition=Opaque("a LIKE b"))

        assert mode_of(UNDECIDED, opaque) == Hiding(Whole())
        assert mode_of(UNDECIDED, replace(opaque, hides=False)) == Decoded(Reason.FILTER, "a LIKE b")

    def test_columns_may_be_left_out_and_computed(self):
        """The rows of all these copies keep their positions."""
        projected = replace(HIDES, outputs={"b": Taken("b")})
        computed = replace(HIDES, outputs={"a": Taken("a"), "c": Computed("c", may_fail=False)})

        assert mode_of(UNDECIDED, projected, table("b", vectors=True)) == Hiding(Projected((), ("a",)))
        assert mode_of(UNDECIDED, computed, table("a", "c", vectors=True)) == Hiding(
            PartlyComputed(Projected((), ("b",)), ("c",))
        )

    def test_a_column_is_not_computed_for_rows_that_the_filter_protects_it_from(self):
        """`1 / a` fails where a is 0, and a filter leaves these rows out: the file is decoded."""
        computed = replace(HIDES, outputs={"a": Taken("a"), "c": Computed("c", may_fail=True)})

        assert mode_of(UNDECIDED, computed, table("a", "c", vectors=True)) == Decoded(Reason.HIDDEN_ROWS, "c")
        assert isinstance(mode_of(PASSES, computed, table("a", "c", vectors=True)), PartlyComputed)

    def test_a_file_without_a_count_is_decoded(self):
        """The share of its rows that fail is unknown."""
        assert mode_of(UNDECIDED, rows=None) == Decoded(Reason.NO_COUNT)

    def test_a_plan_expects_footers_to_decide_after_a_dropped_column(self):
        """Files of such a table still hold its values."""
        assert likely(Hiding(Whole()), replace(SOURCE, drops=True)) == Decoded(Reason.UNKNOWN_COLUMN)
        assert likely(Hiding(Whole()), SOURCE) == Hiding(Whole())


class TestFailingRowsAreCounted:
    """The number of failing rows decides about a file."""

    @given(st.integers(0, 60), st.integers(0, 60))
    def test_each_visible_row_that_passes_stays_visible(self, passing, failing):
        """A file is left out only without such a row, and is unchanged only without a failing one."""
        result = outcome("f", visible=passing + failing, failing=failing)

        assert (result is Outcome.LEAVE_OUT) == (passing == 0)
        assert (result is Outcome.UNCHANGED) == (failing == 0 and passing > 0)

    @given(st.integers(1, 60), st.integers(1, 60))
    def test_hidden_rows_never_outnumber_visible_ones(self, passing, failing):
        """Readers of the target read hidden rows too."""
        result = outcome("f", visible=passing + failing, failing=failing)

        assert (result is Outcome.HIDE) == (failing <= passing)
        assert (result is Outcome.DECODE) == (failing > passing)

    def test_more_failing_rows_than_the_log_has_are_an_error(self):
        """The file is not the one of the log."""
        with pytest.raises(AccountingError, match="11 rows of f fail"):
            outcome("f", visible=10, failing=11)
