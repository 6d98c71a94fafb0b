"""Resolves the location of a table that a spec names by path or by catalog name, to one spelling for each place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backfill_api.spec.locations import Place, PlaceError, place
from backfill_core.errors import (
    AwayError,
    InvalidSpecError,
    MissingSchemaError,
    SourceNotFoundError,
    TargetNotFoundError,
)
from backfill_core.log_shipping.file_locations import ONE_STORE
from backfill_spark.jvm.errors import JAVA_ERRORS, causes, first_line, is_a
from backfill_spark.jvm.failures import Trouble, trouble_of
from backfill_spark.jvm.gateway import hadoop_conf, java, java_session
from backfill_spark.jvm.log_stores.java_classes import S3, bring_log_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_FOLDER: ContextVar[Path] = ContextVar("folder", default=Path())
"""Folder for relative paths."""

SPARK_CATALOG = "spark_catalog"
_OWN_NAME = re.compile(r"\w+", re.ASCII)
"""Names with which Spark's own catalog, like Hive, creates tables."""

NO_CATALOG_CLASS = "lugin class for catalog"
"""Part of what Spark says of a catalog whose class, or a class that it needs, is missing or is no catalog."""

SOURCE_PATH, TARGET_PATH = "spec.source.delta.path", "spec.target.delta.path"
JARS = {
    "gs": "com.google.cloud.bigdataoss:gcs-connector",
    "abfss": "org.apache.hadoop:hadoop-azure",
    "wasbs": "org.apache.hadoop:hadoop-azure",
    "oss": "org.apache.hadoop:hadoop-aliyun",
    "cosn": "org.apache.hadoop:hadoop-cos",
}


@contextmanager
def relative_to(folder: Path) -> Iterator[None]:
    """Resolve relative paths against a folder while the block runs, on this thread; by default, against the working directory."""
    token = _FOLDER.set(folder)
    try:
        yield
    finally:
        _FOLDER.reset(token)


def location(spark: SparkSession, path: str | None, table: str | None) -> str:
    """Return the canonical location of a source, given by path or by catalog name.

    Raises:
        SourceNotFoundError: no such table in the catalog.
        InvalidSpecError: the path names no place, or one that this driver has no file system for; or the catalog or the
            schema of the name does not exist.
    """
    from pyspark.errors import AnalysisException

    if table is None:
        return one_spelling(spark, str(path), field=SOURCE_PATH)
    field = "spec.source.delta.table"
    try:
        return _of_table(spark, table, field=field)
    except JAVA_ERRORS as error:
        catalog, name = check_name(spark, table, field=field, error=error)
        if not isinstance(error, AnalysisException):
            raise
        if (folder := _stored_location(spark, catalog, name, field=field)) is not None:
            raise SourceNotFoundError(
                f"{field}: {table!r} has the location {folder}, which contains no Delta table.",
                hint="Restore the table, or correct the location with ALTER TABLE … SET LOCATION.",
            ) from error
        hint = "Give its path instead, or name the catalog in spec.spark.conf or with --conf (docs/operating.md)."
        raise SourceNotFoundError(f"no table {table!r} in the catalog.", hint=hint) from error


def target_location(spark: SparkSession, path: str | None, table: str | None) -> str:
    """Return the canonical location of a target. If a catalog table does not exist yet, return the place where the catalog would create it.

    Raises:
        TargetNotFoundError: the catalog does not know, or is not Spark's own; or the name points to a folder without a table.
        InvalidSpecError: the path names no place, or one that no table can be at; or the catalog or the schema of the name
            does not exist; or the catalog creates no table with this name.
    """
    from pyspark.errors import AnalysisException

    if table is None:
        target = one_spelling(spark, str(path), field=TARGET_PATH)
        if place(target).path == "/":
            raise InvalidSpecError(
                f"{TARGET_PATH}: {path!r} is the root of a file system.", hint="Use a folder below it for the table."
            )
        return target
    field = "spec.target.delta.table"
    try:
        return _of_table(spark, table, field=field)
    except JAVA_ERRORS as error:
        catalog, name = check_name(spark, table, field=field, error=error)
        if not isinstance(error, AnalysisException):
            raise
        if catalog != SPARK_CATALOG:
            raise _no_place(table) from error
        if (folder := _stored_location(spark, catalog, name, field=field)) is not None:
            if trouble_of(error) is Trouble.NO_TABLE:
                raise _no_folder(table, [catalog, *name], folder) from error
            return folder  # not the place of a new table: the name would not point to it
        _check_own_name(table, name[-1], field=field)
        state: Any = java_session(spark).sessionState()
        try:
            identifier = state.sqlParser().parseTableIdentifier(quoted_name(name))
            return of_uri(spark, state.catalog().defaultTablePath(identifier), field=field)
        except JAVA_ERRORS as unknown:
            raise _no_place(table) from unknown


