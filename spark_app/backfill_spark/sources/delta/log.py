"""Commits after the pinned version: their changes to the table, read from commit files without a Spark job."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from backfill_core.errors import (
    BackfillError,
    ChangeFeedExpiredError,
    ChangeFeedMissingError,
    SchemaChangedError,
    SourceDamagedError,
    SourceReplacedError,
)
from backfill_core.file_copies.logged_statistics import LoggedStatistics
from backfill_spark.delta.log import NO_ACTION, action_of, lines_of
from backfill_spark.delta.properties import CHANGE_FEED, PHYSICAL_NAME, is_on
from backfill_spark.delta.schemas import UserDefinedTypeError, schema_of
from backfill_spark.delta.source_file import without_statistics
from backfill_spark.delta.types import nullable
from backfill_spark.jvm.errors import JAVA_ERRORS, is_a
from backfill_spark.jvm.gateway import hadoop_conf, java
from backfill_spark.sources.delta.failures import explain_version
from backfill_spark.sources.delta.file_access import FileAccess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from backfill_spark.ports.source import PinnedTable

CACHE_MAX = 10_000
"""Number of versions whose facts are cached; a few hundred bytes each, for any number of files."""


@dataclass(frozen=True, slots=True)
class Version:
    """Facts of one commit."""

    adds: bool
    """True if the commit added rows."""

    removes: bool
    """True if the commit updated or deleted rows."""

    table_id: str | None
    schema: StructType | None
    change_feed: bool | None
    """State of the change feed in the commit's metadata action; `None` without such an action."""

    partitions: tuple[str, ...] | None
    """Partition columns in the commit's metadata action; `None` without such an action."""

    operation: str
    changed_bytes: int
    """Bytes of the files from which readers of the change feed take its changes."""


