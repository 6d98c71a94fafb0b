"""File actions in a log, as other writers format them: each field of a file is kept, and its removal has the same fields."""

import json

import pytest

from backfill_core.log_shipping.actions import DeletionVector, FileRemoved
from backfill_spark.delta.log import action_of, lines_of
from backfill_spark.log_shipping.file_actions import file_actions, removal, with_fields
from backfill_spark.sources.delta.log import parse

ADD = {
    "path": "p=a%2520b/part-1.parquet",
    "partitionValues": {"p": "a b", "q": None},
    "size": 12,
    "modificationTime": 1,
    "dataChange": True,
    "stats": '{"numRecords":5,"minValues":{"x":1e400}}',
    "tags": {"ZCUBE_ID": "z"},
    "deletionVector": {"storageType": "i", "pathOrInlineDv": "wi5b=", "sizeInBytes": 4, "cardinality": 2},
    "clusteringProvider": "liquid",
}
COMMIT = [
    {"commitInfo": {"operation": "MERGE", "inCommitTimestamp": 5}},
    {"txn": {"appId": "stream", "version": 3}},
    {"domainMetadata": {"domain": "delta.clustering", "configuration": "{}", "removed": False}},
    {"cdc": {"path": "_change_data/x.parquet", "size": 1, "dataChange": False, "partitionValues": {}}},
    {"add": ADD},
    {"remove": {"path": "old.parquet", "dataChange": False}},
    {
        "remove": {
            "path": "held.parquet",
            "dataChange": True,
            "stats": ADD["stats"],
            "deletionVector": ADD["deletionVector"],
        }
    },
]


def text(*actions):
    return "\n".join(json.dumps(action) for action in actions)


class TestWhatACommitSays:
    """The file actions of a commit are shipped; its other actions stay in the source."""

    def test_added_and_removed_files_are_read(self):
        """Transactions, domains and files of the change feed belong only to the source."""
        added, *removed = file_actions(4, text(*COMMIT)).files

        assert (added.path, added.bytes, added.rows, added.live_rows) == (ADD["path"], 12, 5, 3)
        assert added.vector == DeletionVector("i", "wi5b=", None, 4, 2)
        assert json.loads(added.action) == {"add": ADD}
        assert removed == [FileRemoved("old.parquet", False, None), FileRemoved("held.parquet", True, 3)]

    @pytest.mark.parametrize(
        ("metrics", "copied"),
        [
            ({"numCopiedRows": "997", "numUpdatedRows": "3"}, 997),
            ({"numTargetRowsCopied": "12"}, 12),
            ({"num_copied_rows": 5}, 5),
            ({"numCopiedRows": "many"}, 0),
            ("none", 0),
            (None, 0),
        ],
    )
    def test_the_number_of_copied_rows_is_read(self, metrics, copied):
        """Spark, delta-rs and other writers name this metric differently."""
        assert file_actions(4, text({"commitInfo": {"operationMetrics": metrics}}, {"add": ADD})).rows_copied == copied

    def test_a_line_with_null_actions_is_the_same(self):
        """Some writers list each kind of action in each line, all but one as null. The source's log is parsed, too."""
        nulls = dict.fromkeys(kind for action in COMMIT for kind in action) | {"metaData": None, "protocol": None}
        spelled = text(*({**nulls, **action} for action in COMMIT))

        assert file_actions(4, spelled) == file_actions(4, text(*COMMIT))
        assert parse(list(map(action_of, lines_of(spelled)))) == parse(list(COMMIT))

    @pytest.mark.parametrize(
        "action",
        [{"add": {"path": "x"}}, {"remove": {"dataChange": True}}, {"add": {**ADD, "size": "?", "stats": "{"}}],
    )
    def test_an_action_without_required_fields_is_an_error(self, action):
        """A guess would lose or double rows."""
        with pytest.raises((ValueError, KeyError, TypeError)):
            file_actions(1, text(action))


class TestWhatACommitOfOursSays:
    """Readers and VACUUM rely on the actions that the job writes."""

    def test_a_removal_names_the_vector_and_the_place(self):
        """A removal without the file's vector removes nothing: path and vector are one key."""
        line = json.loads(removal(json.dumps({"add": ADD}), data_change=False, now_ms=9))["remove"]

        assert line["deletionVector"] == ADD["deletionVector"]
        assert (line["path"], line["dataChange"], line["deletionTimestamp"]) == (ADD["path"], False, 9)
        assert (line["extendedFileMetadata"], line["partitionValues"]) == (True, ADD["partitionValues"])
        assert "modificationTime" not in line
        assert "clusteringProvider" not in line

    def test_an_action_changes_only_the_given_fields(self):
        """A file with another vector is the same file."""
        line = json.loads(with_fields(json.dumps({"add": ADD}), deletionVector=None, dataChange=False))["add"]

        assert line == {**{name: value for name, value in ADD.items() if name != "deletionVector"}, "dataChange": False}
