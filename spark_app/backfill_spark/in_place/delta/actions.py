"""Log entries of a live table as values of the core, and the entries that replace a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from backfill_core.in_place.conflicts import ForeignChanges, Replacement
from backfill_core.in_place.files import TAG, LiveFile
from backfill_core.log_shipping.actions import DeletionVector
from backfill_core.protocol.work import RemovedFile, StagedFile
from backfill_spark.delta.added_files import CommitLine
from backfill_spark.delta.deletion_vectors import vector_of
from backfill_spark.delta.log import action_of
from backfill_spark.delta.source_file import LoggedFile
from backfill_spark.log_shipping.file_actions import file_actions, removal, with_fields

OURS = "backfill."
"""Prefix of this project's tags; they describe the content of a file, which a filled copy does not have."""

LAYOUT = ("metaData", "protocol")


@dataclass(frozen=True, slots=True)
class FilledCopy:
    """Staged files that replace one file."""

    files: tuple[StagedFile, ...]
    """Each with a `CommitLine`, without a deletion vector; empty if the file has no visible row."""

    action: str
    """The `add` action of the replaced file, as a line of a commit, without its statistics."""


def live_file(file: LoggedFile, columns: Mapping[str, int]) -> LiveFile:
    """Return a file of a listing; `columns` are the columns to fill, each with its index in the null counts."""
    add = json.loads(file.action)["add"]
    return LiveFile(
        path=file.path,
        bytes=file.bytes,
        rows=file.rows,
        vector=vector_of(add),
        tag=(add.get("tags") or {}).get(TAG) or "",
        nulls={name: file.nulls[index] for name, index in columns.items()},
        changed_ms=int(add.get("modificationTime") or 0),
    )


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


def replacing(files: Iterable[Replacement], tag: str, *, now_ms: int) -> list[StagedFile | RemovedFile]:
    """Return the actions of a commit that replaces files; each filled copy gets the newest deletion vector, and the job's tag."""
    actions: list[StagedFile | RemovedFile] = []
    for file in files:
        copy, vector = file.handle, file.replaced.vector
        assert isinstance(copy, FilledCopy)
        line = removal(with_vector(copy.action, vector), data_change=True, now_ms=now_ms)
        actions.append(RemovedFile(file.replaced.path, CommitLine(line)))
        tags = json.loads(copy.action)["add"].get("tags") or {}
        kept = {name: text for name, text in tags.items() if not name.startswith(OURS)}
        for staged in copy.files:
            assert isinstance(staged.handle, CommitLine)
            line = with_fields(staged.handle.text, tags={**kept, TAG: tag})
            if file.keeps_order and vector is not None:
                stats = json.loads(line)["add"].get("stats")
                line = with_fields(line, deletionVector=descriptor_of(vector), stats=without_tight_bounds(stats))
            actions.append(StagedFile(staged.path, staged.size_bytes, staged.rows, CommitLine(line), mode=staged.mode))
    return actions


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
    lines = [line for line in text.split("\n") if line.strip()]
    relaid = any(kind in action for action in map(action_of, lines) for kind in LAYOUT)
    return foreign.after(file_actions(version, text).files, relaid=relaid)
