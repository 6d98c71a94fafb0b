"""Reads the log of a Delta table with Delta Kernel: the newest version, its metadata and its files; without Spark jobs.

The first Spark jobs of a JVM take seconds each, which delays the restart after a kill. This module does not commit; only
`sinks/delta/committer.py`, the other module that uses Kernel, does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from backfill_core.log_shipping.actions import DeletionVector
from backfill_core.protocol.events import Head
from backfill_spark.delta.listing.entries import logged_file, logged_values
from backfill_spark.delta.listing.logged_files import LoggedFiles
from backfill_spark.delta.properties import PropertyNamesPlaceError, check_names_no_place, kept_seconds
from backfill_spark.delta.schemas import UserDefinedTypeError, check_schema_text
from backfill_spark.delta.source_file import LoggedFile, LoggedValues
from backfill_spark.delta.spark_internals import SparkDeltaLog, read_by_either
from backfill_spark.jvm.bulk_calls import TextExchange, java_function
from backfill_spark.jvm.errors import JAVA_ERRORS, is_no_table
from backfill_spark.jvm.gateway import hadoop_conf, items, java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


T = TypeVar("T")


class EmptyCommitError(Exception):
    """A commit is an empty file. Delta never writes a commit without actions, so the file was truncated."""


_COMMIT = re.compile(r"(\d{20})\.json")
"""File name of a commit, with its version."""

LOG_ERRORS = (*JAVA_ERRORS, EmptyCommitError, PropertyNamesPlaceError, UserDefinedTypeError)
"""Exceptions of reads of a log; only the caller knows whether the table is a source or a target."""

NO_ACTION = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Exceptions of parsing a line that is not an action of the protocol."""


@dataclass(frozen=True, slots=True)
class LoggedTable:
    """Metadata and protocol of one version."""

    schema: str
    """Schema as JSON, unchanged from the log."""

    partitions: tuple[str, ...]
    properties: dict[str, str]
    features: frozenset[str]
    """Features of readers and writers, as far as the protocol names them."""

    description: str | None = None
    """`None` if it has no description."""

    table_id: str = field(default="", compare=False)


def table_now(spark: SparkSession, path: str) -> LoggedTable | None:
    """Return metadata and protocol of the newest version; `None` if there is no commit.

    Delta's own snapshot contains the same, but rebuilds the whole state in Spark jobs. So does `isDeltaTable` for the target of a
    killed driver, whose newest version has no checksum.

    Raises:
        LOG_ERRORS: any other error of Kernel or the storage.
    """
    engine, table = _open(spark, path)
    try:
        snapshot = table.getLatestSnapshot(engine)
    except JAVA_ERRORS as error:
        if is_no_table(error):
            return None
        raise
    return _described(snapshot)


def table_at(spark: SparkSession, path: str, version: int) -> LoggedTable:
    """Return metadata and protocol of a version.

    Raises:
        LOG_ERRORS: any error of Kernel or the storage.
    """

    def by_kernel() -> LoggedTable:
        engine, table = _open(spark, path)
        return _described(table.getSnapshotAsOfVersion(engine, version))

    return read_by_either(spark, path, by_kernel, lambda log: _table_of(*log.described(version)))


def _table_of(metadata: Mapping[str, Any], protocol: Mapping[str, Any]) -> LoggedTable:
    features = (protocol.get(kind) or () for kind in ("readerFeatures", "writerFeatures"))
    return LoggedTable(
        schema=metadata["schemaString"],
        partitions=tuple(metadata.get("partitionColumns") or ()),
        properties=metadata.get("configuration") or {},
        features=frozenset(chain.from_iterable(features)),
        description=metadata.get("description"),
        table_id=str(metadata.get("id", "")),
    )


