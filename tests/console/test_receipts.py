"""Receipts on a terminal: the verdict, the versions, and the differences."""

import re

import pytest
from support.console.rendered import text

from backfill_api.status.receipt import CutOff, FileMismatch, Mismatch, PartitionReceipt, Receipt
from backfill_api.status.source_head import SourceHead
from backfill_console.receipts import partition_rows
from backfill_console.terminal import show_receipt

AT = "2026-11-21T12:30:00Z"


class TestAReceipt:
    @pytest.mark.parametrize("columns", [40, 60])
    def test_a_receipt_shows_the_whole_name_of_a_file(self, columns):
        """A user searches for the name."""
        path = "part-00000-d74dee7e-1f2a-4b26-b95e-dfdc7cd98ac6-c000.snappy.parquet"
        receipt = Receipt(
            source_version=9, target_version=40, epoch=39, rows=5, vnodes=256, digest="ab" * 32, seconds=1.5,
            files=(FileMismatch(path=path, what="it does not exist"),),
        )  # fmt: skip
        shown = text(show_receipt(receipt), columns)

        assert path in re.sub(r"[│\s]", "", shown)
        assert "…" not in shown

    def test_a_receipt_of_equal_tables_names_both_versions(self):
        """Users keep it as a proof."""
        receipt = Receipt(
            source_version=9, target_version=40, epoch=39, rows=12_345, vnodes=256, digest="ab" * 32, seconds=1.5
        )
        shown = text(show_receipt(receipt))
        for fact in ("are equal", "12,345", "source version 9, target version 40", "256 vnodes", "1.5 s"):
            assert fact in shown

    @pytest.mark.parametrize(
        ("head", "newer"),
        [
            (SourceHead(version=1, position="version 1", behind=1, committed_at=AT, age_seconds=180), "1 version"),
            (SourceHead(version=12, position="version 12", behind=12, committed_at=AT, age_seconds=180), "12 versions"),
            (SourceHead(position="0:1005", behind=5, committed_at=AT, age_seconds=180), "5 offsets"),
        ],
    )
    def test_a_receipt_shows_newer_changes(self, head, newer):
        """`source and target are equal` is not true of the newest version (fault U1)."""
        receipt = Receipt(
            source_version=0, source_position="version 0", target_version=4, epoch=39, rows=5, vnodes=256,
            digest="ab" * 32, seconds=1.5,
        )  # fmt: skip
        shown = text(show_receipt(receipt, head))

        assert "equal at source version 0" in shown
        assert "source and target are equal" not in shown
        assert f"the source is at {head.position} now ({newer}, the newest 3 min old, not copied)" in shown
        assert "source and target are equal" in text(show_receipt(receipt, head.model_copy(update={"behind": 0})))

    def test_a_partial_receipt_shows_its_share(self):
        """At 31 % copied, the two sides are not equal yet."""
        receipt = Receipt(
            source_version=8, target_version=9, epoch=7, rows=1800, vnodes=256, digest="ab" * 32, seconds=0.5,
            complete=False, rows_filtered=69, rows_total=6000,
        )  # fmt: skip
        shown = text(show_receipt(receipt))

        assert "equal so far: 1,869 of 6,000 rows (31 %)" in shown
        assert "69 filtered out" in shown
        assert "source and target are equal" not in shown

    def test_a_receipt_names_partitions_with_open_transactions(self):
        """Equal rows are not a whole copy (fault B8)."""
        receipt = Receipt(
            source_version=None, target_version=9, epoch=7, rows=85, vnodes=256, digest="ab" * 32, seconds=0.5, complete=False,
            cut_off=(CutOff(partition="0", start=85, stop=100),),
        )  # fmt: skip
        shown = text(show_receipt(receipt))

        assert "equal, without records behind open transactions of 1 partition" in shown
        assert "partition 0 at offset 85; it ends at 100" in shown
        assert receipt.summary.cut_off_partitions == 1

    def test_a_receipt_of_different_tables_lists_vnodes(self):
        """A line names the vnode and both counts; a long list is truncated, and the output shows by how much."""
        wrong = tuple(Mismatch(vnode=vnode, source_rows=5, target_rows=4) for vnode in range(25))
        receipt = Receipt(
            source_version=9,
            target_version=40,
            epoch=39,
            rows=5,
            vnodes=256,
            digest="ab" * 32,
            seconds=1.5,
            mismatches=wrong,
        )
        shown = text(show_receipt(receipt))
        for fact in ("25 of 256 vnodes differ", "vnode 0", "5 rows in the source, 4 in the target", "and 15 more"):
            assert fact in shown

    def test_a_receipt_of_copied_files_names_a_different_file(self):
        """It shows how many files and rows were compared, and the file that differs, although all compared rows are equal."""
        receipt = Receipt(
            source_version=9, target_version=40, epoch=39, rows=12_345, vnodes=256, digest="ab" * 32, seconds=1.5,
            files_by_bytes=1_200, rows_by_rows=45, files=(FileMismatch(path="w-1.parquet", what="it does not exist"),),
        )  # fmt: skip
        shown = text(show_receipt(receipt))

        for fact in (
            "1 file differs",
            "1,200 files by their bytes, 45 rows in 256 vnodes",
            "w-1.parquet: it does not exist",
        ):
            assert fact in shown
        assert "are equal" in text(show_receipt(receipt.model_copy(update={"files": ()})))

    def test_a_receipt_of_a_topic_lists_its_partitions(self):
        """Partitions that lack rows come first, and a gap of the broker's own is named as one."""
        whole = PartitionReceipt(
            partition="0", start=0, stop=1200, records=1100, first=0, last=1198, gaps=100, bad_records=3, rows=1097,
            target_rows=1097, target_first=0, target_last=1198, missing=0,
        )  # fmt: skip
        torn = PartitionReceipt(
            partition="7", start=0, stop=9, records=9, first=0, last=8, rows=9, target_rows=7, missing=2
        )
        rows = partition_rows(
            (
                whole,
                torn,
                *(PartitionReceipt(partition=str(number), start=0, stop=0, records=0, rows=0) for number in range(9)),
            )
        )

        assert rows[0] == ("partition 7", "9 records at offsets 0 to 8; the target lacks 2")
        assert rows[1] == (
            "partition 0",
            "1,100 records at offsets 0 to 1198; 100 offsets without a record (the broker's own); 3 bad records; the target has all",
        )
        assert rows[2] == ("partition 0", "no record")
        assert rows[-1] == ("", "and 1 more")
