"""Promises of `backfill_core.transfer.filters`: a verdict on a file is what all of its rows say, each asked alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_core.transfer.filters import (
    And,
    Column,
    Compare,
    IsNull,
    Literal,
    Not,
    Nulls,
    Opaque,
    Operator,
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
    st.builds(Compare, st.sampled_from(Operator), OPERANDS, OPERANDS),
    st.builds(Compare, st.sampled_from(Operator), OPERANDS, OPERANDS),
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


# ---------------------------------------------------------------------- SQL, told without the code under test
def asked(condition, row):
    """Return what SQL says of a condition for one row."""
    match condition:
        case Compare(operator, left, right):
            one, other = (row[side.name] if isinstance(side, Column) else side.value for side in (left, right))
            if operator is Operator.SAME:
                return one == other
            if one is None or other is None:
                return None
            return {Operator.EQUAL: one == other, Operator.LESS: one < other, Operator.LESS_OR_EQUAL: one <= other}[
                operator
            ]
        case IsNull(operand):
            return (row[operand.name] if isinstance(operand, Column) else operand.value) is None
        case Not(inner):
            found = asked(inner, row)
            return None if found is None else not found
        case And(conditions):
            found = [asked(one, row) for one in conditions]
            return False if False in found else None if None in found else True
        case Or(conditions):
            found = [asked(one, row) for one in conditions]
            return True if True in found else None if None in found else False
        case Opaque(words):
            value = row[words[0]]
            return None if value is None else value % 2 == 0


@st.composite
def files(draw):
    """Return rows, and what a writer may say of them: as little and as loosely as it likes."""
    row = st.fixed_dictionaries({name: st.one_of(st.none(), NUMBERS, NUMBERS) for name in NAMES})
    rows = draw(st.lists(row, min_size=1, max_size=5))
    said = {}
    for name in draw(st.sets(st.sampled_from(NAMES), min_size=1)):
        found = [one[name] for one in rows if one[name] is not None]
        nulls = Nulls.ALL if not found else Nulls.NONE if len(found) == len(rows) else Nulls.PERHAPS
        said[name] = Values(
            draw(st.sampled_from([None, min(found), min(found) - draw(st.integers(0, 1))])) if found else None,
            draw(st.sampled_from([None, max(found), max(found) + draw(st.integers(0, 1))])) if found else None,
            draw(st.sampled_from([nulls, nulls, Nulls.PERHAPS])),
        )
    return rows, said


class TestAVerdict:
    """Is never another one than the rows give."""

    @given(CONDITIONS, files())
    def test_agrees_with_every_row(self, condition, file):
        """A row that is lost, or that should not be there, would be found by a receipt only, hours later."""
        rows, said = file
        kept = [asked(condition, row) is True for row in rows]

        match judge(condition, said):
            case Verdict.EXCLUDED:
                assert not any(kept)
            case Verdict.PASSES:
                assert all(kept)

    @given(CONDITIONS, files())
    def test_knows_each_result_that_a_row_has(self, condition, file):
        """What is above a condition is computed from its results: one that is missing there is lost."""
        rows, said = file

        assert {asked(condition, row) for row in rows} <= results(condition, said)


LOW, HIGH = Values(0, 9, Nulls.NONE), Values(20, 29, Nulls.NONE)
SOME = Values(20, 29, Nulls.PERHAPS)
A = Column("a")
LESS = Compare(Operator.LESS, A, Literal(10))
FROM_TEN = Compare(Operator.LESS_OR_EQUAL, Literal(10), A)

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
    "one value": (Compare(Operator.EQUAL, A, Literal(3)), Values(3, 3, Nulls.NONE), Verdict.PASSES),
    "another value": (Not(Compare(Operator.EQUAL, A, Literal(3))), HIGH, Verdict.PASSES),
    "same as null": (Compare(Operator.SAME, A, Literal(None)), Values(nulls=Nulls.ALL), Verdict.PASSES),
    "beside what is opaque": (And((Opaque("x"), LESS)), HIGH, Verdict.EXCLUDED),
    "or what is opaque": (Or((Opaque("x"), LESS)), LOW, Verdict.PASSES),
    "and what is opaque": (And((Opaque("x"), LESS)), LOW, Verdict.UNDECIDED),
    "no bounds": (LESS, Values(nulls=Nulls.NONE), Verdict.UNDECIDED),
    "no filter": (None, LOW, Verdict.PASSES),
}


class TestWhatIsDecided:
    """Else each file would be decoded, and no test above would notice."""

    @pytest.mark.parametrize(("condition", "values", "verdict"), DECIDED.values(), ids=DECIDED)
    def test_is(self, condition, values, verdict):
        """Of what filters are made of."""
        assert judge(condition, {"a": values}) is verdict

    def test_says_what_is_opaque(self):
        """A plan names it, and a filter without anything else needs no look at files."""
        mixed = And((Not(LESS), Or((Opaque("x LIKE y"), Opaque("z")))))

        assert (first_opaque(mixed), columns_of(mixed), is_opaque(mixed)) == ("x LIKE y", {"a"}, False)
        assert (first_opaque(LESS), is_opaque(Not(Opaque("x")))) == ("", True)