def _described(snapshot: Any) -> LoggedTable:
    _check_commits(snapshot)
    metadata, protocol = snapshot.getMetadata(), snapshot.getProtocol()
    properties, features = metadata.getConfiguration(), (protocol.getReaderFeatures(), protocol.getWriterFeatures())
    description = metadata.getDescription().orElse(None)
    return LoggedTable(
        schema=str(metadata.getSchemaString()),
        partitions=tuple(str(name) for name in items(snapshot.getPartitionColumnNames())),
        properties={str(name): str(properties.get(name)) for name in properties.keySet().toArray()},
        features=frozenset(str(name) for names in features for name in names.toArray()),
        description=None if description is None else str(description),
        table_id=str(metadata.getId()),
    )


def newest_version(spark: SparkSession, path: str) -> Head:
    """Return the newest version of a table and its commit time.

    Raises:
        LOG_ERRORS: any error of Kernel or the storage; only the caller knows whether the table is a source or a target.
    """

    def by_kernel() -> Head:
        engine, table = _open(spark, path)
        snapshot = table.getLatestSnapshot(engine)
        metadata = snapshot.getMetadata()
        check_schema_text(str(metadata.getSchemaString()))
        properties = metadata.getConfiguration()
        check_names_no_place(str(properties.keySet().toString())[1:-1].split(", "))  # one call, not one for each name
        kept_s = kept_seconds(properties.get)
        return Head(snapshot.getVersion(), snapshot.getTimestamp(engine), metadata.getId(), kept_s)

    return read_by_either(spark, path, by_kernel, SparkDeltaLog.head)


def version_at_time(spark: SparkSession, path: str, wanted_ms: int) -> tuple[int, int]:
    """Return the newest readable version that is not newer than a time, else the oldest readable one, with its commit time.

    Raises:
        LOG_ERRORS: any error of Kernel or the storage.
    """
    engine, table = _open(spark, path)
    snapshot, jvm = table.getLatestSnapshot(engine), java(spark)
    history: Any = jvm.io.delta.kernel.internal.DeltaHistoryManager
    commit = history.getActiveCommitAtTimestamp(
        engine, snapshot, snapshot.getLogPath(), wanted_ms, True, True, True, jvm.java.util.ArrayList()
    )
    return int(commit.getVersion()), int(commit.getTimestamp())


@dataclass(frozen=True, slots=True)
class HeadActions:
    """Newest version of a table with its `metaData` and `protocol` actions, as the log contains them."""

    version: int
    timestamp_ms: int
    metadata: dict[str, Any]
    protocol: dict[str, Any]


def head_actions(spark: SparkSession, path: str) -> HeadActions:
    """Return the newest version of a table with the fields of its metadata and of its protocol.

    Raises:
        LOG_ERRORS: any error of Kernel or the storage.
    """

    def by_kernel() -> HeadActions:
        engine, table = _open(spark, path)
        snapshot = table.getLatestSnapshot(engine)
        _check_commits(snapshot)
        as_json = java(spark).io.delta.kernel.defaults.internal.json.JsonUtils.rowToJson
        actions = (snapshot.getMetadata(), snapshot.getProtocol())
        metadata, protocol = (json.loads(str(as_json(action.toRow()))) for action in actions)
        return HeadActions(int(snapshot.getVersion()), int(snapshot.getTimestamp(engine)), metadata, protocol)

    def by_spark(log: SparkDeltaLog) -> HeadActions:
        snapshot = log.updated()
        version = int(snapshot.version())
        return HeadActions(version, int(snapshot.timestamp()), *log.described(version))

    return read_by_either(spark, path, by_kernel, by_spark)


def transaction_of(spark: SparkSession, path: str, app_id: str) -> int | None:
    """Return the version of an application's newest transaction; `None` before its first one.

    Raises:
        LOG_ERRORS: any error of Kernel or the storage.
    """

    def by_kernel() -> int | None:
        engine, table = _open(spark, path)
        txn = table.getLatestSnapshot(engine).getLatestTransactionVersion(engine, app_id)
        return int(txn.get()) if txn.isPresent() else None

    return read_by_either(spark, path, by_kernel, lambda log: log.transaction(app_id))


