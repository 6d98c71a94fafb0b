"""The log of a Delta table, read by Delta Kernel: the newest version, its metadata and its files; no Spark job.

The first Spark jobs of a JVM take seconds each, and a driver that was killed is waited for. Nothing here commits: that is
`sinks/delta/committer.py`, the only other file that touches Kernel.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from backfill_core.log_shipping.actions import DeletionVector
from backfill_core.protocol.events import Head
from backfill_core.transfer.logged_statistics import LoggedStatistics
from backfill_spark.delta.properties import PropertyNamesPlaceError, check_names_no_place, kept_seconds
from backfill_spark.delta.schemas import UserDefinedTypeError, check_schema_text
from backfill_spark.delta.spark_internals import SparkDeltaLog, read_by_either
from backfill_spark.jvm.bulk_calls import java_function, text_of
from backfill_spark.jvm.errors import JAVA_ERRORS, is_no_table
from backfill_spark.jvm.gateway import hadoop_conf, items, java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


T = TypeVar("T")


class EmptyCommitError(Exception):
    """A commit is an empty file: Delta writes none without an action, so it was cut off."""


_COMMIT = re.compile(r"(\d{20})\.json")
"""The name of a commit's file, with its version."""

_COUNT_FIRST = re.compile(r'\{"numRecords":(\d+)[,}]')
"""How Delta and Kernel begin statistics: what follows, a kilobyte a file, need not be parsed for the count alone."""

LOG_ERRORS = (*JAVA_ERRORS, EmptyCommitError, PropertyNamesPlaceError, UserDefinedTypeError)
"""What looks at a log raise; only the caller knows whose it is."""

NO_ACTION = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading of a line raises that is no action of the protocol."""


@dataclass(frozen=True, slots=True)
class LoggedFile:
    """A data file of one version."""

    path: str
    """As the log spells it: relative to the table or absolute, percent-encoded."""

    bytes: int
    rows: int | None
    """Deleted ones included; None when the log has no count."""

    deleted: int
    """Rows that its deletion vector hides."""

    nulls: tuple[int | None, ...]
    """Of each column in the request, deleted rows included; None when the log has no count."""

    action: str
    """The `add` action as a line of a commit, without its statistics."""

    statistics: str | None
    """JSON, as the log has it."""


@dataclass(frozen=True, slots=True)
class LoggedValues:
    """What the log says of the values of some columns in one data file; numbers are exact."""

    path: str
    rows: int | None
    action: str
    """The `add` action as a line of a commit, without its statistics."""

    deleted: int
    """Rows that its deletion vector hides."""

    smallest: tuple[Any, ...]
    """Of each column in the request, as JSON has it; a text may be cut. None: not said, or all values are null."""

    largest: tuple[Any, ...]
    """The same; a text that was cut ends in a character that makes it the larger one."""

    nulls: tuple[int | None, ...]
    partition: Mapping[str, str | None]
    """Values of the partition columns as text, by physical name."""


@dataclass(frozen=True, slots=True)
class LoggedTable:
    """Metadata and protocol of one version."""

    schema: str
    """As JSON, as the log has it."""

    partitions: tuple[str, ...]
    properties: dict[str, str]
    features: frozenset[str]
    """Of readers and writers, as far as the protocol names them."""

    description: str | None = None
    """`None` if it has no description."""


def table_now(spark: SparkSession, path: str) -> LoggedTable | None:
    """Return metadata and protocol of the newest version; None where there is no commit.

    Delta's own snapshot says the same, once it has rebuilt the whole state in Spark jobs; for a killed driver's target, whose
    newest version has no checksum, so does its `isDeltaTable`.

    Raises:
        Whatever else Kernel or the storage say (`LOG_ERRORS`).
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
        Whatever Kernel or the storage say (`LOG_ERRORS`).
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
        features=frozenset(str(name) for found in features for name in found.toArray()),
        description=None if description is None else str(description),
    )


