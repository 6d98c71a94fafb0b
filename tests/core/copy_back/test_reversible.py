"""Which tables can be copied back: each rule of the source that files of the target may break is named."""

import json
from dataclasses import replace

import pytest
from support.source_fence.memory_log import table_head

from backfill_core.copy_back.reversible import irreversible, unmapped
from backfill_core.log_shipping.actions import FileRemoved
from backfill_core.positions.source_names import RowOrder, name_of
from backfill_core.source_fence.table_protocol import TableProtocol


def column(name="id", kind="long", *, nullable=True, **metadata):
    """Return a column of a schema."""
    return {
        "name": name,
        "type": kind,
        "nullable": nullable,
        "metadata": {f"delta.{k}": v for k, v in metadata.items()},
    }


def table(*columns, features=None, properties=None, partitions=()):
    """Return the newest version of a table."""
    protocol = TableProtocol(1, 2) if features is None else TableProtocol(3, 7, (), tuple(features))
    head = table_head(protocol, properties)
    schema = json.dumps({"type": "struct", "fields": list(columns or (column(),))})
    return replace(head, metadata={**head.metadata, "schemaString": schema, "partitionColumns": list(partitions)})


class TestTables:
    @pytest.mark.parametrize(
        ("source", "target"),
        [
            (table(), table()),
            (table(features=("deletionVectors", "columnMapping")), table(features=("deletionVectors",))),
            (table(), table(features=("domainMetadata", "changeDataFeed", "inCommitTimestamp"))),
            (table(column(nullable=False)), table(column(nullable=False))),
            (
                table(properties={"delta.constraints.positive": "id > 0"}),
                table(properties={"delta.constraints.positive": "id > 0", "delta.constraints.more": "id > 9"}),
            ),
            (table(column(comment="a")), table(column(nullable=False))),
        ],
    )
    def test_of_the_same_layout_are_copied_back(self, source, target):
        """Stricter rules of the target hold in the source, too."""
        assert irreversible(source, target) == ""

    @pytest.mark.parametrize(
        ("source", "target", "reason"),
        [
            (table(), table(column(kind="integer")), "the types or names in files of id"),
            (table(), table(column(), column("more")), "only the target has more"),
            (table(column(), column("more")), table(), "only the source has more"),
            (table(column("a"), column("b")), table(column("b"), column("a")), "their order"),
            (table(), table(partitions=("id",)), "the partition columns differ"),
            (table(), table(features=("deletionVectors",)), "table feature deletionVectors, and the source does not"),
            (table(), table(features=("newFeature",)), "table feature newFeature, and the source does not"),
            (table(features=("rowTracking",)), table(features=("rowTracking",)), "rowTracking, whose rules"),
            (table(properties={"delta.appendOnly": "TRUE"}), table(), "append-only"),
            (table(properties={"delta.constraints.x": "id > 0"}), table(), "the constraint delta.constraints.x"),
            (table(column(nullable=False)), table(), "id is NOT NULL"),
            (table(column(generationExpression="1")), table(), "id has delta.generationExpression"),
            (
                table(column("s", {"type": "struct", "fields": [column("in", nullable=False)]})),
                table(column("s", {"type": "struct", "fields": [column("in")]})),
                "in is NOT NULL",
            ),
        ],
    )
    def test_of_another_layout_or_with_fewer_rules_are_refused_by_name(self, source, target, reason):
        """Readers of the source would see wrong values, or rows that it forbids."""
        assert reason in irreversible(source, target)


class TestAFile:
    def test_of_decoded_rows_has_no_counterpart(self):
        """Several of them come from one file of the source, so none can be removed alone."""
        assert "decoded" in unmapped(FileRemoved(name_of("part-1.parquet", RowOrder.LOST, "0"), True))
        assert unmapped(FileRemoved(name_of("part-1.parquet", RowOrder.KEPT, "0"), True)) == ""
        assert unmapped(FileRemoved("part-2.parquet", True)) == ""
