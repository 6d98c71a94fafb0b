"""Translation of a change feed into changes of the target: pure functions from frames to frames.

Within one version, removals come before additions, as a multiset; the last image of a key wins. The target does not
contain rows that fail the filter. So a change whose new image fails the filter removes the key of the old image.
"""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from backfill_core.errors import DuplicateKeyError, KeyInvalidError, SourceNotAppendOnlyError
from backfill_spark.delta.types import quoted
from backfill_spark.rows.columns import key_hash, said_key

if TYPE_CHECKING:
    from backfill_core.positions.change_parts import KeyPart
    from backfill_spark.rows.transform import Transform

DELETE, ADD = "__backfill_delete", "__backfill_add"
CHANGE_TYPE, COMMIT_VERSION = "_change_type", "_commit_version"
OP, EPOCH, VERSION = "_op", "_epoch", "_version"
INSERTED, DELETED, BEFORE, AFTER = "insert", "delete", "update_preimage", "update_postimage"
REMOVALS = (DELETED, BEFORE)
WHOLE_NUMBERS = {"tinyint": "Y", "smallint": "S", "int": "", "bigint": "L"}
"""SQL suffix of an integer literal, by type. A literal of another type adds a cast, and then file statistics cannot skip files."""

KEYS_MAX = 1_000
"""Largest number of changed keys that a MERGE condition lists one by one."""

INTERVALS_MAX = 16
"""Largest number of key intervals in a MERGE condition, by which Delta skips files."""

UNREADABLE = "\N{REPLACEMENT CHARACTER}"

_FEED_TYPE, _FEED_AT = "__backfill_feed_type", "__backfill_feed_at"
_TYPE, _AT = "__backfill_type", "__backfill_at"
_REMOVE, _ROW, _LAST, _STEPS = "__backfill_remove", "__backfill_row", "__backfill_last", "__backfill_steps"


def _columns(names: list[str] | tuple[str, ...]) -> list[Column]:
    return [F.col(quoted(name)) for name in names]


def _images(changes: DataFrame, transform: Transform, within: Column | None) -> DataFrame:
    """Filter, then project: `where` guards `select`, including the key's expression, as it does for history.

    Images of rows that are not copied yet are dropped too (R-ARR-13); `within` is that condition, on source columns.

    Dropping an image is safe: the view does not contain the row before its version, or after it. Each image is checked
    separately, so the remaining images are exactly the rows that the view lost and the rows that it gained.

    Shape: the output columns, `__backfill_type`, `__backfill_at` (version).
    """
    # Renamed first: the feed's column names may be columns of the target, or inputs of its expressions.
    images = changes.withColumnsRenamed({CHANGE_TYPE: _FEED_TYPE, COMMIT_VERSION: _FEED_AT})
    copied = images if within is None else images.where(within)
    passing = copied if transform.where is None else copied.where(transform.where)
    expressions = [F.expr(expression) for expression in (transform.select or ("*",))]
    labels = (F.col(_FEED_TYPE).alias(_TYPE), F.col(_FEED_AT).alias(_AT))
    return passing.select(*expressions, *labels).drop(_FEED_TYPE, _FEED_AT)  # a `*` selects them too


def changed_keys(changes: DataFrame, transform: Transform, key: tuple[str, ...], within: Column | None) -> DataFrame:
    """Return the target's key of each image that satisfies `within`, duplicates included. Lazy."""
    return _images(changes, transform, within).select(*_columns(key))


