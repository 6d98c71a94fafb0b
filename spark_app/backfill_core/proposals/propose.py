"""Key, strategy, partitions, write mode and limit of a new job, each with its reason."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from backfill_api.amounts import counted, show_seconds
from backfill_core.proposals.payloads import format_of, json_fields
from backfill_core.proposals.seen import ColumnSeen, Request, TableSeen, TopicSeen

KEY_TYPES: Final = ("tinyint", "smallint", "int", "bigint", "string", "decimal")
"""Types of key columns, without their parameters."""

KEY_NAMES: Final = (r"id|uuid|guid", r".*(_id|_key|_no|_number|_code|uuid|guid)", r".*Id|.*Key")
"""Names of columns that identify a row, the likeliest first."""

ROWS_PER_S: Final = 100_000
"""A careful estimate of a copy's rate, only to compare the duration with the time that the source keeps versions."""

KEPT_FACTOR: Final = 2
"""The source should keep versions this many times as long as the copy takes."""

PARTITION_BYTES: Final = 10**12
"""Bytes below which partitions cost readers more than they save."""

TEXT: Final = "CAST(value AS STRING) AS value"
SQL_MAX: Final = 8192
"""Characters of the longest expression of a spec."""

RECORDS_UNLIMITED: Final = 10_000_000
HISTORY_S: Final = 3600
"""A topic with more records is read in about an hour, because its brokers also serve producers and other readers."""


@dataclass(frozen=True, slots=True)
class Proposed:
    """A value of a manifest with the reason for it."""

    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """Everything that a manifest needs in addition to the two locations."""

    strategy: Proposed
    key: tuple[str, ...]
    key_reason: str
    write_mode: Proposed | None
    """`None` if the strategy copies files, which have no write mode."""

    partitions: tuple[str, ...]
    partitions_reason: str
    rows_per_second: int | None
    throttle_reason: str
    select: tuple[str, ...] = ()
    select_reason: str = ""
    notes: tuple[str, ...] = ()
    """Further comments for the author."""

    columns: tuple[str, ...] = ()
    """Columns of the source that the target gets without a `select`."""


def propose(seen: TableSeen | TopicSeen, request: Request) -> Proposal:
    """Return the proposal for a source; values of the request take precedence."""
    return _of_table(seen, request) if isinstance(seen, TableSeen) else _of_topic(seen, request)


def likely_key(columns: tuple[ColumnSeen, ...]) -> tuple[ColumnSeen, ...]:
    """Return the columns that may identify a row, the likeliest first: by name, then by position."""
    able = [column for column in columns if column.type.partition("(")[0] in KEY_TYPES]
    return tuple(sorted(able, key=lambda column: _rank(column.name)))


def _rank(name: str) -> int:
    ranks = (rank for rank, pattern in enumerate(KEY_NAMES) if re.fullmatch(pattern, name))
    return next(ranks, len(KEY_NAMES))


# ------------------------------------------------------------------ tables
def _of_table(seen: TableSeen, request: Request) -> Proposal:
    key, key_reason = _key(seen, request)
    strategy = _strategy(seen, request, key)
    ships = strategy.value == "Replica"
    partitions, partitions_reason = _partitions(seen, ships=ships)
    return Proposal(
        strategy=strategy,
        key=() if ships and not request.key else key,
        key_reason="not needed: files are copied as they are" if ships and not request.key else key_reason,
        write_mode=None if ships else _write_mode(seen, key),
        partitions=partitions,
        partitions_reason=partitions_reason,
        rows_per_second=None,
        throttle_reason="no limit: set rowsPerSecond if other readers need the source's store or the cluster",
        columns=tuple(column.name for column in seen.columns),
    )


def _key(seen: TableSeen, request: Request) -> tuple[tuple[str, ...], str]:
    if request.key:
        return request.key, "as given with --key"
    for column in likely_key(seen.columns):
        if column.repeats is False and _rank(column.name) < len(KEY_NAMES):
            sample = counted(seen.sampled_rows, "sampled row")
            return (column.name,), f"no null and no repeated value in {sample}; `plan --check-unique` proves it"
    return (), "no column with the name of a key has only different values: name the columns that identify a row"


