"""The part of a target that a job replaces: its condition, its files, and commits of other writers (ADR 0048)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_core.errors import (
    ForeignCommit,
    InvalidSpecError,
    ScopeNotSeparatedError,
    UnsupportedTargetFeatureError,
)
from backfill_core.file_copies.filters import (
    And,
    Column,
    Comparator,
    Compare,
    IsNull,
    Literal,
    Not,
    Nulls,
    Opaque,
    Or,
    Values,
)
from backfill_core.file_copies.scope import (
    Effect,
    FileChange,
    Place,
    PlacedFile,
    check_replaceable,
    check_scope,
    conflict,
    effect_of,
    place_of,
    removed_files,
)

DAY = Column("day")
TEXT = "day >= 10 AND day < 20"
SCOPE = And(
    (
        Compare(Comparator.LESS_OR_EQUAL, Literal(10), DAY),
        Compare(Comparator.LESS, DAY, Literal(20)),
    )
)


def between(low, high, nulls=Nulls.NONE):
    return {"day": Values(low, high, nulls)}


class TestAPlace:
    """A file is removed only if all of its rows are in the scope, and kept only if none is."""

    @given(st.lists(st.integers(5, 25) | st.none(), min_size=1, max_size=6))
    def test_a_place_agrees_with_every_row(self, days):
        """The reference evaluates the condition for each row."""
        known = [day for day in days if day is not None]
        nulls = Nulls.NONE if len(known) == len(days) else Nulls.PERHAPS if known else Nulls.ALL
        inside = [day is not None and 10 <= day < 20 for day in days]

        place = place_of(SCOPE, between(min(known, default=None), max(known, default=None), nulls))

        if place is Place.INSIDE:
            assert all(inside)
        if place is Place.OUTSIDE:
            assert not any(inside)
        if len(set(days)) == 1:
            assert place is (Place.INSIDE if inside[0] else Place.OUTSIDE)

    @pytest.mark.parametrize(
        ("values", "expected"),
        [
            (between(10, 19), Place.INSIDE),
            (between(20, 30), Place.OUTSIDE),
            (between(19, 20), Place.STRADDLES),
            (between(9, 10), Place.STRADDLES),
            (between(12, 15, Nulls.PERHAPS), Place.STRADDLES),
            ({}, Place.STRADDLES),
        ],
    )
    def test_bounds_decide(self, values, expected):
        """A row whose scope is null is not in it; a file without bounds may have any row."""
        assert place_of(SCOPE, values) is expected

    def test_null_partitions_may_be_a_scope(self):
        """`day IS NULL` selects the rows of the null partition, and no others."""
        assert place_of(IsNull(DAY), {"day": Values(nulls=Nulls.ALL)}) is Place.INSIDE
        assert place_of(IsNull(DAY), between(1, 1)) is Place.OUTSIDE


class TestAScope:
    """Its condition compares columns with constants."""

    @pytest.mark.parametrize(
        ("condition", "message"),
        [
            (Opaque("rand()"), "cannot decide rand()"),
            (And((SCOPE, Not(Opaque("hour(at) = 3")))), "cannot decide hour(at) = 3"),
            (Or((SCOPE, IsNull(Column("blob")))), "column 'blob'"),
            (Compare(Comparator.EQUAL, Literal(1), Literal(1)), "names no column"),
        ],
    )
    def test_a_condition_that_bounds_cannot_decide_is_refused(self, condition, message):
        """The message has the expression or the column."""
        with pytest.raises(InvalidSpecError, match="scope = …") as refused:
            check_scope("scope = …", condition, ["day"])

        assert message in refused.value.message
        assert refused.value.hint

    def test_comparisons_of_readable_columns_are_accepted(self):
        """The promise of the documentation."""
        check_scope(TEXT, SCOPE, ["day", "id"])


class TestRemovedFiles:
    """The publishing commit removes whole files."""

    def test_files_of_the_scope_are_removed_and_others_stay(self):
        """The content of a file decides, not its order."""
        placed = [PlacedFile(n, f"f{n}", place) for n, place in enumerate((Place.OUTSIDE, Place.INSIDE, Place.OUTSIDE))]

        assert removed_files(TEXT, placed, of=3) == [1]

    def test_straddling_files_are_counted_and_named(self):
        """A remedy needs their number."""
        placed = [PlacedFile(n, f"f{n}", Place.STRADDLES) for n in range(5)]

        with pytest.raises(ScopeNotSeparatedError) as refused:
            removed_files(TEXT, placed, of=9)

        assert "5 of 9 files" in refused.value.message
        assert "f0, f1, f2 and 2 more" in refused.value.message
        assert "OPTIMIZE" in refused.value.hint

    def test_a_change_feed_is_refused_if_files_are_removed(self):
        """Files can be added to a scope that is empty. The message names property, value and remedy."""
        feed = {"delta.enableChangeDataFeed": "true"}
        check_replaceable(TEXT, "/t", feed, removed=0)
        check_replaceable(TEXT, "/t", {}, removed=2)

        with pytest.raises(UnsupportedTargetFeatureError) as refused:
            check_replaceable(TEXT, "/t", feed, removed=2)

        assert refused.value.message.startswith("/t has delta.enableChangeDataFeed = true, for which ")
        assert refused.value.message.endswith(f"and {TEXT} replaces 2 of its files.")
        assert "SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')" in refused.value.hint


class TestAForeignCommit:
    """Only rows of the scope belong to the job."""

    @pytest.mark.parametrize(
        ("changes", "expected"),
        [
            ([], Effect.NONE),
            ([(Place.OUTSIDE, True), (Place.OUTSIDE, False)], Effect.NONE),
            ([(Place.INSIDE, False), (Place.INSIDE, False)], Effect.MOVED),
            ([(Place.STRADDLES, False)], Effect.MOVED),
            ([(Place.OUTSIDE, True), (Place.INSIDE, True)], Effect.CONFLICT),
            ([(Place.STRADDLES, True)], Effect.CONFLICT),
        ],
    )
    def test_it_matters_only_if_it_touches_the_scope(self, changes, expected):
        """OPTIMIZE moves rows; a file without bounds may have a row of the scope."""
        assert effect_of([FileChange(*change) for change in changes], changes_columns=False) is expected

    def test_a_change_of_columns_always_matters(self):
        """Staged files have the columns of the start."""
        assert effect_of([], changes_columns=True) is Effect.CONFLICT

    def test_the_error_names_the_commits(self):
        """A user finds the writer."""
        commits = [ForeignCommit(version, "MERGE", "Spark") for version in range(4, 9)]

        error = conflict(TEXT, "/t", commits, 9)

        assert "version 4 (MERGE by Spark)" in error.message
        assert "and 2 more" in error.message
        assert (error.commits, error.newest) == (tuple(commits), 9)
