"""Staging folder of a job: `<table>/backfill-<job hash>/a<attempt>/s<work>/[part=<n>/]`.

VACUUM removes uncommitted files there, and keeps the others. It ignores folders with a leading underscore, so in such a folder
files that OPTIMIZE replaced would never be removed. Files of other writers in the folder are not touched.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill_core.errors import StagedFilesGoneError
from backfill_core.phases.accounting import GONE_HINT
from backfill_core.protocol.work import StagedFile
from backfill_spark.delta.deletion_vectors import VectorDescriptor
from backfill_spark.delta.log import action_of, commit_text, commits_since, lines_of
from backfill_spark.jvm.bulk_calls import java_function
from backfill_spark.jvm.errors import JAVA_ERRORS, is_a
from backfill_spark.jvm.gateway import hadoop_conf, java
from backfill_spark.jvm.object_store.s3_requests import S3Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PART = "part"
"""Start of the name of a part's folder; it must not begin with an underscore, which VACUUM ignores."""

ATTEMPT, WORK, OF_A_PART = re.compile(r"a(\d+)"), re.compile(r"s\d+"), re.compile(rf"{PART}_*=\d+")

CLOCKS_MS = 60_000
"""Largest clock difference, in milliseconds, between writers of files."""

COMMITS_MAX = 5_000
"""Largest number of commits that are read to find orphans."""

_BEFORE_PATH, _AFTER_PATH = "path=", "; isDirectory=false; length="
_HOST = re.compile(r"^(?:[a-zA-Z][\w+.-]*:(?://[^/]*)?)?")
_LENGTH = re.compile(r"(\d{1,19});")


def listed_files(text: str) -> dict[str, int]:
    """Return the size of each file by its path, parsed from Hadoop's string of a file listing."""
    sizes: dict[str, int] = {}
    at = 0
    while (start := text.find(_BEFORE_PATH, at)) >= 0 and (end := text.find(_AFTER_PATH, start)) >= 0:
        at = end + len(_AFTER_PATH)
        path = text[start + len(_BEFORE_PATH) : end]
        length = _LENGTH.match(text, at)
        if length is not None:
            sizes[_HOST.sub("", path, count=1)] = int(length[1])
    return sizes


def _local_files(folder: str) -> list[str]:
    """Return the paths of the files below a local folder; raise an `OSError` if one is missing or cannot be read."""

    def fail(error: OSError) -> None:
        raise error

    return [f"{parent}/{name}" for parent, _, names in os.walk(folder, onerror=fail) for name in names]


def _work_of(path: str) -> str:
    match = re.match(rf"(.*/{ATTEMPT.pattern}/{WORK.pattern})/", path, re.DOTALL)
    assert match is not None, path
    return match[1]


def part_of(path: str, attempt: int, work_id: int) -> int:
    """Return the part that a file was staged for."""
    # The last match: the path of the table may contain such a folder name too.
    match = re.match(rf".*/a{attempt}/s{work_id}/{PART}_*=(\d+)/", path, re.DOTALL)
    assert match is not None, path
    return int(match[1])


def _is_before(below: str, attempt: int) -> bool:
    """Return true if an attempt before this one staged a file; `below` is its path below the job's folder."""
    match = re.match(rf"{ATTEMPT.pattern}/", below)
    return match is not None and int(match[1]) < attempt