def net_changes(
    changes: DataFrame,
    transform: Transform,
    key: tuple[str, ...],
    within: Column | None = None,
    part: Column | None = None,
) -> DataFrame:
    """Keep the last image of every key, among the images that satisfy `within`, and whose keys satisfy `part`.

    Shape:
        in:  source columns, `_change_type`, `_commit_version`
        out: target columns and `__backfill_delete` (boolean); one row per key, plus `__backfill_add`: 2 if the changes
             prove that two rows shared the key, else 1 (see `check_net_changes`)

    Lazy. Shuffles once, by key. Pre-images remove their own key, so an update that changes the key removes the old key.
    """
    images = _images(changes, transform, within)
    images = images if part is None else images.where(part)
    output = [name for name in images.columns if name not in {_TYPE, _AT}]
    removal = F.col(_TYPE).isin(*REMOVALS)
    ranked = images.select(*_columns(output), _AT, (~removal).alias(ADD), removal.alias(_REMOVE))
    # One shuffle by key serves both groupings.
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
    """Return the largest minus the smallest number of rows of a key over time: above 1, two rows existed at once."""
    zero = F.lit(0).cast("bigint")
    start = F.struct(zero.alias("rows"), zero.alias("low"), zero.alias("high"))

    def step(seen: Column, change: Column) -> Column:
        rows = seen["rows"] + change["step"]
        return F.struct(
            rows.alias("rows"), F.least(seen["low"], rows).alias("low"), F.greatest(seen["high"], rows).alias("high")
        )

    return F.aggregate(steps, start, step, lambda seen: seen["high"] - seen["low"])


DOUBLED = "is not unique in the source"
DOUBLED_HINT = "An Upsert target holds one row per key: choose another key in spec.source, or use writeMode Changelog."


