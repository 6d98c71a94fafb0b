"""Changes of a Delta table as what a target must do: pure functions from frames to frames.

Order in one version is removals, then additions, as a multiset; the last image of a key wins. A row that does not
pass the filter is not there, so a change whose new image fails it removes the key of the old one.
"""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from backfill_core.errors import DuplicateKeyError, KeyInvalidError, SourceNotAppendOnlyError
from backfill_spark.rows.columns import key_hash, quoted, said_key

if TYPE_CHECKING:
    from backfill_spark.rows.transform import Transform

DELETE, ADD = "__backfill_delete", "__backfill_add"
CHANGE_TYPE, COMMIT_VERSION = "_change_type", "_commit_version"
OP, EPOCH, VERSION = "_op", "_epoch", "_version"
INSERTED, DELETED, BEFORE, AFTER = "insert", "delete", "update_preimage", "update_postimage"
REMOVALS = (DELETED, BEFORE)
WHOLE_NUMBERS = {"tinyint": "Y", "smallint": "S", "int": "", "bigint": "L"}
"""How SQL spells a whole number of each type. A literal of another type would be cast, and no statistics of files would answer it."""

KEYS_MAX = 1_000
"""Changed keys that a MERGE names one by one."""

INTERVALS_MAX = 16
"""Intervals of keys by which it finds the files."""

UNREADABLE = "\N{REPLACEMENT CHARACTER}"

_FEED_TYPE, _FEED_AT = "__backfill_feed_type", "__backfill_feed_at"
_TYPE, _AT = "__backfill_type", "__backfill_at"
_REMOVE, _ROW, _LAST, _STEPS = "__backfill_remove", "__backfill_row", "__backfill_last", "__backfill_steps"


def _columns(names: list[str] | tuple[str, ...]) -> list[Column]:
    return [F.col(quoted(name)) for name in names]


def _images(changes: DataFrame, transform: Transform, within: Column | None) -> DataFrame:
    """Filter, then project: `where` guards `select` here as it does in history, the key's expression included.

    An image of a row that is not read yet does not pass either (R-ARR-13); `within` tells, of columns of the source.

    An image that does not pass is not needed: before its version the row was not there, or after it it is not. Each is
    judged by itself, so what passes is exactly what the view lost and what it got.

    Shape: the output columns, `__backfill_type`, `__backfill_at` (version).
    """
    # Under names that no transform yields: one of the feed's own may be a column of the target, and another one's source.
    images = changes.withColumnsRenamed({CHANGE_TYPE: _FEED_TYPE, COMMIT_VERSION: _FEED_AT})
    there = images if within is None else images.where(within)
    passing = there if transform.where is None else there.where(transform.where)
    expressions = [F.expr(one) for one in (transform.select or ("*",))]
    labels = (F.col(_FEED_TYPE).alias(_TYPE), F.col(_FEED_AT).alias(_AT))
    return passing.select(*expressions, *labels).drop(_FEED_TYPE, _FEED_AT)  # a `*` brings them along


def net_changes(
    changes: DataFrame, transform: Transform, key: tuple[str, ...], within: Column | None = None
) -> DataFrame:
    """Keep the last image of every key, of those within a bound.

    Shape:
        in:  source columns, `_change_type`, `_commit_version`
        out: target columns and `__backfill_delete` (boolean); one row a key, plus `__backfill_add`: 2 where the changes
             prove that two rows shared the key, else 1 (see `check_net_changes`)

    Lazy. Shuffles once, by key. Pre-images are removals of their own key, so a changed key removes the old one.
    """
    images = _images(changes, transform, within)
    output = [name for name in images.columns if name not in {_TYPE, _AT}]
    removal = F.col(_TYPE).isin(*REMOVALS)
    ranked = images.select(*_columns(output), _AT, (~removal).alias(ADD), removal.alias(_REMOVE))
    # Placed by key once: both groupings find their rows where they are.
    by_version = (
        ranked.repartition(*_columns(key))
        .groupBy(*_columns(key), _AT)
        .agg(
            F.max_by(F.struct(*_columns(output)), F.col(ADD)).alias(_ROW),
            F.count_if(F.col(ADD)).alias(ADD),
            F.count_if(F.col(_REMOVE)).alias(_REMOVE),
        )
    )
    grouped = by_version.groupBy(*_columns(key)).agg(
        F.max_by(F.struct(F.col(_ROW).alias("row"), (F.col(ADD) == 0).alias("gone")), F.col(_AT)).alias(_LAST),
        F.max(F.greatest(ADD, _REMOVE)).alias(ADD),
        F.array_sort(F.collect_list(F.struct(_AT, (F.col(ADD) - F.col(_REMOVE)).alias("step")))).alias(_STEPS),
    )
    unique = (F.col(ADD) <= 1) & (_swing(F.col(_STEPS)) <= 1)
    return grouped.select(
        *(F.col(_LAST)["row"][name].alias(name) for name in output),
        F.col(_LAST)["gone"].alias(DELETE),
        F.when(unique, 1).otherwise(2).alias(ADD),
    )


