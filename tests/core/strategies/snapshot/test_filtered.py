"""Filtered rows are counted, so that a complete job accounts for all rows."""

import json

from support.simulation.hand_driven import HandDriven

from backfill_core.job.state import receipt_from_json, receipt_to_json
from backfill_core.protocol.receipt import TableReceipt


class TestACompleteJobWithAFilter:
    """A complete job once showed `100 % 1,990,195 of 1,999,980 rows`, which looks like a loss."""

    def test_a_complete_job_shows_the_number_of_filtered_rows(self):
        """The numbers must add up for a user."""
        job = HandDriven(1000, 500, filtered=True)
        job.let_pass(2.0, split_s=0.2)
        view = job.view.strategy

        assert (view.phase, view.rows_total) == ("Live", 1500)
        assert (view.rows_done, view.rows_filtered) == (1500, 1350)
        assert job.job.view(job.now).strategy.rows_done == 1500

    def test_a_job_without_a_filter_shows_no_filtered_rows(self):
        """A count in every job would be noise."""
        job = HandDriven(1000, 500)
        job.let_pass(2.0, split_s=0.2)

        assert (job.view.strategy.rows_done, job.view.strategy.rows_filtered) == (1500, 0)

    def test_the_count_of_rows_is_kept_for_an_attempt_without_the_pinned_version(self):
        """The state is then the only source of this number."""
        job = HandDriven(1000, filtered=True)

        assert json.loads(job.states[-1])["snapshot"]["rowsLive"] == 1000


class TestAStoredReceipt:
    """A stored receipt keeps its scope."""

    def test_a_stored_receipt_keeps_its_missing_rows(self):
        """A partial receipt must stay partial after a restart."""
        counts = {"rows_filtered": 10, "rows_total": 1000}
        receipt = TableReceipt(3, 7, 5, 90, 8, "ab", (), 0.1, 1, complete=False, source_position="version 3", **counts)

        assert receipt_from_json(receipt_to_json(receipt)) == receipt

    def test_a_receipt_of_an_earlier_release_covers_all_rows(self):
        """Earlier releases only wrote receipts of whole tables."""
        old = {
            "sourceVersion": 3,
            "targetVersion": 7,
            "epoch": 5,
            "rows": 90,
            "vnodes": 8,
            "digest": "ab",
            "mismatches": [],
            "seconds": 0.1,
        }

        assert receipt_from_json(old).complete
