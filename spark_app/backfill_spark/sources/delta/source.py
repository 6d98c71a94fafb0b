"""A changing Delta table, read by pinned version, exact files and versions of its change feed.

Python has numbers of the pinned version's files, in path order. Entries of the log are in a temporary file; Delta gets those of a slice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill_api.amounts import counted
from backfill_core.errors import BackfillError, KeyInvalidError, SnapshotExpiredError, SourceReplacedError
from backfill_core.file_copies.facts import TableFacts
from backfill_core.log_shipping.actions import VersionActions
from backfill_core.positions.file_order import FileOrder
from backfill_core.positions.file_ranges import FileRange
from backfill_core.positions.key_order import KeyOrder, KeyPosition
from backfill_core.positions.key_scan import KeyScan
from backfill_core.positions.vnode_positions import KeySpace
from backfill_core.protocol.events import Head
from backfill_spark.delta.listing.logged_files import LoggedFiles
from backfill_spark.delta.log import LOG_ERRORS, LoggedTable, listing_at, newest_version, table_at
from backfill_spark.delta.partition_values import describe_partitions
from backfill_spark.delta.properties import CHANGE_FEED, is_on, kept_seconds, physical_name
from backfill_spark.delta.schemas import check_schema_text, schema_of
from backfill_spark.delta.source_file import SourceFile, fingerprint_of
from backfill_spark.delta.spark_internals import SparkDeltaLog, delta_actions, log_damage
from backfill_spark.delta.table_facts import facts_of
from backfill_spark.delta.types import quoted
from backfill_spark.jvm.gateway import items
from backfill_spark.ports.source import PinnedTable
from backfill_spark.rows.columns import unused
from backfill_spark.sources.delta.checks import CHANGE_TYPE, COMMIT_VERSION, check_schema
from backfill_spark.sources.delta.failures import explain, explain_log, explain_look, explain_version, explained_version
from backfill_spark.sources.delta.file_access import FileAccess
from backfill_spark.sources.delta.file_bounds import check_order_column, file_order, logged_bounds
from backfill_spark.sources.delta.key_scan import key_line, key_order, new_line
from backfill_spark.sources.delta.log import VersionLog
from backfill_spark.sources.delta.range_files import RangeFiles
from backfill_spark.sources.delta.row_changes import change_frames
from backfill_spark.sources.delta.shipping import ShippedLog, check_shippable
from backfill_spark.sources.delta.slices import LABEL, by_part, labelled, residue, runs, within

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class DeltaTableSource:
    """One Delta table. `pin` must be called first; reads are lazy, and may run in several threads."""

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        *,
        key: tuple[str, ...],
        schema_change: str = "Fail",
        allow_files_outside: tuple[str, ...] = (),
    ) -> None:
        """Store the table's path; reads nothing yet.

        Args:
            spark: The session.
            path: Absolute path or URI of the table.
            key: Key columns of the source; may be empty.
            schema_change: Policy for changes of columns while the job runs: `Fail`, `Ignore` or `Follow`.
            allow_files_outside: Folders, as absolute paths or URIs, in which files of the log are allowed besides the table's folder.
        """
        self._spark, self.path, self._key = spark, path, key
        self._schema_change, self._allow_files_outside = schema_change, allow_files_outside
        self._pinned: PinnedTable | None = None
        self._layout: LoggedTable | None = None
        self._snapshot: Any = None
        self._logged: LoggedFiles  # created by `pin`
        self._log: VersionLog  # created by `pin`
        self._nulls: dict[str, list[int | None]] = {}
        self._opened: SparkDeltaLog | None = None
        self._listed = set[int]()
        self._ranges: RangeFiles | None = None

    # ------------------------------------------------------------------ pinning
    def head(self) -> Head:
        """Return the newest version; takes milliseconds, without a Spark job.

        Raises:
            SourceReplacedError: the path no longer has the table that was pinned.
            SourceNotFoundError, PermissionDeniedError, UnsupportedSourceFeatureError, TransientError: it cannot be read.
        """
        try:
            head = newest_version(self._spark, self.path)
        except LOG_ERRORS as error:
            raise explain_look(error, self._spark, path=self.path) from error
        pinned = self._pinned
        if pinned is not None and (head.source_id != pinned.table_id or head.position < pinned.version):
            raise SourceReplacedError(
                f"{self.path} is another table than when version {pinned.version} was pinned.",
                hint="It was dropped and created again: give the job another jobId and another target.",
            )
        return head

    def pin(self, version: int | None) -> PinnedTable:
        """Pin the version from which the snapshot is read; `None` pins the newest.

        Raises:
            SourceNotFoundError: the path has no Delta table.
            UnsupportedSourceFeatureError: it cannot be read, or a column has a name of the change feed.
            SnapshotExpiredError: the version is gone, or never existed.
            SourceDamagedError: a file of its log cannot be read.
            PermissionDeniedError, TransientError: the version exists, but cannot be read now.
            KeyInvalidError: a key column is missing.
        """
        head = self.head()
        requested = head.position if version is None else version
        if requested > head.position:
            raise SnapshotExpiredError(
                f"version {requested} of {self.path} does not exist, the newest is {head.position}.",
                hint="Set spec.source.delta.version to an existing one, or leave it out.",
            )
        try:
            self._opened = SparkDeltaLog(self._spark, self.path)
            newest = self._delta_log.newest(version=head.position, table_id=head.source_id)
            requested = int(newest.version()) if version is None else requested
            self._snapshot = self._delta_log.at(requested)
            self._pinned = self._describe(requested)
        except BackfillError:
            raise
        except Exception as error:
            raise explain_version(
                error, self._spark, path=self.path, version=requested, newest=head.position
            ) from error
        self._layout = self.layout_at(requested)
        check_schema(self.path, self._pinned, self._layout, key=self._key)
        self._log = VersionLog(
            self._spark, self.path, self._pinned, self._schema_change, access=self._access, feed_at=self._has_feed
        )
        self._ranges = RangeFiles(self._spark, self._delta_log, self._pinned.schema, self._access)
        return self._pinned

    def _has_feed(self, version: int) -> bool:
        return is_on(self._delta_log.properties(self._delta_log.at(version)), CHANGE_FEED)

    def _describe(self, version: int) -> PinnedTable:
        snapshot, metadata = self._snapshot, self._snapshot.metadata()
        check_schema_text(str(metadata.schemaString()))
        schema = schema_of(str(snapshot.schema().json()))
        key = [column for column in self._key if column in schema.names]
        physical = [physical_name(schema[column]) for column in key]
        self._logged = files = listing_at(self._spark, self.path, version, nulls_of=physical)
        self._access.check_places(version, files.places())
        self._nulls = {column: [nulls[index] for nulls in files.nulls] for index, column in enumerate(key)}
        counted = self._count([index for index, rows in enumerate(files.rows) if rows is None])
        counts = [counted[index] if rows is None else rows for index, rows in enumerate(files.rows)]
        names = self._delta_log.partitions(snapshot)
        return PinnedTable(
            version=version,
            timestamp_ms=snapshot.timestamp(),
            rows=tuple(counts),
            deleted=tuple(files.deleted),
            bytes=tuple(files.bytes),
            table_id=metadata.id(),
            fingerprint=fingerprint_of(files.paths, counts, files.deleted),
            schema=schema,
            partitions=names,
            change_feed=is_on(self._delta_log.properties(snapshot), CHANGE_FEED),
            partition_of=describe_partitions(files.partitions, [schema[name] for name in names]),
        )

    def _count(self, indexes: Sequence[int]) -> dict[int, int]:
        """Count the rows, with deleted ones, of files without a row count in the log; one Spark job for all files."""
        counts = self._delta_log.row_counts(items(self._actions(indexes)), self._snapshot) if indexes else []
        return dict(zip(indexes, counts, strict=True))

    def _actions(self, indexes: Iterable[int]) -> Any:
        """Return a `java.util.List` of Delta's actions of some files, in order."""
        return delta_actions(self._spark, [self._logged.action(index) for index in indexes])

    def kept_seconds(self) -> int:
        """Return the retention of removed files or of the log's old versions, whichever is shorter."""
        return kept_seconds(self._delta_log.properties(self._snapshot).get)

    def check_no_null_key(self, where: str | None = None) -> None:
        """Reject null keys among the rows of the pinned version that satisfy a condition.

        Nulls are counted from the files' statistics if these exist, without reading rows.

        Raises:
            KeyInvalidError: a key column has nulls.
        """
        for column, counts in self._nulls.items():
            nulls = sum(count or 0 for count in counts)
            # Statistics also count rows that a deletion vector or the condition excludes.
            if None in counts or (nulls and (where is not None or any(self.pinned.deleted))):
                rows = self._frame(0, len(self.pinned.rows))
                nulls = (rows if where is None else rows.where(where)).where(F.col(quoted(column)).isNull()).count()
            if nulls:
                raise KeyInvalidError(
                    f"the key column {column!r} is null in {counted(nulls, 'row')} of version {self.version}.",
                    hint="Choose another key, clean the source, or leave such rows out with spec.transform.where.",
                )

    @property
    def pinned(self) -> PinnedTable:
        """The pinned version; `pin` must have been called."""
        assert self._pinned is not None
        return self._pinned

    @property
    def _delta_log(self) -> SparkDeltaLog:
        assert self._opened is not None
        return self._opened

    @property
    def version(self) -> int:
        """Number of the pinned version."""
        return self.pinned.version

    def live_rows(self, ranges: Sequence[FileRange]) -> int:
        """Return the number of rows that whole files must yield."""
        return sum(self.pinned.rows[part.file] - self.pinned.deleted[part.file] for part in ranges)

    def file_order(self, column: str, direction: str, *, field: str) -> FileOrder:
        """Return the order of the pinned version's files by the values of a column; one listing, no Spark job.

        Raises:
            InvalidSpecError: the column does not exist, or its type has no order; names the field of the spec.
        """
        check_order_column(column, self.pinned.schema, field=field)
        named, partitioned = self.pinned.schema[column], column in self.pinned.partitions
        with explained_version(self.path, self.version):
            bounds = logged_bounds(self._spark, self.path, self.version, named, partitioned=partitioned)
        return file_order(column, direction, bounds, field=field)

    def key_order(self, columns: Sequence[tuple[str, bool]], *, field: str) -> KeyOrder:
        """See `SupportsKeyRanges`."""
        return key_order(self.pinned.schema, columns, field=field)

    def key_line(self, space: KeySpace, *, cut_rows: int) -> KeyScan:
        """See `SupportsKeyRanges`; runs a Spark job only if the log lacks statistics."""
        assert self._ranges is not None
        with explained_version(self.path, self.version):
            files = self._ranges.files(self.version, space.order)
        return key_line(space, self.pinned, files, lambda: self.at(self.version), cut_rows=cut_rows)

    def key_line_at(self, version: int, space: KeySpace, *, cut_rows: int) -> KeyScan | None:
        """See `SupportsKeyRanges`; the files of the version were already listed for its rows."""
        assert self._ranges is not None
        return new_line(space, self._ranges.files(version, space.order), cut_rows=cut_rows)

    def key_range(self, version: int, order: KeyOrder, low: KeyPosition | None, high: KeyPosition | None) -> DataFrame:
        """See `SupportsKeyRanges`; finds the files in the log."""
        assert self._ranges is not None
        try:
            frame = self._ranges.frame(version, order, low, high)
        except LOG_ERRORS as error:
            raise explain_version(error, path=self.path, version=version, newest=int(self.head().position)) from error
        return frame.select(*map(quoted, self.pinned.schema.names))

    # ------------------------------------------------------------------ copying
    def table_facts(self) -> TableFacts:
        """See `SupportsFiles`."""
        return facts_of(self._pinned_layout)

    def source_files(self, files: Sequence[int]) -> tuple[SourceFile, ...]:
        """See `SupportsFiles`."""
        return tuple(SourceFile.of(self._logged.entry(index)) for index in files)

    def files_of(self, version: int) -> LoggedFiles:
        """See `SupportsFiles`."""
        if version == self.version:
            return self._logged
        with explained_version(self.path, version):
            files = listing_at(self._spark, self.path, version, nulls_of=())
        self._access.check_places(version, files.places())
        self._listed.add(version)
        return files

    def numbered_rows(self, files: Sequence[SourceFile]) -> tuple[DataFrame, Column, Column]:
        """See `SupportsFiles`."""
        return self._delta_log.numbered_rows(files, self._snapshot)

    def split_rows(self, files: Sequence[SourceFile], split_bytes: int) -> tuple[DataFrame, Column, Column]:
        """See `SupportsFiles`."""
        return self._delta_log.split_rows(files, self._snapshot, split_bytes)

    # ------------------------------------------------------------------ reading
    def read(self, ranges: Sequence[FileRange]) -> DataFrame:
        """Return the rows of ranges of the pinned version, with its columns and without order; lazy."""
        whole = [part.file for part in ranges if part.whole]
        frames = [self._frame(first, stop) for first, stop in runs(whole)]
        frames += [self._part(part) for part in ranges if not part.whole]
        return reduce(DataFrame.unionAll, frames) if frames else self._frame(0, 0)

    def _frame(self, first: int, stop: int) -> DataFrame:
        return self._delta_log.frame(self._actions(range(first, stop)), self._snapshot)

    def read_segments(self, parts: Sequence[Sequence[FileRange]]) -> tuple[DataFrame, str]:
        """Return rows like `read`, but reading each file once, and the name of a column with the index of their part."""
        label = unused(LABEL, self.pinned.schema.names)
        whole, shares = by_part(parts)
        frames = [
            self._frame(first, stop).withColumn(label, F.lit(part))
            for part, files in whole.items()
            for first, stop in runs(files)
        ]
        for file, cut in shares.items():
            frame = self._frame(file, file + 1)
            frames.append(labelled(frame, residue(frame, self._key, cut[0][1].of), cut, label))
        return reduce(DataFrame.unionAll, frames), label

    def _part(self, file_range: FileRange) -> DataFrame:
        frame = self._frame(file_range.file, file_range.file + 1)
        return frame.where(within(residue(frame, self._key, file_range.of), file_range))

    def rows_at(self, version: int) -> int:
        """Return the number of rows of a version; from its metadata if possible."""
        return self._load(version).count()

    def _load(self, version: int) -> DataFrame:
        if version not in self._listed:
            self.files_of(version)  # checks access, because Delta reads any path in its log
        return self._spark.read.format("delta").option("versionAsOf", version).load(self.path)

    def at(self, version: int) -> DataFrame:
        """Return all rows of a version, with the pinned columns; lazy."""
        return self._load(version).select(*map(quoted, self.pinned.schema.names))

    # ------------------------------------------------------------------ changes
    def check_kept(self, after: int, head: Head) -> None:
        """Fail if the version after `after` is gone; runs no Spark job.

        Raises:
            ChangeFeedExpiredError: it is gone.
        """
        if after < head.position:
            self._log.check_kept(after + 1)

    def check_versions(self, after: int, upto: int) -> None:
        """Reject versions that cannot be applied; runs no Spark job. See `log.VersionLog.check`."""
        self._log.check(after, upto)

    def changes(self, after: int, upto: int) -> DataFrame:
        """Return the row changes of the versions `(after, upto]`; lazy.

        Shape: the pinned columns, `_change_type` (insert, delete, update_preimage, update_postimage) and
        `_commit_version`; no order. Raises the errors of `change_frames`.
        """
        columns: list[Any] = [*(F.col(quoted(name)) for name in self.pinned.schema.names), CHANGE_TYPE, COMMIT_VERSION]
        frames = list(change_frames(self._log, self._delta_log, self.rows_of, columns, after, upto))
        if frames:
            return reduce(DataFrame.unionAll, frames)
        nothing = self._frame(0, 0).withColumn(CHANGE_TYPE, F.lit("insert"))
        return nothing.withColumn(COMMIT_VERSION, F.lit(0).cast("long")).select(*columns)

    def changed_bytes(self, after: int, upto: int) -> int:
        """See `ports.source.SupportsChangeSizes`."""
        return self._log.changed_bytes(after, upto)

    def appended(self, after: int, upto: int) -> list[tuple[int, str]] | None:
        """See `ports.source.SupportsAppends`."""
        return self._log.appended(after, upto)

    def rows_of(self, actions: Sequence[str], version: int) -> DataFrame:
        """See `SupportsFiles`."""
        frame = self._delta_log.frame(delta_actions(self._spark, actions), self._delta_log.at(version))
        return frame.select(*map(quoted, self.pinned.schema.names))

    # ------------------------------------------------------------------ log shipping
    def shippable(self) -> LoggedTable:
        """See `ports.source.SupportsLog`."""
        check_shippable(self.path, self._pinned_layout)
        return self._pinned_layout

    def log_actions(self, after: int, upto: int) -> Iterator[VersionActions]:
        """See `ports.source.SupportsLog`."""
        return ShippedLog(self._log, self.path, self._pinned_layout, self.layout_at).versions(after, upto)

    @cached_property
    def _access(self) -> FileAccess:
        return FileAccess.of(self._spark, self.path, self._allow_files_outside)

    @property
    def _pinned_layout(self) -> LoggedTable:
        assert self._layout is not None
        return self._layout

    def layout_at(self, version: int) -> LoggedTable:
        """See `ports.source.SupportsLog`."""
        with explained_version(self.path, version):
            return table_at(self._spark, self.path, version)

    # ------------------------------------------------------------------ failures
    def explain_failure(self, error: Exception) -> BackfillError | None:
        """Translate the failure of a Spark job on this source; `None` for unknown errors."""
        version = -1 if self._pinned is None else self._pinned.version
        explained = explain(error, path=self.path, version=version)
        return explained or explain_log(log_damage(self._spark, self.path, error), path=self.path)
