"""Order of history: files are read in the order that a user requests; completed files keep their place."""

import json

from support.simulation.hand_driven import HandDriven

from backfill_core.job.controls import Controls
from backfill_core.positions.file_order import FileOrder
from backfill_core.strategies.snapshot.stored import decode

ROWS = (300_000,) * 4


def order(*files):
    return FileOrder("at", "Descending", files, tuple(f"2026-0{9 - place}-01" for place in range(len(files))))


def files_of(job):
    return [file_range.file for work in job.begun for file_range in work.ranges]


def snapshot_of(job):
    return json.loads(job.states[-1])["snapshot"]


class TestAnOrder:
    """A requested order decides which files are read first."""

    def test_files_are_begun_in_the_requested_order(self):
        """A user who requests the newest rows first looks for them first."""
        job = HandDriven(*ROWS, order=order(2, 0, 3, 1))
        job.let_pass(8.0, split_s=0.5)

        assert files_of(job) == [2, 0, 3, 1]
        assert job.view.strategy.phase == "Live"

    def test_the_order_is_kept_under_a_limit(self):
        """Ranges inside files, with and without reading ahead, follow the order of the files."""
        for rows_per_s in (50_000, 150_000):
            job = HandDriven(*ROWS, order=order(2, 0, 3, 1), controls=Controls(rows_per_s=rows_per_s))
            job.let_pass(40.0, split_s=0.2)

            assert list(dict.fromkeys(files_of(job))) == [2, 0, 3, 1]
            assert job.view.strategy.rows_done == sum(ROWS)

    def test_the_order_leaves_the_row_index_unchanged(self):
        """An attempt with another order and an earlier release must understand the stored state."""
        job = HandDriven(*ROWS, order=order(2, 0, 3, 1))
        job.finish_split()
        job.let_pass(1.1)

        assert snapshot_of(job)["done"] == [[600_000, 900_000]]
        assert job.job.view(job.now).strategy.watermark.value == "2026-08-01"

    def test_the_order_may_change_between_attempts(self):
        """No row is read twice or left out: the completed rows are a set."""
        first = HandDriven(*ROWS, order=order(2, 0, 3, 1))
        first.finish_split()
        first.let_pass(1.1)
        job = HandDriven(*ROWS, order=order(1, 2, 3, 0), stored=decode(snapshot_of(first)))
        job.let_pass(8.0, split_s=0.5)

        assert files_of(job) == [1, 3, 0]
        assert snapshot_of(job)["done"] == [[0, sum(ROWS)]]
        assert snapshot_of(job)["rowsRead"] == sum(ROWS)

    def test_the_order_may_be_removed(self):
        """The rest is read in path order."""
        first = HandDriven(*ROWS, order=order(2, 0, 3, 1))
        first.finish_split()
        first.let_pass(1.1)
        job = HandDriven(*ROWS, stored=decode(snapshot_of(first)))
        job.let_pass(8.0, split_s=0.5)

        assert files_of(job) == [0, 1, 3]
        assert job.view.strategy.watermark is None
