"""Many local files are copied in batches: few calls into Java, and every check of a single copy."""

import json
import shutil
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest

from backfill_core.errors import AccountingError, SourceDamagedError
from backfill_core.file_copies.copy_modes import Whole
from backfill_spark.delta.source_file import SourceFile
from backfill_spark.delta.statistics.footer_statistics import CopiedFile
from backfill_spark.file_copies.bytes import ByteCopier
from backfill_spark.file_copies.copied_files import PlannedCopy
from backfill_spark.file_copies.copier import FileTransfer
from backfill_spark.file_copies.copy_batches import LOCAL_BATCH_MIN, BatchFiles, CopyBatches, ObjectToCopy
from backfill_spark.file_copies.footers import Footers
from backfill_spark.jvm.gateway import java
from backfill_spark.sinks.delta.committer import DeltaCommitter

FILES, ROWS = LOCAL_BATCH_MIN, 320
ODD = ("a b.parquet", "ü%20.parquet", "100%.parquet", "tab\t.parquet")
COLUMNS = (
    "id", "double(id) AS x", "if(id % 20 = 3, double('NaN'), double(id)) AS y", "date_add(date'1899-12-01', int(id)) AS day",
    "timestamp_seconds(id * 86400) AS at", "concat('\u2028 ', id) AS note", "binary(string(id)) AS raw",
    *(f"id + {number} AS c{number}" for number in range(60)),
)  # fmt: skip
"""Columns whose bounds a reader must not always believe, and enough others that a footer has more than 4 KiB."""


class Stopped(Exception):
    """Raised by a check."""


def nothing():
    """Let the copies continue."""


class Files:
    """Parquet files with ordinary and odd names, an empty table, and copies between them."""

    def __init__(self, spark, folder):
        self.spark, self.source, self.target = spark, folder / "files", str(folder / "target")
        frame = spark.range(ROWS).selectExpr(*COLUMNS)
        frame.repartition(FILES).write.parquet(f"file:{self.source}")
        frame.limit(0).write.format("delta").save(self.target)
        for path, name in zip(sorted(self.source.glob("*.parquet")), ODD, strict=False):
            path.rename(self.source / name)
        self.rows = {path.name: ROWS // FILES for path in sorted(self.source.glob("*.parquet"))}

    def planned(self, **rows):
        """Return all files with their plan; `rows` replaces row counts of the log."""
        return [
            PlannedCopy(
                SourceFile(quote(name), (self.source / name).stat().st_size, {}, None, None),
                Whole(),
                {},
                rows.get(name, count),
            )
            for name, count in self.rows.items()
        ]

    def transfer(self, **settings):
        """Return a copier as jobs have it."""
        committer = DeltaCommitter(self.spark, self.target, app_id="backfill-x", domain="backfill.x")
        measures = {"measures": committer.measures} | settings
        return FileTransfer(
            self.spark, source=str(self.source), target=self.target, measure=committer.statistics, **measures
        )

    def batched(self, check=nothing):
        """Copy all files in one batch, and return the numbers of those that it copied."""
        folder = "a1/batch"
        copier = ByteCopier(self.spark, str(self.source), self.target)
        copier.make_folder(folder)
        committer = DeltaCommitter(self.spark, self.target, app_id="backfill-x", domain="backfill.x")
        files = self.planned()
        objects = [
            ObjectToCopy(copy.file.below, f"{folder}/{number}", copy.file.size_bytes, hides_rows=False)
            for number, copy in enumerate(files)
        ]
        measures = partial(measures_of_one, committer)
        return CopyBatches(self.spark, Footers(self.spark)).of_disk(
            copier.in_batches(2), BatchFiles(objects, measures, check)
        )


def measures_of_one(committer, index, footer):
    """Return the statistics of any file."""
    return committer.measures(CopiedFile(footer.written, logged=""))


@pytest.fixture(scope="module")
def original(spark, tmp_path_factory):
    return Files(spark, tmp_path_factory.mktemp("batch"))


@pytest.fixture
def files(original, tmp_path):
    """Return the files, whose contents are restored after the test."""
    shutil.copytree(original.source, tmp_path / "kept")
    yield original
    shutil.rmtree(original.source)
    shutil.copytree(tmp_path / "kept", original.source)


def actions(done):
    """Return the added files by name, without their path and time."""
    adds = {copy.planned.file.below: json.loads(copy.staged.handle.text)["add"] for copy in done.copied}
    return {
        name: {key: add[key] for key in add if key not in ("path", "modificationTime")} for name, add in adds.items()
    }


class TestABatch:
    """The system copies many files; Java reads footers and checksums."""

    def test_a_batch_logs_what_single_copies_log(self, files):
        """Digest, size and statistics are equal, whatever the file's name."""
        batched = files.transfer().copy(files.planned(), "a1/many", check=nothing)
        alone = files.transfer(measures=None).copy(files.planned(), "a1/alone", check=nothing)

        assert actions(batched) == actions(alone)
        assert {json.loads(copy.staged.handle.text)["add"]["path"] for copy in batched.copied} == {
            f"a1/many/{copy.file.name}" for copy in files.planned()
        }
        for copy in batched.copied:
            path = copy.staged.path
            assert open(path, "rb").read() == (files.source / copy.planned.file.below).read_bytes()

    def test_a_batch_has_every_file_but_the_name_that_no_task_can_have(self, files):
        """A name with a separator of tasks is copied alone."""
        names = list(files.rows)
        assert sorted(files.batched()) == [number for number, name in enumerate(names) if "\t" not in name]

    def test_a_truncated_file_is_named(self, files):
        """Its size is that of the log, and its footer is missing."""
        name = list(files.rows)[5]
        path = files.source / name
        path.write_bytes(b"x" * path.stat().st_size)

        with pytest.raises(SourceDamagedError, match=f"the footer of {name} of the source cannot be read"):
            files.transfer().copy(files.planned(), "a1/cut", check=nothing)

    def test_a_file_with_another_size_than_its_log_is_named(self, files):
        """A writer replaced it under its name."""
        planned, name = files.planned(), list(files.rows)[6]
        (files.source / name).write_bytes((files.source / list(files.rows)[7]).read_bytes() * 2)

        with pytest.raises(SourceDamagedError, match=name):
            files.transfer().copy(planned, "a1/size", check=nothing)

    def test_a_file_with_other_rows_than_its_log_is_named_before_it_is_copied(self, files):
        """The other files of its batch may be copied: no commit names them."""
        wrong = list(files.rows)[8]

        with pytest.raises(AccountingError, match=wrong):
            files.transfer().copy(files.planned(**{wrong: 1}), "a1/rows", check=nothing)
        assert not Path(files.target, "a1/rows", files.planned()[8].file.name).exists()

    @pytest.mark.parametrize("number", [1, 2, 4, 20])
    def test_a_cancelled_batch_leaves_no_thread(self, files, number):
        """Otherwise a step could end after the work's files were removed."""
        calls = []

        def check():
            calls.append(1)
            if len(calls) == number:
                raise Stopped

        with pytest.raises(Stopped):
            files.batched(check)
        threads = java(files.spark).java.lang.Thread.getAllStackTraces().keySet()
        assert "backfill file copy" not in {str(thread.getName()) for thread in threads.toArray()}
