"""A filter as Spark understands it, in the words of the core: names, types and casts are those of Spark's analyser.

What is constant is computed by Spark itself, in the zone of the session. What is not listed here is opaque.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any

from backfill_core.transfer.filters import (
    And,
    Column,
    Compare,
    Condition,
    IsNull,
    Literal,
    Not,
    Opaque,
    Operand,
    Operator,
    Or,
)
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.jvm.gateway import java, java_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NODES_MAX = 500
"""Each costs some calls into the JVM."""

WORDS_MAX = 60

_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_COMPARED = {
    "EqualTo": (Operator.EQUAL, False),
    "EqualNullSafe": (Operator.SAME, False),
    "LessThan": (Operator.LESS, False),
    "LessThanOrEqual": (Operator.LESS_OR_EQUAL, False),
    "GreaterThan": (Operator.LESS, True),
    "GreaterThanOrEqual": (Operator.LESS_OR_EQUAL, True),
}
"""By Spark's name; is it the other way round?"""


class _OpaqueError(Exception):
    """Nothing is known of an expression; the text says which."""


def condition_of(filtered: DataFrame) -> Condition:
    """Return the condition of a frame that is a filter of a relation."""
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
    """Reads one tree."""

    def __init__(self, names: Sequence[str]) -> None:
        self._left = NODES_MAX
        self._names = {**{one.lower(): one for one in names}, **{one: one for one in names}}

    def condition(self, node: Any) -> Condition:
        """Return what is known of a boolean expression."""
        try:
            return self._known(node)
        except _OpaqueError as error:
            return Opaque(str(error))

    def _known(self, node: Any) -> Condition:
        self._left -= 1
        if self._left < 0:
            raise _OpaqueError("more than can be looked at")
        name = _name(node)
        match name:
            case "And":
                return And(tuple(self.condition(one) for one in _children(node)))
            case "Or":
                return Or(tuple(self.condition(one) for one in _children(node)))
            case "Not":
                return Not(self.condition(node.child()))
            case "IsNull":
                return IsNull(self._operand(node.child()))
            case "IsNotNull":
                return Not(IsNull(self._operand(node.child())))
            case "In":
                value = self._operand(node.value())
                return Or(tuple(Compare(Operator.EQUAL, value, self._operand(one)) for one in _items(node.list())))
            case "AttributeReference":
                return Compare(Operator.EQUAL, self._operand(node), Literal(value=True))
        if name not in _COMPARED:
            raise _OpaqueError(_words(node))
        operator, turned = _COMPARED[name]
        left, right = (self._operand(one) for one in _children(node))
        return Compare(operator, right, left) if turned else Compare(operator, left, right)

    def _operand(self, node: Any) -> Operand:
        self._left -= 1
        if self._left < 0:
            raise _OpaqueError("more than can be looked at")
        if node.foldable():
            return _literal(node)
        match _name(node):
            case "AttributeReference":
                # It has the name that the filter calls it by.
                said = str(node.name())
                found = self._names.get(said) or self._names.get(said.lower())
                if found is not None:
                    return Column(found)
            case "Cast" if _keeps_value(_type(node.child()), _type(node)):
                return self._operand(node.child())
        raise _OpaqueError(_words(node))


def _literal(node: Any) -> Literal:
    """Return the value of a constant expression."""
    kind = _type(node)
    read = _exact if kind.startswith("decimal") else _READERS.get(kind)
    try:
        value = node.eval(None)
        if value is None:
            return Literal(None)
        if read is None:
            raise _OpaqueError(_words(node))
        return Literal(read(value))
    except (*JAVA_ERRORS, ValueError, OverflowError) as error:
        raise _OpaqueError(_words(node)) from error


def _exact(value: Any) -> Decimal:
    return Decimal(str(value))


def _text(value: Any) -> str:
    text = str(value)
    if "\ufffd" in text:
        raise ValueError(text)  # of bytes that are no text
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
"""By Spark's name of a type: how Spark's own value becomes one that compares with those of the log."""


def _keeps_value(given: str, wanted: str) -> bool:
    """Is each value of a type the same number in another one?"""
    if given == wanted:
        return True  # texts, where a null is among constants
    if wanted in _DIGITS:
        return given in _DIGITS and _DIGITS[given] <= _DIGITS[wanted]
    if (given, wanted) == ("float", "double"):
        return True
    whole, fraction = _size(wanted)
    given_whole, given_fraction = (_DIGITS[given], 0) if given in _DIGITS else _size(given)
    return 0 < given_whole <= whole and given_fraction <= fraction


def _size(kind: str) -> tuple[int, int]:
    """Return the digits of a decimal before and after its point; of another type none."""
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


def _words(node: Any) -> str:
    try:
        return str(node.sql())[:WORDS_MAX]
    except JAVA_ERRORS:
        return _name(node)
