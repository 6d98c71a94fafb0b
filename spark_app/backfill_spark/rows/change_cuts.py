"""Cuts of a batch of changes into parts of about equal size, by the target's key (ADR 0063)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from backfill_core.positions.key_order import KeyColumn, KeyOrder, KeyPosition, has_order
from backfill_spark.rows.key_ranges import stored_value, value_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

SAMPLE_KEYS = 10_000
PARTS_MAX = 256
CUTS_BYTES_MAX = 16 * 1024
"""Most bytes of stored cuts, so that a state of 64 KiB has room for the rest. Longer keys have fewer and larger parts."""

TEXT_MAX = 256
"""Largest number of characters of a string in a cut. A truncated string is smaller, and any cut is valid."""


def ordered_type(kind: DataType) -> str | None:
    """Return the name of a type in an order of keys; `None` if engines do not agree on its order."""
    plain = not isinstance(kind, StringType) or kind.isUTF8BinaryCollation()
    spelled = kind.simpleString() if kind.typeName() == "decimal" else kind.typeName()
    return spelled if plain and has_order(spelled) else None


def order_of(schema: StructType) -> KeyOrder | None:
    """Return the order of rows by all columns of a schema; `None` if a type has no order."""
    types = [(field.name, ordered_type(field.dataType)) for field in schema]
    columns = tuple(KeyColumn(name, kind) for name, kind in types if kind is not None)
    return KeyOrder(columns) if columns and len(columns) == len(types) else None


def share_of(rows: DataFrame, condition: Column) -> float:
    """Return the share of rows that satisfy a condition which is never null; 0 without rows. Reads its columns once."""
    counts = rows.agg(F.count(F.lit(1)).alias("all"), F.count_if(condition).alias("within")).collect()[0]
    return float(counts["within"] / max(1, counts["all"]))


def cuts_of(keys: DataFrame, order: KeyOrder, parts: int) -> tuple[KeyPosition, ...]:
    """Return the last keys of all parts but the last one, ascending; fewer parts if the keys repeat, or are long.

    Reads the key columns twice.

    Args:
        keys: Changed keys, in any order; keys may repeat.
        order: The columns of `keys`.
        parts: Requested number of parts.
    """
    fraction = SAMPLE_KEYS / max(1, keys.count())
    sampled = keys.sample(fraction, seed=1) if fraction < 1 else keys
    positions = sampled.select(*(stored_value(column).alias(f"c{at}") for at, column in enumerate(order.columns)))
    collected = [tuple(value_of(value) for value in row) for row in positions.limit(2 * SAMPLE_KEYS).collect()]
    return spaced(order, map(_short, collected), min(parts, PARTS_MAX))


def spaced(order: KeyOrder, keys: Iterable[KeyPosition], parts: int) -> tuple[KeyPosition, ...]:
    """Return the cuts between parts that contain about the same number of keys."""
    ascending = sorted(keys, key=order.sort_key)
    edges = [ascending[len(ascending) * at // parts - 1] for at in range(1, parts) if len(ascending) * at >= parts]
    last = order.sort_key(ascending[-1]) if ascending else None
    # A cut at the last key would leave the last part without one.
    cuts = {order.sort_key(edge): edge for edge in edges if order.sort_key(edge) != last}
    return _fitting(order, [*cuts.values()])


def _fitting(order: KeyOrder, cuts: Sequence[KeyPosition]) -> tuple[KeyPosition, ...]:
    while cuts and len(json.dumps([order.encode(cut) for cut in cuts]).encode()) > CUTS_BYTES_MAX:
        cuts = cuts[1::2]
    return tuple(cuts)


def _short(position: KeyPosition) -> KeyPosition:
    def cut(value: Any) -> Any:
        return value[:TEXT_MAX] if isinstance(value, str) else value

    return tuple(cut(value) for value in position)
