"""Checks of a target's folder, which may not exist yet: write access, and no foreign files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backfill_core.errors import InvalidSpecError, PermissionDeniedError, TargetNotEmptyError
from backfill_core.log_shipping.file_locations import in_one_store
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.jvm.failures import Trouble, describe_error, trouble_of
from backfill_spark.jvm.gateway import hadoop_conf, java
from backfill_spark.jvm.log_stores import refusals
from backfill_spark.jvm.log_stores.conditional_writes import check_conditional_writes
from backfill_spark.sinks.delta.failures import explain_making

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COMMITTED = re.compile(r"\d{20}\.")
"""Names of commits, checkpoints and checksums."""


def qualified(spark: SparkSession, path: str) -> str:
    """Return the canonical URI of a folder, for any file system and any spelling of the path."""
    hadoop = java(spark).org.apache.hadoop.fs.Path(path)
    uri = hadoop.getFileSystem(hadoop_conf(spark)).makeQualified(hadoop).toUri()
    if uri.getScheme() == "file":
        return f"file:{Path(uri.getPath()).resolve()}"
    return in_one_store(str(uri.toString()).rstrip("/"))


class TargetFolder:
    """Folder of an existing or future target."""

    def __init__(self, spark: SparkSession, path: str, *, staging: str) -> None:
        """Store the table's path and the name of the job's staging folder; reads nothing yet."""
        self._spark, self._staging = spark, staging
        self._jvm = java(spark)
        self._path = path
        self._fs = self._jvm.org.apache.hadoop.fs.Path(path).getFileSystem(hadoop_conf(spark))  # type: ignore[union-attr]

    def check_writable(self) -> None:
        """Reject a folder that cannot be created or written.

        Raises:
            InvalidSpecError: the path is a file, or is inside one.
            PermissionDeniedError: this user may not write there, or the file system is mounted read-only.
            UnsupportedTargetFeatureError: the store allows two writers to create the same file.
        """
        path = self._jvm.org.apache.hadoop.fs.Path(self._path)
        action = self._jvm.org.apache.hadoop.fs.permission.FsAction.WRITE
        try:
            while path.getParent() is not None and not self._fs.exists(path):
                path = path.getParent()
            if self._fs.getFileStatus(path).isFile():
                raise InvalidSpecError(
                    f"spec.target.delta.path: {path.toString()} is a file, and a table is a folder.",
                    hint="Choose a path that is neither a file nor below one.",
                )
            self._fs.access(path, action)
            self._check_mount(path)
            check_conditional_writes(self._spark, self._fs, f"{self._path}/{self._staging}")
        except JAVA_ERRORS as error:
            if trouble_of(error) != Trouble.DENIED:
                raise explain_making(error, path=self._path) from error
            raise PermissionDeniedError(
                f"spec.target.delta.path: {path.toString()} is not writable for this user: {describe_error(error)}.",
                hint=refusals.hint_of(error, "Grant write access, or choose another target."),
            ) from error

    def _check_mount(self, path: Any) -> None:
        """Reject a local folder on a read-only mount: Hadoop checks only the file mode, and later errors do not name the cause."""
        if self._fs.getScheme() != "file":
            return
        local = self._jvm.java.io.File(path.toUri().getPath()).toPath()
        if not self._jvm.java.nio.file.Files.isWritable(local):
            raise PermissionDeniedError(
                f"spec.target.delta.path: {path.toString()} is not writable for this user: the file system is read-only.",
                hint="Mount it with write access, or choose another target.",
            )

    def check_foreign_files(self) -> None:
        """Reject a folder that has files but is not a Delta table.

        Raises:
            TargetNotEmptyError: the folder has foreign files.
        """
        path = self._jvm.org.apache.hadoop.fs.Path(self._path)
        if self._fs.exists(path) and any(self._is_foreign(entry) for entry in self._fs.listStatus(path)):
            raise TargetNotEmptyError(
                f"{self._path} contains files and is not a Delta table.", hint="Choose an empty or missing folder."
            )

    def _is_foreign(self, entry: Any) -> bool:
        """Return False for a log without commits, and for this job's staged files.

        The former remains if a process is killed while it creates the table, the latter if the table is dropped.
        """
        name = entry.getPath().getName()
        if name == self._staging:
            return False
        if name != "_delta_log":
            return True
        return any(_COMMITTED.match(file.getPath().getName()) for file in self._fs.listStatus(entry.getPath()))

    def clear(self) -> None:
        """Remove a log without commits, and this job's staged files of a dropped table: Delta creates no table over them.

        A commit that lands in the meantime keeps its log; its writer must stage its files again.
        """
        self._fs.delete(self._jvm.org.apache.hadoop.fs.Path(f"{self._path}/{self._staging}"), True)
        path = self._jvm.org.apache.hadoop.fs.Path(f"{self._path}/_delta_log")
        if self._fs.exists(path):
            for file in self._fs.listStatus(path):
                if not _COMMITTED.match(file.getPath().getName()):
                    self._fs.delete(file.getPath(), False)
            self._fs.delete(path, False)
