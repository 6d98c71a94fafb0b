"""Target files by the source file of each: listed once, then updated from the target's log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from backfill_core.log_shipping.actions import FileAdded, FileRemoved
from backfill_core.log_shipping.target_files import TargetFile, TargetFiles
from backfill_spark.delta.log import added_at, commit_text, newest_version
from backfill_spark.log_shipping.file_actions import file_actions, file_added

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TargetLog:
    """The current files of one target. Not thread-safe."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        """Store the table's path; reads nothing yet."""
        self._spark, self._path = spark, path
        self._version = -1
        self._files = TargetFiles()

    def newest(self, source_paths: Callable[[], Iterable[str]] = tuple) -> TargetFiles:
        """Return the files of the newest version.

        The first call lists them; a later one reads the commits since.

        Args:
            source_paths: Reads the paths of the source's files; called once for each set of foreign files.

        Raises:
            LOG_ERRORS: Kernel or the storage failed.
        """
        newest = int(newest_version(self._spark, self._path).position)
        if self._version < 0:
            lines = added_at(self._spark, self._path, newest)
            self._files = TargetFiles.of(_target_file(file_added(json.loads(line)["add"])) for line in lines)
            self._version = newest
        while self._version < newest:
            actions = file_actions(self._version + 1, commit_text(self._spark, self._path, self._version + 1)).files
            added = [action for action in actions if isinstance(action, FileAdded)]
            # An `add` may repeat an existing file.
            removed = [action.path for action in actions if isinstance(action, FileRemoved)]
            gone = removed + [action.path for action in added]
            self._files = self._files.after(gone, map(_target_file, added))
            self._version += 1
        if self._files.foreign_files:
            self._files = self._files.knowing_copies(source_paths())
        return self._files


def _target_file(added: FileAdded) -> TargetFile:
    add = json.loads(added.action)["add"]
    add.pop("stats", None)
    return TargetFile(added.path, added.vector, json.dumps({"add": add}), added.bytes, add.get("partitionValues") or {})
