"""Actions of a log, as other writers spell them: what they say of a file is kept, and what takes it out again says the same."""

import json

import pytest

from backfill_core.log_shipping.actions import DeletionVector, FileRemoved
from backfill_spark.delta.log import action_of, lines_of
from backfill_spark.shipping.file_actions import file_actions, removal, with_fields
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
    return "\n".join(json.dumps(one) for one in actions)


class TestWhatACommitSays:
    """Of files; the rest is the source's own."""

    def test_files_that_came_and_went(self):
        """Transactions, domains and files of the change feed belong to no other table."""
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
    def test_how_many_rows_were_copied(self, metrics, copied):
        """By Spark, by delta-rs, and by a writer that notes what it likes."""
        assert file_actions(4, text({"commitInfo": {"operationMetrics": metrics}}, {"add": ADD})).rows_copied == copied

    def test_the_same_where_a_writer_spells_out_what_it_does_not_say(self):
        """Some write each kind of action into each line, all but one as null; the source's log is read as facts, too."""
        silent = dict.fromkeys(kind for one in COMMIT for kind in one) | {"metaData": None, "protocol": None}
        spelled = text(*({**silent, **one} for one in COMMIT))

        assert file_actions(4, spelled) == file_actions(4, text(*COMMIT))
        assert parse(list(map(action_of, lines_of(spelled)))) == parse(list(COMMIT))

    @pytest.mark.parametrize(
        "said", [{"add": {"path": "x"}}, {"remove": {"dataChange": True}}, {"add": {**ADD, "size": "?", "stats": "{"}}]
    )
    def test_an_action_that_says_too_little_is_an_error(self, said):
        """A guess would lose rows, or double them."""
        with pytest.raises((ValueError, KeyError, TypeError)):
            file_actions(1, text(said))


class TestWhatACommitOfOursSays:
    """Readers and VACUUM go by it."""

    def test_a_removal_names_the_vector_and_the_place(self):
        """A removal without the vector of the file takes nothing out: the two are one key."""
        line = json.loads(removal(json.dumps({"add": ADD}), data_change=False, now_ms=9))["remove"]

        assert line["deletionVector"] == ADD["deletionVector"]
        assert (line["path"], line["dataChange"], line["deletionTimestamp"]) == (ADD["path"], False, 9)
        assert (line["extendedFileMetadata"], line["partitionValues"]) == (True, ADD["partitionValues"])
        assert "modificationTime" not in line
        assert "clusteringProvider" not in line

    def test_an_action_changes_where_it_is_told_to(self):
        """A file under another vector is the same file."""
        line = json.loads(with_fields(json.dumps({"add": ADD}), deletionVector=None, dataChange=False))["add"]

        assert line == {**{name: one for name, one in ADD.items() if name != "deletionVector"}, "dataChange": False}
