"""Decides a filter for a whole file, from bounds of the file's values: are all of its rows kept, or none?

A condition has one of three results for a row: true, false, null. Here it has the set of those results that rows within the
bounds may have. The set may be too large, and never too small: then a file is decoded, and each row is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

Results = frozenset[bool | None]
"""Of a condition; None: null."""

ANY: Results = frozenset({True, False, None})
TRUE, FALSE, NULL = (frozenset({one}) for one in (True, False, None))
NOTHING: Results = frozenset()


class Nulls(Enum):
    """Which rows of a file have no value of a column."""

    NONE = auto()
    PERHAPS = auto()
    ALL = auto()


@dataclass(frozen=True, slots=True)
class Values:
    """What is known of a column in a file. Bounds compare with each other and with the condition's literals."""

    low: Any = None
    """No value is smaller; None: not known."""

    high: Any = None
    """No value is larger; None: not known."""

    nulls: Nulls = Nulls.PERHAPS


@dataclass(frozen=True, slots=True)
class Column:
    """The value of a top-level column."""

    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A value; None: null."""

    value: Any


Operand = Column | Literal


class Operator(Enum):
    """Between two operands; the others are made of these."""

    EQUAL = "="
    SAME = "<=>"
    LESS = "<"
    LESS_OR_EQUAL = "<="


@dataclass(frozen=True, slots=True)
class Compare:
    """Two operands of one type are compared."""

    operator: Operator
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class IsNull:
    """An operand has no value."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Not:
    """The contrary of a condition; of null, null."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class And:
    """All conditions are true."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """A condition is true."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Opaque:
    """A condition of which nothing is known."""

    words: str
    """What it is, for people."""


Condition = Compare | IsNull | Not | And | Or | Opaque


class Verdict(Enum):
    """On all rows of a file."""

    EXCLUDED = auto()
    PASSES = auto()
    UNDECIDED = auto()


def judge(condition: Condition | None, values: Mapping[str, Values]) -> Verdict:
    """Return the verdict of a filter on a file.

    Args:
        condition: Rows of which it is true are kept; None: all are.
        values: By column; of a column that is not there nothing is known.
    """
    if condition is None:
        return Verdict.PASSES
    found = results(condition, values)
    if True not in found:
        return Verdict.EXCLUDED
    return Verdict.PASSES if found == TRUE else Verdict.UNDECIDED


def results(condition: Condition, values: Mapping[str, Values]) -> Results:
    """Return the results that a condition may have for rows with such values."""
    match condition:
        case Compare(operator, left, right):
            return _compared(operator, _known(left, values), _known(right, values))
        case IsNull(operand):
            return _null(_known(operand, values))
        case Not(inner):
            return frozenset(None if one is None else not one for one in results(inner, values))
        case And(conditions):
            found = TRUE
            for one in conditions:
                found = _both(found, results(one, values))
            return found
        case Or(conditions):
            contrary = tuple(Not(one) for one in conditions)
            return results(Not(And(contrary)), values)
        case Opaque():
            return ANY


def columns_of(condition: Condition) -> frozenset[str]:
    """Return the names of the columns whose values may decide a condition."""
    return frozenset(_columns(condition))


def is_opaque(condition: Condition) -> bool:
    """Is there nothing in a condition that values could decide?"""
    return not columns_of(condition)


def first_opaque(condition: Condition) -> str:
    """Return what the first part is that no values decide; empty where there is none."""
    match condition:
        case Opaque(words):
            return words
        case Not(inner):
            return first_opaque(inner)
        case And(conditions) | Or(conditions):
            return next((words for one in conditions if (words := first_opaque(one))), "")
    return ""


def _columns(condition: Condition) -> Iterator[str]:
    match condition:
        case Compare(_, left, right):
            yield from (one.name for one in (left, right) if isinstance(one, Column))
        case IsNull(Column(name)):
            yield name
        case Not(inner):
            yield from _columns(inner)
        case And(conditions) | Or(conditions):
            for one in conditions:
                yield from _columns(one)


def _known(operand: Operand, values: Mapping[str, Values]) -> Values:
    match operand:
        case Column(name):
            return values.get(name, Values())
        case Literal(None):
            return Values(nulls=Nulls.ALL)
        case Literal(value):
            return Values(value, value, Nulls.NONE)


def _null(found: Values) -> Results:
    return (NOTHING if found.nulls is Nulls.NONE else TRUE) | (NOTHING if found.nulls is Nulls.ALL else FALSE)


def _compared(operator: Operator, left: Values, right: Values) -> Results:
    nulls = {left.nulls, right.nulls}
    found = NOTHING if Nulls.ALL in nulls else _of_values(operator, left, right)
    if operator is not Operator.SAME:
        return found if nulls == {Nulls.NONE} else found | NULL
    # Null is the same as null, and as nothing else.
    if Nulls.NONE not in nulls:
        found |= TRUE
    return found if nulls in ({Nulls.NONE}, {Nulls.ALL}) else found | FALSE


def _of_values(operator: Operator, left: Values, right: Values) -> Results:
    """Return the results for rows in which both sides have a value."""
    match operator:
        case Operator.LESS:
            may, may_not = _may_be_less(left, right), _may_be_less_or_equal(right, left)
        case Operator.LESS_OR_EQUAL:
            may, may_not = _may_be_less_or_equal(left, right), _may_be_less(right, left)
        case Operator.EQUAL | Operator.SAME:
            may = _may_be_less_or_equal(left, right) and _may_be_less_or_equal(right, left)
            may_not = _may_be_less(left, right) or _may_be_less(right, left)
    return (TRUE if may else NOTHING) | (FALSE if may_not else NOTHING)


def _may_be_less(left: Values, right: Values) -> bool:
    return left.low is None or right.high is None or bool(left.low < right.high)


def _may_be_less_or_equal(left: Values, right: Values) -> bool:
    return left.low is None or right.high is None or bool(left.low <= right.high)


def _both(left: Results, right: Results) -> Results:
    """Return the results of AND: false beats null, and null beats true."""
    if NOTHING in (left, right):
        return NOTHING
    found = (left | right) & FALSE
    if None in left | right and FALSE not in {left, right}:
        found |= NULL
    return found | (TRUE if True in left and True in right else NOTHING)
