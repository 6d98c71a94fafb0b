"""File actions of a Delta log, read from the JSON of a commit and written as its lines."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from backfill_core.file_copies.logged_statistics import LoggedStatistics
from backfill_core.log_shipping.actions import FileAdded, FileRemoved, VersionActions
from backfill_spark.delta.deletion_vectors import vector_of
from backfill_spark.delta.log import action_of, lines_of

KEPT_OF_A_REMOVED_FILE = (
    "partitionValues",
    "size",
    "stats",
    "tags",
    "deletionVector",
    "baseRowId",
    "defaultRowCommitVersion",
)
"""Fields of an `add` action that the `remove` action repeats."""

COPIED = ("numCopiedRows", "numTargetRowsCopied", "num_copied_rows", "num_target_rows_copied")
"""Metric names of copied rows for UPDATE or DELETE, and for MERGE, by Spark and by delta-rs."""

COUNT = re.compile("[0-9]{1,18}")


def file_actions(version: int, text: str) -> VersionActions:
    """Return the file actions of a version, without transactions, domains and files of the change feed.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: the text is not a commit.
    """
    actions: list[FileAdded | FileRemoved] = []
    copied = 0
    for line in lines_of(text):
        action = action_of(line)
        if "add" in action:
            actions.append(file_added(action["add"]))
        elif "remove" in action:
            actions.append(_removed(action["remove"]))
        elif "commitInfo" in action:
            copied = _rows_copied(action["commitInfo"])
    return VersionActions(version, tuple(actions), rows_copied=copied)


def _rows_copied(info: Any) -> int:
    """Return the number of rows that a rewrite copied unchanged; 0 if its writer recorded none, since metrics are optional."""
    metrics = info.get("operationMetrics") if isinstance(info, Mapping) else None
    counts = [str(metrics.get(name)) for name in COPIED] if isinstance(metrics, Mapping) else []
    return next((int(count) for count in counts if COUNT.fullmatch(count)), 0)


def file_added(add: Mapping[str, Any]) -> FileAdded:
    """Return an `add` action of the log."""
    return FileAdded(
        path=add["path"],
        bytes=int(add["size"]),
        rows=LoggedStatistics.of(add.get("stats")).rows,
        data_change=bool(add["dataChange"]),
        vector=vector_of(add),
        action=json.dumps({"add": add}),
    )


def _removed(remove: Mapping[str, Any]) -> FileRemoved:
    rows, vector = LoggedStatistics.of(remove.get("stats")).rows, vector_of(remove)
    live = None if rows is None else rows - (0 if vector is None else vector.rows)
    return FileRemoved(remove["path"], bool(remove["dataChange"]), live)


def removal(action: str, *, data_change: bool, now_ms: int) -> str:
    """Return the `remove` action for the file of an `add` action; both are lines of a commit."""
    add = json.loads(action)["add"]
    kept = {name: add[name] for name in KEPT_OF_A_REMOVED_FILE if add.get(name) is not None}
    fields = {"deletionTimestamp": now_ms, "dataChange": data_change, "extendedFileMetadata": True}
    return json.dumps({"remove": {"path": add["path"], **fields, **kept}})


def with_fields(action: str, **fields: Any) -> str:
    """Return an `add` action with new values of some fields; `None` removes a field."""
    add = {**json.loads(action)["add"], **fields}
    return json.dumps({"add": {name: value for name, value in add.items() if value is not None}})
