"""Where a table is that a spec names by path or by its name in the catalog: one spelling for each place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backfill_api.spec.locations import Place, PlaceError, place
from backfill_core.errors import AwayError, InvalidSpecError, SourceNotFoundError, TargetNotFoundError
from backfill_core.log_shipping.file_locations import ONE_STORE
from backfill_spark.jvm.errors import JAVA_ERRORS, causes, first_line, is_a
from backfill_spark.jvm.gateway import hadoop_conf, java, java_session
from backfill_spark.jvm.log_stores.s3 import SCHEME, bring_log_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_FOLDER: ContextVar[Path] = ContextVar("folder", default=Path())
"""What relative paths are relative to."""

SPARK_CATALOG = "spark_catalog"
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
    """Take relative paths as relative to a folder while the block runs, on this thread; else to the working directory."""
    token = _FOLDER.set(folder)
    try:
        yield
    finally:
        _FOLDER.reset(token)


def location(spark: SparkSession, path: str | None, table: str | None) -> str:
    """Return the one spelling of the place of a source, given by path or by catalog name.

    Raises:
        SourceNotFoundError: no such table in the catalog.
        InvalidSpecError: the path names no place, or one that this driver has no file system for.
    """
    from pyspark.errors import AnalysisException

    if table is None:
        return one_spelling(spark, str(path), field=SOURCE_PATH)
    try:
        return _of_table(spark, table, field="spec.source.delta.table")
    except AnalysisException as error:
        hint = "Give its path instead, or name the catalog in spec.spark.conf or with --conf (docs/operating.md)."
        raise SourceNotFoundError(f"no table {table!r} in the catalog.", hint=hint) from error


def target_location(spark: SparkSession, path: str | None, table: str | None) -> str:
    """Return the same of a target, which may be missing: where the catalog would make it.

    Raises:
        TargetNotFoundError: the catalog does not know, or is not Spark's own.
        InvalidSpecError: the path names no place, or one that no table can be at.
    """
    from pyspark.errors import AnalysisException

    if table is None:
        found = one_spelling(spark, str(path), field=TARGET_PATH)
        if place(found).path == "/":
            raise InvalidSpecError(
                f"{TARGET_PATH}: {path!r} is the root of a file system.", hint="Name a folder for the table below it."
            )
        return found
    field = "spec.target.delta.table"
    with suppress(AnalysisException):
        return _of_table(spark, table, field=field)
    state: Any = java_session(spark).sessionState()
    try:
        name = state.sqlParser().parseTableIdentifier(table)
        if name.catalog().isDefined() and name.catalog().get() != SPARK_CATALOG:
            raise _no_place(table)
        return _of_uri(spark, state.catalog().defaultTablePath(name), field=field)
    except JAVA_ERRORS as error:
        raise _no_place(table) from error


def one_spelling(spark: SparkSession, text: str, *, field: str) -> str:
    """Return the one way to write a place: an absolute path without links, or a URI as Hadoop writes it.

    Raises:
        InvalidSpecError: it names none, or this driver has no file system for it.
    """
    try:
        found = place(text)
    except PlaceError as error:
        raise InvalidSpecError(f"{field}: {text!r} {error.message}.", hint=f"{_sentence(error.hint)}") from error
    local = java(spark).org.apache.hadoop.fs.FileSystem.getDefaultUri(_conf(spark)).getScheme() == "file"
    if found.is_local and (local or not found.scheme):
        return _resolved(found.path, field)
    # Hadoop writes its own scheme without an empty authority.
    uri = f"file:{_resolved(found.path, field)}" if found.scheme == "file" else found.uri
    return _qualified(spark, uri, found, field)


def _resolved(path: str, field: str) -> str:
    try:
        # Two leading slashes are a host for some: POSIX leaves their meaning open.
        return "/" + str((_FOLDER.get() / Path(path).expanduser()).resolve()).lstrip("/")
    except (RuntimeError, OSError) as error:
        raise InvalidSpecError(f"{field}: {path!r} cannot be followed: {error}.", hint="Write it in full.") from error


def _qualified(spark: SparkSession, uri: str, found: Place, field: str) -> str:
    jvm = java(spark)
    try:
        hadoop = jvm.org.apache.hadoop.fs.Path(uri)
        if found.scheme == SCHEME:
            bring_log_store(spark)
        return str(hadoop.getFileSystem(_conf(spark)).makeQualified(hadoop).toString()).rstrip("/")
    except JAVA_ERRORS as error:
        jar = JARS.get(ONE_STORE.get(found.scheme, found.scheme))
        missing = f"{field}: this driver has no file system for {found.scheme}:"
        if is_a(error, "UnsupportedFileSystemException"):
            hint = "Use a scheme that is there" + (
                ", such as s3a." if found.scheme in ("s3", "s3n") else ", or add the jar that knows it."
            )
            raise InvalidSpecError(f"{missing} {causes(error)[-1][1]}.", hint=hint) from error
        if is_a(error, "ClassNotFoundException"):
            hint = _with_jar(spark, jar) if jar else "Add its jar to the driver's jars."
            raise InvalidSpecError(f"{missing} {causes(error)[-1][1]}.", hint=hint) from error
        words = f"{field}: {uri!r} cannot be opened: {first_line(error)}."
        if is_a(error, "UnknownHostException") or is_a(error, "ConnectException"):
            raise AwayError(words, hint="Check the name of the host, and that it answers.") from error
        raise InvalidSpecError(words, hint="Correct it.") from error


def _with_jar(spark: SparkSession, jar: str) -> str:
    """Say which jar to add; those of Hadoop itself must be of the Hadoop that Spark has."""
    jvm = java(spark)
    of_hadoop = jar.startswith("org.apache.hadoop:")
    version = str(jvm.org.apache.hadoop.util.VersionInfo.getVersion()) if of_hadoop else "<version>"
    return (
        f"Add its jar: --packages {jar}:{version}, or spec.spark.conf with spark.jars.packages; "
        "on a cluster put it into the image (docs/operating.md)."
    )


def _conf(spark: SparkSession) -> Any:
    return hadoop_conf(spark)


def _of_table(spark: SparkSession, table: str, *, field: str) -> str:
    bring_log_store(spark)  # where the table is is not known yet
    detail = spark.sql(f"DESCRIBE DETAIL {table}").first()
    assert detail is not None
    return one_spelling(spark, str(detail["location"]), field=field)


def _of_uri(spark: SparkSession, uri: Any, *, field: str) -> str:
    """Return a place of Java's own form, which escapes what a path may hold."""
    jvm = java(spark)
    return one_spelling(spark, str(jvm.org.apache.hadoop.fs.Path(uri).toString()), field=field)


def _sentence(hint: str) -> str:
    return f"{hint[:1].upper()}{hint[1:]}."


def _no_place(table: str) -> TargetNotFoundError:
    return TargetNotFoundError(
        f"there is no table {table!r}, and the catalog does not say where it would be.",
        hint="Make the table, or its database, or give spec.target.delta.path instead.",
    )
