"""Evaluates a filter for a whole file, from bounds of the file's values: all of its rows are kept, none, or some.

A condition has one of three results for a row: true, false, null. For a file it has the set of results that rows within the bounds
may have. The set may be too large, never too small: then the file is decoded, and the filter is evaluated for each row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

Results = frozenset[bool | None]
"""Possible results of a condition; `None` for null."""

ANY: Results = frozenset({True, False, None})
TRUE, FALSE, NULL = (frozenset({result}) for result in (True, False, None))
NOTHING: Results = frozenset()


class Nulls(Enum):
    """Null rows of a column in a file."""

    NONE = auto()
    PERHAPS = auto()
    ALL = auto()


@dataclass(frozen=True, slots=True)
class Values:
    """Bounds and nulls of a column in a file. Bounds are comparable with each other and with the condition's literals."""

    low: Any = None
    """Lower bound; `None` if unknown."""

    high: Any = None
    """Upper bound; `None` if unknown."""

    nulls: Nulls = Nulls.PERHAPS


@dataclass(frozen=True, slots=True)
class Column:
    """The value of a top-level column."""

    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; `None` for null."""

    value: Any


Operand = Column | Literal


class Comparator(Enum):
    """Comparison operators; the parser expresses other operators with these."""

    EQUAL = "="
    SAME = "<=>"
    LESS = "<"
    LESS_OR_EQUAL = "<="


@dataclass(frozen=True, slots=True)
class Compare:
    """Comparison of two operands of one type."""

    operator: Comparator
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class IsNull:
    """True if the operand is null."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Not:
    """Negation of a condition; null if the condition is null."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class And:
    """Conjunction: all conditions are true."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Disjunction: at least one condition is true."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Opaque:
    """A condition that bounds cannot decide."""

    expression: str
    """For messages."""


Condition = Compare | IsNull | Not | And | Or | Opaque


class Verdict(Enum):
    """Result of a filter for all rows of a file."""

    EXCLUDED = auto()
    PASSES = auto()
    UNDECIDED = auto()


def judge(condition: Condition | None, values: Mapping[str, Values]) -> Verdict:
    """Return the verdict of a filter on a file.

    Args:
        condition: Rows for which it is true are kept; `None` keeps all rows.
        values: Values by column; a missing column has unknown values.
    """
    if condition is None:
        return Verdict.PASSES
    possible = results(condition, values)
    if True not in possible:
        return Verdict.EXCLUDED
    return Verdict.PASSES if possible == TRUE else Verdict.UNDECIDED


def results(condition: Condition, values: Mapping[str, Values]) -> Results:
    """Return the results that a condition may have for rows with these values."""
    match condition:
        case Compare(operator, left, right):
            return _compared(operator, _values_of(left, values), _values_of(right, values))
        case IsNull(operand):
            return _null(_values_of(operand, values))
        case Not(inner):
            return frozenset(None if result is None else not result for result in results(inner, values))
        case And(conditions):
            combined = TRUE
            for part in conditions:
                combined = _both(combined, results(part, values))
            return combined
        case Or(conditions):
            negated = tuple(Not(part) for part in conditions)
            return results(Not(And(negated)), values)
        case Opaque():
            return ANY


def columns_of(condition: Condition) -> frozenset[str]:
    """Return the names of the columns whose values may decide the condition."""
    return frozenset(_columns(condition))


def is_opaque(condition: Condition) -> bool:
    """Return true if values cannot decide any part of the condition."""
    return not columns_of(condition)


def first_opaque(condition: Condition) -> str:
    """Return the expression of the first opaque part; empty if the condition has none."""
    match condition:
        case Opaque(expression):
            return expression
        case Not(inner):
            return first_opaque(inner)
        case And(conditions) | Or(conditions):
            return next((opaque for part in conditions if (opaque := first_opaque(part))), "")
    return ""


def _columns(condition: Condition) -> Iterator[str]:
    match condition:
        case Compare(_, left, right):
            yield from (operand.name for operand in (left, right) if isinstance(operand, Column))
        case IsNull(Column(name)):
            yield name
        case Not(inner):
            yield from _columns(inner)
        case And(conditions) | Or(conditions):
            for part in conditions:
                yield from _columns(part)


def _values_of(operand: Operand, values: Mapping[str, Values]) -> Values:
    match operand:
        case Column(name):
            return values.get(name, Values())
        case Literal(None):
            return Values(nulls=Nulls.ALL)
        case Literal(value):
            return Values(value, value, Nulls.NONE)


def _null(values: Values) -> Results:
    return (NOTHING if values.nulls is Nulls.NONE else TRUE) | (NOTHING if values.nulls is Nulls.ALL else FALSE)


def _compared(operator: Comparator, left: Values, right: Values) -> Results:
    nulls = {left.nulls, right.nulls}
    possible = NOTHING if Nulls.ALL in nulls else _of_values(operator, left, right)
    if operator is not Comparator.SAME:
        return possible if nulls == {Nulls.NONE} else possible | NULL
    # `<=>`: null equals null, and no other value.
    if Nulls.NONE not in nulls:
        possible |= TRUE
    return possible if nulls in ({Nulls.NONE}, {Nulls.ALL}) else possible | FALSE


def _of_values(operator: Comparator, left: Values, right: Values) -> Results:
    """Return the results for rows in which neither side is null."""
    match operator:
        case Comparator.LESS:
            may, may_not = _may_be_less(left, right), _may_be_less_or_equal(right, left)
        case Comparator.LESS_OR_EQUAL:
            may, may_not = _may_be_less_or_equal(left, right), _may_be_less(right, left)
        case Comparator.EQUAL | Comparator.SAME:
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
    possible = (left | right) & FALSE
    if None in left | right and FALSE not in {left, right}:
        possible |= NULL
    return possible | (TRUE if True in left and True in right else NOTHING)
