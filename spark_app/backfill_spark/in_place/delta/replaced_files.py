"""Files that filled copies replaced; a VACUUM removes them some time later."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import unquote

from backfill_spark.delta.deletion_vectors import VectorDescriptor
from backfill_spark.delta.source_file import LoggedFile
from backfill_spark.jvm.errors import JAVA_ERRORS, is_a
from backfill_spark.jvm.gateway import hadoop_conf, java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def existing(spark: SparkSession, table: str, paths: Iterable[str]) -> frozenset[str]:
    """Return those of some paths of a log whose files exist; lists each of their folders once.

    Raises:
        JAVA_ERRORS: any error of the storage.
    """
    by_folder: dict[str, dict[str, str]] = {}
    for path in paths:
        folder, _, name = unquote(path).rpartition("/")
        by_folder.setdefault(folder, {})[name] = path
    found: set[str] = set()
    for folder, names in by_folder.items():
        listed = _names_in(spark, f"{table}/{folder}".rstrip("/"))
        found.update(path for name, path in names.items() if name in listed)
    return frozenset(found)


def file_names(file: LoggedFile) -> Iterator[str]:
    """Yield the name of a file in its folder, as messages spell it, and that of the file of its deletion vector."""
    yield file.path.rpartition("/")[2]
    yield unquote(file.path).rpartition("/")[2]
    if file.deleted:
        vector = VectorDescriptor(json.loads(file.action)["add"]["deletionVector"])
        if not vector.is_inline:
            yield str(vector.fields["pathOrInlineDv"] if vector.is_absolute else vector.file).rpartition("/")[2]


def _names_in(spark: SparkSession, folder: str) -> frozenset[str]:
    path = java(spark).org.apache.hadoop.fs.Path(folder)
    try:
        listed = path.getFileSystem(hadoop_conf(spark)).listStatus(path)
    except JAVA_ERRORS as error:
        if is_a(error, "FileNotFoundException"):
            return frozenset()
        raise
    return frozenset(str(file.getPath().getName()) for file in listed)