def _swing(steps: Column) -> Column:
    """Return how far the number of rows of a key moved between its extremes: above 1, two were there at once."""
    zero = F.lit(0).cast("bigint")
    start = F.struct(zero.alias("rows"), zero.alias("low"), zero.alias("high"))

    def step(seen: Column, one: Column) -> Column:
        rows = seen["rows"] + one["step"]
        return F.struct(
            rows.alias("rows"), F.least(seen["low"], rows).alias("low"), F.greatest(seen["high"], rows).alias("high")
        )

    return F.aggregate(steps, start, step, lambda seen: seen["high"] - seen["low"])


DOUBLED = "is not unique in the source"
DOUBLED_HINT = "An Upsert target holds one row a key: choose another key in spec.source, or writeMode Changelog."


def check_net_changes(net: DataFrame, key: tuple[str, ...], *, doubled: str = DOUBLED, hint: str = DOUBLED_HINT) -> int:
    """Return the number of net changes. Runs a job; give it a frame that is computed already.

    Found is what the changes themselves prove; what happened before them is the receipt's to find.

    Raises:
        KeyInvalidError: a row that must be in the target has a null in its key; a MERGE would add it again and again.
        DuplicateKeyError: two rows of the source shared a key at the same time.
    """
    nameless = _any_null(key) & ~F.col(DELETE)
    counts = net.agg(
        F.count(F.lit(1)).alias("rows"),
        F.count_if(F.col(ADD) > 1).alias("doubled"),
        *(
            F.count_if(F.col(quoted(name)).isNull() & ~F.col(DELETE)).alias(f"{index}")
            for index, name in enumerate(key)
        ),
    ).collect()[0]
    for index, name in enumerate(key):
        if counts[f"{index}"]:
            raise KeyInvalidError(
                f"the key column {name!r} is null in {counts[f'{index}']} changed rows, as where "
                f"{_example(net.where(nameless), key)}.",
                hint="Choose another key, or leave such rows out with spec.transform.where.",
            )
    if counts["doubled"]:
        raise DuplicateKeyError(
            f"key ({', '.join(key)}) {doubled}, as where {_example(net.where(F.col(ADD) > 1), key)}.", hint=hint
        )
    return int(counts["rows"])


def of_keys(net: DataFrame, key: tuple[str, ...], *, alias: str) -> Column:
    """Return what is true of each row of a table that has the key of a change: by it a MERGE reads few files and few rows.

    Only columns of whole numbers and plain texts tell: statistics answer them, and their values come through Python unchanged. With more
    than `KEYS_MAX` changes it is always true (ADR 0012). Runs a small job.

    Args:
        net: Net changes, computed already.
        key: Columns of `net` and of the table.
        alias: Name of the table in the MERGE.
    """
    types = {field.name.lower(): field.dataType.simpleString() for field in net.schema}
    told = [name for name in key if types[name.lower()] in (*WHOLE_NUMBERS, "string")]
    rows = net.select(*_columns(told)).limit(KEYS_MAX + 1).collect() if told else []
    if not 0 < len(rows) <= KEYS_MAX:
        return F.lit(True)
    columns = (F.col(f"{alias}.{quoted(name)}") for name in told)
    suffixes = (WHOLE_NUMBERS.get(types[name.lower()]) for name in told)
    found = (sorted({row[at] for row in rows if row[at] is not None}) for at in range(len(told)))
    return reduce(Column.__and__, map(_one_of, columns, suffixes, found))


def _one_of(column: Column, suffix: str | None, values: list[Any]) -> Column:
    if any(suffix is None and UNREADABLE in one for one in values):
        # Bytes that are no text look like this one; the row that has them must be found.
        return F.lit(True)
    literals = {one: F.lit(one) if suffix is None else F.expr(f"{one}{suffix}") for one in values}
    meets = ((column >= literals[low]) & (column <= literals[high]) for low, high in _intervals(values))
    return reduce(Column.__or__, meets, F.lit(False)) & column.isin([*literals.values()])


