"""Log entries that replace a file of a live table."""

import json
from dataclasses import replace

from backfill_core.in_place.conflicts import ForeignChanges, Replacement
from backfill_core.in_place.files import TAG, FillScope, LiveFile
from backfill_core.log_shipping.actions import DeletionVector
from backfill_core.protocol.work import RemovedFile, StagedFile
from backfill_spark.delta.added_files import CommitLine
from backfill_spark.delta.source_file import LoggedFile
from backfill_spark.in_place.delta.actions import (
    ORIGIN,
    appended_in,
    foreign_version,
    live_file,
    original_of,
    replacing,
    with_vector,
    without_tight_bounds,
)
from backfill_spark.sinks.delta.live.committer import is_foreign_rewrite

OLD, NEW = DeletionVector("u", "a" * 20, 1, 40, 2), DeletionVector("u", "b" * 20, None, 44, 3)
ADD = {
    "path": "old.parquet",
    "partitionValues": {"day": "1"},
    "size": 9,
    "modificationTime": 5,
    "dataChange": False,
    "tags": {"ZCUBE_ID": "z", "backfill.copy": "of another job", "backfill.inPlace.b": "of another column"},
}


def replacement(vector, *, keeps_order=True):
    """Return a staged file for `old.parquet`, whose vector a writer replaced meanwhile."""
    add = {
        "path": "new.parquet",
        "partitionValues": {"day": "1"},
        "size": 7,
        "stats": '{"numRecords":5}',
        "dataChange": True,
    }
    staged = StagedFile("/t/new.parquet", 7, 5, CommitLine(json.dumps({"add": add})))
    logged = LoggedFile("old.parquet", 9, 5, 2, (), with_vector(json.dumps({"add": ADD}), OLD), None, {})
    return Replacement(LiveFile("old.parquet", 9, 5, vector, handle=logged), keeps_order, (staged,))


def entries(*files):
    """Return the removal and the addition of a commit."""
    removed, added = replacing(files, FillScope("job-1", ("a",)), now_ms=8)
    assert isinstance(removed, RemovedFile)
    return json.loads(removed.handle.text)["remove"], json.loads(added.handle.text)["add"]


class TestAReplacement:
    """A reader sees the same rows before and after it."""

    def test_removes_and_adds_the_newest_deletion_vector(self):
        """The log identifies a file by path and vector; the copy hides the same rows."""
        removed, added = entries(replacement(NEW))
        vector = {"storageType": "u", "pathOrInlineDv": "b" * 20, "sizeInBytes": 44, "cardinality": 3}

        assert (removed["path"], removed["deletionVector"], removed["deletionTimestamp"]) == ("old.parquet", vector, 8)
        assert (added["path"], added["deletionVector"]) == ("new.parquet", vector)
        assert json.loads(added["stats"]) == {"numRecords": 5, "tightBounds": False}
        assert [removed["dataChange"], added["dataChange"]] == [True, True]

    def test_of_decoded_rows_has_no_deletion_vector(self):
        """It lacks the hidden rows, so a vector would hide others."""
        removed, added = entries(replacement(OLD, keeps_order=False))

        assert removed["deletionVector"]["offset"] == 1
        assert "deletionVector" not in added
        assert added["stats"] == '{"numRecords":5}'

    def test_is_marked_as_a_rewrite_on_request(self):
        """Streams and a change feed leave such files out."""
        actions = replacing((replacement(None),), FillScope("job-1", ("a",)), now_ms=8, data_change=False)

        assert [fields["dataChange"] for action in actions for fields in json.loads(action.handle.text).values()] == [
            False
        ] * 2

    def test_keeps_the_tags_of_other_engines(self):
        """Tags of copies describe the bytes of the old file; another column stays filled."""
        _, added = entries(replacement(None))

        origin = '{"of": "job-1", "path": "old.parquet", "size": 9}'
        assert added["tags"] == {"ZCUBE_ID": "z", TAG + "a": "job-1", TAG + "b": "of another column", ORIGIN: origin}
        assert "deletionVector" not in added

    def test_keeps_the_spelling_of_partition_values(self):
        """A writer logs a timestamp without a zone, which each reader reads in its own; decoded rows have it in UTC."""
        staged = replacement(None, keeps_order=False)
        add = json.loads(staged.files[0].handle.text)["add"] | {
            "partitionValues": {"day": "1970-01-01T00:00:00.000000Z"}
        }
        decoded = replace(staged, files=(replace(staged.files[0], handle=CommitLine(json.dumps({"add": add}))),))

        removed, added = entries(decoded)

        assert removed["partitionValues"] == added["partitionValues"] == {"day": "1"}


