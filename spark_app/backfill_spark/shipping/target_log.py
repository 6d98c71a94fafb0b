"""The files of a target by the source file that each was made of: listed once, then kept up by the target's own log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from backfill_core.log_shipping.actions import FileAdded, FileRemoved
from backfill_core.log_shipping.target_files import TargetFile, TargetFiles
from backfill_spark.delta.log import added_at, commit_text, newest_version
from backfill_spark.shipping.file_actions import file_actions, file_added

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TargetLog:
    """Knows the files of one target. One caller at a time."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        """Take the table's path; nothing is read yet."""
        self._spark, self._path = spark, path
        self._version = -1
        self._files = TargetFiles()

    def newest(self) -> TargetFiles:
        """Return the files of the newest version.

        The first call lists them; a later one reads the commits since.

        Raises:
            Whatever Kernel or the storage say (`LOG_ERRORS`).
        """
        newest = int(newest_version(self._spark, self._path).position)
        if self._version < 0:
            lines = added_at(self._spark, self._path, newest)
            self._files = TargetFiles.of(_target_file(file_added(json.loads(line)["add"])) for line in lines)
            self._version = newest
        while self._version < newest:
            actions = file_actions(self._version + 1, commit_text(self._spark, self._path, self._version + 1)).files
            added = [one for one in actions if isinstance(one, FileAdded)]
            # An action may name again a file that is there.
            gone = [one.path for one in actions if isinstance(one, FileRemoved)] + [one.path for one in added]
            self._files = self._files.after(gone, map(_target_file, added))
            self._version += 1
        return self._files


def _target_file(one: FileAdded) -> TargetFile:
    add = json.loads(one.action)["add"]
    add.pop("stats", None)
    return TargetFile(one.path, one.vector, json.dumps({"add": add}), one.bytes, add.get("partitionValues") or {})
