"""Where a table is that a spec names by path or by its name in the catalog."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from backfill_core.errors import SourceNotFoundError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def location(spark: SparkSession, path: str | None, table: str | None) -> str:
    """Return the absolute path of a table given by path or by catalog name.

    Raises:
        SourceNotFoundError: no such table in the catalog.
    """
    if path is not None:
        return path if "://" in path else str(Path(path).expanduser().resolve())
    from pyspark.errors import AnalysisException

    try:
        detail = spark.sql(f"DESCRIBE DETAIL {table}").first()
    except AnalysisException as error:
        raise SourceNotFoundError(f"no table {table!r} in the catalog.", cure="Give its path instead.") from error
    return str(detail["location"]).removeprefix("file:") if detail else str(table)
