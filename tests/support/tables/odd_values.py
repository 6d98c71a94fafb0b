"""Column types with unusual values, as two engines write them and as plain Python represents them.

A value is plain Python (int, str, datetime …). Each type formats it in Spark's SQL and in DataFusion's, and `meant` converts
the result of either engine to one comparable form. The product shares no code with this module.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from random import Random
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

TEXTS = (
    "plain", "", " ", "a\u2028b", "a\u2029b", "x\u0085y", "line\nbreak\r\n", "tab\there", "nul\x00inside", "\U0001f600 emoji", "e\u0301 combining",
    "\ufeffbom", "quote'quote", 'double"quote', "back\\slash", "back`tick", '{"json": 1}', "%41 percent", "a/b=c", "__HIVE_DEFAULT_PARTITION__",
    "NULL", "\u202eright to left", "long " + "\u00fc" * 300, "\x1f", "a+b c", "${env:HOME}", "'; DROP", "\uffff",
)  # fmt: skip
INSTANTS = tuple(
    datetime(*parts, tzinfo=UTC)
    for parts in (
        (1970, 1, 1), (2021, 3, 28, 0, 59, 59, 999999), (2021, 3, 28, 1, 0), (2021, 3, 28, 2, 0), (2021, 3, 28, 2, 30), (2021, 10, 31, 1, 30),
        (2021, 3, 14, 2, 30), (1582, 10, 4, 23, 59), (1582, 10, 5), (1582, 10, 10, 12), (1582, 10, 15), (1899, 12, 31, 23, 59, 59), (1900, 1, 1),
        (2000, 2, 29, 12), (1969, 12, 31, 23, 59, 59, 999999), (9999, 12, 31, 23, 59, 59, 999999), (1893, 4, 1), (2011, 12, 30, 12),
    )
)  # fmt: skip
DATES = (*sorted({instant.date() for instant in INSTANTS}), date(1, 1, 1), date(2024, 2, 29))


def micros(instant: datetime) -> int:
    """Return microseconds since 1970; a value without a zone counts as UTC."""
    return ((instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant) - EPOCH) // MICROSECOND


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _text_for_spark(text: str) -> str:
    return f"decode(unhex('{text.encode().hex()}'), 'UTF-8')"


@dataclass(frozen=True)
class Flat:
    """A type without fields."""

    spark: str
    fusion: str
    values: tuple[Any, ...]
    in_spark: Callable[[Any], str]
    in_fusion: Callable[[Any], str]
    mean: Callable[[Any], Any] = lambda value: value

    def draw(self, rng: Random) -> Any:
        """Return one of its values."""
        return rng.choice(self.values)

    def spark_sql(self, value: Any) -> str:
        """Format a value in Spark's SQL; the session's zone must be UTC."""
        return f"CAST(NULL AS {self.spark})" if value is None else self.in_spark(value)

    def fusion_sql(self, value: Any) -> str:
        """Format a value in DataFusion's SQL."""
        return f"arrow_cast(NULL, '{self.fusion}')" if value is None else self.in_fusion(value)

    def meant(self, value: Any) -> Any:
        """Convert an engine's value to a comparable form."""
        return None if value is None else self.mean(value)


def _number(spark: str, fusion: str, *values: Any, mean: Callable[[Any], Any] = int) -> Flat:
    def written(value: Any) -> str:
        return f"{value:f}" if isinstance(value, Decimal) else str(value)

    return Flat(
        spark,
        fusion,
        values,
        lambda v: f"CAST('{written(v)}' AS {spark})",
        lambda v: f"arrow_cast('{written(v)}', '{fusion}')",
        mean,
    )


def _fraction(value: float) -> str:
    return "nan" if math.isnan(value) else repr(float(value))


def _exact(value: Decimal) -> str:
    return str(value.normalize(Context(prec=50)))


BOOLEAN = Flat("BOOLEAN", "Boolean", (True, False), lambda v: str(v).lower(), lambda v: str(v).lower(), bool)
BYTE = _number("TINYINT", "Int8", 0, -1, 127, -128)
SHORT = _number("SMALLINT", "Int16", 0, 7, 32767, -32768)
INT = _number("INT", "Int32", 0, 1, -1, 2**31 - 1, -(2**31))
LONG = _number("BIGINT", "Int64", 0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63))
FLOAT = _number("FLOAT", "Float32", 0.0, 1.5, -2.25, float("nan"), float("inf"), mean=_fraction)
DOUBLE = _number(
    "DOUBLE", "Float64", 0.0, 0.1, -1e300, 5e-324, float("nan"), float("inf"), float("-inf"), mean=_fraction
)
MONEY = _number(
    "DECIMAL(10,2)", "Decimal128(10, 2)", Decimal("0.00"), Decimal("-1.10"), Decimal("99999999.99"), mean=_exact
)
HUGE = _number(
    "DECIMAL(38,10)",
    "Decimal128(38, 10)",
    Decimal("0.0000000001"),
    Decimal("-9999999999999999999999999999.9999999999"),
    mean=_exact,
)
STRING = Flat("STRING", "Utf8", TEXTS, _text_for_spark, _quoted, str)
BINARY = Flat(
    "BINARY", "Binary", (b"", b"\x00\xff", b"plain", "ü".encode()), lambda v: f"unhex('{v.hex()}')",
    lambda v: f"arrow_cast(decode('{v.hex()}', 'hex'), 'Binary')", lambda v: bytes(v).hex(),
)  # fmt: skip
DATE = Flat(
    "DATE", "Date32", DATES, lambda v: f"date_from_unix_date({v.toordinal() - 719163})",
    lambda v: f"arrow_cast(CAST({v.toordinal() - 719163} AS INT), 'Date32')", lambda v: v.toordinal(),
)  # fmt: skip
TIMESTAMP = Flat(
    "TIMESTAMP", 'Timestamp(Microsecond, Some("UTC"))', INSTANTS, lambda v: f"timestamp_micros({micros(v)})",
    lambda v: f"""arrow_cast(CAST('{micros(v)}' AS BIGINT), 'Timestamp(Microsecond, Some("UTC"))')""", micros,
)  # fmt: skip
TIMESTAMP_NTZ = Flat(
    "TIMESTAMP_NTZ", "Timestamp(Microsecond, None)", tuple(instant.replace(tzinfo=None) for instant in INSTANTS),
    lambda v: f"CAST(timestamp_micros({micros(v)}) AS TIMESTAMP_NTZ)",
    lambda v: f"arrow_cast(CAST('{micros(v)}' AS BIGINT), 'Timestamp(Microsecond, None)')", micros,
)  # fmt: skip