class StagingFolder:
    """Finds and removes staged files of one job in one table. Thread-safe."""

    def __init__(self, spark: SparkSession, table_path: str, job_hash: str) -> None:
        """Store the table's path; reads nothing, and the folder may not exist."""
        self._spark = spark
        self._path: Any = java(spark).org.apache.hadoop.fs.Path
        self.name = f"backfill-{job_hash}"
        self.path = f"{table_path}/{self.name}"
        self._fs = self._path(table_path).getFileSystem(hadoop_conf(spark))
        self._is_local = str(self._fs.getUri().getScheme()) == "file"

    def of_work(self, attempt: int, work_id: int, part: int | None = None) -> str:
        """Return the folder of one piece of work, or of a part of it that is sealed separately."""
        return f"{self.path}/a{attempt}/s{work_id}" + ("" if part is None else f"/{PART}={part}")

    def files(self, folder: str) -> list[str]:
        """Return the absolute paths of the Parquet files below a folder, in order."""
        names = ((path, path.rsplit("/", 1)[-1]) for path in self._below(folder))
        return sorted(path for path, name in names if name.endswith(".parquet") and not name.startswith(("_", ".")))

    def _below(self, folder: str) -> list[str]:
        """Return the paths of the files below a folder; Hadoop starts a process for each file on a local disk, so Python lists it."""
        if self._is_local:
            with suppress(OSError):  # Hadoop tries again and reports the error
                return _local_files(str(self._path(folder).toUri().getPath()))
        paths: list[str] = []
        if not self._fs.exists(self._path(folder)):
            return paths  # a write without rows may create no folder
        files = self._fs.listFiles(self._path(folder), True)
        while files.hasNext():
            paths.append(str(files.next().getPath().toUri().getPath()))
        return paths

    def newest_attempt(self) -> int:
        """Return the largest number of an attempt with a folder; 0 if there is none.

        Raises:
            JAVA_ERRORS: the storage failed.
        """
        root = self._path(self.path)
        if not self._fs.exists(root):
            return 0
        return max((int(folder.getName()[1:]) for folder in self._folders(root, ATTEMPT)), default=0)

    def uri(self, path: str) -> str:
        """Return the URI of a staged file, with its scheme; a bare path refers to the default file system."""
        return str(self._fs.makeQualified(self._path(path)).toString())

    def check(self, files: Sequence[StagedFile]) -> None:
        """Reject staged files that are gone or changed.

        Every seal waits for this. Hadoop takes 5 ms per file to list a local disk, so local files are checked one by one; in
        remote stores, one listing per piece of work is cheaper.

        Raises:
            StagedFilesGoneError: names one of them.
        """
        sizes: dict[str, int] = {}
        if self._is_local:
            for file in files:
                with suppress(FileNotFoundError, NotADirectoryError):
                    sizes[file.path] = Path(file.path).stat().st_size
        else:
            for folder in sorted({_work_of(file.path) for file in files}):
                sizes |= self._sizes(folder)
        gone = [file.path for file in files if sizes.get(file.path) != file.size_bytes]
        if not self._is_local:
            # The string of a listing differs between file systems (viewfs), so each missing file is checked again.
            suspects = frozenset(gone)
            gone = [file.path for file in files if file.path in suspects and self._size(file.path) != file.size_bytes]
        if gone:
            raise StagedFilesGoneError(
                f"{len(gone)} of {len(files)} staged files are gone or changed, as {gone[0]}.", hint=GONE_HINT
            )

    def _size(self, path: str) -> int | None:
        try:
            return int(self._fs.getFileStatus(self._path(path)).getLen())
        except JAVA_ERRORS as error:
            if is_a(error, "FileNotFoundException"):
                return None
            raise

    def _sizes(self, folder: str) -> dict[str, int]:
        """Return the size of each file below a folder by its path, with few JVM calls for any number of files."""
        if not self._fs.exists(self._path(folder)):
            return {}
        lister = java(self._spark).org.apache.hadoop.util.functional.RemoteIterators
        listing = str(lister.toList(self._fs.listFiles(self._path(folder), True)).toString())
        return listed_files(listing)

    def discard(self, paths: Sequence[str]) -> None:
        """Remove files; missing files are ignored."""
        for path in paths:
            self._fs.delete(self._path(path), False)

    def discard_work(self, attempt: int, work_id: int) -> None:
        """Remove the staged files of one piece of work."""
        self._fs.delete(self._path(self.of_work(attempt, work_id)), True)

    def remove_orphans(
        self,
        before_attempt: int,
        named_files: Callable[[], tuple[DataFrame, DataFrame]],
        *,
        kept: Sequence[str] = (),
    ) -> int:
        """Remove files that earlier attempts staged and never committed, and abort their uploads; return the number of removed folders.

        A folder stays if the table, or any commit, contains one of its files. Each piece of work, or each part with its own
        folder, is sealed as a whole. Readers of earlier versions still need removed files, but checkpoints of Delta Kernel drop
        some of them. So this method reads the commits since the oldest of the staged files. If there are too many commits, or if
        some are missing, the files are left to VACUUM.

        Args:
            before_attempt: Number of the running attempt.
            named_files: Returns the current files of the table, and its removed files; called only if needed.
            kept: Paths of more files that stay.

        Raises:
            JAVA_ERRORS: the storage failed, or the keys may not list or abort uploads.
        """
        removed = self._remove_files(before_attempt, named_files, kept)
        self._abort_uploads(before_attempt)
        return removed

    def _remove_files(
        self, before_attempt: int, named_files: Callable[[], tuple[DataFrame, DataFrame]], kept: Sequence[str]
    ) -> int:
        root = self._path(self.path)
        if not self._fs.exists(root):
            return 0
        old = [path for path in self._folders(root, ATTEMPT) if int(path.getName()[1:]) < before_attempt]
        if not old:
            return 0
        named = self._named(named_files()) | self._works_of(kept)
        unnamed = [self._unnamed(attempt, named) for attempt in old]
        committed = self._committed([folder for folders in unnamed for folder in folders])
        if committed is None:
            return 0
        if not committed <= named:
            unnamed = [self._unnamed(attempt, named | committed) for attempt in old]
        removed = 0
        for attempt, folders in zip(old, unnamed, strict=True):
            for folder in folders:
                self._fs.delete(folder, True)
                removed += 1
            if len(self._fs.listStatus(attempt)) == 0:
                self._fs.delete(attempt, False)
        return removed

    def _abort_uploads(self, before_attempt: int) -> None:
        table = S3Folder.of(self._spark, self.path.removesuffix(f"/{self.name}"))
        if table is not None:
            table.abort_uploads(self.name, lambda below: _is_before(below, before_attempt))

    def _unnamed(self, attempt: Any, named: set[str]) -> list[Any]:
        """Return the folders of an attempt's work, or of its parts, that contain no file in `named`."""
        unnamed: list[Any] = []
        for work in self._folders(attempt, WORK):
            name = f"{attempt.getName()}/{work.getName()}"
            # The folder may also belong to a partition column with this name; without committed files, it is an orphan too.
            parts = self._folders(work, OF_A_PART) if name in named else []
            unsealed = [part for part in parts if f"{name}/{part.getName()}" not in named]
            unnamed += unsealed if name in named else [work]
        return unnamed

    def _committed(self, folders: Sequence[Any]) -> set[str] | None:
        """Return the names, as in `_named`, in commits since the oldest file of some folders; `None` if commits are missing."""
        oldest_ms = self._oldest_ms(folders)
        if oldest_ms is None:
            return set()
        table = self.path.removesuffix(f"/{self.name}")
        versions = commits_since(self._spark, table, oldest_ms - CLOCKS_MS, most=COMMITS_MAX)
        if versions is None:
            return None
        names: set[str] = set()
        for version in versions:
            text = commit_text(self._spark, table, version)
            if self.name in text:
                names |= self._names_in(text)
        return names

    def _oldest_ms(self, folders: Sequence[Any]) -> int | None:
        """Return when the oldest file in some folders was written; `None` without files. Few JVM calls for any number of files."""
        jvm = java(self._spark)
        lister, order = jvm.org.apache.hadoop.util.functional.RemoteIterators, jvm.java.util.Comparator.naturalOrder()
        written_ms = java_function(self._spark, "org.apache.hadoop.fs.FileStatus", "getModificationTime")
        files = (lister.toList(self._fs.listFiles(folder, True)).stream() for folder in folders)
        oldest = [of_folder.map(written_ms).min(order) for of_folder in files]
        return min((int(time_ms.get()) for time_ms in oldest if time_ms.isPresent()), default=None)

    def _names_in(self, text: str) -> set[str]:
        names: set[str] = set()
        for action in map(action_of, lines_of(text)):
            file = action.get("add") or action.get("remove")
            if file is None:
                continue
            places = [str(file["path"])]
            if file.get("deletionVector"):
                vector = VectorDescriptor(file["deletionVector"])
                places += [] if vector.is_inline or vector.is_elsewhere else [vector.file]
            names |= self._works_of(places)
        return names

    def _works_of(self, paths: Sequence[str]) -> set[str]:
        """Return the names, as in `_named`, of the work that staged these files, and of its parts."""
        matches = (re.search(rf"{self.name}/(a\d+/s\d+)/(?:({OF_A_PART.pattern})/)?", path) for path in paths)
        return {name for match in filter(None, matches) for name in (match[1], f"{match[1]}/{match[2]}")}

    def _folders(self, parent: Any, named: re.Pattern[str]) -> list[Any]:
        below = [entry.getPath() for entry in self._fs.listStatus(parent) if entry.isDirectory()]
        return [path for path in below if named.fullmatch(path.getName())]

    def _named(self, files: tuple[DataFrame, DataFrame]) -> set[str]:
        """Return `a<attempt>/s<work>`, and `…/part=<n>` below it, of every current or removed file of the table."""
        names: set[str] = set()
        for frame in files:
            inside = frame.where(F.col("path").contains(f"{self.name}/"))
            work = F.regexp_extract("path", rf"{self.name}/(a\d+/s\d+)/", 1).alias("work")
            part = F.regexp_extract("path", rf"{self.name}/(a\d+/s\d+/{OF_A_PART.pattern})/", 1).alias("part")
            names |= {name for row in inside.select(work, part).distinct().collect() for name in row}
        return names
