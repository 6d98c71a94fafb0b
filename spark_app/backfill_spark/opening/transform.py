"""Prepares the transform of a job for its source and its target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import DataType, StructField, StructType

from backfill_core.errors import InvalidTransformError
from backfill_core.in_place.fillable import FillExpressions, check_names, in_parentheses
from backfill_spark.opening.source import OpenSource, SubscribedSource
from backfill_spark.records.folding import folding
from backfill_spark.records.parsing import parsing
from backfill_spark.rows.columns import no_rows
from backfill_spark.rows.row_wise import Fault, columns_read, find_fault
from backfill_spark.rows.transform import Transform
from backfill_spark.rows.write_modes import WriteMode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from backfill_api.spec.transforms.transform import TransformSpec


def transform_for(spec: TransformSpec, opened: OpenSource) -> Transform:
    """Return the transform of a spec: its projection and filter, or the columns of the table with those that it fills.

    Raises:
        InvalidTransformError: an expression of `set` or `setWhere` is invalid; names the field.
    """
    if not spec.set:
        return Transform(tuple(spec.select) or None, spec.where)
    check_names(spec.set)
    empty, names = opened.nothing(), tuple(opened.schema.names)
    empty = no_rows(empty.sparkSession, empty.schema)
    for name, text in spec.set.items():
        _refuse(find_fault(empty, (text,), filters=False), f"spec.transform.set.{name}", text)
    where_reads = frozenset[str]()
    if spec.set_where is not None:
        added = StructType(
            [StructField(name, _type_of(empty, text)) for name, text in spec.set.items() if name not in names]
        )
        rows = no_rows(empty.sparkSession, StructType([*empty.schema.fields, *added.fields]))
        _refuse(find_fault(rows, (spec.set_where,), filters=True), "spec.transform.setWhere", spec.set_where)
        where_reads = _columns_of(rows, spec.set_where)
    outputs = FillExpressions(spec.set, {}, spec.set_where, where_reads).outputs(names)
    columns = (*names, *(name for name in spec.set if name not in names))
    fields = tuple(f"spec.transform.set.{name}" for name in columns)
    return Transform(outputs, fields=fields, once=spec.set_where if _reads_filled(empty, spec) else None)


def _reads_filled(empty: DataFrame, spec: TransformSpec) -> bool:
    """Return True if an expression reads a column that the job fills, so that a second result may differ."""
    return any(not _columns_of(empty, text).isdisjoint(spec.set) for text in spec.set.values())


def _columns_of(rows: DataFrame, text: str) -> frozenset[str]:
    return columns_read(rows.selectExpr(f"{in_parentheses(text)} IS NULL AS x"))


def _type_of(empty: DataFrame, text: str) -> DataType:
    return empty.selectExpr(f"{in_parentheses(text)} AS x").schema["x"].dataType


def _refuse(fault: Fault | None, field: str, text: str) -> None:
    if fault is not None:
        raise InvalidTransformError(f"{field} = {text!r}{fault.message}", hint=fault.hint)


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
