"""`backfill repair` reports the rows and files that differ; a dry run says what it would change."""

from dataclasses import replace

import pytest

from backfill_api.status.receipt import Mismatch, Receipt
from backfill_cli.commands.repair import repair_fields, repair_line
from backfill_core.protocol.receipt import DifferenceCounts
from backfill_spark.repair.result import Repaired

EQUAL = Receipt(
    source_version=4, source_position="version 4", target_version=9, epoch=3, rows=10, vnodes=2, digest="a", seconds=1
)
DIFFERS = EQUAL.model_copy(update={"mismatches": (Mismatch(vnode=1, source_rows=3, target_rows=2),)})
DONE = Repaired("/lake/copy", DIFFERS, EQUAL, 12, DifferenceCounts(1, 2, 3), 0, 0, 4, finished=True)


class TestTheLineOfARepair:
    @pytest.mark.parametrize(
        ("done", "dry_run", "line"),
        [
            (
                DONE,
                False,
                "repaired /lake/copy in version 12: rows: 1 inserted, 2 updated, 3 deleted; 4 files of the target replaced",
            ),
            (
                replace(
                    DONE, version=None, rows=DifferenceCounts(), files_copied=1, bytes_copied=2_500_000, files_removed=0
                ),
                True,
                "would repair /lake/copy: 1 file copied again (2.5 MB)",
            ),
            (
                replace(DONE, before=EQUAL, version=None),
                False,
                "/lake/copy equals the source at version 4; nothing to repair",
            ),
            (
                replace(DONE, rows=DifferenceCounts(), files_removed=0, version=None),
                True,
                "would repair /lake/copy: no row or file is known to differ",
            ),
        ],
        ids=["rows", "files", "equal", "unknown"],
    )
    def test_a_repair_is_described_in_one_line(self, done, dry_run, line):
        """Counts of nothing are left out."""
        assert repair_line(done, dry_run=dry_run) == line

    def test_the_json_has_the_counts_and_the_receipt(self):
        """A script need not parse the line."""
        fields = repair_fields(DONE, dry_run=False)

        counts = ("version", "dryRun", "rowsInserted", "rowsUpdated", "rowsDeleted", "filesCopied", "filesRemoved")
        assert [fields[name] for name in counts] == [12, False, 1, 2, 3, 0, 4]
        assert fields["receipt"]["targetVersion"] == 9