def files_at(spark: SparkSession, path: str, version: int, *, nulls_of: Sequence[str]) -> list[LoggedFile]:
    """Return the data files of a version in the order of their paths.

    Args:
        spark: The session.
        path: Absolute path or URI of the table.
        version: Number of the version.
        nulls_of: Physical names of the columns whose nulls are requested.

    Raises:
        LOG_ERRORS: any error of Kernel or the storage.
    """
    files = _added(spark, path, version, lambda line: logged_file(line, nulls_of), statistics=True)
    return sorted(files, key=lambda file: file.path)


def listing_at(spark: SparkSession, path: str, version: int, *, nulls_of: Sequence[str]) -> LoggedFiles:
    """Return the same files as `files_at` with a bounded heap: their entries are in a temporary file.

    Raises:
        LOG_ERRORS: any error of Kernel or the storage.
        StorageFullError: the temporary folder has no space.
    """
    return _of_added(spark, path, version, lambda lines: LoggedFiles(lines, nulls_of), statistics=True)


def added_at(spark: SparkSession, path: str, version: int) -> list[str]:
    """Return the `add` action of each data file of a version, as a line of a commit, without statistics; in no order.

    Raises:
        LOG_ERRORS: any error of Kernel or the storage.
    """
    return _added(spark, path, version, str, statistics=False)


def commit_text(spark: SparkSession, path: str, version: int) -> str:
    """Return the content of a version's commit.

    Raises:
        JAVA_ERRORS: any error of the storage.
    """
    return text_of_file(spark, f"{path}/_delta_log/{version:020d}.json")


def text_of_file(spark: SparkSession, path: str) -> str:
    """Return the whole content of a file.

    Raises:
        JAVA_ERRORS: any error of the storage.
    """
    jvm = java(spark)
    file = jvm.org.apache.hadoop.fs.Path(path)
    stream = file.getFileSystem(hadoop_conf(spark)).open(file)
    try:
        return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()


def commit_files(spark: SparkSession, path: str) -> dict[int, Any]:
    """Return the commits in the log, as Hadoop's status of each file, by version, ascending.

    Raises:
        JAVA_ERRORS: any error of the storage.
    """
    # Not a glob: brackets, braces and stars in the table's own path would be parts of the pattern.
    folder = java(spark).org.apache.hadoop.fs.Path(f"{path}/_delta_log")
    listed = folder.getFileSystem(hadoop_conf(spark)).listStatus(folder)
    commits = [(_COMMIT.fullmatch(file.getPath().getName()), file) for file in listed]
    return dict(sorted((int(match[1]), file) for match, file in commits if match is not None))


def commits_since(spark: SparkSession, path: str, since_ms: int, *, most: int) -> list[int] | None:
    """Return the versions whose commits the store wrote since a time; `None` if there are more than `most`, or deleted ones.

    Raises:
        JAVA_ERRORS: any error of the storage.
    """
    written = {version: int(file.getModificationTime()) for version, file in commit_files(spark, path).items()}
    since = [version for version, at_ms in written.items() if at_ms >= since_ms]
    first = min(written, default=0)
    cleaned = first > 0 and first in since  # earlier commits are deleted, and may be newer than that time
    return None if cleaned or len(since) > most else since


def values_at(spark: SparkSession, path: str, version: int, *, columns: Sequence[str]) -> list[LoggedValues]:
    """Return the log's facts about the values of some columns, file by file, in the order of `files_at`.

    Args:
        spark: The session.
        path: Absolute path or URI of the table.
        version: Number of the version.
        columns: Physical names of columns that are not nested.

    Raises:
        LOG_ERRORS: any error of Kernel or the storage.
    """
    files = _added(spark, path, version, lambda line: logged_values(line, columns), statistics=True)
    return sorted(files, key=lambda file: file.path)


