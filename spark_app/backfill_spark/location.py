"""Where a table is that a spec names by path or by its name in the catalog."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backfill_core.errors import SourceNotFoundError, TargetNotFoundError
from backfill_spark.java_errors import JAVA_ERRORS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SPARK_CATALOG = "spark_catalog"


def location(spark: SparkSession, path: str | None, table: str | None) -> str:
    """Return the absolute path of a table given by path or by catalog name.

    Raises:
        SourceNotFoundError: no such table in the catalog.
    """
    from pyspark.errors import AnalysisException

    if table is None:
        return _absolute(str(path))
    try:
        return _of_table(spark, table)
    except AnalysisException as error:
        raise SourceNotFoundError(f"no table {table!r} in the catalog.", cure="Give its path instead.") from error


def target_location(spark: SparkSession, path: str | None, table: str | None) -> str:
    """Return the same of a table that may be missing: where the catalog would make it.

    Raises:
        TargetNotFoundError: the catalog does not know, or is not Spark's own.
    """
    from pyspark.errors import AnalysisException

    if table is None:
        return _absolute(str(path))
    with suppress(AnalysisException):
        return _of_table(spark, table)
    state: Any = spark._jsparkSession.sessionState()
    try:
        name = state.sqlParser().parseTableIdentifier(table)
        if name.catalog().isDefined() and name.catalog().get() != SPARK_CATALOG:
            raise _no_place(table)
        return str(state.catalog().defaultTablePath(name).toString()).removeprefix("file:").rstrip("/")
    except JAVA_ERRORS as error:
        raise _no_place(table) from error


def _absolute(path: str) -> str:
    return path if "://" in path else str(Path(path).expanduser().resolve())


def _of_table(spark: SparkSession, table: str) -> str:
    detail = spark.sql(f"DESCRIBE DETAIL {table}").first()
    assert detail is not None
    return str(detail["location"]).removeprefix("file:")


def _no_place(table: str) -> TargetNotFoundError:
    return TargetNotFoundError(
        f"there is no table {table!r}, and the catalog does not say where it would be.",
        cure="Make the table, or its database, or give spec.target.delta.path instead.",
    )
