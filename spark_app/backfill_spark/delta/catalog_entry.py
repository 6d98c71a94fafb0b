"""Tables and views of Spark's own catalog, as the catalog stores them: location, text and properties."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backfill_core.errors import AwayError, FlipFailedError, InvalidSpecError
from backfill_spark.delta.location import SPARK_CATALOG, check_name, of_uri, quoted_name
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.jvm.failures import Trouble, describe_error, trouble_of
from backfill_spark.jvm.gateway import java, java_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VIEW = "VIEW"


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One table or view; a later change of the catalog does not change it."""

    name: str
    """Name with catalog and schema, each part in backticks."""

    is_view: bool
    provider: str
    """Format of a table, in lower case; empty for a view, and for a table of Hive."""

    location: str | None
    """Location of a table, as the catalog spells it; `None` for a view."""

    metadata: Any
    """Spark's Java object."""


def entry_of(spark: SparkSession, name: str, *, field: str) -> CatalogEntry:
    """Return the table or view of a name in Spark's own catalog.

    Raises:
        InvalidSpecError: the name is not valid, is in another catalog, or does not exist.
        AwayError: the metastore does not answer.
    """
    from pyspark.errors import AnalysisException

    state: Any = java_session(spark).sessionState()
    with reading_catalog(field, name):
        try:
            identifier = _qualified(spark, name, field=field)
            metadata = state.catalog().getTableMetadata(identifier)
        except AnalysisException as error:
            if trouble_of(error) is Trouble.AWAY:
                raise
            check_name(spark, name, field=field, error=error)
            if trouble_of(error) is not Trouble.NO_TABLE:
                raise
            raise InvalidSpecError(
                f"{field}: there is no table or view {name!r} in the catalog.",
                hint="Correct the name, or create it first.",
            ) from error
    is_view = str(metadata.tableType().name()) == VIEW
    location = metadata.storage().locationUri()
    provider = metadata.provider()
    parts = [SPARK_CATALOG, str(identifier.database().get()), str(identifier.table())]
    return CatalogEntry(
        quoted_name(parts),
        is_view,
        "" if is_view or provider.isEmpty() else str(provider.get()).lower(),
        None
        if is_view or location.isEmpty()
        else str(java(spark).org.apache.hadoop.fs.Path(location.get()).toString()),
        metadata,
    )


def folder_of(spark: SparkSession, entry: CatalogEntry, *, field: str) -> str | None:
    """Return the canonical location of a table; `None` for a view."""
    if entry.location is None:
        return None
    return of_uri(spark, entry.metadata.storage().locationUri().get(), field=field)


@contextmanager
def reading_catalog(field: str, name: str) -> Iterator[None]:
    """Translate errors of the catalog.

    Raises:
        AwayError: the metastore does not answer.
        FlipFailedError: any other error.
    """
    try:
        yield
    except JAVA_ERRORS as error:
        message = f"{field}: {name!r}: {describe_error(error)}".rstrip(".")
        if trouble_of(error) is Trouble.AWAY:
            raise AwayError(f"{message}.", hint="The metastore does not answer. Check its address.") from error
        raise FlipFailedError(
            f"{message}.", hint="Correct the name, or grant the user of the job the right to change it."
        ) from error


def _qualified(spark: SparkSession, name: str, *, field: str) -> Any:
    """Return the Java identifier of a name, with a schema."""
    state: Any = java_session(spark).sessionState()
    parsed = state.sqlParser().parseMultipartIdentifier(name)
    parts = [str(parsed.apply(index)) for index in range(parsed.size())]
    current = str(state.catalogManager().currentCatalog().name())
    catalog = parts.pop(0) if len(parts) > 2 else current
    if catalog.lower() != SPARK_CATALOG:
        raise InvalidSpecError(
            f"{field}: {name!r} is in catalog {catalog}, whose names a switch-over cannot change.",
            hint="Use flip type Command or None.",
        )
    schema = parts[0] if len(parts) > 1 else str(state.catalog().getCurrentDatabase())
    return state.sqlParser().parseTableIdentifier(quoted_name([schema, parts[-1]]))


def statement_session(spark: SparkSession) -> SparkSession:
    """Return a session for statements with settings of their own; it has the settings and the catalog of `spark`."""
    from pyspark.sql import SparkSession as Session

    return Session(spark.sparkContext, java_session(spark).cloneSession())