def one_spelling(spark: SparkSession, text: str, *, field: str) -> str:
    """Return the canonical form of a location: an absolute path without links, or a URI in Hadoop's form.

    Raises:
        InvalidSpecError: the location is invalid, or this driver has no file system for it.
    """
    try:
        parsed = place(text)
    except PlaceError as error:
        raise InvalidSpecError(f"{field}: {text!r} {error.message}.", hint=f"{_sentence(error.hint)}") from error
    local = java(spark).org.apache.hadoop.fs.FileSystem.getDefaultUri(_conf(spark)).getScheme() == "file"
    if parsed.is_local and (local or not parsed.scheme):
        return _resolved(parsed.path, field)
    # Hadoop writes its own scheme without an empty authority.
    uri = f"file:{_resolved(parsed.path, field)}" if parsed.scheme == "file" else parsed.uri
    return _qualified(spark, uri, parsed, field)


def _resolved(path: str, field: str) -> str:
    try:
        # Only one leading slash: POSIX does not define the meaning of two, and some programs read a host name after them.
        return "/" + str((_FOLDER.get() / Path(path).expanduser()).resolve()).lstrip("/")
    except (RuntimeError, OSError) as error:
        raise InvalidSpecError(
            f"{field}: {path!r} cannot be followed: {error}.", hint="Use an absolute path without `~` and links."
        ) from error


def _qualified(spark: SparkSession, uri: str, parsed: Place, field: str) -> str:
    jvm = java(spark)
    try:
        hadoop = jvm.org.apache.hadoop.fs.Path(uri)
        if parsed.scheme == S3:
            bring_log_store(spark, S3)
        return str(hadoop.getFileSystem(_conf(spark)).makeQualified(hadoop).toString()).rstrip("/")
    except JAVA_ERRORS as error:
        jar = JARS.get(ONE_STORE.get(parsed.scheme, parsed.scheme))
        missing = f"{field}: this driver has no file system for {parsed.scheme}:"
        if is_a(error, "UnsupportedFileSystemException"):
            hint = "Use a scheme that the driver supports" + (
                ", such as s3a." if parsed.scheme in ("s3", "s3n") else ", or add the jar with its file system."
            )
            raise InvalidSpecError(f"{missing} {causes(error)[-1][1]}.", hint=hint) from error
        if is_a(error, "ClassNotFoundException"):
            hint = _with_jar(spark, jar) if jar else "Add its jar to the driver's jars."
            raise InvalidSpecError(f"{missing} {causes(error)[-1][1]}.", hint=hint) from error
        message = f"{field}: {uri!r} cannot be opened: {first_line(error)}."
        if is_a(error, "UnknownHostException") or is_a(error, "ConnectException"):
            raise AwayError(message, hint="Check the name of the host, and that it answers.") from error
        raise InvalidSpecError(message, hint="Correct the path.") from error


def _with_jar(spark: SparkSession, jar: str) -> str:
    """Return a hint that names the jar to add; jars of Hadoop must have the version of Spark's Hadoop."""
    jvm = java(spark)
    of_hadoop = jar.startswith("org.apache.hadoop:")
    version = str(jvm.org.apache.hadoop.util.VersionInfo.getVersion()) if of_hadoop else "<version>"
    return (
        f"Add its jar: --packages {jar}:{version}, or spec.spark.conf with spark.jars.packages; "
        "on a cluster, add it to the image (docs/operating.md)."
    )


def _conf(spark: SparkSession) -> Any:
    return hadoop_conf(spark)


def _of_table(spark: SparkSession, table: str, *, field: str) -> str:
    bring_log_store(spark, S3)  # the location is not known yet, and may be on S3
    detail = spark.sql(f"DESCRIBE DETAIL {table}").first()
    assert detail is not None
    if detail["format"] != "delta":
        raise InvalidSpecError(
            f"{field}: {table!r} is a table of format {detail['format']}.", hint="Name a Delta table, or convert it."
        )
    return one_spelling(spark, str(detail["location"]), field=field)


