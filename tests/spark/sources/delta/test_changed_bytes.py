"""Size of the changes of a commit, from its actions alone."""

import json

import pytest

from backfill_spark.sources.delta.log import changed_bytes


def file(kind, path, size, *, rows=100, hidden=0, changes=True):
    """Return an action of a file whose deletion vector hides some rows."""
    vector = {"deletionVector": {"cardinality": hidden}} if hidden else {}
    return {
        kind: {"path": path, "size": size, "dataChange": changes, "stats": json.dumps({"numRecords": rows}), **vector}
    }


OVERWRITE = [file("add", "new", 700), file("remove", "old", 500)]


class TestBytesOfChanges:
    """R-PART-4: a small change of large files is no large batch."""

    @pytest.mark.parametrize(
        ("actions", "expected"),
        [
            pytest.param(OVERWRITE, 1200, id="overwrite"),
            pytest.param([*OVERWRITE, {"cdc": {"path": "c", "size": 30}}], 30, id="change files"),
            pytest.param([file("add", "a", 700, changes=False), file("remove", "b", 500, changes=False)], 0, id="OPTIMIZE"),
            pytest.param([file("add", "a", 1000, hidden=15), file("remove", "a", 1000, hidden=10)], 50, id="vector"),
            pytest.param([file("add", "a", 1000, rows=0, hidden=9), file("remove", "a", 1000)], 1000, id="no row count"),
            pytest.param([{"remove": {"path": "a", "dataChange": True}}], 0, id="no size"),
            pytest.param([{"add": {"path": "a", "dataChange": True, "size": "big"}}, file("add", "b", 7)], 7, id="odd size"),
            pytest.param(
                [{kind: file(kind, "a", 9)[kind] | {"stats": "[oops", "deletionVector": {"cardinality": "x"}}} for kind in ("add", "remove")],
                9, id="odd statistics",
            ),
            pytest.param([{"commitInfo": {"operation": "SET TBLPROPERTIES"}}], 0, id="no file"),
        ],
    )  # fmt: skip
    def test_only_files_with_changed_rows_count(self, actions, expected):
        """The change feed is read from change files if a commit has some, and else from the other files."""
        assert changed_bytes(actions) == expected
