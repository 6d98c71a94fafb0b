"""A table's log in memory, with the interface of the real one: each version is written once, by the first writer."""

import json
from dataclasses import replace

from backfill_core.source_fence.fence import TableHead
from backfill_core.source_fence.table_protocol import TableProtocol

FIRST_MS = 1_700_000_000_000


def table_head(protocol=None, properties=None, version=4, **metadata):
    """Return the newest version of a table with two columns."""
    configuration = {"delta.logRetentionDuration": "interval 9 days", "owner": "sales"} | (properties or {})
    fields = {
        "id": "5f3a", "format": {"provider": "parquet", "options": {}}, "schemaString": '{"type":"struct","fields":[]}',
        "partitionColumns": ["day"], "createdTime": 7, "configuration": configuration,
    }  # fmt: skip
    return TableHead("/lake/orders", version, FIRST_MS, fields | metadata, protocol or TableProtocol(1, 2))


def after_entry(head, entry):
    """Return the newest version after an entry, parsed from its lines by their names alone."""
    actions = {}
    for line in entry.lines:
        actions |= json.loads(line)
    fields = actions["protocol"]
    protocol = TableProtocol(
        fields["minReaderVersion"],
        fields["minWriterVersion"],
        tuple(fields["readerFeatures"]) if "readerFeatures" in fields else None,
        tuple(fields["writerFeatures"]) if "writerFeatures" in fields else None,
    )
    info = actions["commitInfo"]
    time_ms = info.get("inCommitTimestamp", info["timestamp"])
    return replace(head, version=entry.version, timestamp_ms=time_ms, metadata=actions["metaData"], protocol=protocol)


class MemoryLog:
    """The versions of one table; each has its state and the operation that made it."""

    def __init__(self, head):
        """Begin with one version."""
        self.heads = [head]
        self.operations = ["CREATE"]
        self.before_put = []
        """Functions that run once each before a later put, as a concurrent writer does."""

    def check(self):
        """Accept the store."""

    def head(self):
        """Return the newest version."""
        return self.heads[-1]

    def retention_s(self, name, value):
        """Return the days of a retention in seconds; without a value, as Delta does."""
        return int(value.split()[1]) * (3600 if "hour" in value else 86_400) if value else 7 * 86_400

    def put(self, entry):
        """Add an entry unless its version exists."""
        if self.before_put:
            self.before_put.pop(0)()
        if entry.version == self.head().version + 1:
            self.heads.append(after_entry(self.head(), entry))
            self.operations.append(json.loads(entry.lines[0])["commitInfo"]["operation"])

    def write(self):
        """Commit rows as a writer does that respects the protocol; return whether it may."""
        head = self.head()
        if any(name.startswith("backfill.") for name in head.protocol.writer_features or ()):
            return False
        self.heads.append(replace(head, version=head.version + 1, timestamp_ms=head.timestamp_ms + 1000))
        self.operations.append("WRITE")
        return True