def hidden_rows(spark: SparkSession, path: str, vector: DeletionVector) -> Any:
    """Return the indexes of the rows that a deletion vector hides, ascending, as a Java array; the vector's file has a checksum.

    Raises:
        JAVA_ERRORS: any error of Kernel or the storage.
    """
    jvm: Any = java(spark)
    kernel, optional = jvm.io.delta.kernel, jvm.java.util.Optional
    descriptor = kernel.internal.actions.DeletionVectorDescriptor(
        vector.storage, vector.place, optional.ofNullable(vector.offset), vector.bytes, vector.rows
    )
    files = kernel.defaults.engine.DefaultEngine.create(hadoop_conf(spark)).getFileSystemClient()
    stored = kernel.internal.deletionvectors.DeletionVectorStoredBitmap(descriptor, optional.of(path))
    return stored.load(files).toArray()


def same_rows(spark: SparkSession, rows: Any, other: Any) -> bool:
    """Return True if two results of `hidden_rows` are equal."""
    return bool(java(spark).java.util.Arrays.equals(rows, other))


def _added(spark: SparkSession, path: str, version: int, parse: Callable[[str], T], *, statistics: bool) -> list[T]:
    """Return the `add` actions of a version, each parsed from a line of a commit, in no order."""
    return _of_added(spark, path, version, lambda lines: [parse(line) for line in lines], statistics=statistics)


def _of_added(
    spark: SparkSession, path: str, version: int, collect: Callable[[Iterable[str]], T], *, statistics: bool
) -> T:
    """Return the result of `collect`, which is called with the `add` actions of a version: lines of a commit, in no order.

    If Kernel cannot read the log, it is called once more.
    """

    def by_kernel() -> T:
        engine, table = _open(spark, path)
        snapshot = table.getSnapshotAsOfVersion(engine, version)
        _check_commits(snapshot)
        batches = snapshot.getScanBuilder().build().getScanFiles(engine, statistics)
        try:
            return collect(_lines(spark, batches))
        finally:
            batches.close()

    return read_by_either(spark, path, by_kernel, lambda log: collect(log.added(version)))


def _check_commits(snapshot: Any) -> None:
    """Reject empty commits, which Kernel accepts as commits without changes."""
    for file in items(snapshot.getLogSegment().getDeltas()):
        if file.getSize() == 0:
            raise EmptyCommitError(f"{file.getPath()} is empty")


def logged_files(spark: SparkSession, batches: Any, nulls_of: Sequence[str] = ()) -> Iterator[LoggedFile]:
    """Yield the files of a Kernel scan, batch by batch; the caller closes the scan."""
    return (logged_file(line, nulls_of) for line in _lines(spark, batches))


def _lines(spark: SparkSession, batches: Any) -> Iterator[str]:
    as_json = java_function(spark, "io.delta.kernel.defaults.internal.json.JsonUtils", "rowToJson")
    with closing(TextExchange(spark)) as exchange:
        while batches.hasNext():
            lines = batches.next().getRows().map(as_json).toInMemoryList()
            yield from lines_of(exchange.text_of(lines))


def lines_of(text: str) -> list[str]:
    """Return the lines of a commit, one action each; only a line feed ends a line.

    `str.splitlines` would also split at U+0085, U+2028 and U+2029, which JSON strings may contain unescaped.
    """
    return [line for line in text.split("\n") if line.strip()]


def action_of(line: str) -> dict[str, Any]:
    """Return the action in a line of a commit. Some writers include the other kinds of action as null; these are omitted."""
    action: dict[str, Any] = json.loads(line)
    return {kind: fields for kind, fields in action.items() if fields is not None}


def _open(spark: SparkSession, path: str) -> tuple[Any, Any]:
    kernel: Any = java(spark).io.delta.kernel
    engine = kernel.defaults.engine.DefaultEngine.create(hadoop_conf(spark))  # type: ignore[union-attr]
    return engine, kernel.Table.forPath(engine, path)
