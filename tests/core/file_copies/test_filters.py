"""Tests of `backfill_core.file_copies.filters`: the verdict on a file agrees with SQL on each of its rows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    Verdict,
    columns_of,
    first_opaque,
    is_opaque,
    judge,
    results,
)

NAMES = ("a", "b")
NUMBERS = st.integers(0, 4)
OPERANDS = st.one_of(
    st.sampled_from(NAMES).map(Column), st.sampled_from(NAMES).map(Column), st.none().map(Literal), NUMBERS.map(Literal)
)
LEAVES = st.one_of(
    st.builds(Compare, st.sampled_from(Comparator), OPERANDS, OPERANDS),
    st.builds(Compare, st.sampled_from(Comparator), OPERANDS, OPERANDS),
    st.builds(IsNull, OPERANDS),
    st.sampled_from(["a % 2 = 0", "b % 2 = 0"]).map(Opaque),
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map(Not),
        st.lists(inner, min_size=1, max_size=3).map(tuple).map(And),
        st.lists(inner, min_size=1, max_size=3).map(tuple).map(Or),
    ),
    max_leaves=6,
)


# ---------------------------------------------------------------------- SQL, implemented without the code under test
def sql_result(condition, row):
    """Return the SQL result of a condition for one row."""
    match condition:
        case Compare(operator, left, right):
            left_value, right_value = (
                row[side.name] if isinstance(side, Column) else side.value for side in (left, right)
            )
            if operator is Comparator.SAME:
                return left_value == right_value
            if left_value is None or right_value is None:
                return None
            return {
                Comparator.EQUAL: left_value == right_value,
                Comparator.LESS: left_value < right_value,
                Comparator.LESS_OR_EQUAL: left_value <= right_value,
            }[operator]
        case IsNull(operand):
            return (row[operand.name] if isinstance(operand, Column) else operand.value) is None
        case Not(inner):
            result = sql_result(inner, row)
            return None if result is None else not result
        case And(conditions):
            results_of_all = [sql_result(part, row) for part in conditions]
            return False if False in results_of_all else None if None in results_of_all else True
        case Or(conditions):
            results_of_all = [sql_result(part, row) for part in conditions]
            return True if True in results_of_all else None if None in results_of_all else False
        case Opaque(text):
            value = row[text[0]]
            return None if value is None else value % 2 == 0


@st.composite
def files(draw):
    """Draw rows, and statistics that a writer may log for them: as few and as loose as allowed."""
    row = st.fixed_dictionaries({name: st.one_of(st.none(), NUMBERS, NUMBERS) for name in NAMES})
    rows = draw(st.lists(row, min_size=1, max_size=5))
    statistics = {}
    for name in draw(st.sets(st.sampled_from(NAMES), min_size=1)):
        values = [row_drawn[name] for row_drawn in rows if row_drawn[name] is not None]
        nulls = Nulls.ALL if not values else Nulls.NONE if len(values) == len(rows) else Nulls.PERHAPS
        statistics[name] = Values(
            draw(st.sampled_from([None, min(values), min(values) - draw(st.integers(0, 1))])) if values else None,
            draw(st.sampled_from([None, max(values), max(values) + draw(st.integers(0, 1))])) if values else None,
            draw(st.sampled_from([nulls, nulls, Nulls.PERHAPS])),
        )
    return rows, statistics


class TestAVerdict:
    """A verdict never contradicts the rows."""

    @given(CONDITIONS, files())
    def test_a_verdict_agrees_with_every_row(self, condition, file):
        """Only a receipt would find a lost or extra row, hours later."""
        rows, statistics = file
        kept = [sql_result(condition, row) is True for row in rows]

        match judge(condition, statistics):
            case Verdict.EXCLUDED:
                assert not any(kept)
            case Verdict.PASSES:
                assert all(kept)

    @given(CONDITIONS, files())
    def test_the_results_of_a_condition_include_that_of_each_row(self, condition, file):
        """Outer conditions are computed from these results: a missing result would be lost."""
        rows, statistics = file

        assert {sql_result(condition, row) for row in rows} <= results(condition, statistics)


LOW, HIGH = Values(0, 9, Nulls.NONE), Values(20, 29, Nulls.NONE)
SOME = Values(20, 29, Nulls.PERHAPS)
A = Column("a")
LESS = Compare(Comparator.LESS, A, Literal(10))
FROM_TEN = Compare(Comparator.LESS_OR_EQUAL, Literal(10), A)

DECIDED = {
    "below": (LESS, LOW, Verdict.PASSES),
    "above": (LESS, HIGH, Verdict.EXCLUDED),
    "above, with nulls": (LESS, SOME, Verdict.EXCLUDED),
    "not, with nulls": (Not(LESS), SOME, Verdict.UNDECIDED),
    "within": (LESS, Values(5, 15, Nulls.NONE), Verdict.UNDECIDED),
    "at the bound": (LESS, Values(0, 10, Nulls.NONE), Verdict.UNDECIDED),
    "from the bound on": (FROM_TEN, Values(10, 10, Nulls.NONE), Verdict.PASSES),
    "nothing but nulls": (LESS, Values(nulls=Nulls.ALL), Verdict.EXCLUDED),
    "not, of nothing but nulls": (Not(LESS), Values(nulls=Nulls.ALL), Verdict.EXCLUDED),
    "null is wanted": (IsNull(A), Values(nulls=Nulls.ALL), Verdict.PASSES),
    "null is not wanted": (Not(IsNull(A)), LOW, Verdict.PASSES),
    "one value": (Compare(Comparator.EQUAL, A, Literal(3)), Values(3, 3, Nulls.NONE), Verdict.PASSES),
    "another value": (Not(Compare(Comparator.EQUAL, A, Literal(3))), HIGH, Verdict.PASSES),
    "same as null": (Compare(Comparator.SAME, A, Literal(None)), Values(nulls=Nulls.ALL), Verdict.PASSES),
    "beside what is opaque": (And((Opaque("x"), LESS)), HIGH, Verdict.EXCLUDED),
    "or what is opaque": (Or((Opaque("x"), LESS)), LOW, Verdict.PASSES),
    "and what is opaque": (And((Opaque("x"), LESS)), LOW, Verdict.UNDECIDED),
    "no bounds": (LESS, Values(nulls=Nulls.NONE), Verdict.UNDECIDED),
    "no filter": (None, LOW, Verdict.PASSES),
}


class TestWhatIsDecided:
    """The table lists verdicts that must be reached. Otherwise each file would be decoded, and the tests above would
    not notice."""

    @pytest.mark.parametrize(("condition", "values", "verdict"), DECIDED.values(), ids=DECIDED)
    def test_a_common_condition_is_decided(self, condition, values, verdict):
        """The cases are typical parts of filters."""
        assert judge(condition, {"a": values}) is verdict

    def test_the_opaque_part_of_a_condition_is_found(self):
        """A plan names it, and a filter without other parts needs no statistics of files."""
        mixed = And((Not(LESS), Or((Opaque("x LIKE y"), Opaque("z")))))

        assert (first_opaque(mixed), columns_of(mixed), is_opaque(mixed)) == ("x LIKE y", {"a"}, False)
        assert (first_opaque(LESS), is_opaque(Not(Opaque("x")))) == ("", True)
