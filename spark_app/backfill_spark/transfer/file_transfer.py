"""Files of a source as staged files of a target, without decoding; from any thread.

A copy lies in the folder of its work, under a name that follows from the path of its source, with a commit line of its own. The
file of a deletion vector lies beside it, as a staged file without rows.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from backfill_core.errors import SourceDamagedError
from backfill_core.phases.accounting import check_read
from backfill_core.protocol.work import FileWay, StagedFile
from backfill_core.transfer.bounds import Written
from backfill_core.transfer.copy_digest import CopyDigest, statistics_digest
from backfill_core.transfer.facts import TableFacts
from backfill_core.transfer.grafting import Groups, can_be_joined
from backfill_core.transfer.unknown_columns import with_known_columns
from backfill_core.transfer.ways import Copying, Decoded, Grafted, Projected, Whole
from backfill_spark.delta.added_files import CommitLine, Statistics
from backfill_spark.delta.deletion_vectors import VectorDescriptor
from backfill_spark.delta.source_file import SourceFile
from backfill_spark.delta.statistics.footer_statistics import CopiedFile
from backfill_spark.jvm.errors import JAVA_ERRORS, first_line
from backfill_spark.jvm.failures import Trouble, trouble_of, while_staging
from backfill_spark.jvm.gateway import java
from backfill_spark.jvm.workers import at_once
from backfill_spark.transfer.bytes import ByteCopier
from backfill_spark.transfer.column_chunks import ChunkCopier
from backfill_spark.transfer.computed_columns import ComputedColumns, FileToCompute
from backfill_spark.transfer.footers import Footer, Footers
from backfill_spark.transfer.vector_copies import RESTORE, copied_vectors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAYS = {Whole: FileWay.WHOLE, Projected: FileWay.PROJECTED, Grafted: FileWay.GRAFTED}

ASKED_AT_ONCE = 16
"""Footers and deletion vectors that are read at once where a store answers late: each is a few requests, of a few KiB."""

COMPUTED_FOLDER = "computed"
"""Below the folder of the work; it is gone when the work is done."""

AT_ONCE = 4
"""Files of one piece of work that are under way at once where a store answers late. Local ones take a core each, so as many as there are cores."""


@dataclass(frozen=True, slots=True)
class PlannedCopy:
    """A file and its way."""

    file: SourceFile
    way: Copying
    partition: Mapping[str, str | None]
    """Its partition values in the target, by physical name."""

    rows: int
    """As the source's log counts them, deleted ones included."""

    known: TableFacts | None = None
    """The columns of the source, by which the footer of the file has the last word; None: it was asked, or there is none."""

    @property
    def is_doubtful(self) -> bool:
        """Must the footer be asked before anything is copied?"""
        return isinstance(self.way, Grafted) or (self.known is not None and self.known.drops)


@dataclass(frozen=True, slots=True)
class _Looked:
    """A file whose way is decided."""

    planned: PlannedCopy
    footer: Footer | None
    """None: it was not asked."""


@dataclass(frozen=True, slots=True)
class MadeCopy:
    """A copy that is there."""

    file: SourceFile
    """It was made of."""

    below: str
    """Its path below the target's folder."""

    whole: bool
    """Was it copied byte by byte?"""


@dataclass(frozen=True, slots=True)
class Copied:
    """A file that was copied."""

    planned: PlannedCopy
    staged: StagedFile
    """Its rows are those that a reader sees."""


@dataclass(frozen=True, slots=True)
class Transferred:
    """What came of some files."""

    copied: tuple[Copied, ...]
    beside: tuple[StagedFile, ...]
    """The files of their deletion vectors; without rows."""

    left: tuple[PlannedCopy, ...]
    """Those that must be decoded after all, as their footers say.

    Encrypted, as their computed columns may be, without a kept column, projected with INT96, with row groups to which no computed columns can be joined, or with
    a field that was dropped inside a column.
    """

    @property
    def staged(self) -> tuple[StagedFile, ...]:
        """All that a commit is to name or needs."""
        return (*(one.staged for one in self.copied), *self.beside)


