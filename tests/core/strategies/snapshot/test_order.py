"""Order of history: files are read in the order that a user asks for; what is done stays where it is."""

import json

from support.simulation.hand_driven import HandDriven

from backfill_core.job.controls import Controls
from backfill_core.positions.file_order import FileOrder
from backfill_core.strategies.snapshot.stored import decode

ROWS = (300_000,) * 4


def order(*files):
    return FileOrder("at", "Descending", files, tuple(f"2026-0{9 - place}-01" for place in range(len(files))))


def files_of(job):
    return [one.file for work in job.begun for one in work.ranges]


def snapshot_of(job):
    return json.loads(job.states[-1])["snapshot"]


class TestAnOrder:
    def test_is_the_order_in_which_files_are_begun(self):
        """A user who asks for the newest rows looks for them first."""
        job = HandDriven(*ROWS, order=order(2, 0, 3, 1))
        job.let_pass(8.0, split_s=0.5)

        assert files_of(job) == [2, 0, 3, 1]
        assert job.view.strategy.phase == "Live"

    def test_is_kept_under_a_limit(self):
        """Sub-file ranges come from one file after the other, and are read ahead so too."""
        for rows_per_s in (50_000, 150_000):
            job = HandDriven(*ROWS, order=order(2, 0, 3, 1), controls=Controls(rows_per_s=rows_per_s))
            job.let_pass(40.0, split_s=0.2)

            assert list(dict.fromkeys(files_of(job))) == [2, 0, 3, 1]
            assert job.view.strategy.rows_done == sum(ROWS)

    def test_leaves_the_row_index_as_it_is(self):
        """What is stored must be understood by an attempt with another order, and by an earlier release."""
        job = HandDriven(*ROWS, order=order(2, 0, 3, 1))
        job.finish_split()
        job.let_pass(1.1)

        assert snapshot_of(job)["done"] == [[600_000, 900_000]]
        assert job.job.view(job.now).strategy.watermark.value == "2026-08-01"

    def test_may_change_between_attempts(self):
        """Nothing is read twice, nothing is left out: done is a set."""
        first = HandDriven(*ROWS, order=order(2, 0, 3, 1))
        first.finish_split()
        first.let_pass(1.1)
        job = HandDriven(*ROWS, order=order(1, 2, 3, 0), stored=decode(snapshot_of(first)))
        job.let_pass(8.0, split_s=0.5)

        assert files_of(job) == [1, 3, 0]
        assert snapshot_of(job)["done"] == [[0, sum(ROWS)]]
        assert snapshot_of(job)["rowsRead"] == sum(ROWS)

    def test_may_be_given_up(self):
        """The rest is read in path order."""
        first = HandDriven(*ROWS, order=order(2, 0, 3, 1))
        first.finish_split()
        first.let_pass(1.1)
        job = HandDriven(*ROWS, stored=decode(snapshot_of(first)))
        job.let_pass(8.0, split_s=0.5)

        assert files_of(job) == [0, 1, 3]
        assert job.view.strategy.watermark is None
