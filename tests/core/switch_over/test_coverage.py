"""A comparison builds on an earlier receipt only if that receipt is about the same tables, and says what it builds on."""

import json
from dataclasses import replace

import pytest

from backfill_core.job.state import receipt_from_json, receipt_to_json
from backfill_core.positions.offsets import OffsetRange
from backfill_core.protocol.receipt import FileDifference, ReceiptBasis, TableReceipt, VnodeMismatch
from backfill_core.switch_over.coverage import (
    Everything,
    OnlyChanges,
    changed_files,
    compares_again,
    coverage,
    is_worthwhile,
)

NOW = ReceiptBasis("source-1", "target-1", "columns-1", "transform-1")
BASE = TableReceipt(10, 20, 1, 100, 16, "d1", (), 1.0, basis=NOW)


def line(path, size=10, **fields):
    """Return the `add` action of a file."""
    return json.dumps({"add": {"path": path, "size": size, "partitionValues": {}, "dataChange": True} | fields})


def changed(before, after):
    """Return the changed files of two lists of actions."""
    return changed_files(before, after, action=lambda text: text, size=lambda text: json.loads(text)["add"]["size"])


class TestCoverage:
    def test_is_of_the_changes_after_an_equal_receipt_of_the_same_tables(self):
        """Also if nothing changed, and after the receipt was stored in the target."""
        stored = receipt_from_json(json.loads(json.dumps(receipt_to_json(BASE))))

        assert coverage(BASE, NOW, source_version=12, target_version=23) == OnlyChanges(BASE)
        assert coverage(BASE, NOW, source_version=10, target_version=20) == OnlyChanges(BASE)
        assert stored.basis == NOW

    @pytest.mark.parametrize(
        ("base", "reason"),
        [
            (None, "there is no receipt"),
            (replace(BASE, mismatches=(VnodeMismatch(1, 2, 3),)), "the last receipt found a difference"),
            (replace(BASE, files=(FileDifference("a", "size"),)), "the last receipt found a difference"),
            (replace(BASE, complete=False), "the last receipt covers only a part of the source"),
            (replace(BASE, cut_off=(OffsetRange("0", 1, 2),)), "the last receipt covers only a part of the source"),
            (replace(BASE, basis=None), "the last receipt does not name its tables"),
            (replace(BASE, source_version=None), "the last receipt does not name its tables"),
            (replace(BASE, basis=replace(NOW, source_id="x")), "the source was created again since the last receipt"),
            (replace(BASE, basis=replace(NOW, target_id="x")), "the target was created again since the last receipt"),
            (replace(BASE, basis=replace(NOW, columns="x")), "the columns changed since the last receipt"),
            (replace(BASE, basis=replace(NOW, transform="x")), "the transform changed since the last receipt"),
            (replace(BASE, source_version=13), "the last receipt is of newer versions than the tables"),
            (replace(BASE, target_version=24), "the last receipt is of newer versions than the tables"),
        ],
    )  # fmt: skip
    def test_is_of_everything_otherwise_with_the_reason(self, base, reason):
        """A weaker comparison is never silent."""
        assert coverage(base, NOW, source_version=12, target_version=23) == Everything(reason)

    def test_is_of_everything_if_the_tables_are_unknown(self):
        """The log of a side cannot be read."""
        assert isinstance(coverage(BASE, None, source_version=12, target_version=23), Everything)


class TestTheComparisonsBeforeTheFence:
    @pytest.mark.parametrize(
        ("seconds", "again"),
        [([], True), ([0.1], True), ([900.0], True), ([900.0, 60.0], True), ([900.0, 5.0], False), ([9.0] * 4, False)],
    )
    def test_end_once_few_changes_are_left_for_the_one_after_it(self, seconds, again):
        """The source changes while a comparison of everything runs, and a slow machine must come to an end."""
        assert compares_again(seconds) == again


class TestChangedFiles:
    def test_are_those_that_one_version_lacks(self):
        """Statistics, times and tags do not change rows."""
        before = [line("a"), line("b", size=30), line("c", tags={"k": "1"})]
        after = [line("a", modificationTime=7), line("d", size=5), line("c", tags={"k": "2"})]

        files = changed(before, after)

        assert (files.added, files.removed, files.all) == ((after[1],), (before[1],), 3)
        assert (files.count, files.changed_bytes, files.all_bytes) == (2, 35, 25)

    @pytest.mark.parametrize(
        "fields",
        [
            {"deletionVector": {"storageType": "u", "pathOrInlineDv": "x", "offset": 1}},
            {"partitionValues": {"day": "2026-01-01"}},
            {"size": 11},
        ],
        ids=["vector", "partition", "size"],
    )
    def test_include_a_file_of_the_same_path_with_other_rows(self, fields):
        """Readers see other rows in it."""
        files = changed([line("a")], [line("a", **fields)])

        assert (len(files.added), len(files.removed)) == (1, 1)

    def test_as_large_as_the_tables_are_not_worthwhile(self):
        """A comparison of everything then reads less; without changes there is nothing to read."""
        none, all_new = changed([line("a")], [line("a")]), changed([line("a")], [line("b")])

        assert is_worthwhile(none, none)
        assert not is_worthwhile(all_new, all_new)
        assert is_worthwhile(changed([line("a")], [line("a"), line("b", size=1)]), none)
        assert is_worthwhile(changed([], []), changed([], []))