class FileTransfer:
    """Copies files of one source into the staging folders of one target."""

    def __init__(
        self,
        spark: SparkSession,
        *,
        source: str,
        target: str,
        measure: Callable[[str, CopiedFile], Statistics],
        computed: ComputedColumns | None = None,
    ) -> None:
        """Take the two tables' folders.

        Args:
            spark: The session.
            source: Path or URI.
            target: Path or URI.
            measure: The committer's `statistics`.
            computed: Computes columns of files that are `Grafted`; without it there must be none.
        """
        self._spark = spark
        self._bytes, self._measure, self._computed = ByteCopier(spark, source, target), measure, computed
        self._footers, self._chunks = Footers(spark), ChunkCopier(spark, local=self._bytes.is_local)
        cores = int(java(spark).java.lang.Runtime.getRuntime().availableProcessors())
        self._at_once = min(AT_ONCE, cores) if self._bytes.is_local else AT_ONCE
        self._asked_at_once = self._at_once if self._bytes.is_local else ASKED_AT_ONCE

    def copy(
        self,
        files: Sequence[PlannedCopy],
        folder: str,
        *,
        check: Callable[[], None],
        vectors: Sequence[VectorDescriptor] = (),
    ) -> Transferred:
        """Copy files, in their order.

        Args:
            files: No two of one path.
            folder: Of the work, below the target's: `backfill-<hash>/a<attempt>/s<work>`.
            check: Called often; what it raises ends the copies.
            vectors: Copied too, beside those of the files.

        Raises:
            SourceDamagedError: a file changed under its name, or was cut off.
            AccountingError: a file has another number of rows than its log says.
            StagedFilesGoneError: a copy is gone before it was looked at.
            Whatever the two file systems say (`JAVA_ERRORS`).
        """
        with while_staging(f"{self._bytes.target}/{folder}"):
            return self._copied(files, folder, check, vectors)

    def _copied(
        self,
        files: Sequence[PlannedCopy],
        folder: str,
        check: Callable[[], None],
        vectors: Sequence[VectorDescriptor],
    ) -> Transferred:
        self._bytes.make_folder(folder)
        decided = self._looked(files)
        kept = [one.planned for one in decided if one is not None]
        needed = [*vectors, *(one.file.vector for one in kept if one.file.vector is not None)]
        stored = [one for one in needed if not one.is_inline]
        beside = copied_vectors(self._spark, self._bytes, stored, folder, check=check, at_once_max=self._asked_at_once)
        parts = self._parts(decided, f"{folder}/{COMPUTED_FOLDER}", check)
        tasks = [partial(self._copy, one, folder, check, of_file) for one, of_file in zip(decided, parts, strict=True)]
        done = at_once(tasks, self._at_once)
        if any(isinstance(one.way, Grafted) for one in files):
            self._bytes.remove_folder(f"{folder}/{COMPUTED_FOLDER}")
        copied = tuple(one for one in done if one is not None)
        left = tuple(one for one, result in zip(files, done, strict=True) if result is None)
        return Transferred(copied, beside, left)

    def by_footers(self, files: Sequence[PlannedCopy]) -> list[PlannedCopy | None]:
        """Return files with the ways that their footers leave those that are doubtful; None: it is decoded.

        Raises:
            Whatever the source's file system says (`JAVA_ERRORS`).
        """
        return [None if one is None else one.planned for one in self._looked(files)]

    def _looked(self, files: Sequence[PlannedCopy]) -> list[_Looked | None]:
        if not any(one.is_doubtful for one in files):
            return [_Looked(one, None) for one in files]
        return at_once([partial(self._look, one) for one in files], self._asked_at_once)

    def _look(self, planned: PlannedCopy) -> _Looked | None:
        if not planned.is_doubtful:
            return _Looked(planned, None)
        footer = self._footer(planned)
        decided = None if footer is None else _decided(planned, footer)
        return None if decided is None else _Looked(decided, footer)

    def _footer(self, planned: PlannedCopy) -> Footer | None:
        below = planned.file.below
        try:
            return self._footers.read(f"{self._bytes.source}/{below}")
        except JAVA_ERRORS as error:
            if trouble_of(error) is not Trouble.DAMAGED:
                raise
            raise SourceDamagedError(
                f"the footer of {below} of the source cannot be read: {first_line(error)}.", hint=RESTORE
            ) from error

    def staged_path(self, below: str) -> str:
        """Return the path of a file below the target's folder, as staged files have it."""
        return self._bytes.staged_path(below)

    def _parts(self, files: Sequence[_Looked | None], folder: str, check: Callable[[], None]) -> list[list[str] | None]:
        """Compute the columns of files that are grafted, all of which have the same; return the parts of each, None: there are none."""
        found: list[list[str] | None] = [None] * len(files)
        grafted = {at: one for at, one in enumerate(files) if one is not None and isinstance(one.planned.way, Grafted)}
        wanted = {
            at: FileToCompute(one.planned.file, groups) for at, one in grafted.items() if (groups := self._groups(one))
        }
        ways = [one.planned.way for one in grafted.values()]
        columns = {name for way in ways if isinstance(way, Grafted) for name in way.computed}
        if wanted:
            assert self._computed is not None
            parts = self._computed.parts(
                list(wanted.values()), columns, f"{self._bytes.target}/{folder}",
                listed=lambda below: self._bytes.files(f"{folder}/{below}"), check=check,
            )  # fmt: skip
            for at, of_file in zip(wanted, parts, strict=True):
                found[at] = of_file
        return found

    def _groups(self, looked: _Looked) -> Groups | None:
        """Return the row groups of a file that is grafted; None: no computed columns can be joined to them."""
        planned, footer = looked.planned, looked.footer
        assert isinstance(planned.way, Grafted)
        assert footer is not None  # such a file is doubtful, so it was asked
        if not _can_be_projected(footer, planned.way.taken) or footer.has_old_days:
            return None
        check_read(planned.file.below, read=footer.rows, promised=planned.rows)
        groups = footer.groups
        return groups if can_be_joined(groups) else None

    def _copy(
        self, looked: _Looked | None, folder: str, check: Callable[[], None], parts: Sequence[str] | None
    ) -> Copied | None:
        if looked is None:
            return None
        below = f"{folder}/{looked.planned.file.name}"
        match looked.planned.way:
            case Whole():
                return self._whole(looked, below, check)
            case Projected():
                check()
                return self._projected(looked, below)
            case Grafted() as way:
                check()
                return None if parts is None else self._grafted(looked, below, way, parts)

    def _whole(self, looked: _Looked, below: str, check: Callable[[], None]) -> Copied | None:
        planned, file = looked.planned, looked.planned.file
        # First the footer: bytes that are no file of the table do not belong into the target's folder.
        footer = looked.footer or self._footer(planned)
        if footer is None:
            return None
        _check_size(file, footer.size_bytes)
        check_read(file.below, read=footer.rows, promised=planned.rows)
        decided = _decided(planned, footer)
        if decided is None or decided.way != planned.way:
            left = None if decided is None else _Looked(decided, footer)
            return self._copy(left, below.rpartition("/")[0], check, None)
        copied = self._bytes.copy(file.below, below, check=check)
        _check_size(file, copied.size_bytes)
        found = self._statistics(file, below, footer.written, whole=True)
        check_read(file.below, read=found.rows, promised=planned.rows)
        return self._named(planned, below, found, copied.digest)

    def _projected(self, looked: _Looked, below: str) -> Copied | None:
        footer = looked.footer or self._footer(looked.planned)
        decided = None if footer is None else _decided(looked.planned, footer)
        if footer is None or decided is None:
            return None
        assert isinstance(decided.way, Projected)
        if not _can_be_projected(footer, decided.way):
            return None
        written = self._chunks.project(footer, f"{self._bytes.target}/{below}", decided.way)
        return self._measured(decided, below, written)

    def _grafted(self, looked: _Looked, below: str, way: Grafted, parts: Sequence[str]) -> Copied | None:
        assert looked.footer is not None  # its row groups are known
        computed = [found for part in parts if (found := self._footers.read(part)) is not None]
        if len(computed) < len(parts):
            return None  # Spark is told to encrypt what it writes
        written = self._chunks.graft(looked.footer, f"{self._bytes.target}/{below}", way.taken, computed)
        return None if written is None else self._measured(looked.planned, below, written)

    def statistics(self, copies: Sequence[MadeCopy]) -> list[Statistics]:
        """Return the statistics of copies that are there, under the deletion vectors that their source files have now; in order.

        Raises:
            Whatever Parquet or the storage say (`JAVA_ERRORS`), and what `measure` raises.
        """
        return at_once([partial(self._statistics_of, one) for one in copies], self._asked_at_once)

    def _statistics_of(self, made: MadeCopy) -> Statistics:
        footer = self._footers.read(f"{self._bytes.target}/{made.below}")
        assert footer is not None  # what is encrypted is not copied
        return self._statistics(made.file, made.below, footer.written, whole=made.whole)

    def _statistics(self, file: SourceFile, below: str, written: Written, *, whole: bool) -> Statistics:
        known = CopiedFile(written, wide=file.vector is not None, logged=file.statistics if whole else None)
        return self._measure(self._bytes.staged_path(below), known)

    def _measured(self, planned: PlannedCopy, below: str, written: Written) -> Copied:
        found = self._statistics(planned.file, below, written, whole=False)
        check_read(planned.file.below, read=found.rows, promised=planned.rows)
        return self._named(planned, below, found, None)

    def _named(self, planned: PlannedCopy, below: str, found: Statistics, digest: str | None) -> Copied:
        """Return a copied file with the action that names it."""
        vector = planned.file.vector
        if vector is not None and not vector.is_inline:
            vector = vector.in_folder(below.rpartition("/")[0])
        add = {
            "path": below,
            "partitionValues": planned.partition,
            "size": found.size_bytes,
            "modificationTime": time.time_ns() // 1_000_000,
            "dataChange": True,
            "stats": found.text,
            "deletionVector": None if vector is None else vector.fields,
            "tags": None if digest is None else CopyDigest(digest, statistics_digest(found.text)).tags,
        }
        line = json.dumps({"add": {name: value for name, value in add.items() if value is not None}})
        rows = found.rows - planned.file.deleted
        way = WAYS[type(planned.way)]
        staged = StagedFile(self._bytes.staged_path(below), found.size_bytes, rows, CommitLine(line), way=way)
        return Copied(planned, staged)


def _check_size(file: SourceFile, size_bytes: int) -> None:
    if size_bytes != file.size_bytes:
        raise SourceDamagedError(
            f"{file.below} of the source has {size_bytes:,} bytes, and its log says {file.size_bytes:,}.",
            hint="The file changed under its name: restore it, or start a new job from a newer version.",
        )


def _decided(planned: PlannedCopy, footer: Footer) -> PlannedCopy | None:
    """Return a file with the way that its footer leaves it; None: it must be decoded."""
    if planned.known is None:
        return planned
    way = with_known_columns(planned.way, planned.known, footer.leaves)
    return None if isinstance(way, Decoded) else replace(planned, known=None)


def _can_be_projected(footer: Footer, way: Projected) -> bool:
    return not footer.has_int96 and not set(footer.names) <= set(way.pruned)