class VersionLog:
    """Reader of commit files after a pinned version; reads each at most once."""

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        pinned: PinnedTable,
        schema_change: str,
        *,
        access: FileAccess,
        feed_at: Callable[[int], bool],
    ) -> None:
        """Prepare to read commits; opens no file yet.

        Args:
            spark: The session.
            path: The table's path.
            pinned: The pinned version.
            schema_change: Policy for changes of the columns: `Fail`, `Ignore` or `Follow`.
            access: Check of the files that the job may read.
            feed_at: Returns True if a version has a change feed; called once for each range that does not continue the last one.
        """
        self._jvm = java(spark)
        self._path = path.rstrip("/")
        self._pinned = pinned
        self._schema_change, self._access = schema_change, access
        conf = hadoop_conf(spark)
        self.file_system = self._jvm.org.apache.hadoop.fs.Path(path).getFileSystem(conf)
        self._seen: dict[int, Version] = {}
        self._feed_at = feed_at
        self._feed: dict[int, bool] = {pinned.version: pinned.change_feed}
        """State of the change feed at the ends of the last range."""

    def check(self, after: int, upto: int) -> None:
        """Reject versions that cannot be applied.

        Raises:
            ChangeFeedExpiredError: a version is gone; names the first.
            SourceReplacedError: another table is at the path.
            SchemaChangedError: names the column, or the partition columns.
        """
        for number in range(after + 1, upto + 1):
            version = self._version(number)
            if version.operation == "RESTORE":
                raise SourceReplacedError(
                    f"{self._path} was restored to an older version by version {number}.",
                    hint="Start a new job on a new target.",
                )
            self._check_table(number, version)

    def checked_text(self, number: int) -> str:
        """Return the text of a commit of the same table; allows RESTORE, and with `follows` other columns.

        Raises:
            SourceDamagedError: the file is not a commit; other errors are those of `check`.
        """
        text = self._text(number)
        version = self._parsed(number, text)
        self._check_table(number, replace(version, schema=None) if self.follows else version)
        return text

    @property
    def follows(self) -> bool:
        """True if the target follows changes of the columns."""
        return self._schema_change == "Follow"

    def _check_table(self, number: int, version: Version) -> None:
        if version.table_id is not None and version.table_id != self._pinned.table_id:
            raise SourceReplacedError(
                f"{self._path} is another table since version {number}.",
                hint="Give the job another jobId and another target.",
            )
        if version.partitions not in (None, self._pinned.partitions):
            # Removed files have the old layout, but Delta's change feed reads them with the new one, and returns nulls.
            raise self._changed(number, f"the partition columns became {list(version.partitions or ())}")
        if version.schema is not None:
            self._check_schema(number, version.schema)

    def _check_schema(self, number: int, schema: StructType) -> None:
        old = {field.name: field for field in self._pinned.schema}
        new = {field.name: field for field in schema}
        for name, field in old.items():
            if name not in new:
                raise self._changed(number, f"column {name!r} was dropped or renamed")
            # Comments and column mapping are metadata of nested fields, not a different type.
            before, after = nullable(field.dataType), nullable(new[name].dataType)
            if before != after:
                what = f"{before.simpleString()} became {after.simpleString()}"
                raise self._changed(number, f"column {name!r} changed its type: {what}")
            stored, stored_now = (physical_names(version) for version in (field, new[name]))
            if stored[0] != stored_now[0] and PHYSICAL_NAME in new[name].metadata:
                # Its values were lost without a row change.
                raise self._changed(number, f"column {name!r} was dropped and added again")
            if stored != stored_now:
                raise self._changed(number, f"column {name!r} has another name in files")
        added = [name for name in new if name not in old]
        if added and self._schema_change != "Ignore":
            raise self._changed(
                number,
                f"column {added[0]!r} was added",
                "Set spec.source.delta.schemaChange: Ignore to continue without it (strategy Replica: Follow to include it), or start a new job.",
            )

    def _changed(self, number: int, what: str, hint: str = "Start a new job on a new target.") -> SchemaChangedError:
        return SchemaChangedError(f"{what} in version {number} of {self._path}.", hint=hint)

    def ranges(self, after: int, upto: int) -> list[tuple[bool, int, int]]:
        """Cut `(after, upto]` into runs of versions with or without change feed: (has feed, first, last).

        Raises:
            ChangeFeedMissingError: a version without change feed updated or deleted rows; names it.
        """
        runs: list[tuple[bool, int, int]] = []
        fed = start = self._feed[after] if after in self._feed else self._feed_at(after)
        for number in range(after + 1, upto + 1):
            version = self._version(number)
            fed = fed if version.change_feed is None else version.change_feed
            if not fed and version.removes:
                raise ChangeFeedMissingError(
                    f"version {number} of {self._path} updated or deleted rows ({version.operation}), "
                    "and the table has no change feed.",
                    hint="Set delta.enableChangeDataFeed = true on the source, then start a new job.",
                )
            if runs and runs[-1][0] == fed:
                runs[-1] = (fed, runs[-1][1], number)
            else:
                runs.append((fed, number, number))
        self._feed = {after: start, upto: fed}
        return runs

    def added(self, number: int) -> tuple[str, ...]:
        """Return the `add` action of each file with new rows of a version, as a line of a commit without its statistics."""
        return tuple(map(without_statistics, self._adds(number)))

    def _adds(self, number: int) -> list[Mapping[str, Any]]:
        """Return the `add` actions with new rows; read again, because a commit may have any number of them."""
        if not self._version(number).adds:
            return []
        return [action["add"] for action in self._actions(number, self._text(number)) if _adds_rows(action)]

    def appended(self, after: int, upto: int) -> list[tuple[int, str]] | None:
        """Return the `add` action, with statistics, of each file with new rows in the versions `(after, upto]`, by version.

        Returns `None` if a version updates or deletes rows, or if two versions add the same file.
        """
        numbers = range(after + 1, upto + 1)
        if any(self._version(number).removes for number in numbers):
            return None
        files = [(number, add) for number in numbers for add in self._adds(number)]
        if len({add["path"] for _, add in files}) < len(files):
            return None
        return [(number, json.dumps({"add": add})) for number, add in files]

    def changed_bytes(self, after: int, upto: int) -> int:
        """Return the bytes of the files that hold the changes of the versions `(after, upto]`."""
        return sum(self._version(number).changed_bytes for number in range(after + 1, upto + 1))

    def _version(self, number: int) -> Version:
        if number not in self._seen:
            if len(self._seen) > CACHE_MAX:
                self._seen.clear()
            self._seen[number] = self._parsed(number, self._text(number))
        return self._seen[number]

    def _parsed(self, number: int, text: str) -> Version:
        with self._explained(number):
            return parse(self._actions(number, text))

    def _actions(self, number: int, text: str) -> list[dict[str, Any]]:
        """Return the actions of a commit whose files the job may read."""
        with self._explained(number):
            actions = [action_of(line) for line in lines_of(text)]
            self._access.check_actions(number, actions)
        return actions

    @contextmanager
    def _explained(self, number: int) -> Iterator[None]:
        try:
            yield
        except UserDefinedTypeError as error:
            raise self._unread(error, number) from error
        except NO_ACTION as error:
            raise SourceDamagedError(
                f"version {number} of {self._path} is not a valid commit: {error}.",
                hint="Restore the file in the source's _delta_log, or start a new job from a version after it.",
            ) from error

    def check_kept(self, number: int) -> None:
        """Fail if a version that is not consumed yet is gone.

        Raises:
            ChangeFeedExpiredError: the version is gone.
            PermissionDeniedError, TransientError: the check is not possible now.
        """
        if number not in self._seen:
            self._open(number).close()

    def _text(self, number: int) -> str:
        stream = self._open(number)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        except JAVA_ERRORS as error:
            raise self._unread(error, number) from error
        finally:
            stream.close()

    def _open(self, number: int) -> Any:
        path = self._jvm.org.apache.hadoop.fs.Path(f"{self._path}/_delta_log/{number:020d}.json")
        try:
            return self.file_system.open(path)
        except JAVA_ERRORS as error:
            if is_a(error, "FileNotFoundException"):
                raise ChangeFeedExpiredError(
                    f"version {number} of {self._path} was removed before it was consumed.",
                    hint="Log cleanup removed it: start a new job on a new target, and keep the source's log for longer.",
                ) from error
            raise self._unread(error, number) from error

    def _unread(self, error: Exception, number: int) -> BackfillError:
        # Only a missing file is a final error; other errors must not end a job that could continue.
        return explain_version(error, path=self._path, version=number, newest=-1)