def _intervals(values: list[Any]) -> list[tuple[Any, Any]]:
    """Cut ascending values at their widest gaps; return the first and the last one of each interval."""
    places = _places(values)
    gaps = sorted(range(1, len(values)), key=lambda at: places[at] - places[at - 1], reverse=True)
    cuts = [0, *sorted(gaps[: INTERVALS_MAX - 1]), len(values)]
    return [(values[first], values[behind - 1]) for first, behind in pairwise(cuts) if first < behind]


def _places(values: list[Any]) -> list[int]:
    """Return where ascending values stand on a line; of texts, the first bytes in which they differ tell."""
    if not values or not isinstance(values[0], str):
        return values
    texts = [one.encode() for one in values]
    same = next((at for at, (low, high) in enumerate(zip(texts[0], texts[-1], strict=False)) if low != high), 0)
    return [int.from_bytes(one[same : same + 8].ljust(8, b"\0")) for one in texts]


def _any_null(names: tuple[str, ...]) -> Column:
    found = F.lit(False)
    for name in names:
        found = found | F.col(quoted(name)).isNull()
    return found


def _example(rows: DataFrame, key: tuple[str, ...]) -> str:
    return said_key(key, rows.select(key_hash(key).alias("hash")).limit(1).collect()[0]["hash"])


def snapshot_rows(rows: DataFrame, *, epoch: int, version: int) -> DataFrame:
    """Return rows of the pinned version as changelog rows: inserts. Lazy."""
    return rows.select(
        *_columns(rows.columns),
        F.lit(INSERTED).alias(OP),
        F.lit(epoch).cast("long").alias(EPOCH),
        F.lit(version).cast("long").alias(VERSION),
    )


def changelog_rows(
    changes: DataFrame, transform: Transform, *, key: tuple[str, ...], epoch: int, within: Column | None = None
) -> DataFrame:
    """Return every image that passes the filter, and is within a bound, as a row with `_op`, `_epoch` and `_version`. Lazy.

    Halves of an update are judged one by one. One that lost its other half to the filter is what is left of it:
    a `delete`, or an `insert` (R-ARR-17); pairs stay pairs. Readers apply removals (`delete`, `update_preimage`)
    before additions within a version.

    With a filter or a bound, and a key, it shuffles once, by key and version. Without a key nothing tells which halves belong
    together, so then all of them are told as `delete` and `insert`.
    """
    images = _images(changes, transform, within)
    output = [name for name in images.columns if name not in (_TYPE, _AT)]
    whole = transform.where is None and within is None
    told = images if whole else images.withColumn(_TYPE, _single(key if set(key) <= set(output) else ()))
    return told.select(
        *_columns(output),
        F.col(_TYPE).alias(OP),
        F.lit(epoch).cast("long").alias(EPOCH),
        F.col(_AT).cast("long").alias(VERSION),
    )


def _single(key: tuple[str, ...]) -> Column:
    """Return the type of an image, as that of a change of its own where its pair is not whole."""
    kind = F.col(_TYPE)
    alone = F.when(kind == BEFORE, DELETED).when(kind == AFTER, INSERTED).otherwise(kind)
    if not key:
        return alone
    # An update that changes the key leaves one half with each key; neither has a pair there.
    same = Window.partitionBy(*_columns(key), _AT)
    before, after = (F.count_if(kind == one).over(same) for one in (BEFORE, AFTER))
    return F.when(before != after, alone).otherwise(kind)


def append_rows(changes: DataFrame) -> DataFrame:
    """Return the inserted rows without the change columns.

    Raises:
        SourceNotAppendOnlyError: there is any other change. Runs a job.
    """
    other = changes.where(F.col(CHANGE_TYPE) != INSERTED).select(CHANGE_TYPE, COMMIT_VERSION).limit(1).collect()
    if other:
        raise SourceNotAppendOnlyError(
            f"version {other[0][COMMIT_VERSION]} of the source has a change of type {other[0][CHANGE_TYPE]!r}, "
            "and the target only takes appends.",
            hint="Use writeMode Upsert (with a key) or Changelog.",
        )
    return changes.drop(CHANGE_TYPE, COMMIT_VERSION)
