"""Finds projected columns that can be computed for every row, without an error.

Safe expressions are listed, because most Spark functions fail for some values (overflow, division, casts).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backfill_spark.jvm.gateway import java_frame
from backfill_spark.rows.row_wise import expressions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SAFE = {
    "Alias", "And", "AttributeReference", "CaseWhen", "Coalesce", "EqualNullSafe", "EqualTo", "GreaterThan",
    "GreaterThanOrEqual", "If", "In", "IsNotNull", "IsNull", "LessThan", "LessThanOrEqual", "Length", "Literal", "Lower", "Not",
    "Or", "StringTrim", "StringTrimLeft", "StringTrimRight", "Substring", "Upper",
}  # fmt: skip
"""Expressions that return a value or null for all arguments, and never raise an error."""


def may_fail(projection: DataFrame) -> dict[str, bool]:
    """Return, for each column of a projection of a relation, True if its expression may fail for some row."""
    plan: Any = java_frame(projection).queryExecution().analyzed()
    unsafe = [any(part.name not in SAFE for part in root.all()) for root in expressions(plan)]
    if len(unsafe) != len(projection.columns):
        return dict.fromkeys(projection.columns, True)  # the plan is not a single projection
    return dict(zip(projection.columns, unsafe, strict=True))
