"""Costs of rows under a limit of bytes: the job counts the bytes of each file, not those of the average row."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as some
from support.simulation.hand_driven import HandDriven

from backfill_core.job.controls import Controls
from backfill_core.job.phase import JobSettings
from backfill_core.pacing.row_costs import RowCosts
from backfill_core.pacing.throttle import TokenBucket
from backfill_core.phases.prefetch import ChargePolicy
from backfill_core.phases.split_tracker import Splits
from backfill_core.positions.file_ranges import FileRange
from backfill_core.protocol.commands import Throttle
from backfill_core.protocol.events import CommandReceived, LimitSet
from backfill_core.protocol.work import ReadSplit, StagedFile

FILES = some.lists(some.tuples(some.integers(0, 50), some.integers(1, 5000)), min_size=1, max_size=8).filter(
    lambda files: any(rows for rows, _ in files)
)
HEAVY, LIGHT = 100, 10
"""Bytes of a row, in the first files and in the last ones."""


def costs_of(files):
    return RowCosts([0, *accumulate(rows for rows, _ in files)], [size for _, size in files])


class TestCosts:
    """A row of the average size costs one."""

    @given(FILES)
    def test_the_costs_of_all_rows_are_their_number(self, files):
        """Otherwise the limit of a whole table would not be that of its bytes."""
        total = sum(rows for rows, _ in files)
        assert costs_of(files).of(0, total) == pytest.approx(total)

    @given(FILES, some.data())
    def test_the_costs_of_two_parts_are_those_of_the_whole(self, files, data):
        """The bytes of a file are paid once, for any division into parts."""
        total = sum(rows for rows, _ in files)
        start, middle, stop = sorted(data.draw(some.lists(some.integers(0, total), min_size=3, max_size=3)))
        costs = costs_of(files)
        assert costs.of(start, middle) + costs.of(middle, stop) == pytest.approx(costs.of(start, stop))

    @given(FILES, some.data())
    def test_a_budget_buys_as_many_rows_as_they_cost(self, files, data):
        """The result is exact to a row, and at least one row, or a job with large rows would never continue."""
        total = sum(rows for rows, _ in files)
        start = data.draw(some.integers(0, total - 1))
        budget = data.draw(some.floats(0.1, 1000))
        costs = costs_of(files)
        stop = min(total, start + costs.rows(start, budget))

        assert costs.rows(start, budget) >= 1
        assert costs.of(start, max(start, stop - 1)) <= budget + 1e-3
        assert stop == total or costs.of(start, stop + 1) >= budget - 1e-3

    def test_costs_without_bytes_are_rows(self):
        """The result is the same as under a limit of rows."""
        costs = RowCosts([0, 10, 30])
        assert (costs.of(5, 25), costs.rows(5, 7.9), costs.by_bytes) == (20, 7, False)


class TestTheLimitInRows:
    """The lower of two limits holds."""

    @pytest.mark.parametrize(
        ("rows", "size_bytes", "row_bytes", "limit_rows", "by_bytes"),
        [
            (None, None, 10, None, False),
            (100, None, 10, 100, False),
            (None, 500, 10, 50, True),
            (100, 500, 10, 50, True),
            (40, 500, 10, 40, False),
            (100, 0, 10, 0, True),
            (None, 0, None, 0, True),
            (None, 500, None, None, False),
            (None, 5, 10, 0.5, True),
        ],
    )
    def test_the_lower_limit_is_given_in_rows(self, rows, size_bytes, row_bytes, limit_rows, by_bytes):
        """Without a row size the limit of bytes has no effect, and 0 holds all rows."""
        limit = LimitSet(rows, 1.1, size_bytes)
        assert limit.in_rows(row_bytes) == LimitSet(limit_rows, 1.1)
        assert limit.counts_bytes(row_bytes) is by_bytes


def limited(size_bytes, *, file_rows, each=20, rows=None):
    """Return a job with a limit from its start: heavy rows come first, then light ones."""
    files = (file_rows,) * each * 2
    sizes = (file_rows * HEAVY,) * each + (file_rows * LIGHT,) * each
    return HandDriven(
        *files, file_bytes=sizes, controls=Controls(bytes_per_s=size_bytes, rows_per_s=rows), settings=JobSettings()
    )


def bytes_by_second(job, heavy_rows):
    """Return the size of each seal, in bytes of the files."""
    sizes, done = [], 0
    for _, rows in job.sealed:
        heavy = max(0, min(done + rows, heavy_rows) - done)
        sizes.append(heavy * HEAVY + (rows - heavy) * LIGHT)
        done += rows
    return sizes


class TestALimitOfBytes:
    """R-SNAP-41 in bytes: the rate is at most 2 % off over ten seconds."""

    @pytest.mark.parametrize(("file_rows", "each"), [(3_000, 100), (100_000, 20)])
    def test_a_limit_of_bytes_is_kept_in_heavy_and_in_light_files(self, file_rows, each):
        """The cases are less and more than one file per second: with the average row, the job would read the heavy half
        at almost twice the limit."""
        rate = 10_000 * HEAVY
        job = limited(rate, file_rows=file_rows, each=each)
        job.let_pass(12.0 + 2 * file_rows * each * HEAVY / rate, split_s=0.05)
        sealed = [size for size in bytes_by_second(job, file_rows * each) if size]

        assert len(sealed) > 30
        assert sum(sealed) == file_rows * each * (HEAVY + LIGHT)
        for at in range(1, len(sealed) - 11, 10):
            assert sum(sealed[at : at + 10]) == pytest.approx(10 * rate, rel=0.02)

    def test_a_limit_of_bytes_is_kept_where_files_are_read_ahead(self):
        """The job reads whole files and commits them in parts from 100,000 average rows per second on."""
        rate, each = 300_000 * (HEAVY + LIGHT) // 2, 100
        job = limited(rate, file_rows=100_000, each=each)
        job.let_pass(80.0, split_s=0.05)
        sealed = [size for size in bytes_by_second(job, 100_000 * each) if size]

        assert any(split.boundaries for split in job.begun)
        assert sum(sealed) == 100_000 * each * (HEAVY + LIGHT)
        for at in range(2, len(sealed) - 12, 10):
            assert sum(sealed[at : at + 10]) == pytest.approx(10 * rate, rel=0.02)

    def test_a_row_larger_than_a_seconds_bytes_passes(self):
        """R-SNAP-42 for bytes: the job repays such a row afterwards."""
        job = HandDriven(10, file_bytes=(1000,), controls=Controls(bytes_per_s=50))
        job.let_pass(30.0, split_s=0.05)

        assert sum(rows for _, rows in job.sealed) == 10
        assert max(at for at, rows in job.sealed if rows) == pytest.approx(20.0, abs=3.0)

    def test_the_lower_of_a_limit_of_rows_and_one_of_bytes_holds(self):
        """Both cases are covered."""
        by_rows = limited(10**9, file_rows=3_000, rows=1_000)
        by_bytes = limited(100_000, file_rows=3_000, rows=10**6)
        for job in (by_rows, by_bytes):
            job.let_pass(20.0, split_s=0.05)

        assert [sum(rows for _, rows in job.sealed) for job in (by_rows, by_bytes)] == [
            pytest.approx(19_000, abs=2_000),
            pytest.approx(19_000, abs=2_000),
        ]

    @pytest.mark.parametrize(("stop", "charged"), [(100, 100), (50, 30)], ids=["a whole file", "a part of a file"])
    def test_a_whole_file_is_charged_for_all_of_its_rows(self, stop, charged):
        """It is copied with the rows that a deletion vector hides; a part of a file has its rows only on average."""
        splits, bucket, costs = Splits(filtered=False), TokenBucket(1000, 1.0, 0.0, 0.0), RowCosts([0, 100], [7])
        work = ReadSplit(1, (FileRange(0, 0, stop, 100),), 0, stop, 1)
        splits.begin(work, 0.0, ChargePolicy.WHEN_STARTED, costs)
        bucket, _ = splits.finish(1, (StagedFile("f", 7, 30),), 0.0, bucket.take(costs.of(0, stop), 0.0))

        assert bucket.tokens == pytest.approx(-charged)

    def test_the_job_reports_a_limit_of_bytes_and_its_duration(self):
        """The reason shows the limit, and the steps show the time: 6.6 MB at 66 kB per second."""
        job = HandDriven(*(3_000,) * 40, file_bytes=(165_000,) * 40, controls=Controls(bytes_per_s=66_000))
        job.let_pass(5.0, split_s=0.05)

        assert job.view.reason == "throttled to 66,000 bytes/s by the spec"
        assert job.view.course.eta.seconds == pytest.approx(95.0, rel=0.1)


class TestASourceWithoutFiles:
    """A topic does not know the bytes of future records."""

    def test_a_topic_refuses_a_limit_of_bytes_by_name(self):
        """The refusal comes at once: a command without an answer would look like a driver that hangs."""
        job = HandDriven(10, settings=JobSettings(knows_bytes=False))
        job.send(CommandReceived(1, 1, Throttle(None, bytes_per_s=5)))
        job.send(CommandReceived(1, 2, Throttle(7)))
        job.let_pass(2.0)

        assert [(ack.revision, ack.outcome) for ack in job.acks] == [(1, "Refused"), (2, "Applied")]
        assert "rows per second" in job.acks[0].message
        assert (job.view.controls.rows_per_s, job.view.controls.bytes_per_s) == (7, None)