class TestAnOriginal:
    """A receipt compares a copy with the file that it replaced."""

    SCOPE = FillScope("job-1", ("a",))

    def original(self, *, copied, now=None):
        """Return the entry of the original of a copy; `copied` is the replacement, `now` the vector that a writer gave the copy since."""
        action = with_vector(replacing((copied,), self.SCOPE, now_ms=8)[1].handle.text, now)
        logged = LoggedFile("new.parquet", 7, 5, 0, (), action, None, {})
        found = original_of(LiveFile("new.parquet", 7, 5, now, handle=logged), self.SCOPE)
        return found and json.loads(found[1])["add"]

    def test_has_the_rows_that_readers_see_of_the_copy(self):
        """A copy keeps the order, so that its newest vector hides the same rows of the original."""
        add = self.original(copied=replacement(OLD), now=NEW)

        assert (add["path"], add["size"], add["deletionVector"]["pathOrInlineDv"]) == ("old.parquet", 9, "b" * 20)
        assert add["partitionValues"] == {"day": "1"}

    def test_of_decoded_rows_has_the_vector_of_that_time(self):
        """The copy lacks the hidden rows; a later vector of the copy has positions that the original does not have."""
        add = self.original(copied=replacement(OLD, keeps_order=False))

        assert add["deletionVector"]["pathOrInlineDv"] == "a" * 20
        assert self.original(copied=replacement(OLD, keeps_order=False), now=NEW) is None
        assert "deletionVector" not in self.original(copied=replacement(None, keeps_order=False))

    def test_is_of_the_same_job(self):
        """Another job fills other columns."""
        other = FillScope("job-2", ("b",))
        action = replacing((replacement(None),), other, now_ms=8)[1].handle.text
        logged = LoggedFile("new.parquet", 7, 5, 0, (), action, None, {})

        assert original_of(LiveFile("new.parquet", 7, 5, handle=logged), self.SCOPE) is None


class TestStatistics:
    """Bounds of a file with hidden rows may be of such a row."""

    def test_get_the_field_without_another_change(self):
        """A decimal that Python reads and writes again could be rounded."""
        bound = '{"numRecords":5,"minValues":{"x":0.10000000000000000001}'

        assert without_tight_bounds(bound + "}") == bound + ',"tightBounds":false}'
        assert without_tight_bounds(bound + ',"tightBounds":true}') == bound + ',"tightBounds":false}'
        assert without_tight_bounds(bound + ',"tightBounds":false}') == bound + ',"tightBounds":false}'
        assert without_tight_bounds("{}") == '{"tightBounds":false}'
        assert without_tight_bounds(None) is None


class TestAListedFile:
    """The log's entry holds everything that decides whether it is a file to do."""

    def test_has_its_tag_its_vector_and_its_null_counts(self):
        """Null counts are those of the columns to fill."""
        add = {**ADD, "tags": {TAG + "a": "job-1", TAG + "b": "job-1"}}
        statistics = '{"numRecords":5,"nullCount":{"col-a":4}}'
        logged = LoggedFile("old.parquet", 9, 5, 2, (), with_vector(json.dumps({"add": add}), OLD), statistics, {})

        assert live_file(logged, {"a": "col-a", "b": "b"}, {"old.parquet": 7}) == LiveFile(
            "old.parquet", 9, 5, OLD, "job-1", {"a": 4, "b": None}, changed_ms=5, appended_at=7
        )
        assert live_file(logged, {"a": "col-a", "c": "c"}, {}).tag == ""


class TestAnAppend:
    """A writer that fills the columns of its rows."""

    def test_is_a_version_with_new_rows_only(self):
        """An operation that moves old rows adds files of old rows, too."""
        written = {"commitInfo": {"operation": "WRITE"}}
        add, remove = {"add": {"path": "x"}}, {"remove": {"path": "y"}}

        assert appended_in(3, "\n".join(map(json.dumps, [written, add]))) == {"x": 3}
        assert appended_in(3, "\n".join(map(json.dumps, [written, add, remove]))) == {}
        assert appended_in(3, json.dumps(add)) == {}


class TestAForeignVersion:
    """Read from the text of its commit."""

    def test_has_its_files_and_a_change_of_metadata(self):
        """Writers order actions differently, and some write nulls."""
        add = {"path": "x", "size": 1, "dataChange": True, "stats": None}
        lines = [
            {"add": add},
            {"remove": {"path": "y", "dataChange": True}},
            {"metaData": {"id": "t"}, "protocol": None},
        ]
        changes = foreign_version(ForeignChanges(), 4, "\n".join(map(json.dumps, lines)) + "\n")

        assert (changes.present, changes.absent, changes.rewrites, changes.redefined) == ({"x": None}, {"y"}, 1, True)
        assert changes.oldest_read is None

    def test_names_the_version_that_a_rewrite_had_read(self):
        """Spark records it; the job learns from it that the transaction was in flight, and passed."""
        lines = [
            {"commitInfo": {"operation": "MERGE", "readVersion": 2}},
            {"remove": {"path": "y", "dataChange": True}},
        ]

        changes = foreign_version(ForeignChanges(), 4, "\n".join(map(json.dumps, lines)))

        assert changes.oldest_read == 2

    def test_of_another_job_that_fills_a_column_is_no_rewrite_of_a_writer(self):
        """Its commits keep a distance themselves."""
        removed, info = {"remove": {"path": "y"}}, {"commitInfo": {"engineInfo": "backfill state={}"}}

        assert is_foreign_rewrite(json.dumps(removed))
        assert not is_foreign_rewrite("\n".join(map(json.dumps, (info, removed))))
        assert not is_foreign_rewrite(json.dumps({"add": {"path": "y"}}))