def newest_version(spark: SparkSession, path: str) -> Head:
    """Return the newest version of a table and its commit time.

    Raises:
        Whatever Kernel or the storage say (`LOG_ERRORS`): only the caller knows whose table it is.
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


def files_at(spark: SparkSession, path: str, version: int, *, nulls_of: Sequence[str]) -> list[LoggedFile]:
    """Return the data files of a version in the order of their paths.

    Args:
        spark: The session.
        path: Absolute path or URI of the table.
        version: Number of the version.
        nulls_of: Physical names of the columns whose nulls are asked for.

    Raises:
        Whatever Kernel or the storage say (`LOG_ERRORS`).
    """
    files = _added(spark, path, version, lambda line: _parse(line, nulls_of), statistics=True)
    return sorted(files, key=lambda file: file.path)


def added_at(spark: SparkSession, path: str, version: int) -> list[str]:
    """Return the `add` action of each data file of a version, as a line of a commit, without statistics; in no order.

    Raises:
        Whatever Kernel or the storage say (`LOG_ERRORS`).
    """
    return _added(spark, path, version, str, statistics=False)


def commit_text(spark: SparkSession, path: str, version: int) -> str:
    """Return the text of a version's commit.

    Raises:
        Whatever the storage says (`JAVA_ERRORS`).
    """
    return text_of_file(spark, f"{path}/_delta_log/{version:020d}.json")


def text_of_file(spark: SparkSession, path: str) -> str:
    """Return the text of a file, read whole.

    Raises:
        Whatever the storage says (`JAVA_ERRORS`).
    """
    jvm = java(spark)
    file = jvm.org.apache.hadoop.fs.Path(path)
    stream = file.getFileSystem(hadoop_conf(spark)).open(file)
    try:
        return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()


def commit_files(spark: SparkSession, path: str) -> dict[int, Any]:
    """Return the commits that are in the log, as Hadoop's status of each file, by version, ascending.

    Raises:
        Whatever the storage says (`JAVA_ERRORS`).
    """
    # A pattern would read brackets, braces and stars in the table's own path as parts of it.
    folder = java(spark).org.apache.hadoop.fs.Path(f"{path}/_delta_log")
    there = [(one.getPath().getName(), one) for one in folder.getFileSystem(hadoop_conf(spark)).listStatus(folder)]
    found = [(_COMMIT.fullmatch(name), one) for name, one in there]
    return dict(sorted((int(match[1]), one) for match, one in found if match is not None))


def commits_since(spark: SparkSession, path: str, since_ms: int, *, most: int) -> list[int] | None:
    """Return the versions whose commits were written since a moment, by the clock of the store; None: more, or not all are left.

    Raises:
        Whatever the storage says (`JAVA_ERRORS`).
    """
    written = {version: int(file.getModificationTime()) for version, file in commit_files(spark, path).items()}
    since = [version for version, at_ms in written.items() if at_ms >= since_ms]
    first = min(written, default=0)
    cleaned = first > 0 and first in since  # those before it are gone, and may have been of that time
    return None if cleaned or len(since) > most else since


def values_at(spark: SparkSession, path: str, version: int, *, columns: Sequence[str]) -> list[LoggedValues]:
    """Return what the log says of the values of some columns, file by file, in the order of `files_at`.

    Args:
        spark: The session.
        path: Absolute path or URI of the table.
        version: Number of the version.
        columns: Physical names; not nested ones.

    Raises:
        Whatever Kernel or the storage say (`LOG_ERRORS`).
    """
    files = _added(spark, path, version, lambda line: _values(line, columns), statistics=True)
    return sorted(files, key=lambda file: file.path)


def hidden_rows(spark: SparkSession, path: str, vector: DeletionVector) -> Any:
    """Return the places of the rows that a deletion vector hides, ascending, as a Java array; its file has a checksum.

    Raises:
        Whatever Kernel or the storage say (`JAVA_ERRORS`).
    """
    jvm: Any = java(spark)
    kernel, optional = jvm.io.delta.kernel, jvm.java.util.Optional
    descriptor = kernel.internal.actions.DeletionVectorDescriptor(
        vector.storage, vector.place, optional.ofNullable(vector.offset), vector.bytes, vector.rows
    )
    files = kernel.defaults.engine.DefaultEngine.create(hadoop_conf(spark)).getFileSystemClient()
    stored = kernel.internal.deletionvectors.DeletionVectorStoredBitmap(descriptor, optional.of(path))
    return stored.load(files).toArray()


def same_rows(spark: SparkSession, one: Any, other: Any) -> bool:
    """Are two answers of `hidden_rows` the same?"""
    return bool(java(spark).java.util.Arrays.equals(one, other))


def _added(spark: SparkSession, path: str, version: int, parse: Callable[[str], T], *, statistics: bool) -> list[T]:
    """Return the `add` actions of a version, each parsed from a line of a commit, in no order."""

    def by_kernel() -> list[T]:
        engine, table = _open(spark, path)
        snapshot = table.getSnapshotAsOfVersion(engine, version)
        _check_commits(snapshot)
        batches = snapshot.getScanBuilder().build().getScanFiles(engine, statistics)
        try:
            return [parse(line) for line in _lines(spark, batches)]
        finally:
            batches.close()

    return read_by_either(spark, path, by_kernel, lambda log: [parse(line) for line in log.added(version)])


def _check_commits(snapshot: Any) -> None:
    """Refuse empty commits: for Kernel they change nothing."""
    for file in items(snapshot.getLogSegment().getDeltas()):
        if file.getSize() == 0:
            raise EmptyCommitError(f"{file.getPath()} is empty")


def logged_files(spark: SparkSession, batches: Any, nulls_of: Sequence[str] = ()) -> Iterator[LoggedFile]:
    """Return the files of a Kernel scan, batch by batch, as they come; the caller closes it."""
    return (_parse(line, nulls_of) for line in _lines(spark, batches))


def _lines(spark: SparkSession, batches: Any) -> Iterator[str]:
    as_json = java_function(spark, "io.delta.kernel.defaults.internal.json.JsonUtils", "rowToJson")
    while batches.hasNext():
        lines = batches.next().getRows().map(as_json).toInMemoryList()
        yield from lines_of(text_of(spark, lines))


def lines_of(text: str) -> list[str]:
    """Return the actions of a commit, one each: a line ends with a line feed and nothing else.

    JSON leaves U+0085, U+2028 and U+2029 as they are, at which Python's own lines end too.
    """
    return [line for line in text.split("\n") if line.strip()]


def action_of(line: str) -> dict[str, Any]:
    """Return what a line of a commit says. A writer may spell out what it does not say, as null: that is left out."""
    action: dict[str, Any] = json.loads(line)
    return {kind: said for kind, said in action.items() if said is not None}


def without_statistics(add: Mapping[str, Any]) -> str:
    """Return an `add` action as a line of a commit, without its statistics: a kilobyte a file that a read does not need."""
    return json.dumps({"add": {name: value for name, value in add.items() if name != "stats"}})


def _open(spark: SparkSession, path: str) -> tuple[Any, Any]:
    kernel: Any = java(spark).io.delta.kernel
    engine = kernel.defaults.engine.DefaultEngine.create(hadoop_conf(spark))  # type: ignore[union-attr]
    return engine, kernel.Table.forPath(engine, path)


def _parse(line: str, nulls_of: Sequence[str]) -> LoggedFile:
    add = json.loads(line)["add"]
    counted = None if nulls_of else _COUNT_FIRST.match(add.get("stats") or "")
    stats = LoggedStatistics(int(counted[1])) if counted else LoggedStatistics.of(add.get("stats"))
    return LoggedFile(
        path=add["path"],
        bytes=add["size"],
        rows=stats.rows,
        deleted=(add.get("deletionVector") or {}).get("cardinality", 0),
        nulls=tuple(stats.null_count(name) for name in nulls_of),
        action=without_statistics(add),
        statistics=add.get("stats"),
    )


def _values(line: str, columns: Sequence[str]) -> LoggedValues:
    return values_of(json.loads(line)["add"], columns)


def values_of(add: Mapping[str, Any], columns: Sequence[str]) -> LoggedValues:
    """Return what an `add` action says of the values of some columns, by their physical names."""
    stats = LoggedStatistics.of(add.get("stats"))
    return LoggedValues(
        path=add["path"],
        rows=stats.rows,
        action=without_statistics(add),
        deleted=(add.get("deletionVector") or {}).get("cardinality", 0),
        smallest=tuple(stats.smallest.get(name) for name in columns),
        largest=tuple(stats.largest.get(name) for name in columns),
        nulls=tuple(stats.null_count(name) for name in columns),
        partition=add.get("partitionValues") or {},
    )
