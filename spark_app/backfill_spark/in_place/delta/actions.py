"""Log entries of a live table as values of the core, and the entries that replace a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from backfill_core.file_copies.logged_statistics import LoggedStatistics
from backfill_core.in_place.conflicts import ForeignChanges, Replacement
from backfill_core.in_place.files import TAG, FillScope, LiveFile, is_append
from backfill_core.log_shipping.actions import DeletionVector
from backfill_core.protocol.work import RemovedFile, StagedFile
from backfill_spark.delta.added_files import CommitLine
from backfill_spark.delta.deletion_vectors import vector_of
from backfill_spark.delta.log import action_of, lines_of
from backfill_spark.delta.source_file import LoggedFile, SourceFile
from backfill_spark.log_shipping.file_actions import file_actions, removal, with_fields

OURS = "backfill."
"""Prefix of this project's tags. Except for those of filled columns, they describe content that a filled copy does not have."""

ORIGIN = "backfill.filledFrom"
"""Tag of a filled copy with the file that it replaced, so that a receipt can compare both as long as that one exists."""

LAYOUT = ("metaData", "protocol")


def live_file(file: LoggedFile, columns: Mapping[str, str], appended: Mapping[str, int]) -> LiveFile:
    """Return a file of a listing.

    Args:
        file: Its entry in the log.
        columns: Columns to fill, each with its physical name.
        appended: Versions that added files with new rows only, by path.
    """
    add, statistics = json.loads(file.action)["add"], LoggedStatistics.of(file.statistics)
    return LiveFile(
        path=file.path,
        bytes=file.bytes,
        rows=file.rows,
        vector=vector_of(add),
        tag=_common_tag(add.get("tags") or {}, columns),
        nulls={name: statistics.null_count(physical) for name, physical in columns.items()},
        changed_ms=int(add.get("modificationTime") or 0),
        appended_at=appended.get(file.path),
        handle=file,
    )


def _common_tag(tags: Mapping[str, str], columns: Iterable[str]) -> str:
    values = {tags.get(TAG + name) or "" for name in columns}
    return values.pop() if len(values) == 1 else ""


def entry_of(file: LiveFile) -> LoggedFile:
    """Return the log's entry of a listed file; its deletion vector may be outdated."""
    assert isinstance(file.handle, LoggedFile)
    return file.handle


def action_now(file: LiveFile) -> str:
    """Return the `add` action of a file with its current deletion vector, without statistics."""
    return with_vector(entry_of(file).action, file.vector)


def source_file(file: LiveFile) -> SourceFile:
    """Return a file for a copy: the commit names the deletion vector of the table, so that the copy needs none."""
    logged = entry_of(file)
    return SourceFile.of({**json.loads(with_vector(logged.action, None))["add"], "stats": logged.statistics})


def appended_in(version: int, text: str) -> dict[str, int]:
    """Return the files that a version added, if all of their rows are new; `text` is its commit."""
    lines = [action_of(line) for line in text.split("\n") if line.strip()]
    operation = next((str(action["commitInfo"].get("operation")) for action in lines if action.get("commitInfo")), "")
    added = [action["add"]["path"] for action in lines if action.get("add")]
    removes = any(action.get("remove") for action in lines)
    return dict.fromkeys(added, version) if is_append(operation, removes=removes) else {}


def with_vector(action: str, vector: DeletionVector | None) -> str:
    """Return an `add` action with another deletion vector."""
    return with_fields(action, deletionVector=None if vector is None else descriptor_of(vector))


def descriptor_of(vector: DeletionVector) -> dict[str, Any]:
    """Return a deletion vector as the log describes it."""
    offset = {} if vector.offset is None else {"offset": vector.offset}
    return {
        "storageType": vector.storage,
        "pathOrInlineDv": vector.place,
        **offset,
        "sizeInBytes": vector.bytes,
        "cardinality": vector.rows,
    }


