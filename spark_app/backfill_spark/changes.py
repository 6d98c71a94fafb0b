"""Changes of a Delta table as what a target must do: pure functions from frames to frames.

Order in one version is removals, then additions, as a multiset; the last image of a key wins. A row that does not
pass the filter is not there, so a change whose new image fails it removes the key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill_core.errors import SourceNotAppendOnlyError

if TYPE_CHECKING:
    from backfill_spark.transform import Transform

DELETE = "_delete"
CHANGE_TYPE, COMMIT_VERSION = "_change_type", "_commit_version"
OP, EPOCH, VERSION = "_op", "_epoch", "_version"
REMOVALS = ("delete", "update_preimage")
_TYPE, _AT, _PASS, _ADD = "__backfill_type", "__backfill_at", "__backfill_pass", "__backfill_add"


def _judged(changes: DataFrame, transform: Transform) -> DataFrame:
    """Project every image, and say of each whether the filter lets it pass.

    Shape: the output columns, `__backfill_type`, `__backfill_at` (version), `__backfill_pass` (boolean).
    """
    passes = F.lit(True) if transform.where is None else F.coalesce(F.expr(transform.where), F.lit(False))
    select = [f"`{name}`" for name in changes.columns if name not in (CHANGE_TYPE, COMMIT_VERSION)]
    expressions = [F.expr(one) for one in (transform.select or select)]
    return changes.select(
        *expressions, F.col(CHANGE_TYPE).alias(_TYPE), F.col(COMMIT_VERSION).alias(_AT), passes.alias(_PASS)
    )


def net_changes(changes: DataFrame, transform: Transform, key: tuple[str, ...]) -> DataFrame:
    """Keep the last image of every key.

    Shape:
        in:  source columns, `_change_type`, `_commit_version`
        out: target columns and `_delete` (boolean); one row a key, plus `__backfill_add`: how many additions
             of the key its last version made (more than 1: the key is not unique)

    Lazy. Shuffles once, by key. Pre-images are removals of their own key, so a changed key removes the old one.
    """
    judged = _judged(changes, transform)
    output = [name for name in judged.columns if name not in (_TYPE, _AT, _PASS)]
    adds = (~F.col(_TYPE).isin(*REMOVALS)) & F.col(_PASS)
    ranked = judged.select(*(F.col(f"`{name}`") for name in output), _AT, adds.alias(_ADD))
    rank = F.struct(F.col(_AT), F.col(_ADD))
    row = F.struct(*(F.col(f"`{name}`") for name in output))
    grouped = ranked.groupBy(*(F.col(f"`{name}`") for name in key)).agg(
        F.max_by(F.struct(row.alias("row"), F.col(_ADD).alias("add")), rank).alias("last"),
        F.count_if(F.col(_ADD)).alias("additions"),
        F.max(rank).alias("rank"),
        F.max_by(F.struct(F.col(_AT)), rank).alias("at"),
        F.collect_list(F.when(F.col(_ADD), F.col(_AT))).alias("versions"),
    )
    latest = F.size(F.filter("versions", lambda version: version == F.col("at")[_AT]))
    return grouped.select(
        *(F.col("last.row")[name].alias(name) for name in output),
        (~F.col("last.add")).alias(DELETE),
        latest.alias(_ADD),
    )


def duplicate_keys(net: DataFrame) -> str | None:
    """Return an example of a key that one version added twice, or None. Runs a job."""
    row = net.where((F.col(_ADD) > 1) & ~F.col(DELETE)).limit(1).collect()
    return str({name: value for name, value in row[0].asDict().items() if not name.startswith("_")}) if row else None


def snapshot_rows(rows: DataFrame, *, epoch: int, version: int) -> DataFrame:
    """Return rows of the pinned version as changelog rows: inserts. Lazy."""
    return rows.select(
        *(F.col(f"`{name}`") for name in rows.columns),
        F.lit("insert").alias(OP),
        F.lit(epoch).cast("long").alias(EPOCH),
        F.lit(version).cast("long").alias(VERSION),
    )


def changelog_rows(changes: DataFrame, transform: Transform, *, epoch: int) -> DataFrame:
    """Return every image that passes the filter as a row with `_op`, `_epoch` and `_version`. Lazy.

    Halves are judged one by one: of an update whose old row failed the filter only the new image is left (an
    insert for a reader), of one whose new row fails it only the old one (a removal). Readers apply removals
    (`delete`, `update_preimage`) before additions within a version.
    """
    judged = _judged(changes, transform)
    output = [name for name in judged.columns if name not in (_TYPE, _AT, _PASS)]
    return judged.where(F.col(_PASS)).select(
        *(F.col(f"`{name}`") for name in output),
        F.col(_TYPE).alias(OP),
        F.lit(epoch).cast("long").alias(EPOCH),
        F.col(_AT).cast("long").alias(VERSION),
    )


def append_rows(changes: DataFrame) -> DataFrame:
    """Return the inserted rows without the change columns.

    Raises:
        SourceNotAppendOnlyError: there is any other change. Runs a job.
    """
    other = changes.where(F.col(CHANGE_TYPE) != "insert").select(CHANGE_TYPE, COMMIT_VERSION).limit(1).collect()
    if other:
        raise SourceNotAppendOnlyError(
            f"version {other[0][COMMIT_VERSION]} of the source has a change of type {other[0][CHANGE_TYPE]!r}, "
            "and the target only takes appends.",
            cure="Use writeMode Upsert (with a key) or Changelog.",
        )
    return changes.drop(CHANGE_TYPE, COMMIT_VERSION)