def _strategy(seen: TableSeen, request: Request, key: tuple[str, ...]) -> Proposed:
    if request.strategy is not None:
        return Proposed(request.strategy, "as given with --strategy")
    if not seen.change_feed:
        return Proposed("Replica", "copies the files and then the log: the source has no change feed")
    if not key:
        return Proposed("Replica", "copies the files and then the log: no column is known to identify a row")
    seconds = seen.rows // ROWS_PER_S
    if seen.kept_s is not None and seen.kept_s < KEPT_FACTOR * seconds:
        kept, copy = show_seconds(seen.kept_s), show_seconds(seconds)
        reason = f"needs no old version: the source keeps versions for {kept}, and a copy may take {copy}"
        return Proposed("Arrangement", reason)
    return Proposed("Snapshot", "reads each file once, then merges the change feed by the key")


def _write_mode(seen: TableSeen, key: tuple[str, ...]) -> Proposed:
    if key:
        return Proposed("Upsert", "the target holds the newest row of each key")
    if seen.change_feed:
        return Proposed(
            "Changelog", "without a key the target holds a row for each change; Append needs a source without updates"
        )
    return Proposed("Append", "without a key rows are only added: an update or delete in the source ends the job")


def _partitions(seen: TableSeen, *, ships: bool) -> tuple[tuple[str, ...], str]:
    if ships:
        return (), "the target gets the partitions of the source"
    if seen.partitions:
        return seen.partitions, "as in the source: files of one partition stay together"
    if seen.bytes < PARTITION_BYTES:
        return (), f"none: {seen.bytes // 10**6:,} MB are too few for partitions"
    return (), "none in the source; clusterBy lays a table of this size out for its readers"


# ------------------------------------------------------------------ topics
def _of_topic(seen: TopicSeen, request: Request) -> Proposal:
    select, reason, notes = _select(seen)
    keyed = "record_key" in [_alias(line) for line in select]
    key = request.key or (("record_key",) if seen.compacts and keyed else ())
    mode = Proposed("Append", "each record becomes a row")
    if key:
        mode = Proposed(
            "Upsert", "the target holds the newest record of each key; a record without a value deletes the row"
        )
    limit = None if seen.records < RECORDS_UNLIMITED else _rounded(seen.records // HISTORY_S)
    return Proposal(
        strategy=Proposed(
            request.strategy or "SourceSplits",
            "as given with --strategy" if request.strategy else "reads the history and new records at the same time",
        ),
        key=key,
        key_reason="as given with --key"
        if request.key
        else "the topic is compacted: it keeps the newest record of each key",
        write_mode=mode,
        partitions=(),
        partitions_reason="none: to_date(timestamp) in select gives a column for partitions by day",
        rows_per_second=limit,
        throttle_reason=_topic_limit(seen, limit),
        select=select,
        select_reason=reason,
        notes=notes,
    )


def _topic_limit(seen: TopicSeen, limit: int | None) -> str:
    records = counted(seen.records, "record")
    if limit is None:
        return f"no limit: {records} in {counted(seen.partitions, 'partition')}"
    return f"{records} take about an hour, because the brokers also serve producers and other readers"


def _select(seen: TopicSeen) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    base = ["partition", "offset", "timestamp"]
    if seen.keyed:
        base.append("CAST(key AS STRING) AS record_key")
    form = format_of(seen.values)
    if form == "Json":
        names = json_fields(seen.values)
        schema = ", ".join(f"{_identifier(name)} {kind}" for name, kind in names)
        parsed = f"from_json(CAST(value AS STRING), '{_quoted(schema)}') AS record"
        if len(parsed) > SQL_MAX:
            note = "The payloads are JSON with too many fields for one expression: parse those that you need with from_json."
            return (*base, TEXT), "the payload stays as text", (note,)
        reason = (
            f"fields and types are those of {counted(len(seen.values), 'sampled record')}: complete and correct them"
        )
        return (*base, parsed), reason, ()
    if form == "Text":
        return (*base, TEXT), "the payloads are text, but not JSON", ()
    note = {
        "Registry": "The payloads have the prefix of a schema registry. Parse them here with from_avro or from_protobuf, and the schema as text.",
        "Binary": "The payloads are neither JSON nor text. Parse them here, as with from_avro and the schema as text.",
        "Empty": "The topic has no record with a payload, so its fields are unknown.",
    }[form]
    return (*base, "value"), "the payload stays as bytes", (f"{note} docs/kafka.md lists the parsers.",)


def _alias(line: str) -> str:
    return line.rpartition(" AS ")[2]


def _identifier(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else f"`{name.replace('`', '``')}`"


def _quoted(schema: str) -> str:
    return schema.replace("\\", "\\\\").replace("'", "\\'")


def _rounded(count: int) -> int:
    """Return a number with two significant digits."""
    digits = len(str(count)) - 2
    return count if digits <= 0 else count // 10**digits * 10**digits
