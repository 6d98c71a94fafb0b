"""Files that the store copies in a batch: few calls, few requests, and every check of a single copy."""

import json
from pathlib import Path

import pytest
from support.stores.fault_proxy import Fault
from support.stores.minio import ACCESS_KEY, SECRET_KEY
from support.stores.objects import Keys, Request, ask

from backfill_core.errors import AccountingError, SourceDamagedError
from backfill_core.file_copies.copy_modes import Whole
from backfill_core.file_copies.movers import ByDriver, ByStore
from backfill_spark.delta.source_file import SourceFile
from backfill_spark.file_copies.bytes import ByteReader
from backfill_spark.file_copies.copied_files import PlannedCopy
from backfill_spark.file_copies.copier import FileTransfer
from backfill_spark.sinks.delta.committer import DeltaCommitter

KEYS = Keys(ACCESS_KEY, SECRET_KEY)
FILES, ROWS = 6, 60
COLUMNS = (
    "id", "double(id) AS x", "if(id % 20 = 3, double('NaN'), double(id)) AS y", "date_add(date'1899-12-01', int(id)) AS day",
    "timestamp_seconds(id * 86400) AS at", "concat('\u2028 ', id) AS note", "binary(string(id)) AS raw",
    *(f"id + {number} AS c{number}" for number in range(60)),
)  # fmt: skip
"""Columns whose bounds a reader must not always believe, and enough others that a footer has more than 4 KiB."""


def nothing():
    """Let the copies continue."""


def ends_at_call(number):
    """Return a check that raises at its call with this number."""
    calls = []

    def check():
        calls.append(1)
        if len(calls) == number:
            raise InterruptedError

    return check


class Files:
    """Parquet files in the first bucket, an empty table in the second one, and copies between them."""

    def __init__(self, spark, endpoint, source, target, folder):
        frame = spark.range(ROWS).selectExpr(*COLUMNS)
        frame.repartition(FILES).write.parquet(f"file:{folder}/files")
        frame.limit(0).write.format("delta").save(target)
        self.spark, self.source, self.target, self._endpoint = spark, source, target, endpoint
        self.contents = {path.name: path.read_bytes() for path in sorted(Path(folder, "files").glob("*.parquet"))}
        self.rows = {name: spark.read.parquet(f"file:{folder}/files/{name}").count() for name in self.contents}
        for name, content in self.contents.items():
            self.put(name, content)

    def put(self, name, content):
        request = Request("PUT", f"{self.source.removeprefix('s3a:/')}/{name}", body=content)
        assert ask(self._endpoint, request, KEYS).status == 200

    def planned(self, **rows):
        """Return all files with their plan; `rows` replaces row counts of the log."""
        return [
            PlannedCopy(SourceFile(name, len(content), {}, None, None), Whole(), {}, rows.get(name, self.rows[name]))
            for name, content in self.contents.items()
        ]

    def transfer(self, **settings):
        """Return a copier as jobs have it."""
        committer = DeltaCommitter(self.spark, self.target, app_id="backfill-x", domain="backfill.x")
        measures = {"measures": committer.measures} | settings
        return FileTransfer(
            self.spark, source=self.source, target=self.target, measure=committer.statistics, **measures
        )

    def copies(self, asked, method):
        """Return the numbers of requests for the data files of one bucket."""
        return [asked[method, f"{self.source.removeprefix('s3a:/')}/{name}"] for name in self.contents]


@pytest.fixture(scope="module")
def files(spark, store, environment, tmp_path_factory):
    return Files(spark, store.endpoint, "s3a://here/batch", "s3a://there/batch", tmp_path_factory.mktemp("batch"))


@pytest.fixture(autouse=True)
def clean(proxy, files):
    """Restore the files and the store."""
    yield
    proxy.before_copy, proxy.hidden_header = None, ""
    proxy.faults.clear()
    for name, content in files.contents.items():
        files.put(name, content)


def actions(done):
    """Return the added files by name, without their path and time."""
    adds = {copy.planned.file.below: json.loads(copy.staged.handle.text)["add"] for copy in done.copied}
    return {
        name: {key: add[key] for key in add if key not in ("path", "modificationTime")} for name, add in adds.items()
    }


