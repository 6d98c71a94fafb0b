"""The row-wise transform: SQL expressions and a filter, checked by Spark's own analyzer before anything runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from backfill_api.explain import nearest
from backfill_core.errors import InvalidTransformError
from backfill_spark.columns import quoted, unused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

OURS = "__backfill_"
CHANGELOG_COLUMNS = ("_op", "_epoch", "_version")

# Catalyst calls these deterministic because one query sees one value; a job is many queries.
TIME_DEPENDENT = (
    "CurrentTimestamp", "CurrentDate", "CurrentTime", "Now", "LocalTimestamp", "CurrentTimeZone", "CurrentUser",
    "CurrentDatabase", "CurrentCatalog", "UnixTimestamp$", "SparkPartitionID", "InputFileName",
)  # fmt: skip
NOT_ROW_WISE = {
    "Aggregate": "an aggregate",
    "Window": "a window function",
    "Generate": "a generator (explode)",
    "Join": "a join",
    "Sort": "an order",
    "Distinct": "a distinct",
}
ROW_WISE_CURE = "Use only expressions over the columns of one row."
FIXED_CURE = "Every retry and the verification must compute the same value: take it from a column."


@dataclass(frozen=True, slots=True)
class Transform:
    """`select` (None: all columns as they are) applied to the rows that pass `where`."""

    select: tuple[str, ...] | None = None
    where: str | None = None

    def apply(self, rows: DataFrame, *kept: str) -> DataFrame:
        """Filter, then project; columns of ours that are `kept` come along. Lazy."""
        return self.project(rows if self.where is None else rows.where(self.where), *kept)

    def project(self, rows: DataFrame, *kept: str) -> DataFrame:
        """Project without the filter. Lazy."""
        return rows if self.select is None else rows.selectExpr(*self.select, *map(quoted, kept))

    def output_schema(self, spark: SparkSession, schema: StructType) -> StructType:
        """Return the columns that rows of `schema` become."""
        return self.apply(spark.createDataFrame([], schema)).schema

    def check(self, empty: DataFrame, *, changelog: bool = False) -> None:
        """Analyse the expressions against an empty frame with the source's columns.

        Raises:
            InvalidTransformError: names the field (`spec.transform.select[2]`), the expression and the cure.
        """
        for index, expression in enumerate(self.select or ()):
            self._check_one(empty, f"spec.transform.select[{index}]", expression, filters=False)
        if self.select is not None and not self.select:
            raise InvalidTransformError("spec.transform.select is empty.", cure="Name a column, or leave it out.")
        if self.where is not None:
            self._check_one(empty, "spec.transform.where", self.where, filters=True)
        names = [name.lower() for name in self.project(empty).columns]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise InvalidTransformError(
                f"spec.transform.select yields the column {doubled[0]!r} more than once.",
                cure="Give each expression its own name with AS.",
            )
        ours = [name for name in names if name.startswith(OURS)]
        if ours:
            raise InvalidTransformError(
                f"the column {ours[0]!r} has a name that is kept for the work itself ({OURS}…).",
                cure="Give it another name with AS, in spec.transform.select.",
            )
        reserved = [name for name in CHANGELOG_COLUMNS if changelog and name in names]
        if reserved:
            raise InvalidTransformError(
                f"spec.transform.select yields {reserved[0]!r}, which a Changelog target adds itself.",
                cure="Rename it with AS.",
            )

    def _check_one(self, empty: DataFrame, field: str, expression: str, *, filters: bool) -> None:
        try:
            frame = empty.where(expression) if filters else empty.selectExpr(expression)
            plan: Any = frame._jdf.queryExecution().analyzed()
        except PySparkException as error:
            raise InvalidTransformError(
                f"{field} = {expression!r}: {_first_sentence(error)}", cure=_cure(error, empty.columns)
            ) from error
        if _sees_all(empty, expression, filters=filters):
            raise InvalidTransformError(
                f"{field} = {expression!r} has a * inside an expression, which takes in columns that only some reads have.",
                cure="Name the columns.",
            )
        for node in _nodes(plan):
            name = node.getClass().getSimpleName()
            if name in NOT_ROW_WISE:
                raise InvalidTransformError(
                    f"{field} = {expression!r} is {NOT_ROW_WISE[name]}, not row-wise.", cure=ROW_WISE_CURE
                )
            for part in _expressions(node):
                _check_expression(field, expression, part)


def _sees_all(empty: DataFrame, expression: str, *, filters: bool) -> bool:
    """Is any value computed from whatever columns there are? A bare star computes nothing: it passes them on."""
    probe = unused(f"{OURS}probe", empty.columns)
    wide = empty.withColumn(probe, F.lit(0))
    try:
        frame = wide.where(expression) if filters else wide.selectExpr(expression)
        roots: Any = frame._jdf.queryExecution().analyzed().expressions()
    except PySparkException:
        return True  # right without one more column, wrong with it
    computed = [root for root in map(roots.apply, range(roots.size())) if not _is_column(root, probe)]
    return any(_is_column(part, probe) for root in computed for part in _parts(root))


def _is_column(part: Any, name: str) -> bool:
    return bool(part.getClass().getSimpleName() == "AttributeReference" and part.name() == name)


def _check_expression(field: str, expression: str, part: Any) -> None:
    name = part.getClass().getSimpleName()
    if "Subquery" in name or name in {"Exists", "InSubquery"}:
        raise InvalidTransformError(f"{field} = {expression!r} has a subquery.", cure=ROW_WISE_CURE)
    if name.startswith(TIME_DEPENDENT):
        raise InvalidTransformError(
            f"{field} = {expression!r} depends on when or where it runs ({part.prettyName()}).", cure=FIXED_CURE
        )
    if not part.deterministic():
        raise InvalidTransformError(f"{field} = {expression!r} is not deterministic.", cure=FIXED_CURE)


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children()
    for index in range(children.size()):
        yield from _nodes(children.apply(index))


def _expressions(node: Any) -> Iterator[Any]:
    """Yield every expression of a plan node, innermost last."""
    roots = node.expressions()
    for index in range(roots.size()):
        yield from _parts(roots.apply(index))


def _parts(root: Any) -> Iterator[Any]:
    """Yield an expression and all that it is made of, innermost last."""
    waiting = [root]
    while waiting:
        one = waiting.pop()
        yield one
        children = one.children()
        waiting += [children.apply(index) for index in range(children.size())]


def _first_sentence(error: PySparkException) -> str:
    words = str(error.getMessage() if hasattr(error, "getMessage") else error) or str(error)
    words = re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", words.strip())
    return words.splitlines()[0].split(" SQLSTATE")[0]


def _cure(error: PySparkException, columns: list[str]) -> str:
    match = re.search(r"name `([^`]+)`", str(error))
    near = nearest(match[1], columns) if match else None
    if near:
        return f"Did you mean {near!r}?"
    if "GROUP" in str(error) or "AGGREGATE" in str(error):
        return ROW_WISE_CURE
    return f"The source has the columns {', '.join(columns[:20])}."
