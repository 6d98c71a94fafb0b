"""Files of writers that fill a column themselves, from a time on."""

import json
from pathlib import Path

import pytest

from backfill_spark.sinks.delta.live.writers import WritersFiles, WritersStart

HOUR_MS, BEGIN_MS = 3_600_000, 1_767_225_600_000
"""An hour, and 2026-01-01T00:00:00Z."""

LAYOUT = [
    {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["inCommitTimestamp"]}},
    {
        "metaData": {
            "id": "t",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}',
            "partitionColumns": [],
            "configuration": {"delta.enableInCommitTimestamps": "true"},
        }
    },
]


def commit(path, version, *actions):
    """Add a version whose commit contains its time: one hour for each version."""
    at_ms = BEGIN_MS + version * HOUR_MS
    info = {"commitInfo": {"inCommitTimestamp": at_ms, "timestamp": at_ms, "operation": "WRITE"}}
    text = "".join(json.dumps(action) + "\n" for action in (info, *actions))
    (path / f"_delta_log/{version:020d}.json").write_text(text)


def append(path, version):
    """Add a version with a file of new rows."""
    file = {"path": f"{version}.parquet", "partitionValues": {}, "size": 9, "modificationTime": 1, "dataChange": True}
    commit(path, version, {"add": file})


class TestTheFirstVersion:
    """A version that is too old makes the job leave out rows that no writer fills."""

    @pytest.fixture
    def path(self, tmp_path):
        """A table with a file in version 1 and in version 2; its log was copied just now, so all of its files are new."""
        (tmp_path / "_delta_log").mkdir()
        commit(tmp_path, 0, *LAYOUT)
        append(tmp_path, 1)
        append(tmp_path, 2)
        return Path(tmp_path)

    def test_has_the_time_that_its_commit_contains(self, spark, path):
        """Delta uses these times too; those of the files change when a table moves."""
        since = {
            time: WritersFiles(spark, str(path), WritersStart(time=time)).upto(2)
            for time in ("2026-01-01T01:00:00.001Z", "2026-01-01T01:00:00Z", "2025-01-01T00:00:00Z")
        }

        both = {"1.parquet": 1, "2.parquet": 2}
        assert list(since.values()) == [(2, {"2.parquet": 2}), (1, both), (0, both)]

    def test_is_not_decided_before_a_time_in_the_future(self, spark, path):
        """Until then, writers do not fill the column."""
        files = WritersFiles(spark, str(path), WritersStart(time="2026-01-01T03:30:00Z"))

        before = files.upto(2)
        append(path, 3)
        append(path, 4)

        assert (before, files.upto(3), files.upto(4)) == ((3, {}), (4, {}), (4, {"4.parquet": 4}))

    def test_is_later_if_log_cleanup_removed_its_commit(self, spark, path):
        """A job that resumes after a month must not end: the files of that version are checked, as those of older ones."""
        (path / f"_delta_log/{2:020d}.json").rename(path / f"_delta_log/{3:020d}.json")
        for version in (0, 1):
            (path / f"_delta_log/{version:020d}.json").unlink()

        files = WritersFiles(spark, str(path), WritersStart(version=1))

        assert files.upto(3) == (3, {"2.parquet": 3})

    def test_leaves_out_no_file_of_a_commit_that_is_gone(self, spark, path):
        """The log is cleaned during a long pause."""
        files = WritersFiles(spark, str(path), WritersStart(version=1))
        files.upto(1)
        append(path, 3)
        (path / f"_delta_log/{2:020d}.json").unlink()

        assert files.upto(3) == (1, {"1.parquet": 1, "3.parquet": 3})
