"""The transform of a job, as what its source and its target make of it."""

from __future__ import annotations

from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.jvm.java_process import while_reading
from backfill_spark.opening.failures import death_of
from backfill_spark.opening.source import OpenSource, SubscribedSource
from backfill_spark.rows.records.folding import folding
from backfill_spark.rows.records.parsing import parsing
from backfill_spark.rows.transform import Transform
from backfill_spark.rows.write_modes import WriteMode


def transform_of(
    transform: Transform, opened: OpenSource, mode: WriteMode, key: tuple[str, ...], *, begins: bool
) -> Transform:
    """Check a transform and return it; of records, as one that knows those that it cannot parse, and the last one of each key.

    Args:
        transform: As the spec has it.
        opened: The source.
        mode: How the target is written.
        key: Of the target.
        begins: Does the job begin? Then a few rows are computed twice.

    Raises:
        InvalidTransformError: names the field.
    """
    empty = opened.nothing()
    transform.check(empty, reserved=mode.columns)
    has_records = isinstance(opened, SubscribedSource)
    if has_records:
        transform = parsing(transform, empty)
    if begins:
        _check_sample(transform, opened)
    return folding(transform, empty, key) if has_records and mode.merges else transform


def _check_sample(transform: Transform, opened: OpenSource) -> None:
    """Compute a few rows twice; if Java ends by that, name them."""
    rows = opened.some()
    try:
        transform.check_sample(rows)
    except JAVA_ERRORS as error:
        died = death_of(error, rows.sparkSession)
        if died is None:
            return  # not about values; the work itself will report it
        raise while_reading(died, f"{opened.some_words} of {opened.source.path}") from error
