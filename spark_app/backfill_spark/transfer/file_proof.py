"""Proves copied files by their bytes: which files both sides of a receipt have, and what is read back of the target.

The source's files are not read again, but for deletion vectors: what was read of them while they were copied is in the tags of the
copies. What is proven leaves both sides; the rest is read by Spark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote

from backfill_core.protocol.receipt import FileMismatch
from backfill_core.transfer.copy_digest import CopyDigest
from backfill_core.transfer.facts import partition_value
from backfill_core.transfer.proof import (
    Damaged,
    HidesOthers,
    LoggedCopy,
    LoggedTargetFile,
    Pair,
    Proven,
    Same,
    Verdict,
    paired,
    proven,
    verdict,
)
from backfill_core.transfer.ways import Whole
from backfill_spark.delta.deletion_vectors import vector_of
from backfill_spark.delta.log import LoggedFile, files_at, hidden_rows, same_rows
from backfill_spark.delta.source_file import SourceFile
from backfill_spark.delta.spark_internals import SparkDeltaLog, delta_actions
from backfill_spark.delta.statistics.misstated import misstated
from backfill_spark.jvm.errors import JAVA_ERRORS, first_line
from backfill_spark.jvm.failures import Trouble, trouble_of
from backfill_spark.jvm.workers import at_once
from backfill_spark.ports.sink import SupportsCopies
from backfill_spark.transfer.bytes import ByteReader
from backfill_spark.transfer.file_transfer import PlannedCopy
from backfill_spark.transfer.job_ways import JobWays

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from backfill_spark.driver.job_context import OpenedJob
    from backfill_spark.opening.compared import ComparedFiles

AT_ONCE = 4
"""Files that are read back at once."""

UNREADABLE = frozenset({Trouble.GONE, Trouble.DAMAGED, Trouble.UNKNOWN})
"""What is wrong with a file, and not with the way to it."""


class FileProof:
    """The files of a source and of one version of a target."""

    def __init__(self, job: OpenedJob, files: ComparedFiles, version: int) -> None:
        """Take a job, the files of the source that are compared, and the version of the target; nothing is asked yet."""
        self._job, self._spark = job, job.spark
        self._source, self._version = files, version
        self._target: Sequence[tuple[LoggedFile, LoggedTargetFile]] = ()

    @classmethod
    def of(cls, job: OpenedJob, files: ComparedFiles | None, version: int) -> Self | None:
        """Return None where one of the sides keeps no files that could be copied."""
        return None if files is None or not isinstance(job.sink, SupportsCopies) else cls(job, files, version)

    def proven(self, check: Callable[[], None]) -> Proven:
        """Read the copied files of the target back; `check` is called often, and what it raises ends that.

        Raises:
            Whatever the storage says of a file that may be there (`JAVA_ERRORS`).
        """
        ways = JobWays.of(self._job)
        # What a filter lets pass was told by the source's statistics: rows prove that too.
        if ways.source is None or not isinstance(ways.best, Whole) or self._job.transform.where is not None:
            return Proven()
        logged = files_at(self._spark, self._job.sink.path, self._version, nulls_of=())
        kinds = {one.physical: one.type for one in ways.target.columns}
        self._target = [(one, _found(one, kinds)) for one in logged]
        found = [one for _, one in self._target]
        if all(one.digest is None for one in found):
            return Proven()
        wanted = (_wanted(one, ways) for one in self._source.listed)
        pairing = paired([one for one in wanted if one is not None], found)
        reader = ByteReader(self._spark, self._job.sink.path)
        tasks = [partial(self._read, pair, reader, check) for pair in pairing.pairs]
        known, doubtful = proven(pairing, at_once(tasks, AT_ONCE)), {file.id for file in pairing.doubtful}
        wrong = self._misstated([file for file, found in self._target if found.id in doubtful])
        return replace(known, wrong=(*known.wrong, *wrong))

    def _misstated(self, files: Sequence[LoggedFile]) -> tuple[FileMismatch, ...]:
        return misstated(self._spark, self._job.sink.path, self._version, files)

    def rest(self, known: Proven) -> tuple[DataFrame, DataFrame] | None:
        """Return the rows of both sides in files that are not left out, before the transform; None: there is no such file."""
        there = [one for one, found in self._target if found.id not in known.target_ids]
        if not there and self._source.are_all(known.source_paths):
            return None
        log = SparkDeltaLog(self._spark, self._job.sink.path)
        actions = delta_actions(self._spark, [one.action for one in there])
        return self._source.without(known.source_paths), log.frame(actions, log.at(self._version))

    def _read(self, pair: Pair, reader: ByteReader, check: Callable[[], None]) -> Verdict:
        try:
            read = reader.read(unquote(pair.target.path), check=check)
        except JAVA_ERRORS as error:
            if trouble_of(error) is Trouble.GONE:
                return Damaged("it is not there")
            raise
        found = verdict(pair, read_bytes=read.size_bytes, read_digest=read.digest)
        if isinstance(found, Damaged) or not pair.vectors_are_read:
            return found
        assert pair.source.vector is not None
        assert pair.target.vector is not None
        mine = hidden_rows(self._spark, self._job.source.path, pair.source.vector)
        try:
            theirs = hidden_rows(self._spark, self._job.sink.path, pair.target.vector)
        except JAVA_ERRORS as error:
            if trouble_of(error) in UNREADABLE:
                return Damaged(f"its deletion vector cannot be read: {first_line(error)}")
            raise
        return Same() if same_rows(self._spark, mine, theirs) else HidesOthers()


def misstated_files(job: OpenedJob, version: int) -> tuple[FileMismatch, ...]:
    """Return the files of a version of the target whose statistics exclude rows; reads all of them.

    Raises:
        Whatever the storage says (`JAVA_ERRORS`).
    """
    if not isinstance(job.sink, SupportsCopies):
        return ()
    path = job.sink.path
    return misstated(job.spark, path, version, files_at(job.spark, path, version, nulls_of=()))


def _wanted(file: LoggedFile, ways: JobWays) -> LoggedCopy | None:
    """Return a file of the source as its copy should be; None: it is not copied whole."""
    planned = ways.planned(SourceFile.of_logged(file))
    if not isinstance(planned, PlannedCopy) or not isinstance(planned.way, Whole):
        return None
    vector = vector_of(json.loads(file.action)["add"])
    return LoggedCopy(file.path, file.bytes, planned.rows, planned.partition, vector)


def _found(file: LoggedFile, kinds: Mapping[str, str]) -> LoggedTargetFile:
    """Return a file of the target; `kinds`: types of its columns, by their physical names."""
    add = json.loads(file.action)["add"]
    partition = add.get("partitionValues") or {}
    return LoggedTargetFile(
        path=file.path,
        bytes=file.bytes,
        rows=file.rows,
        partition={name: partition_value(text, kinds.get(name, "")) for name, text in partition.items()},
        statistics=file.statistics,
        vector=vector_of(add),
        digest=CopyDigest.of_tags(add.get("tags")),
    )