def check_name(spark: SparkSession, table: str, *, field: str, error: Exception) -> tuple[str, list[str]]:
    """Return the catalog of a table that was not found, and the parts of its name there.

    Raises:
        InvalidSpecError: it is no name, or its catalog or its schema does not exist.
        AwayError: the metastore, or the storage of the table, does not answer.
    """
    if trouble_of(error) is Trouble.AWAY:
        words = f"{field}: {table!r} cannot be found: {first_line(error)}".rstrip(".")
        raise AwayError(f"{words}.", hint="Check that the metastore and the table's storage answer.") from error
    state: Any = java_session(spark).sessionState()
    try:
        scala = state.sqlParser().parseMultipartIdentifier(table)
        parts = [str(scala.apply(at)) for at in range(scala.size())]
    except JAVA_ERRORS:
        words = f"{field}: {table!r} is not the name of a table."
        raise InvalidSpecError(words, hint="Write catalog.schema.table; odd names in backticks.") from error
    if is_a(error, "AnalysisException") and "EXPECT_TABLE_NOT_VIEW" in str(error):
        raise InvalidSpecError(f"{field}: {table!r} is a view.", hint="Name a Delta table.") from error
    if len(parts) > 1 and NO_CATALOG_CLASS in str(error):
        words = f"{field}: catalog {parts[0]} cannot be loaded: {first_line(error)}"
        hint = f"Correct spark.sql.catalog.{parts[0]} and its settings in spec.spark.conf, and add its jars to the driver's."
        raise InvalidSpecError(f"{words.rstrip('.')}.", hint=hint) from error
    whole, (catalog, parts) = parts, _split_catalog(spark, parts)
    if len(parts) > 2 and catalog == SPARK_CATALOG and parts == whole:  # it has no schemas in schemas
        hint = f"Set spark.sql.catalog.{parts[0]} in spec.spark.conf or with --conf (docs/operating.md), or correct the name."
        raise InvalidSpecError(f"{field}: catalog {parts[0]} does not exist.", hint=hint) from error
    schema = parts[:-1]
    if schema and not _schema_exists(spark, [catalog, *schema]):
        words = f"{field}: schema {'.'.join(schema)} does not exist in catalog {catalog}."
        hint = f"Make it (CREATE SCHEMA {catalog}.{quoted_name(schema)}), or correct the name."
        raise MissingSchemaError(words, hint=hint) from error
    return catalog.lower() if catalog.lower() == SPARK_CATALOG else catalog, parts


def catalog_of(spark: SparkSession, table: str) -> str:
    """Return the catalog of a table's name, which must be valid."""
    scala = java_session(spark).sessionState().sqlParser().parseMultipartIdentifier(table)
    return _split_catalog(spark, [str(scala.apply(at)) for at in range(scala.size())])[0]


def _split_catalog(spark: SparkSession, parts: list[str]) -> tuple[str, list[str]]:
    """Return the catalog of a name, and the parts of the name there; a name without a catalog is in the current one."""
    if len(parts) > 1 and (
        parts[0].lower() == SPARK_CATALOG or spark.conf.get(f"spark.sql.catalog.{parts[0]}", None) is not None
    ):
        return parts[0], parts[1:]
    return str(java_session(spark).sessionState().catalogManager().currentCatalog().name()), parts


def _stored_location(spark: SparkSession, catalog: str, name: list[str], *, field: str) -> str | None:
    """Return the location that Spark's own catalog stores for a table; `None` if there is no such table."""
    if catalog != SPARK_CATALOG:
        return None
    state: Any = java_session(spark).sessionState()
    identifier = state.sqlParser().parseTableIdentifier(quoted_name(name))
    if not state.catalog().tableExists(identifier):
        return None
    uri = state.catalog().getTableMetadata(identifier).storage().locationUri()
    return None if uri.isEmpty() else of_uri(spark, uri.get(), field=field)


def _schema_exists(spark: SparkSession, parts: list[str]) -> bool:
    from pyspark.errors import AnalysisException

    try:
        spark.sql(f"DESCRIBE SCHEMA {quoted_name(parts)}")
    except AnalysisException as error:  # such as a catalog without schemas
        return error.getCondition() != "SCHEMA_NOT_FOUND"
    return True


def quoted_name(parts: list[str]) -> str:
    """Return the name of a table for SQL; its parts may contain any character."""
    return ".".join(f"`{part.replace('`', '``')}`" for part in parts)


def of_uri(spark: SparkSession, uri: Any, *, field: str) -> str:
    """Return the canonical form of a Java URI, which percent-encodes characters of a path."""
    jvm = java(spark)
    return one_spelling(spark, str(jvm.org.apache.hadoop.fs.Path(uri).toString()), field=field)


def _sentence(hint: str) -> str:
    return f"{hint[:1].upper()}{hint[1:]}."


def _check_own_name(table: str, name: str, *, field: str) -> None:
    """Reject a new name before its table exists: Spark would reject it after the table's first commit."""
    if not _OWN_NAME.fullmatch(name):
        raise InvalidSpecError(
            f"{field}: {table!r}: the catalog creates no table with the name {name!r}.",
            hint="Use only letters from a to z, digits and _ in the name, or set spec.target.delta.path instead.",
        )


def _no_folder(table: str, name: list[str], folder: str) -> TargetNotFoundError:
    return TargetNotFoundError(
        f"spec.target.delta.table: {table!r} has the location {folder}, which contains no Delta table.",
        hint=f"Restore this folder, or remove the name with DROP TABLE {quoted_name(name)}: the job then creates a new table.",
    )


def _no_place(table: str) -> TargetNotFoundError:
    return TargetNotFoundError(
        f"there is no table {table!r}, and the catalog defines no place for it.",
        hint="Create the table or its database, or set spec.target.delta.path instead.",
    )
