"""Rows that differ in some vnodes: rows that the target lacks, rows that it has too often, and the files that contain these."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from backfill_core.protocol.receipt import DifferenceCounts
from backfill_spark.delta.types import quoted
from backfill_spark.receipts.row_sums import as_typed, comparable, compared_fields, vnode_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

    from backfill_spark.receipts.comparison import TableComparison

_OURS, _FILE, _WANTED, _HELD, _RANK, _OTHERS, _UNEVEN = (
    "__backfill_source", "__backfill_file", "__backfill_wanted", "__backfill_held", "__backfill_rank", "__backfill_others",
    "__backfill_uneven",
)  # fmt: skip


class RowDifferences:
    """The rows of both sides in some vnodes, read once and kept by Spark."""

    def __init__(self, compared: TableComparison, wrong: tuple[int, ...]) -> None:
        """Read both sides of a comparison in the vnodes `wrong`; runs a Spark job."""
        sides = compared.sides()
        assert sides is not None, "rows differ, so rows were compared"
        source, target = sides
        self._compared, self._wrong = compared, wrong
        self._columns = target.columns
        fields = compared_fields(source, target, compared.mode)
        self._names = [field.name for field in fields]
        place = target.metadataColumn("_metadata")["file_path"]
        self._rows = self._ranked(as_typed(source, fields), target.withColumn(_FILE, place), fields).localCheckpoint()

    def _ranked(self, source: DataFrame, target: DataFrame, fields: list[StructField]) -> DataFrame:
        """Number equal rows of each side, and count those of the other side."""
        plain = [f"c{at}" for at in range(len(fields))]
        columns = [
            comparable(F.col(quoted(field.name)), field.dataType).alias(name)
            for field, name in zip(fields, plain, strict=True)
        ]
        wanted = F.struct(*(F.col(quoted(name)) for name in self._names))
        held = F.struct(*(F.col(quoted(name)) for name in self._columns))
        ours = self._of_wrong(source).select(
            *columns, F.lit(True).alias(_OURS), F.input_file_name().alias(_FILE), wanted.alias(_WANTED), _nothing(target, held, _HELD)
        )  # fmt: skip
        theirs = self._of_wrong(target).select(
            *columns, F.lit(False).alias(_OURS), _FILE, _nothing(source, wanted, _WANTED), held.alias(_HELD)
        )
        same = Window.partitionBy(*plain)
        ranked = ours.unionAll(theirs).select(
            "*",
            F.row_number().over(Window.partitionBy(*plain, _OURS).orderBy(_FILE)).alias(_RANK),
            F.count_if(_OURS).over(same).alias("source_rows"),
            F.count_if(~F.col(_OURS)).over(same).alias("target_rows"),
        )
        others = F.when(F.col(_OURS), F.col("target_rows")).otherwise(F.col("source_rows"))
        uneven = F.col("source_rows") != F.col("target_rows")
        return ranked.select(
            _OURS, _FILE, _WANTED, _HELD, (F.col(_RANK) > others).alias(_OTHERS), uneven.alias(_UNEVEN)
        )

    def _of_wrong(self, rows: DataFrame) -> DataFrame:
        vnode = vnode_of(rows, self._names, self._compared.key, self._compared.vnodes)
        return rows.where(vnode.isin(*self._wrong))

    @property
    def source(self) -> DataFrame:
        """Rows of the source in these vnodes."""
        return self._rows.where(F.col(_OURS)).select(f"{_WANTED}.*")

    def target(self, version: int) -> DataFrame:
        """Return the rows of another version of the target in these vnodes; lazy."""
        return self._of_wrong(self._compared.sink.at(version))

    @cached_property
    def files(self) -> frozenset[str]:
        """Files of the target that contain a row too often, as URIs."""
        surplus = self._rows.where(F.col(_OTHERS) & ~F.col(_OURS))
        return frozenset(row[_FILE] for row in surplus.select(_FILE).distinct().collect())

    @cached_property
    def suspects(self) -> tuple[frozenset[str], frozenset[str]]:
        """Files of the source and of the target with a row that the other side has more or less often, as URIs.

        Equal rows may be in several files, and each of them may be the damaged one.
        """
        uneven = self._rows.where(_UNEVEN).select(_OURS, _FILE).distinct().collect()
        source, target = (frozenset(row[_FILE] for row in uneven if row[_OURS] is side) for side in (True, False))
        return source, target

    @cached_property
    def counts(self) -> DifferenceCounts:
        """Number of rows that differ."""
        different = self._rows.where(_OTHERS)
        key = [name for name in self._compared.key if set(self._compared.key) <= set(self._names)]
        values = [F.coalesce(F.col(_WANTED)[name], F.col(_HELD)[name]).alias(f"k{at}") for at, name in enumerate(key)]
        groups = different.select(*values, _OURS).groupBy(*(f"k{at}" for at in range(len(key))))
        lacking, surplus = F.count_if(_OURS), F.count_if(~F.col(_OURS))
        both = F.least(lacking, surplus) if key else F.lit(0)
        counted = groups.agg(lacking.alias("lacking"), surplus.alias("surplus"), both.alias("both"))
        row = counted.agg(*(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("lacking", "surplus", "both")))
        lacking_rows, surplus_rows, updated = (int(value) for value in row.collect()[0])
        return DifferenceCounts(lacking_rows - updated, updated, surplus_rows - updated)

    def corrected(self, others: DataFrame, files: frozenset[str]) -> DataFrame:
        """Return the rows that replace the files of the target; lazy.

        Args:
            others: All rows of these files.
            files: The files, as URIs.
        """
        vnode = vnode_of(others, self._names, self._compared.key, self._compared.vnodes)
        untouched = others.where(~vnode.isin(*self._wrong))
        kept = self._rows.where(F.col(_FILE).isin(*files) & ~F.col(_OTHERS)).select(f"{_HELD}.*")
        return untouched.unionByName(kept).unionByName(self.lacking, allowMissingColumns=True)

    @property
    def lacking(self) -> DataFrame:
        """Rows that the target lacks."""
        return self._rows.where(F.col(_OTHERS) & F.col(_OURS)).select(f"{_WANTED}.*")


def _nothing(rows: DataFrame, value: Column, name: str) -> Column:
    """Return a null of the type that a column has in a frame."""
    return F.lit(None).cast(rows.select(value.alias(name)).schema[name].dataType).alias(name)
