"""Tables that can be fenced: their commits are files of the log, and a commit without files keeps all their features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from backfill_core.errors import UnsupportedSourceFeatureError
from backfill_core.source_fence.table_protocol import TableProtocol

BY_CATALOG: Final = frozenset({"catalogManaged", "catalogOwned-preview", "coordinatedCommits-preview"})
"""Features of tables whose commits a catalog decides on; a file in the log is then not a commit."""

ELSEWHERE: Final = frozenset({"redirectReaderWriter-preview", "redirectWriterOnly-preview"})
"""Features of tables that redirect writers to another table."""

KEPT: Final = frozenset({
    "allowColumnDefaults", "appendOnly", "changeDataFeed", "checkConstraints", "checkpointProtection", "clustering",
    "collations", "collations-preview", "columnMapping", "deletionVectors", "domainMetadata", "generatedColumns", "geospatial",
    "icebergCompatV1", "icebergCompatV2", "icebergCompatV3", "identityColumns", "inCommitTimestamp", "inCommitTimestamp-preview",
    "invariants", "materializePartitionColumns", "rowTracking", "timestampNtz", "typeWidening", "typeWidening-preview", "v2Checkpoint", "vacuumProtocolCheck",
    "variantShredding", "variantShredding-preview", "variantType", "variantType-preview",
})  # fmt: skip
"""Features with no rule that a commit of protocol and properties could break, except for in-commit timestamps."""

TIMESTAMPS: Final = ("inCommitTimestamp", "inCommitTimestamp-preview")
TIMESTAMPS_ON: Final = ("delta.enableincommittimestamps", "delta.enableincommittimestamps-preview")
"""Properties in lower case, as Delta compares names."""

PLACES: Final = ("delta.coordinatedcommits.", "delta.redirect")
"""Prefixes of properties, in lower case, that name a server for commits, or another table."""

NEEDED_BY_PROPERTY: Final = {
    "delta.appendonly": "appendOnly",
    "delta.enablechangedatafeed": "changeDataFeed",
    "delta.enabledeletionvectors": "deletionVectors",
    "delta.enableincommittimestamps": "inCommitTimestamp",
    "delta.enablerowtracking": "rowTracking",
}
"""Features that a property with the value `true` needs."""

NEEDED_BY_COLUMN: Final = {
    '"delta.invariants"': "invariants",
    '"delta.generationExpression"': "generatedColumns",
    '"delta.identity.start"': "identityColumns",
}
"""Features that a key in the metadata of a column needs."""

DROP_HINT: Final = "Stop the writers of the source by other means, or drop the feature with ALTER TABLE … DROP FEATURE."


def check_fenceable(path: str, protocol: TableProtocol, metadata: Mapping[str, Any]) -> None:
    """Reject a table for which no log entry can set a fence.

    Args:
        path: The table's path, for messages.
        protocol: Protocol of the newest version.
        metadata: Fields of the newest `metaData` action.

    Raises:
        UnsupportedSourceFeatureError: names the feature, the property or the versions.
    """
    if not protocol.is_valid:
        raise UnsupportedSourceFeatureError(
            f"{path} cannot be fenced: its protocol ({protocol}) is not one of Delta's.",
            hint="Repair the protocol of the table with the engine that wrote it.",
        )
    properties: Mapping[str, str] = metadata.get("configuration") or {}
    for name in protocol.features:
        if name in BY_CATALOG:
            raise UnsupportedSourceFeatureError(
                f"{path} cannot be fenced: a catalog decides on its commits (table feature {name}).",
                hint="Revoke the writers' rights in the catalog instead.",
            )
        if name in ELSEWHERE:
            raise UnsupportedSourceFeatureError(
                f"{path} cannot be fenced: it redirects writers to another table (table feature {name}).",
                hint="Fence the table to which it redirects.",
            )
        if name not in KEPT:
            raise UnsupportedSourceFeatureError(
                f"{path} cannot be fenced: this release does not know the rules of the table feature {name}.",
                hint=DROP_HINT,
            )
    for name in properties:
        if name.lower().startswith(PLACES):
            raise UnsupportedSourceFeatureError(
                f"{path} cannot be fenced: the table property {name} names a server or another table.",
                hint="Unset the property, or fence the table that it names.",
            )
    _check_needed(path, protocol, metadata)


def _check_needed(path: str, protocol: TableProtocol, metadata: Mapping[str, Any]) -> None:
    """Reject metadata that needs a feature which the protocol lacks: readers tolerate it only as long as features are not listed."""
    for what, feature in _needed(metadata):
        if protocol.writer_features is None and feature not in protocol.features:
            raise UnsupportedSourceFeatureError(
                f"{path} cannot be fenced: {what} needs the table feature {feature}, which its protocol ({protocol}) lacks, so "
                "readers would reject the table.",
                hint=f"Add the feature: ALTER TABLE … SET TBLPROPERTIES ('delta.feature.{feature}' = 'supported').",
            )


def _needed(metadata: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each setting or column key with the feature that it needs."""
    properties: Mapping[str, str] = metadata.get("configuration") or {}
    for name, text in properties.items():
        lower, value = name.lower(), text.strip().lower()
        if lower in NEEDED_BY_PROPERTY and value == "true":
            yield f"the table property {name}", NEEDED_BY_PROPERTY[lower]
        if lower == "delta.columnmapping.mode" and value != "none":
            yield f"the table property {name}", "columnMapping"
        if lower.startswith("delta.constraints."):
            yield f"the constraint {name}", "checkConstraints"
    schema = str(metadata.get("schemaString", ""))
    yield from (
        (f"a column with {key.strip(chr(34))}", feature) for key, feature in NEEDED_BY_COLUMN.items() if key in schema
    )


def in_commit_timestamps(protocol: TableProtocol, properties: Mapping[str, str]) -> bool:
    """Return True if each commit of the table must contain its time."""
    on = {name.lower() for name, text in properties.items() if text.strip().lower() == "true"}
    return not on.isdisjoint(TIMESTAMPS_ON) and not {*protocol.features}.isdisjoint(TIMESTAMPS)
