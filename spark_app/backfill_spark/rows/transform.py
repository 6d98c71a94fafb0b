"""The row-wise transform: SQL expressions and a filter, checked by Spark's own analyzer before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill_core.errors import InvalidTransformError
from backfill_spark.delta.types import quoted
from backfill_spark.jvm.errors import JAVA_ERRORS, RAISED, row_failure
from backfill_spark.jvm.gateway import java_frame, java_session
from backfill_spark.rows.columns import deep_hash, no_rows
from backfill_spark.rows.condition import condition_of
from backfill_spark.rows.failing import may_fail
from backfill_spark.rows.row_wise import (
    FIXED_HINT,
    ROW_WISE_HINT,
    Fault,
    columns_read,
    find_fault,
    stray_node,
    taken,
    void,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from backfill_core.file_copies.filters import Condition

OURS = "__backfill_"
SAMPLE_ROWS = 8
RAISED_HINT = "The expression itself refuses the row (raise_error, assert_true): leave such rows out in spec.transform (where, setWhere)."


@dataclass(frozen=True, slots=True)
class Transform:
    """Projection `select` (`None` keeps all columns) of the rows that pass `where`."""

    select: tuple[str, ...] | None = None
    where: str | None = None
    fields: tuple[str, ...] = ()
    """Field of the spec of each expression, for messages; empty: those of `select`."""

    once: str | None = None
    """Condition that projected rows must fail if they passed it before; `None` if a projection may be repeated."""

    def apply(self, rows: DataFrame, *kept: str) -> DataFrame:
        """Filter, then project; keeps the internal columns `kept` too. Lazy."""
        return self.project(rows if self.where is None else rows.where(self.where), *kept)

    def project(self, rows: DataFrame, *kept: str) -> DataFrame:
        """Project without filtering. Lazy."""
        return rows if self.select is None else rows.selectExpr(*self.select, *map(quoted, kept))

    def output_schema(self, spark: SparkSession, schema: StructType) -> StructType:
        """Return the schema that the transform yields for rows of `schema`."""
        return self.apply(no_rows(spark, schema)).schema

    def taken(self, spark: SparkSession, schema: StructType) -> dict[str, str | None]:
        """Return the transform's columns for `schema`, each with the column that it copies; `None` if it is computed."""
        if self.select is None:
            return {name: name for name in schema.names}
        return taken(self.project(no_rows(spark, schema)))

    def columns_read(self, spark: SparkSession, schema: StructType) -> frozenset[str]:
        """Return the columns of `schema` that computed columns and the filter use."""
        rows = no_rows(spark, schema)
        computed = frozenset() if self.select is None else columns_read(self.project(rows))
        return computed if self.where is None else computed | columns_read(rows.where(self.where))

    def may_fail(self, spark: SparkSession, schema: StructType) -> dict[str, bool]:
        """Return, for each column of the transform, True if its expression may fail for some row of `schema`."""
        return may_fail(self.project(no_rows(spark, schema)))

    def condition(self, spark: SparkSession, schema: StructType) -> Condition | None:
        """Return the filter's condition for rows of `schema`; `None` without a filter."""
        return None if self.where is None else condition_of(no_rows(spark, schema).where(self.where))

    def check(self, empty: DataFrame, *, reserved: tuple[str, ...] = ()) -> None:
        """Analyze the expressions with an empty frame of the source's columns; `reserved` are names that the target adds.

        Raises:
            InvalidTransformError: names the field (`spec.transform.select[2]`), the expression and the hint.
        """
        # A local relation: the plan has one leaf, and no column that only files have (`_metadata`).
        empty = no_rows(empty.sparkSession, empty.schema)
        if self.select is not None and not self.select:
            raise InvalidTransformError("spec.transform.select is empty.", hint="Name a column, or leave it out.")
        self._check_select(empty)
        if self.where is not None:
            _refuse(find_fault(empty, (self.where,), filters=True), f"spec.transform.where = {self.where!r}")
        optimized: Any = java_frame(self.apply(empty)).queryExecution().optimizedPlan()
        stray = stray_node(optimized)
        if stray is not None:
            raise InvalidTransformError(
                f"spec.transform is not row-wise: Spark plans it as {stray}.", hint=ROW_WISE_HINT
            )
        self._check_names([name.lower() for name in self.project(empty).columns], reserved)

    def _check_select(self, empty: DataFrame) -> None:
        if self.select is None:
            _refuse(void(empty.schema), "the source")
            return
        fault = find_fault(empty, self.select, filters=False)
        if fault is None:
            return
        for index, expression in enumerate(self.select):
            _refuse(find_fault(empty, (expression,), filters=False), f"spec.transform.select[{index}] = {expression!r}")
        _refuse(fault, "spec.transform.select")

    def _check_names(self, names: list[str], reserved: tuple[str, ...]) -> None:
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise InvalidTransformError(
                f"spec.transform.select yields the column {doubled[0]!r} more than once.",
                hint="Give each expression its own name with AS.",
            )
        ours = [name for name in names if name.startswith(OURS)]
        if ours:
            raise InvalidTransformError(
                f"the column {ours[0]!r} has a reserved name ({OURS}…).",
                hint="Give it another name with AS, in spec.transform.select.",
            )
        taken = [name for name in reserved if name in names]
        if taken:
            raise InvalidTransformError(
                f"spec.transform.select yields {taken[0]!r}, which the target's writeMode adds itself.",
                hint="Rename it with AS.",
            )

    def explain_failure(self, error: Exception) -> InvalidTransformError | None:
        """Return an error that names the expression that failed for a row, without values; `None` for other failures."""
        failure = row_failure(error)
        if failure is None or (self.select is None and self.where is None):
            return None
        texts = self.select or ()
        names = self.fields or tuple(f"spec.transform.select[{index}]" for index in range(len(texts)))
        fields = dict(zip(names, texts, strict=True))
        if self.where is not None:
            fields["spec.transform.where"] = self.where
        blamed = [f"{name} = {text!r}" for name, text in fields.items() if failure.sql and failure.sql in text]
        place = f" in {blamed[0]}" if blamed else " in spec.transform"
        return InvalidTransformError(
            f"a row cannot be computed{place}: {failure.condition} (SQLSTATE {failure.state}).",
            hint=RAISED_HINT
            if failure.state == RAISED
            else "Guard the expression, for example with try_cast, try_divide or nullif.",
        )

    def check_sample(self, rows: DataFrame) -> None:
        """Compute a few rows twice, at different times and with different seeds, and reject columns that differ.

        The rows are read once (the only Spark job), and Spark's optimizer computes them on the driver. So each query gets
        its own clock and seed. `check` detects the causes that Spark declares; this test detects functions that are
        declared deterministic but are not.

        Raises:
            InvalidTransformError: a value differs, or a row cannot be computed.
        """
        if self.select is None and self.where is None:
            return  # nothing is computed; saves a Spark job at the start
        try:
            sample = _local(rows.limit(SAMPLE_ROWS))
            first, second = (self._values(sample) for _ in range(2))
        except JAVA_ERRORS as error:
            explained = self.explain_failure(error)
            if explained is None:
                return  # not caused by values; the work itself reports it
            raise explained from error
        for name, before, after in zip(first.columns, first.hashes, second.hashes, strict=True):
            if before != after:
                raise InvalidTransformError(
                    f"the column {name!r} of spec.transform differs when it is computed twice from the same rows.",
                    hint=FIXED_HINT,
                )

        if self.once is not None:
            self._check_once(sample)

    def _check_once(self, sample: DataFrame) -> None:
        text = self.once
        assert text is not None
        if self.project(sample.where(text)).where(text).limit(1).count():
            raise InvalidTransformError(
                f"spec.transform.setWhere = {text!r} still holds for a row after it is filled, and its expression reads a filled column: "
                "a file that is written again would be filled twice.",
                hint="Give a condition that filled rows fail. If no value tells, add a column first, for example done, and fill it too: "
                "done IS NULL, with done: 'true' in spec.transform.set.",
            )

    def _values(self, rows: DataFrame) -> _Computed:
        out = self.apply(rows)
        hashed = out.select(
            *(
                deep_hash(F.col(quoted(field.name)), field.dataType).alias(f"c{at}")
                for at, field in enumerate(out.schema)
            )
        ).collect()
        return _Computed(tuple(out.columns), tuple(zip(*hashed, strict=True)) if hashed else ((),) * len(out.columns))


@dataclass(frozen=True, slots=True)
class _Computed:
    """Hashes of the values of a few rows, by column."""

    columns: tuple[str, ...]
    hashes: tuple[tuple[int, ...], ...]


def _local(rows: DataFrame) -> DataFrame:
    """Return rows as a local relation, read from Spark once."""
    session = rows.sparkSession
    made: Any = java_session(session).createDataFrame(java_frame(rows).collectAsList(), java_frame(rows).schema())
    return DataFrame(made, session)


def _refuse(fault: Fault | None, what: str) -> None:
    if fault is not None:
        raise InvalidTransformError(f"{what}{fault.message}", hint=fault.hint)