class TestABatch:
    """The store copies many files, and Python is asked about each of them once."""

    def test_a_batch_logs_the_statistics_of_single_copies(self, files, proxy):
        """Digest, size and statistics are equal; a file takes GET and COPY of the source, and HEAD of the copy."""
        files.transfer().copy(files.planned(), "a1/first", check=nothing)  # the first GET learns the length of a footer
        proxy.asked.clear()

        batched = actions(files.transfer().copy(files.planned(), "a1/batch", check=nothing))

        made = [
            asked
            for (method, path), asked in proxy.asked.items()
            if method != "GET" and path.endswith(".parquet") and "/a1/batch/" in path
        ]
        assert files.copies(proxy.asked, "HEAD") == [0] * FILES
        assert sum(files.copies(proxy.asked, "GET")) <= 2 * FILES
        assert sorted(made) == [1] * (2 * FILES)
        assert batched == actions(files.transfer(measures=None).copy(files.planned(), "a1/alone", check=nothing))
        assert set(batched) == set(files.contents)

    def test_a_file_that_changes_under_its_name_is_an_error(self, files, proxy):
        """The copy has the ETag of the footer's file as its condition."""
        changed = []

        def change():
            if not changed:
                changed.append(1)
                for name, content in files.contents.items():
                    files.put(name, content[::-1])

        proxy.before_copy = change
        with pytest.raises(SourceDamagedError, match="of the source changed while it was copied"):
            files.transfer().copy(files.planned(), "a1/changed", check=nothing)

    def test_a_file_with_other_rows_than_its_log_is_named_before_it_is_copied(self, files, proxy):
        """The other files of its batch may be copied: no commit names them."""
        wrong = list(files.contents)[2]
        name = files.planned()[2].file.name
        proxy.copies.clear()

        with pytest.raises(AccountingError, match=wrong):
            files.transfer().copy(files.planned(**{wrong: 1}), "a1/rows", check=nothing)
        assert not [path for path in proxy.copies if name in path]

    def test_a_truncated_file_is_named(self, files):
        """Its footer is missing, although its size is that of the log."""
        cut = list(files.contents)[3]
        files.put(cut, b"x" * len(files.contents[cut]))

        with pytest.raises(SourceDamagedError, match=f"the footer of {cut} of the source cannot be read"):
            files.transfer().copy(files.planned(), "a1/cut", check=nothing)

    def test_a_busy_store_gets_every_file_copied(self, files, proxy):
        """Amazon's client repeats a request a few times. Later the driver copies the remaining files one by one."""
        proxy.faults.append(Fault("slow down", "COPY", "/there/", 12))
        transfer = files.transfer()

        assert set(actions(transfer.copy(files.planned(), "a1/busy", check=nothing))) == set(files.contents)
        assert transfer.mover == ByStore()

    def test_a_refused_batch_is_streamed(self, files, proxy):
        """The reason is kept, and no file is left out."""
        proxy.faults.append(Fault("denied", "COPY", "/there/", 1))
        transfer = files.transfer()

        assert set(actions(transfer.copy(files.planned(), "a1/denied", check=nothing))) == set(files.contents)
        assert isinstance(transfer.mover, ByDriver)
        assert "AccessDenied" in transfer.refusal

    def test_a_cancelled_batch_has_no_request_under_way(self, files, proxy):
        """Otherwise a copy could appear after the work's files were removed."""
        with pytest.raises(InterruptedError):
            files.transfer().copy(files.planned(), "a1/cancelled", check=ends_at_call(2))
        asked = proxy.asked.total()

        assert proxy.asked.total() == asked
        assert set(actions(files.transfer().copy(files.planned(), "a1/again", check=nothing))) == set(files.contents)


class TestDigestsOfManyObjects:
    """A receipt asks for the checksums of all copies at once, and reads none of them."""

    def test_only_head_is_asked_and_a_missing_object_is_left_out(self, files, proxy):
        """The receipt names a missing file after its own request."""
        files.transfer().copy(files.planned(), "a1/digests", check=nothing)
        paths = [f"a1/digests/{copy.file.name}" for copy in files.planned()]
        proxy.asked.clear()

        reader = ByteReader(files.spark, files.target)
        reported = reader.reported([*paths, "a1/digests/gone"], check=nothing)

        assert set(reported) == set(paths)
        assert {method for method, _ in proxy.asked} == {"HEAD"}
        assert reported[paths[0]] == reader.read(paths[0], check=nothing)

    def test_a_cancelled_receipt_asks_no_more(self, files, proxy):
        """A pause does not wait for a million answers."""
        proxy.asked.clear()

        with pytest.raises(InterruptedError):
            ByteReader(files.spark, files.target).reported(["x", "y"], check=ends_at_call(1))
        assert proxy.asked.total() == 0