def check_net_changes(net: DataFrame, key: tuple[str, ...], *, doubled: str = DOUBLED, hint: str = DOUBLED_HINT) -> int:
    """Return the number of net changes. Runs a job; pass a frame that is already computed.

    It detects only duplicates that the changes themselves prove; the receipt detects older ones.

    Raises:
        KeyInvalidError: a row for the target has a null in its key; each MERGE would add it again.
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
    """Return a condition that holds for each table row whose key changes, so that a MERGE reads few files and rows.

    Only integer and string columns are used: file statistics cover them, and their values pass through Python unchanged.
    With more than `KEYS_MAX` changes the condition is always true (ADR 0012). Runs a small job.

    Args:
        net: Net changes, already computed.
        key: Columns of `net` and of the table.
        alias: Name of the table in the MERGE.
    """
    types = {field.name.lower(): field.dataType.simpleString() for field in net.schema}
    usable = [name for name in key if types[name.lower()] in (*WHOLE_NUMBERS, "string")]
    rows = net.select(*_columns(usable)).limit(KEYS_MAX + 1).collect() if usable else []
    if not 0 < len(rows) <= KEYS_MAX:
        return F.lit(True)
    columns = (F.col(f"{alias}.{quoted(name)}") for name in usable)
    suffixes = (WHOLE_NUMBERS.get(types[name.lower()]) for name in usable)
    values = (sorted({row[at] for row in rows if row[at] is not None}) for at in range(len(usable)))
    return reduce(Column.__and__, map(_one_of, columns, suffixes, values))


def of_part(net: DataFrame, part: KeyPart, *, alias: str) -> Column:
    """Return a condition that holds for each table row whose key is in a part, so that a MERGE reads few files.

    It bounds the first column of the key; types as in `of_keys`.
    """
    name, condition = part.order.columns[0].name, F.lit(True)
    kind = next(field.dataType.simpleString() for field in net.schema if field.name.lower() == name.lower())
    low, high = (None if end is None else end[0] for end in (part.low, part.high))
    column = F.col(f"{alias}.{quoted(name)}")
    if low is not None and kind in (*WHOLE_NUMBERS, "string"):
        condition = condition & (column >= _literal(low, WHOLE_NUMBERS.get(kind)))
    if high is not None and kind in (*WHOLE_NUMBERS, "string"):
        condition = condition & (column <= _literal(high, WHOLE_NUMBERS.get(kind)))
    return condition


def _literal(value: Any, suffix: str | None) -> Column:
    return F.lit(value) if suffix is None else F.expr(f"{value}{suffix}")


def _one_of(column: Column, suffix: str | None, values: list[Any]) -> Column:
    if any(suffix is None and UNREADABLE in value for value in values):
        # Bytes that are not UTF-8 reach Python as this character; the condition must not exclude their row.
        return F.lit(True)
    literals = {value: _literal(value, suffix) for value in values}
    meets = ((column >= literals[low]) & (column <= literals[high]) for low, high in _intervals(values))
    return reduce(Column.__or__, meets, F.lit(False)) & column.isin([*literals.values()])


def _intervals(values: list[Any]) -> list[tuple[Any, Any]]:
    """Cut ascending values at their widest gaps; return the first and the last value of each interval."""
    places = _places(values)
    gaps = sorted(range(1, len(values)), key=lambda at: places[at] - places[at - 1], reverse=True)
    cuts = [0, *sorted(gaps[: INTERVALS_MAX - 1]), len(values)]
    return [(values[first], values[behind - 1]) for first, behind in pairwise(cuts) if first < behind]


def _places(values: list[Any]) -> list[int]:
    """Return the position of each ascending value on a number line; strings are placed by the first 8 bytes that differ."""
    if not values or not isinstance(values[0], str):
        return values
    encoded = [value.encode() for value in values]
    same = next((at for at, (low, high) in enumerate(zip(encoded[0], encoded[-1], strict=False)) if low != high), 0)
    return [int.from_bytes(value[same : same + 8].ljust(8, b"\0")) for value in encoded]


def _any_null(names: tuple[str, ...]) -> Column:
    condition = F.lit(False)
    for name in names:
        condition = condition | F.col(quoted(name)).isNull()
    return condition


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
    """Return every image that passes the filter and satisfies `within`, with `_op`, `_epoch` and `_version`. Lazy.

    The two images of an update are filtered separately. If only one passes, it becomes a `delete` or an `insert`
    (R-ARR-17); complete pairs stay pairs. Readers apply removals (`delete`, `update_preimage`) before additions
    within a version.

    With a key and a filter or `within`, it shuffles once, by key and version. Without a key, images cannot be paired:
    then each becomes a `delete` or an `insert`.
    """
    images = _images(changes, transform, within)
    output = [name for name in images.columns if name not in (_TYPE, _AT)]
    whole = transform.where is None and within is None
    labelled = images if whole else images.withColumn(_TYPE, _single(key if set(key) <= set(output) else ()))
    return labelled.select(
        *_columns(output),
        F.col(_TYPE).alias(OP),
        F.lit(epoch).cast("long").alias(EPOCH),
        F.col(_AT).cast("long").alias(VERSION),
    )


def _single(key: tuple[str, ...]) -> Column:
    """Return the type of an image; an image without its pair gets `delete` or `insert`."""
    kind = F.col(_TYPE)
    single = F.when(kind == BEFORE, DELETED).when(kind == AFTER, INSERTED).otherwise(kind)
    if not key:
        return single
    # An update that changes the key has one image under each key, so neither has a pair.
    same = Window.partitionBy(*_columns(key), _AT)
    before, after = (F.count_if(kind == image).over(same) for image in (BEFORE, AFTER))
    return F.when(before != after, single).otherwise(kind)


def append_rows(changes: DataFrame) -> DataFrame:
    """Return the inserted rows without the change columns.

    Raises:
        SourceNotAppendOnlyError: the feed contains another type of change. Runs a job.
    """
    other = changes.where(F.col(CHANGE_TYPE) != INSERTED).select(CHANGE_TYPE, COMMIT_VERSION).limit(1).collect()
    if other:
        raise SourceNotAppendOnlyError(
            f"version {other[0][COMMIT_VERSION]} of the source has a change of type {other[0][CHANGE_TYPE]!r}, "
            "and the target only takes appends.",
            hint="Use writeMode Upsert (with a key) or Changelog.",
        )
    return changes.drop(CHANGE_TYPE, COMMIT_VERSION)