def parse(actions: Sequence[Mapping[str, Any]]) -> Version:
    """Return the facts of a commit. OPTIMIZE has `dataChange` false, so it neither adds nor removes rows.

    Raises:
        ValueError: the commit has no action, which Delta never writes.
    """
    if not actions:
        raise ValueError("the file is empty")
    adds = removes = False
    operation = ""
    table_id, schema, feed, partitions = None, None, None, None
    for action in actions:
        adds |= _adds_rows(action)
        removes |= bool(action.get("remove", {}).get("dataChange")) or "cdc" in action
        metadata = action.get("metaData")
        if metadata is not None:
            table_id = metadata["id"]
            schema = schema_of(metadata["schemaString"])
            feed = is_on(metadata.get("configuration") or {}, CHANGE_FEED)
            partitions = tuple(metadata.get("partitionColumns") or ())
        operation = action.get("commitInfo", {}).get("operation", operation)
    changed = changed_bytes(actions)
    return Version(adds, removes, table_id, schema, feed, partitions, operation, changed)


def _adds_rows(action: Mapping[str, Any]) -> bool:
    return bool(action.get("add", {}).get("dataChange"))


def changed_bytes(actions: Sequence[Mapping[str, Any]]) -> int:
    """Return the bytes of the files that hold the row changes of a commit: its change files, or else its added and removed files.

    If only the deletion vector of a file changed, the share of its rows that the change hides or shows counts.
    """
    feed = [action["cdc"] for action in actions if "cdc" in action]
    if feed:
        return sum(map(_size, feed))
    added, removed = (
        {action[kind]["path"]: action[kind] for action in actions if action.get(kind, {}).get("dataChange")}
        for kind in ("add", "remove")
    )
    both = added.keys() & removed.keys()
    whole = sum(_size(file) for path, file in (added | removed).items() if path not in both)
    return whole + sum(_changed_by_vector(added[path], removed[path]) for path in both)


def _changed_by_vector(new: Mapping[str, Any], old: Mapping[str, Any]) -> int:
    rows = LoggedStatistics.of_rows(new.get("stats")).rows
    hidden = [_number((file.get("deletionVector") or {}).get("cardinality")) for file in (new, old)]
    return int(_size(new) * min(1.0, abs(hidden[0] - hidden[1]) / rows)) if rows else _size(new)


def _size(file: Mapping[str, Any]) -> int:
    return _number(file.get("size"))


def _number(value: Any) -> int:
    """Return a number of the log; 0 for a malformed one, because only the cuts of large batches depend on it."""
    return value if type(value) is int and value >= 0 else 0


def physical_names(field: StructField) -> tuple[str, tuple[Any, ...]]:
    """Return the physical names of a column and of the fields inside it."""
    return str(field.metadata.get(PHYSICAL_NAME, field.name)), _inside(field.dataType)


def _inside(data_type: DataType) -> tuple[Any, ...]:
    match data_type:
        case StructType():
            return tuple(physical_names(field) for field in data_type)
        case ArrayType():
            return _inside(data_type.elementType)
        case MapType():
            return (_inside(data_type.keyType), _inside(data_type.valueType))
    return ()
