"""Translation of a filter, analyzed by Spark, into the core's `Condition`; names, types and casts are Spark's.

Spark computes constants itself, in the session's time zone. Expressions that are not listed here become `Opaque`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any

from backfill_core.file_copies.filters import (
    And,
    Column,
    Comparator,
    Compare,
    Condition,
    IsNull,
    Literal,
    Not,
    Opaque,
    Operand,
    Or,
)
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.jvm.gateway import java, java_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NODES_MAX = 500
"""Largest number of nodes that are read; each costs several calls into the JVM."""

SQL_MAX = 60

_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_COMPARED = {
    "EqualTo": (Comparator.EQUAL, False),
    "EqualNullSafe": (Comparator.SAME, False),
    "LessThan": (Comparator.LESS, False),
    "LessThanOrEqual": (Comparator.LESS_OR_EQUAL, False),
    "GreaterThan": (Comparator.LESS, True),
    "GreaterThanOrEqual": (Comparator.LESS_OR_EQUAL, True),
}
"""Operator by Spark's class name; True if its operands must be swapped."""


class _OpaqueError(Exception):
    """Raised for an expression that cannot be translated; the message is its SQL."""


def condition_of(filtered: DataFrame) -> Condition:
    """Return the condition of a frame that filters a relation."""
    rules = java(filtered.sparkSession).org.apache.spark.sql.catalyst.optimizer
    plan: Any = java_frame(filtered).queryExecution().analyzed()
    try:
        plan = rules.RewriteWithExpression.apply(rules.ReplaceExpressions.apply(plan))
    except JAVA_ERRORS:
        return Opaque("an expression that Spark replaces")
    if _name(plan) != "Filter" or plan.child().children().size():
        return Opaque("more than a filter")
    return _Reader(filtered.columns).condition(plan.condition())


class _Reader:
    """Translates one expression tree."""

    def __init__(self, names: Sequence[str]) -> None:
        self._left = NODES_MAX
        self._names = {**{name.lower(): name for name in names}, **{name: name for name in names}}

    def condition(self, node: Any) -> Condition:
        """Translate a boolean expression; parts that cannot be translated become `Opaque`."""
        try:
            return self._translated(node)
        except _OpaqueError as error:
            return Opaque(str(error))

    def _translated(self, node: Any) -> Condition:
        self._left -= 1
        if self._left < 0:
            raise _OpaqueError("more expressions than can be read")
        name = _name(node)
        match name:
            case "And":
                return And(tuple(self.condition(child) for child in _children(node)))
            case "Or":
                return Or(tuple(self.condition(child) for child in _children(node)))
            case "Not":
                return Not(self.condition(node.child()))
            case "IsNull":
                return IsNull(self._operand(node.child()))
            case "IsNotNull":
                return Not(IsNull(self._operand(node.child())))
            case "In":
                value = self._operand(node.value())
                return Or(tuple(Compare(Comparator.EQUAL, value, self._operand(item)) for item in _items(node.list())))
            case "AttributeReference":
                return Compare(Comparator.EQUAL, self._operand(node), Literal(value=True))
        if name not in _COMPARED:
            raise _OpaqueError(_sql(node))
        operator, turned = _COMPARED[name]
        left, right = (self._operand(child) for child in _children(node))
        return Compare(operator, right, left) if turned else Compare(operator, left, right)

    def _operand(self, node: Any) -> Operand:
        self._left -= 1
        if self._left < 0:
            raise _OpaqueError("more expressions than can be read")
        if node.foldable():
            return _literal(node)
        match _name(node):
            case "AttributeReference":
                # Spark keeps the spelling of the filter, which may differ in case from the column's name.
                spelled = str(node.name())
                name = self._names.get(spelled) or self._names.get(spelled.lower())
                if name is not None:
                    return Column(name)
            case "Cast" if _keeps_value(_type(node.child()), _type(node)):
                return self._operand(node.child())
        raise _OpaqueError(_sql(node))


def _literal(node: Any) -> Literal:
    """Return the value of a constant expression."""
    kind = _type(node)
    read = _exact if kind.startswith("decimal") else _READERS.get(kind)
    try:
        value = node.eval(None)
        if value is None:
            return Literal(None)
        if read is None:
            raise _OpaqueError(_sql(node))
        return Literal(read(value))
    except (*JAVA_ERRORS, ValueError, OverflowError) as error:
        raise _OpaqueError(_sql(node)) from error


def _exact(value: Any) -> Decimal:
    return Decimal(str(value))


def _text(value: Any) -> str:
    text = str(value)
    if "\ufffd" in text:
        raise ValueError(text)  # the bytes are not UTF-8
    return text


def _float(value: float) -> float:
    if not isfinite(value):
        raise ValueError(value)
    return value


_READERS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_DIGITS, int),
    "boolean": bool,
    "double": _float,
    "string": _text,
    "date": lambda days: date(1970, 1, 1) + timedelta(days=days),
    "timestamp": lambda micros: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros),
    "timestamp_ntz": lambda micros: datetime(1970, 1, 1) + timedelta(microseconds=micros),  # noqa: DTZ001 - it has no zone
}
"""Conversion of Spark's internal value into one that compares with values of the Delta log, by the type's name."""


def _keeps_value(given: str, target: str) -> bool:
    """Return True if a cast from one type to the other changes no value."""
    if given == target:
        return True  # strings, if one of the constants is null
    if target in _DIGITS:
        return given in _DIGITS and _DIGITS[given] <= _DIGITS[target]
    if (given, target) == ("float", "double"):
        return True
    whole, fraction = _size(target)
    given_whole, given_fraction = (_DIGITS[given], 0) if given in _DIGITS else _size(given)
    return 0 < given_whole <= whole and given_fraction <= fraction


def _size(kind: str) -> tuple[int, int]:
    """Return the digits of a decimal type before and after its point; (0, 0) for other types."""
    if not kind.startswith("decimal("):
        return 0, 0
    precision, scale = map(int, kind[len("decimal(") : -1].split(","))
    return precision - scale, scale


def _name(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _type(node: Any) -> str:
    return str(node.dataType().catalogString())


def _children(node: Any) -> Iterator[Any]:
    return _items(node.children())


def _items(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(index) for index in range(sequence.size()))


def _sql(node: Any) -> str:
    try:
        return str(node.sql())[:SQL_MAX]
    except JAVA_ERRORS:
        return _name(node)
