"""The folder of a target that may not be there yet: may it be written, and is it free?"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backfill_core.errors import InvalidSpecError, PermissionDeniedError, TargetNotEmptyError
from backfill_core.log_shipping.file_locations import in_one_store
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.jvm.failures import Trouble, in_words, trouble_of
from backfill_spark.jvm.gateway import hadoop_conf, java
from backfill_spark.jvm.log_stores import refusals
from backfill_spark.jvm.log_stores.conditional_writes import check_conditional_writes
from backfill_spark.sinks.delta.failures import explain_making

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COMMITTED = re.compile(r"\d{20}\.")
"""Names of commits, checkpoints and checksums."""


def qualified(spark: SparkSession, path: str) -> str:
    """Return the one URI of a folder, whatever file system it is on and however it was written."""
    hadoop = java(spark).org.apache.hadoop.fs.Path(path)
    uri = hadoop.getFileSystem(hadoop_conf(spark)).makeQualified(hadoop).toUri()
    if uri.getScheme() == "file":
        return f"file:{Path(uri.getPath()).resolve()}"
    return in_one_store(str(uri.toString()).rstrip("/"))


class TargetFolder:
    """What lies where a target is, or is to be."""

    def __init__(self, spark: SparkSession, path: str, *, staging: str) -> None:
        """Take the table's path and the name of the job's folder of staged files; nothing is read yet."""
        self._spark, self._staging = spark, staging
        self._jvm = java(spark)
        self._path = path
        self._fs = self._jvm.org.apache.hadoop.fs.Path(path).getFileSystem(hadoop_conf(spark))  # type: ignore[union-attr]

    def check_writable(self) -> None:
        """Refuse a folder that cannot be made or written.

        Raises:
            InvalidSpecError: it lies below a file.
            PermissionDeniedError: this user may not write there, or the file system is mounted read-only.
            UnsupportedTargetFeatureError: the store lets two writers make the same file.
        """
        path = self._jvm.org.apache.hadoop.fs.Path(self._path)
        action = self._jvm.org.apache.hadoop.fs.permission.FsAction.WRITE
        try:
            while path.getParent() is not None and not self._fs.exists(path):
                path = path.getParent()
            if self._fs.getFileStatus(path).isFile():
                raise InvalidSpecError(
                    f"spec.target.delta.path: {path.toString()} is a file, and a table is a folder.",
                    hint="Choose a path that is none, nor lies below one.",
                )
            self._fs.access(path, action)
            self._check_mount(path)
            check_conditional_writes(self._spark, self._fs, f"{self._path}/{self._staging}")
        except JAVA_ERRORS as error:
            if trouble_of(error) != Trouble.DENIED:
                raise explain_making(error, path=self._path) from error
            raise PermissionDeniedError(
                f"spec.target.delta.path: {path.toString()} is not writable for this user: {in_words(error)}.",
                hint=refusals.hint_of(error, "Grant write access, or choose another target."),
            ) from error

    def _check_mount(self, path: Any) -> None:
        """Refuse a local folder on a read-only mount: Hadoop reads only its mode, and an error of a creation does not name the cause."""
        if self._fs.getScheme() != "file":
            return
        local = self._jvm.java.io.File(path.toUri().getPath()).toPath()
        if not self._jvm.java.nio.file.Files.isWritable(local):
            raise PermissionDeniedError(
                f"spec.target.delta.path: {path.toString()} is not writable for this user: the file system is read-only.",
                hint="Mount it with write access, or choose another target.",
            )

    def check_foreign_files(self) -> None:
        """Refuse a folder with files that no table explains.

        Raises:
            TargetNotEmptyError: it has some.
        """
        path = self._jvm.org.apache.hadoop.fs.Path(self._path)
        if self._fs.exists(path) and any(self._is_foreign(one) for one in self._fs.listStatus(path)):
            raise TargetNotEmptyError(
                f"{self._path} holds files and is no Delta table.", hint="Choose an empty or missing folder."
            )

    def _is_foreign(self, entry: Any) -> bool:
        """Is it more than a log without commits, or staged files of ours?

        A process that is killed while it makes the table leaves the one, a job whose table is dropped the other.
        """
        name = entry.getPath().getName()
        if name == self._staging:
            return False
        if name != "_delta_log":
            return True
        return any(_COMMITTED.match(one.getPath().getName()) for one in self._fs.listStatus(entry.getPath()))

    def clear(self) -> None:
        """Remove a log without commits, and what this job staged in a table that is gone: Delta makes no table over either.

        A commit that lands meanwhile keeps its folder; who staged for it stages again.
        """
        self._fs.delete(self._jvm.org.apache.hadoop.fs.Path(f"{self._path}/{self._staging}"), True)
        path = self._jvm.org.apache.hadoop.fs.Path(f"{self._path}/_delta_log")
        if self._fs.exists(path):
            for one in self._fs.listStatus(path):
                if not _COMMITTED.match(one.getPath().getName()):
                    self._fs.delete(one.getPath(), False)
            self._fs.delete(path, False)