def replacing(
    files: Iterable[Replacement], scope: FillScope, *, now_ms: int, data_change: bool = True
) -> list[StagedFile | RemovedFile]:
    """Return the actions of a commit that replaces files; each filled copy gets the newest deletion vector, and the job's tags.

    It also gets the partition values of the file, in their spelling: decoded rows may spell a timestamp without a zone in another way.

    Args:
        files: Checked replacements.
        scope: The job's rows to fill.
        now_ms: Time of the commit.
        data_change: False to mark the commit as a rewrite.
    """
    filled = {TAG + name: scope.tag for name in scope.columns}
    actions: list[StagedFile | RemovedFile] = []
    for file in files:
        vector, action = file.replaced.vector, action_now(file.replaced)
        line = removal(action, data_change=data_change, now_ms=now_ms)
        actions.append(RemovedFile(file.replaced.path, CommitLine(line)))
        add = json.loads(action)["add"]
        tags, partition = add.get("tags") or {}, add.get("partitionValues") or {}
        kept = {name: text for name, text in tags.items() if name.startswith(TAG) or not name.startswith(OURS)}
        for staged in file.files:
            assert isinstance(staged.handle, CommitLine)
            origin = {ORIGIN: _origin_of(file, scope)} if len(file.files) == 1 else {}
            line = with_fields(staged.handle.text, partitionValues=partition)
            line = with_fields(line, tags={**kept, **filled, **origin}, dataChange=data_change)
            if file.keeps_order and vector is not None:
                stats = json.loads(line)["add"].get("stats")
                line = with_fields(line, deletionVector=descriptor_of(vector), stats=without_tight_bounds(stats))
            actions.append(StagedFile(staged.path, staged.size_bytes, staged.rows, CommitLine(line), mode=staged.mode))
    return actions


def _origin_of(file: Replacement, scope: FillScope) -> str:
    """Return the value of `ORIGIN`; only the copy of a decoded file lacks hidden rows, so that it names their vector."""
    old = file.replaced
    vector = {} if file.keeps_order else {"vector": None if old.vector is None else descriptor_of(old.vector)}
    return json.dumps({"of": scope.tag, "path": old.path, "size": old.bytes, **vector})


def original_of(file: LiveFile, scope: FillScope) -> tuple[str, str] | None:
    """Return path and `add` action of the file that a copy of this job replaced, with the rows that readers see of the copy.

    `None` if the file is no such copy, or if a writer hid rows of a copy whose rows have another order.
    """
    action = action_now(file)
    add = json.loads(action)["add"]
    origin = json.loads((add.get("tags") or {}).get(ORIGIN) or "{}")
    if origin.get("of") != scope.tag or ("vector" in origin and file.vector is not None):
        return None
    vector = origin.get("vector", add.get("deletionVector"))
    return origin["path"], with_fields(action, path=origin["path"], size=origin["size"], deletionVector=vector)


def without_tight_bounds(stats: str | None) -> str | None:
    """Return statistics whose bounds may include deleted rows; the spelling of numbers is unchanged."""
    if stats is None:
        return None
    fields = json.loads(stats)
    if "tightBounds" not in fields:
        return f'{stats[:-1]}{"," if fields else ""}"tightBounds":false}}'
    head, _, tail = stats.rpartition('"tightBounds":true')
    return f'{head}"tightBounds":false{tail}' if head else stats


def foreign_version(foreign: ForeignChanges, version: int, text: str) -> ForeignChanges:
    """Return foreign changes including a version; `text` is its commit."""
    return foreign.after(file_actions(version, text).files, redefined=is_redefinition(text), read=_read_by(text))


def _read_by(text: str) -> int | None:
    """Return the version that the transaction of a commit had read; `None` if the commit does not name it."""
    infos = (action["commitInfo"] for action in map(action_of, lines_of(text)) if action.get("commitInfo"))
    read = next((info.get("readVersion") for info in infos), None)
    return read if isinstance(read, int) and read >= 0 else None


def is_redefinition(text: str) -> bool:
    """Return True if a commit with this text changes metadata or protocol."""
    return any(kind in action for action in map(action_of, lines_of(text)) for kind in LAYOUT)