FLATS = (BOOLEAN, BYTE, SHORT, INT, LONG, FLOAT, DOUBLE, MONEY, HUGE, STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ)
FOLDERS = (BOOLEAN, BYTE, SHORT, INT, LONG, MONEY, STRING, DATE, TIMESTAMP, TIMESTAMP_NTZ)
"""Types of partition columns; the name of a folder has no exact value of a fraction."""


@dataclass(frozen=True)
class Struct:
    """Named fields."""

    fields: tuple[tuple[str, Any], ...]

    @property
    def spark(self) -> str:
        """Return Spark's name of it."""
        return "STRUCT<" + ", ".join(f"`{name}`: {kind.spark}" for name, kind in self.fields) + ">"

    def draw(self, rng: Random) -> Any:
        """Return a value: a mapping, in which any field may be null."""
        return {name: None if rng.random() < 0.2 else kind.draw(rng) for name, kind in self.fields}

    def fusion_sql(self, value: Any) -> str:
        """Format a value in DataFusion's SQL."""
        given = value or dict.fromkeys(dict(self.fields))
        made = ", ".join(f"'{name}', {kind.fusion_sql(given[name])}" for name, kind in self.fields)
        return f"CASE WHEN {str(value is not None).lower()} THEN named_struct({made}) END"

    def meant(self, value: Any) -> Any:
        """Convert an engine's value to a comparable form."""
        if value is None:
            return None
        given = value if isinstance(value, dict) else value.asDict()
        return tuple(kind.meant(given[name]) for name, kind in self.fields)


@dataclass(frozen=True)
class Array:
    """A list of items; at least one, because DataFusion gives an empty one no type."""

    item: Any

    @property
    def spark(self) -> str:
        """Return Spark's name of it."""
        return f"ARRAY<{self.item.spark}>"

    def draw(self, rng: Random) -> Any:
        """Return a value, in which any item but the first may be null."""
        return [self.item.draw(rng), *(rng.choice((None, self.item.draw(rng))) for _ in range(rng.randrange(3)))]

    def fusion_sql(self, value: Any) -> str:
        """Format a value in DataFusion's SQL."""
        given = [None] if value is None else value
        made = ", ".join(self.item.fusion_sql(item_) for item_ in given)
        return f"CASE WHEN {str(value is not None).lower()} THEN make_array({made}) END"

    def meant(self, value: Any) -> Any:
        """Convert an engine's value to a comparable form."""
        return None if value is None else tuple(self.item.meant(item_) for item_ in value)


@dataclass(frozen=True)
class Map:
    """A map from strings to items, whose order has no meaning."""

    item: Any

    @property
    def spark(self) -> str:
        """Return Spark's name of it."""
        return f"MAP<STRING, {self.item.spark}>"

    def draw(self, rng: Random) -> Any:
        """Return a value with one to three keys."""
        return {key: rng.choice((None, self.item.draw(rng))) for key in rng.sample(TEXTS, rng.randrange(1, 4))}

    def fusion_sql(self, value: Any) -> str:
        """Format a value in DataFusion's SQL."""
        given = {"": None} if value is None else value
        keys, items = ", ".join(map(_quoted, given)), ", ".join(map(self.item.fusion_sql, given.values()))
        return f"CASE WHEN {str(value is not None).lower()} THEN map(make_array({keys}), make_array({items})) END"

    def meant(self, value: Any) -> Any:
        """Convert an engine's value to a comparable form."""
        if value is None:
            return None
        pairs = value.items() if isinstance(value, dict) else value
        return tuple(sorted((key, repr(self.item.meant(item))) for key, item in pairs))


def draw_type(rng: Random, depth: int = 0) -> Any:
    """Return a random type: flat four times of five, else nested, up to three deep."""
    if depth == 3 or rng.random() < 0.75:
        return rng.choice(FLATS)
    inner = [draw_type(rng, depth + 1) for _ in range(rng.randrange(1, 4))]
    nested: list[Any] = [
        Struct(tuple((f"f{at}", type_) for at, type_ in enumerate(inner))),
        Array(inner[0]),
        Map(inner[0]),
    ]
    return rng.choice(nested)
