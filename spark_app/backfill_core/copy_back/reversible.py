"""Tables whose files can be copied back: the same columns, and no rule of the source that files of the target may break.

source and target                                                          files of the target are copied back
------------------------------------------------------------------------   -----------------------------------
other columns, types, physical names or partitions                         no
the source has a constraint, NOT NULL or computed column                   only if the target has the same
the source is append-only                                                  no: the target removes files
the target has a feature of files that the source lacks                    no: readers of the source would misread them
the source has a feature with more rules, such as row tracking       no
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from backfill_core.log_shipping.actions import FileAdded, FileRemoved
from backfill_core.log_shipping.columns import Field, fields_of, shape
from backfill_core.positions.source_names import RowOrder, source_of
from backfill_core.source_fence.fence import TableHead
from backfill_core.source_fence.table_protocol import FENCED

UNSEEN: Final = frozenset({
    "allowColumnDefaults", "appendOnly", "changeDataFeed", "checkConstraints", "checkpointProtection", "clustering",
    "domainMetadata", "generatedColumns", "identityColumns", "inCommitTimestamp", "inCommitTimestamp-preview",
    "invariants", "v2Checkpoint", "vacuumProtocolCheck", FENCED,
})  # fmt: skip
"""Features that readers of a file need not know, and that have no rule for added and removed files."""

OF_FILES: Final = frozenset({
    "columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "typeWidening-preview", "variantShredding",
    "variantShredding-preview", "variantType", "variantType-preview",
})  # fmt: skip
"""Features of the content of files, and of their deletion vectors; a copy needs them on both sides."""

CONSTRAINT: Final = "delta.constraints."
RULES: Final = ("delta.invariants", "delta.generationExpression", "delta.identity.start")
"""Keys in the metadata of a column that writers must obey."""

APPEND_ONLY: Final = "delta.appendonly"


def irreversible(source: TableHead, target: TableHead) -> str:
    """Return why files of the target cannot be copied back to the source; empty if they can."""
    return next(_problems(source, target), "")


def _problems(source: TableHead, target: TableHead) -> Iterator[str]:
    for name in source.protocol.features:
        if name not in UNSEEN | OF_FILES:
            yield f"the source has the table feature {name}, whose rules copied files may break"
    for name in sorted({*target.protocol.features} - UNSEEN - {*source.protocol.features}):
        yield f"the target has the table feature {name}, and the source does not"
    if _is_on(source.properties, APPEND_ONLY):
        yield "the source is append-only (delta.appendOnly), and the target removes files"
    of_source, of_target = (json.loads(head.metadata["schemaString"]) for head in (source, target))
    if shape(of_source) != shape(of_target):
        yield f"the columns differ: {_difference(of_source, of_target)}"
    if list(source.metadata["partitionColumns"]) != list(target.metadata["partitionColumns"]):
        yield "the partition columns differ"
    for name, condition in source.properties.items():
        if name.lower().startswith(CONSTRAINT) and target.properties.get(name) != condition:
            yield f"the source has the constraint {name}, and the target does not"
    for field, same in zip(fields_of(of_source), fields_of(of_target), strict=False):
        yield from _rules(field, same)


def _rules(field: Field, same: Field) -> Iterator[str]:
    """Yield the rules of a source column that the target's column lacks."""
    name = field["name"]
    if not field["nullable"] and same["nullable"]:
        yield f"the source's column {name} is NOT NULL, and the target's is not; `ALTER COLUMN {name} DROP NOT NULL` of the source permits it"
    metadata = field.get("metadata") or {}
    for key in RULES:
        if key in metadata and (same.get("metadata") or {}).get(key) != metadata[key]:
            yield f"the source's column {name} has {key}, and the target's has not"


def _difference(source: Mapping[str, Any], target: Mapping[str, Any]) -> str:
    """Return the first top-level column that differs, for a message."""
    of_source, of_target = ({field["name"]: field for field in schema["fields"]} for schema in (source, target))
    for name in (*of_source, *of_target):
        if name not in of_target:
            return f"only the source has {name}"
        if name not in of_source:
            return f"only the target has {name}"
        if shape({"type": "struct", "fields": [of_source[name]]}) != shape(
            {"type": "struct", "fields": [of_target[name]]}
        ):
            return f"the types or names in files of {name}"
    return "their order"


def _is_on(properties: Mapping[str, str], name: str) -> bool:
    return any(key.lower() == name and text.strip().lower() == "true" for key, text in properties.items())


def unmapped(file: FileAdded | FileRemoved) -> str:
    """Return why a file of the target has no counterpart in the source; empty if it can have one."""
    origin = source_of(file.path)
    if origin is not None and origin.order is RowOrder.LOST:
        return f"the file {file.path} contains rows that the job decoded, and not a whole file of the source"
    return ""
