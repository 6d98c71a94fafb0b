"""Checkpoints that Delta Kernel writes: under a temporary name, then checked, then renamed.

After an error, Kernel closes the file that it writes, so a partial checkpoint looks complete. Readers then fail or miss
rows, and the next checkpoint is built on it. Spark does not close such a file.
"""

from __future__ import annotations

import json
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from backfill_core.errors import TargetDamagedError, TransientError
from backfill_spark.delta.checkpoints.contents import Contents, contents_of
from backfill_spark.delta.log import text_of_file
from backfill_spark.jvm.errors import JAVA_ERRORS, is_a
from backfill_spark.jvm.gateway import hadoop_conf, items, java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS_MAX = 16
"""Checkpoints with more files are not checked. Only Spark writes them, and only complete ones; reading their footers in a bucket takes
seconds."""

REPAIR_HINT = 'See "A checkpoint of the target is incomplete" in docs/operating.md, or start again with a new target.'


class KernelCheckpoints:
    """Writes the checkpoints of one table, and checks the previous checkpoints on which they are built."""

    def __init__(self, spark: SparkSession, path: str, kernel: Any, engine: Any) -> None:
        """Take the table's path, Kernel's package and an engine; nothing is read yet."""
        self._spark, self._path, self._kernel, self._engine = spark, path, kernel, engine
        self._log = f"{path}/_delta_log"

    def check_newest(self) -> None:
        """Reject a table whose newest checkpoint has no protocol or no metadata, so that every read fails.

        Raises:
            TargetDamagedError: the checkpoint is incomplete; names it.
            JAVA_ERRORS: any error of Kernel or the storage.
        """
        self._base_of(self._table().getLatestSnapshot(self._engine))

    def check_before(self, version: int) -> None:
        """Check the checkpoint that a version is read from; raises as `write`."""
        self._base_of(self._table().getSnapshotAsOfVersion(self._engine, version), counts=True)

    def write(self, version: int) -> None:
        """Write the checkpoint of a version, unless another writer has.

        Raises:
            TargetDamagedError: as `check_newest`.
            TransientError: the checkpoint would be incomplete, or the previous one is.
            JAVA_ERRORS: any other error of Kernel or the storage.
        """
        snapshot = self._table().getSnapshotAsOfVersion(self._engine, version)
        if self._base_of(snapshot, counts=True) == version:
            return
        hadoop: Any = java(self._spark).org.apache.hadoop.fs.Path
        name = f"{version:020d}.checkpoint.parquet"
        staged = hadoop(f"{self._log}/.{name}.{secrets.token_hex(8)}.tmp")
        folder = staged.getFileSystem(hadoop_conf(self._spark))
        try:
            files = self._stage(snapshot, str(staged.toString()))
            self._check_staged(contents_of(self._spark, [str(staged.toString())]), version, files)
            if not folder.rename(staged, hadoop(f"{self._log}/{name}")):
                raise TransientError(f"the checkpoint of version {version} could not be renamed to {name}.")
        except BaseException:
            with suppress(*JAVA_ERRORS):
                folder.delete(staged, False)
            raise
        self._point_to(version, files)

    def _table(self) -> Any:
        return self._kernel.Table.forPath(self._engine, self._path)

    def _stage(self, snapshot: Any, path: str) -> int:
        """Write a checkpoint under a name that readers ignore; return the number of files that Kernel counted for it."""
        actions = snapshot.getCreateCheckpointIterator(self._engine)
        try:
            self._engine.getParquetHandler().writeParquetFileAtomically(path, actions)
        finally:
            actions.close()
        return int(actions.getNumberOfAddActions())

    def _check_staged(self, contents: Contents, version: int, files: int) -> None:
        expected = self._files_at(version)
        if contents.lacks or not contents.has_files(files) or not contents.has_files(expected):
            raise TransientError(
                f"the checkpoint of version {version} would be incomplete: {contents.protocols} protocol, "
                f"{contents.metadata} metadata, {contents.files} of {files if expected is None else expected} files."
            )

    def _point_to(self, version: int, files: int) -> None:
        """Write a checkpoint's version into `_last_checkpoint`."""
        internal = self._kernel.internal
        no_parts = java(self._spark).java.util.Optional.empty()
        newest = internal.checkpoints.CheckpointMetaData(version, files, no_parts)
        internal.checkpoints.Checkpointer(internal.fs.Path(self._log)).writeLastCheckpointFile(self._engine, newest)

    def _base_of(self, snapshot: Any, *, counts: bool = False) -> int | None:
        """Return the version of the checkpoint that a snapshot is read from; `None` if it is read from commits only.

        With `counts`, compare its files with the checksum of its version too. Either may be wrong, so a difference ends no job.
        """
        segment = snapshot.getLogSegment()
        paths = [str(file.getPath()) for file in items(segment.getCheckpoints())]
        if not paths:
            return None
        version = int(segment.getCheckpointVersionOpt().get())
        if len(paths) <= PARTS_MAX and all(path.endswith(".parquet") for path in paths):
            contents = contents_of(self._spark, paths)
            if contents.lacks:
                message = f"the checkpoint {paths[0]} has no {contents.lacks}: readers of the target fail."
                raise TargetDamagedError(message, hint=REPAIR_HINT)
            expected = self._files_at(version) if counts else None
            if not contents.has_files(expected):
                raise TransientError(
                    f"the checkpoint {paths[0]} has {contents.files} files, and the checksum of its version counts {expected}.",
                    hint=REPAIR_HINT,
                )
        return version

    def _files_at(self, version: int) -> int | None:
        """Return the number of files of a version from its checksum file; `None` if there is none."""
        try:
            count = json.loads(text_of_file(self._spark, f"{self._log}/{version:020d}.crc"))["numFiles"]
        except JAVA_ERRORS as error:
            if is_a(error, "FileNotFoundException"):
                return None
            raise
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        return count if isinstance(count, int) else None
