"""The manifest of staged files: files next to them that list what a later commit makes visible (ADR 0041).

`<table>/backfill-<job hash>/_manifest/<number>.jsonl`: a header, a line for each file, and the SHA-256 of all of that. VACUUM ignores
the folder because of its underscore; the job removes it at its end. The state names each part with a digest over its files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from backfill_core.errors import TargetChangedError
from backfill_core.protocol.publication import ManifestPart, ManifestWrite
from backfill_core.protocol.work import StagedFile
from backfill_spark.delta.added_files import BESIDE, CommitLine
from backfill_spark.delta.log import text_of_file
from backfill_spark.jvm.errors import JAVA_ERRORS, is_a
from backfill_spark.jvm.gateway import hadoop_conf, java
from backfill_spark.sinks.delta.failures import explain_target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = "_manifest"
FORMAT = 1
LOST_HINT = (
    "The hidden rows are lost: run `backfill release --force`, then run the job again from the beginning. Run no VACUUM with a short "
    "retention on the target meanwhile."
)


class ManifestFolder:
    """Writes and reads the manifest of one job. Thread-safe."""

    def __init__(self, spark: SparkSession, staging: str) -> None:
        """Take the folder of the job's staged files; reads nothing."""
        self._spark, self.path = spark, f"{staging}/{FOLDER}"
        self._table = staging.rsplit("/", 1)[0]

    def write(self, write: ManifestWrite, files: Sequence[tuple[StagedFile, str | None]]) -> None:
        """Write a part: the files of a commit, each with its `add` action as a line, and the files of the parts that it replaces.

        Raises:
            TargetChangedError: a part that it replaces is gone or damaged.
            BackfillError: the storage failed.
        """
        entries = [line for part in write.joins for line in self._entries(part)]
        entries += [_line([file.path, file.size_bytes, file.rows, action]) for file, action in files]
        text = "".join([_line({"format": FORMAT, "files": len(entries)}), *entries])
        text += _line({"sha256": hashlib.sha256(text.encode()).hexdigest()})
        jvm = java(self._spark)
        path = jvm.org.apache.hadoop.fs.Path(self._file(write.part))
        try:
            stream = path.getFileSystem(hadoop_conf(self._spark)).create(path, True)
            try:
                stream.write(bytearray(text, "utf-8"))
            finally:
                stream.close()
        except JAVA_ERRORS as error:
            raise explain_target(error, path=self._table, doing="writing the manifest of staged files") from error

    def read(self, parts: Sequence[ManifestPart]) -> tuple[StagedFile, ...]:
        """Return the files of parts, each with a handle for a commit.

        Raises:
            TargetChangedError: a part is gone, damaged, or lists other files than the state.
            BackfillError: the storage failed.
        """
        return tuple(file for part in parts for file in self._files(part))

    def _files(self, part: ManifestPart) -> list[StagedFile]:
        files = [_staged(*json.loads(line)) for line in self._entries(part)]
        if not part.matches(files):
            raise self._lost(part, "lists other files than the job's state")
        return files

    def _entries(self, part: ManifestPart) -> list[str]:
        try:
            text = text_of_file(self._spark, self._file(part))
        except JAVA_ERRORS as error:
            if is_a(error, "FileNotFoundException"):
                raise self._lost(part, "does not exist") from error
            raise explain_target(error, path=self._table, doing="reading the manifest of staged files") from error
        body, _, last = text.rstrip("\n").rpartition("\n")
        if last != _line({"sha256": hashlib.sha256(f"{body}\n".encode()).hexdigest()}).rstrip("\n"):
            raise self._lost(part, "is damaged")
        return [f"{line}\n" for line in body.split("\n")[1:]]

    def drop(self) -> None:
        """Remove the folder; a missing one is ignored."""
        path = java(self._spark).org.apache.hadoop.fs.Path(self.path)
        path.getFileSystem(hadoop_conf(self._spark)).delete(path, True)

    def _file(self, part: ManifestPart) -> str:
        return f"{self.path}/{part.txn}.jsonl"

    def _lost(self, part: ManifestPart, what: str) -> TargetChangedError:
        return TargetChangedError(f"the manifest of staged files {self._file(part)} {what}.", hint=LOST_HINT)


def _line(value: Any) -> str:
    return json.dumps(value, separators=(",", ":")) + "\n"


def _staged(path: str, size_bytes: int, rows: int, action: str | None) -> StagedFile:
    return StagedFile(path, size_bytes, rows, BESIDE if action is None else CommitLine(action))
