"""A changing Delta table, read by pinned version, exact files and versions of its change feed.

Files of the pinned version stay in the JVM as a list in path order; Python knows their row counts only. A split
is a slice of that list, read through Delta itself, so that deletion vectors, column mapping and partition values
are honoured.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill_api.amounts import counted
from backfill_core.errors import BackfillError, KeyInvalidError, SnapshotExpiredError, SourceReplacedError
from backfill_core.log_shipping.actions import VersionActions
from backfill_core.positions.file_order import FileOrder
from backfill_core.positions.key_line import KeyLine
from backfill_core.positions.key_order import KeyOrder, KeyPosition
from backfill_core.positions.vnode_positions import KeySpace
from backfill_core.protocol.events import Head
from backfill_core.protocol.work import FileRange
from backfill_core.transfer.facts import TableFacts
from backfill_spark.delta.log import LOG_ERRORS, LoggedFile, LoggedTable, files_at, newest_version, table_at
from backfill_spark.delta.properties import CHANGE_FEED, is_on, kept_seconds, physical_name
from backfill_spark.delta.schemas import check_schema_text, schema_of
from backfill_spark.delta.source_file import SourceFile
from backfill_spark.delta.spark_internals import SparkDeltaLog, delta_actions, log_damage
from backfill_spark.delta.table_facts import facts_of
from backfill_spark.ports.source import PinnedTable
from backfill_spark.rows.columns import quoted, unused
from backfill_spark.sources.delta.checks import CHANGE_TYPE, COMMIT_VERSION, check_schema
from backfill_spark.sources.delta.failures import explain, explain_log, explain_look, explain_version, explained_version
from backfill_spark.sources.delta.file_access import FileAccess
from backfill_spark.sources.delta.file_bounds import check_order_column, file_order, logged_bounds
from backfill_spark.sources.delta.key_line import key_line, key_order, new_line
from backfill_spark.sources.delta.log import VersionLog
from backfill_spark.sources.delta.range_files import RangeFiles
from backfill_spark.sources.delta.row_changes import change_frames
from backfill_spark.sources.delta.shipping import ShippedLog, check_shippable
from backfill_spark.sources.delta.slices import LABEL, by_part, labelled, residue, runs, within

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class DeltaSource:
    """See the module. `pin` comes first; reading is lazy and may go on in several threads."""

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        *,
        key: tuple[str, ...],
        schema_change: str = "Fail",
        allow_files_outside: tuple[str, ...] = (),
    ) -> None:
        """Take the table's path; nothing is read yet.

        Args:
            spark: The session.
            path: Absolute path or URI of the table.
            key: Key columns in terms of the source; may be empty.
            schema_change: What to do when columns change while the job runs: `Fail`, `Ignore` or `Follow`.
            allow_files_outside: Folders, as absolute paths or URIs, in which the table's log may name files beside its own.
        """
        self._spark = spark
        self.path = path
        self._key = key
        self._schema_change, self._allow_files_outside = schema_change, allow_files_outside
        self._pinned: PinnedTable | None = None
        self._layout: LoggedTable | None = None
        self._snapshot: Any = None
        self._files: Any = None
        self._logged: Sequence[LoggedFile] = ()
        self._nulls: dict[str, list[int | None]] = {}
        self._opened: SparkDeltaLog | None = None
        self._log: VersionLog  # made with the pinned version, before any version after it is asked for
        self._listed = set[int]()
        self._ranges: RangeFiles | None = None

    # ------------------------------------------------------------------ pinning
    def head(self) -> Head:
        """Return the newest version; milliseconds, no Spark job.

        Raises:
            SourceReplacedError: it is not the table that was pinned any more.
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
                hint="It was dropped and made again: give the job another jobId and another target.",
            )
        return head

    def pin(self, version: int | None) -> PinnedTable:
        """Fix the version that the snapshot is read from; None is the newest.

        Raises:
            SourceNotFoundError: there is no Delta table.
            UnsupportedSourceFeatureError: it cannot be read, or a column has a name of the change feed.
            SnapshotExpiredError: the version is gone, or was never there.
            SourceDamagedError: a file of its log cannot be read.
            PermissionDeniedError, TransientError: it is there, and cannot be read now.
            KeyInvalidError: a key column is missing.
        """
        head = self.head()
        wanted = head.position if version is None else version
        if wanted > head.position:
            raise SnapshotExpiredError(
                f"version {wanted} of {self.path} does not exist, the newest is {head.position}.",
                hint="Set spec.source.delta.version to an existing one, or leave it out.",
            )
        try:
            self._opened = SparkDeltaLog(self._spark, self.path)
            newest = self._delta_log.newest(known=head.position, table_id=head.source_id)
            if version is None:
                wanted = int(newest.version())
            self._snapshot = self._delta_log.at(wanted)
            self._pinned = self._describe(wanted)
        except BackfillError:
            raise
        except Exception as error:
            raise explain_version(error, self._spark, path=self.path, version=wanted, newest=head.position) from error
        self._layout = self.layout_at(wanted)
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
        rows = files_at(self._spark, self.path, version, nulls_of=[physical_name(schema[column]) for column in key])
        self._access.check_listed(version, rows)
        self._files = delta_actions(self._spark, [row.action for row in rows])
        self._logged = rows
        self._nulls = {column: [row.nulls[index] for row in rows] for index, column in enumerate(key)}
        counted = self._count([index for index, row in enumerate(rows) if row.rows is None])
        counts = [counted[index] if row.rows is None else row.rows for index, row in enumerate(rows)]
        digest = hashlib.sha256()
        for row, count in zip(rows, counts, strict=True):
            digest.update(f"{row.path}\0{count}\0{row.deleted}\n".encode())
        return PinnedTable(
            version=version,
            timestamp_ms=snapshot.timestamp(),
            rows=tuple(counts),
            deleted=tuple(row.deleted for row in rows),
            bytes=tuple(row.bytes for row in rows),
            table_id=metadata.id(),
            fingerprint=digest.hexdigest()[:32],
            schema=schema,
            partitions=self._delta_log.partitions(snapshot),
            change_feed=is_on(self._delta_log.properties(snapshot), CHANGE_FEED),
        )

    def _count(self, indexes: Sequence[int]) -> dict[int, int]:
        """Count the rows of files whose metadata does not say, deleted ones included; one Spark job for all of them."""
        if not indexes:
            return {}
        silent = [self._files.get(index) for index in indexes]
        return dict(zip(indexes, self._delta_log.row_counts(silent, self._snapshot), strict=True))

    def kept_seconds(self) -> int:
        """Return how long the table keeps removed files and old versions of its log, whichever is shorter."""
        return kept_seconds(self._delta_log.properties(self._snapshot).get)

    def check_no_null_key(self, where: str | None = None) -> None:
        """Refuse null keys among the rows of the pinned version that pass a condition.

        Nulls are counted from the files' statistics where they are there (no read).

        Raises:
            KeyInvalidError: a key column has nulls.
        """
        for column, counts in self._nulls.items():
            nulls = sum(count or 0 for count in counts)
            # Statistics count the rows that a deletion vector or the condition hides too.
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
        """Return how many rows whole files must yield."""
        return sum(self.pinned.rows[one.file] - self.pinned.deleted[one.file] for one in ranges)

    def file_order(self, column: str, direction: str, *, field: str) -> FileOrder:
        """Return the order of the pinned version's files by the values of a column; one listing, no Spark job.

        Raises:
            InvalidSpecError: there is no such column, or its type has no order; names the field of the spec.
        """
        check_order_column(column, self.pinned.schema, field=field)
        named, partitioned = self.pinned.schema[column], column in self.pinned.partitions
        with explained_version(self.path, self.version):
            bounds = logged_bounds(self._spark, self.path, self.version, named, partitioned=partitioned)
        return file_order(column, direction, bounds, field=field)

    def key_order(self, columns: Sequence[tuple[str, bool]], *, field: str) -> KeyOrder:
        """See `SupportsKeyRanges`."""
        return key_order(self.pinned.schema, columns, field=field)

    def key_line(self, space: KeySpace, *, cut_rows: int) -> KeyLine:
        """See `SupportsKeyRanges`; a Spark job only where the log says too little."""
        assert self._ranges is not None
        with explained_version(self.path, self.version):
            files = self._ranges.files(self.version, space.order)
        return key_line(space, self.pinned, files, lambda: self.at(self.version), cut_rows=cut_rows)

    def key_line_at(self, version: int, space: KeySpace, *, cut_rows: int) -> KeyLine | None:
        """See `SupportsKeyRanges`; the log was read for the rows of the version."""
        assert self._ranges is not None
        return new_line(space, self._ranges.files(version, space.order), cut_rows=cut_rows)

    def key_range(self, version: int, order: KeyOrder, low: KeyPosition | None, high: KeyPosition | None) -> DataFrame:
        """See `SupportsKeyRanges`; the files are found in the log."""
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
        return tuple(SourceFile.of_logged(self._logged[index]) for index in files)

    def files_of(self, version: int) -> Sequence[LoggedFile]:
        """See `SupportsFiles`."""
        if version == self.version:
            return self._logged
        with explained_version(self.path, version):
            files = files_at(self._spark, self.path, version, nulls_of=())
        self._access.check_listed(version, files)
        self._listed.add(version)
        return files

    def numbered_rows(self, files: Sequence[SourceFile]) -> tuple[DataFrame, Column, Column]:
        """See `SupportsFiles`."""
        return self._delta_log.numbered_rows(files, self._snapshot)

    # ------------------------------------------------------------------ reading
    def read(self, ranges: Sequence[FileRange]) -> DataFrame:
        """Return the rows of ranges of the pinned version: its columns, no order, lazy."""
        frames: list[DataFrame] = []
        whole = [one.file for one in ranges if one.whole]
        for first, behind in runs(whole):
            frames.append(self._frame(first, behind))
        frames += [self._part(one) for one in ranges if not one.whole]
        return reduce(DataFrame.unionAll, frames) if frames else self._frame(0, 0)

    def _frame(self, first: int, behind: int) -> DataFrame:
        return self._delta_log.frame(self._files.subList(first, behind), self._snapshot)

    def read_segments(self, parts: Sequence[Sequence[FileRange]]) -> tuple[DataFrame, str]:
        """Return rows as `read` does, each file read once, and the name of a column with the index of their part."""
        label = unused(LABEL, self.pinned.schema.names)
        whole, shares = by_part(parts)
        frames = [
            self._frame(first, behind).withColumn(label, F.lit(part))
            for part, files in whole.items()
            for first, behind in runs(files)
        ]
        for file, cut in shares.items():
            frame = self._frame(file, file + 1)
            frames.append(labelled(frame, residue(frame, self._key, cut[0][1].of), cut, label))
        return reduce(DataFrame.unionAll, frames), label

    def _part(self, file_range: FileRange) -> DataFrame:
        frame = self._frame(file_range.file, file_range.file + 1)
        return frame.where(within(residue(frame, self._key, file_range.of), file_range))

    def rows_at(self, version: int) -> int:
        """Return how many rows a version has; from its metadata, where that says so."""
        return self._load(version).count()

    def _load(self, version: int) -> DataFrame:
        if version not in self._listed:
            self.files_of(version)  # Delta reads whatever its log names
        return self._spark.read.format("delta").option("versionAsOf", version).load(self.path)

    def at(self, version: int) -> DataFrame:
        """Return all rows as of a version, with the pinned columns; lazy."""
        return self._load(version).select(*map(quoted, self.pinned.schema.names))

    # ------------------------------------------------------------------ changes
    def check_kept(self, after: int, head: Head) -> None:
        """Refuse to go on when the version after `after` is gone; no Spark job.

        Raises:
            ChangeFeedExpiredError: it is gone.
        """
        if after < head.position:
            self._log.check_kept(after + 1)

    def check_versions(self, after: int, upto: int) -> None:
        """Refuse versions that cannot be applied; no Spark job. See `log.VersionLog.check`."""
        self._log.check(after, upto)

    def changes(self, after: int, upto: int) -> DataFrame:
        """Return the row changes of the versions `(after, upto]`; lazy.

        Shape: the pinned columns, `_change_type` (insert, delete, update_preimage, update_postimage) and
        `_commit_version`; no order.

        Raises:
            ChangeFeedMissingError: there is no change feed and a commit is not append-only.
            ChangeFeedExpiredError: a version is gone.
        """
        columns: list[Any] = [*(F.col(quoted(name)) for name in self.pinned.schema.names), CHANGE_TYPE, COMMIT_VERSION]
        found = list(change_frames(self._log, self._delta_log, self.rows_of, columns, after, upto))
        if found:
            return reduce(DataFrame.unionAll, found)
        nothing = self._frame(0, 0).withColumn(CHANGE_TYPE, F.lit("insert"))
        return nothing.withColumn(COMMIT_VERSION, F.lit(0).cast("long")).select(*columns)

    def appended(self, after: int, upto: int) -> list[tuple[int, str]] | None:
        """See `ports.source.SupportsAppends`."""
        return self._log.appended(after, upto)

    def rows_of(self, actions: Sequence[str], version: int) -> DataFrame:
        """See `SupportsFiles`."""
        frame = self._delta_log.frame(delta_actions(self._spark, actions), self._delta_log.at(version))
        return frame.select(*map(quoted, self.pinned.schema.names))

    # ------------------------------------------------------------------ the log itself
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
        """Say in our words why a job on this source failed, or None when it is unknown."""
        version = -1 if self._pinned is None else self._pinned.version
        known = explain(error, path=self.path, version=version)
        return known or explain_log(log_damage(self._spark, self.path, error), path=self.path)
