"""A table of the staged files alone, so that a receipt can read them before they are visible (ADR 0041).

Its log lies in the manifest's folder and names the files by absolute paths, as that of a shallow clone does. So Delta itself applies
partition values, column mapping and deletion vectors. No reader of the target sees it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from backfill_core.protocol.work import StagedFile
from backfill_spark.delta.added_files import CommitLine
from backfill_spark.delta.deletion_vectors import VectorDescriptor
from backfill_spark.delta.spark_internals import SparkDeltaLog
from backfill_spark.jvm.gateway import hadoop_conf, java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEPT_PROPERTIES = ("delta.columnMapping.", "delta.enableDeletionVectors")
"""Properties that decide how files are read; others would require more than one commit."""


def write_staged_table(spark: SparkSession, target: str, version: int, files: Sequence[StagedFile], path: str) -> None:
    """Write the log of a table at `path` with the columns of the target and these files.

    Args:
        spark: The session.
        target: Path or URI of the target.
        version: Version of the target with the columns of the files.
        files: Staged files from a manifest.
        path: Folder of the new table; an earlier log in it is replaced.

    Raises:
        JAVA_ERRORS: any error of the storage.
    """
    jvm = java(spark)
    root = jvm.org.apache.hadoop.fs.Path(target)
    storage = root.getFileSystem(hadoop_conf(spark))
    uri = str(storage.makeQualified(root).toUri().toString()).rstrip("/")
    metadata, protocol = SparkDeltaLog(spark, target).described(version)
    lines = [json.dumps({"protocol": _readers(protocol)}), json.dumps({"metaData": _columns(metadata)})]
    lines += [_absolute(file.handle.text, uri) for file in files if isinstance(file.handle, CommitLine)]
    folder = jvm.org.apache.hadoop.fs.Path(path)
    storage.delete(folder, True)
    stream = storage.create(jvm.org.apache.hadoop.fs.Path(f"{path}/_delta_log/{0:020d}.json"), True)
    try:
        stream.write(bytearray("".join(f"{line}\n" for line in lines), "utf-8"))
    finally:
        stream.close()


def _readers(protocol: Mapping[str, Any]) -> dict[str, Any]:
    """Return the target's protocol without the features that only writers need."""
    features = protocol.get("readerFeatures") or []
    if features:
        return {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    # Column mapping needs the writer version 5; without a list of features, a reader of version 1 needs no more than 2.
    reader = int(protocol["minReaderVersion"])
    return {"minReaderVersion": reader, "minWriterVersion": 2 if reader == 1 else 5}


def _columns(metadata: Mapping[str, Any]) -> dict[str, Any]:
    configuration = metadata.get("configuration") or {}
    kept = {name: value for name, value in configuration.items() if name.startswith(KEPT_PROPERTIES)}
    return {**metadata, "configuration": kept}


def _absolute(line: str, uri: str) -> str:
    add = json.loads(line)["add"]
    vector = add.get("deletionVector")
    if vector is not None and not VectorDescriptor(vector).is_inline:
        place = f"{uri}/{VectorDescriptor(vector).file}"
        add["deletionVector"] = {**vector, "storageType": "p", "pathOrInlineDv": place}
    return json.dumps({"add": {**add, "path": f"{uri}/{add['path']}"}})
