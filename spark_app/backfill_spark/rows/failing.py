"""Which columns of a projection can be computed for any row at all?

What may be in an expression is listed, not what may not: most of Spark's functions refuse some values (overflow, division,
casts).
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
"""They have a value for each value of their arguments, or null."""


def may_fail(projection: DataFrame) -> dict[str, bool]:
    """Say of each column of a projection of a relation whether there may be a row for which it cannot be computed."""
    plan: Any = java_frame(projection).queryExecution().analyzed()
    found = [any(part.name not in SAFE for part in root.all()) for root in expressions(plan)]
    if len(found) != len(projection.columns):
        return dict.fromkeys(projection.columns, True)  # not one projection
    return dict(zip(projection.columns, found, strict=True))
