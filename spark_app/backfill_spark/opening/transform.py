"""Prepares the transform of a job for its source and its target."""

from __future__ import annotations

from backfill_spark.opening.source import OpenSource, SubscribedSource
from backfill_spark.records.folding import folding
from backfill_spark.records.parsing import parsing
from backfill_spark.rows.transform import Transform
from backfill_spark.rows.write_modes import WriteMode


def transform_of(
    transform: Transform, opened: OpenSource, mode: WriteMode, key: tuple[str, ...], *, begins: bool
) -> Transform:
    """Check a transform and return it; for records, add the detection of bad records, and keep only the last record of each key.

    Args:
        transform: The transform of the spec.
        opened: The source.
        mode: Write mode of the target.
        key: Key of the target.
        begins: True for a new job; a few rows are then computed twice, to detect values that are not stable.

    Raises:
        InvalidTransformError: the transform is invalid; names the field.
    """
    empty = opened.nothing()
    transform.check(empty, reserved=mode.columns)
    has_records = isinstance(opened, SubscribedSource)
    if has_records:
        transform = parsing(transform, empty)
    if begins:
        transform.check_sample(opened.some())
    return folding(transform, empty, key) if has_records and mode.merges else transform
