"""The first splits of a copy without a limit, driven by hand: the first commit comes soon, and few splits cut a file."""

from itertools import accumulate
from math import log2

from hypothesis import given
from hypothesis import strategies as st
from support.simulation.hand_driven import HandDriven

from backfill_core.job.controls import Controls
from backfill_core.phases.copy import SPLIT_ROWS_MIN
from backfill_core.protocol.commands import Throttle
from backfill_core.protocol.events import CommandReceived

FILE = 1_000_000
IN_FLIGHT = 2


def sizes(job):
    """Return the rows of each split that was begun."""
    return [split.stop - split.start for split in job.begun]


def cut(job):
    """Return the number of splits that end inside a file."""
    return sum(any(part.stop < part.of for part in split.ranges) for split in job.begun)


class TestTheFirstCommit:
    """A user waits for the first commit. The first split was once a whole file, which takes ten seconds in a JVM that
    has just started."""

    def test_the_first_commit_comes_as_soon_as_the_first_split_is_staged(self):
        """The next barrier is up to a second away."""
        job = HandDriven(FILE, FILE, decodes=True)
        job.let_pass(0.3)

        job.finish_split()

        assert job.sealed[-1] == (job.now_s, SPLIT_ROWS_MIN)

    def test_later_commits_come_at_barriers(self):
        """A commit for each split would be too many."""
        job = HandDriven(FILE, FILE, decodes=True)
        job.let_pass(0.3)
        job.finish_split()
        commits = len(job.sealed)

        job.finish_split()

        assert len(job.sealed) == commits

    def test_the_first_commit_waits_for_its_barrier_under_a_limit(self):
        """A limit admits rows only at barriers."""
        job = HandDriven(FILE, decodes=True, controls=Controls(rows_per_s=1000.0))
        job.let_pass(1.1)
        commits = len(job.sealed)

        job.finish_split()

        assert len(job.sealed) == commits


class TestTheFirstSplits:
    """The first splits grow, because a read of a part of a file costs a read of the whole file."""

    def test_the_first_splits_double_until_they_are_whole_files(self):
        """The second file is not cut."""
        job = HandDriven(*[FILE] * 4, decodes=True)

        job.let_pass(6, split_s=0.3)

        assert sizes(job)[:5] == [50_000, 50_000, 100_000, 200_000, 600_000]
        assert cut(job) == 4
        assert all(split.start >= FILE or split.stop <= FILE for split in job.begun)

    def test_the_first_splits_end_once_one_takes_a_quarter_of_the_target_time(self):
        """A large file may cost more to read than its part is worth."""
        job = HandDriven(100 * FILE, 100 * FILE, decodes=True)
        job.let_pass(1.5)

        job.finish_split()
        job.finish_split()

        assert sizes(job) == [50_000, 50_000, 100 * FILE - 100_000, 100 * FILE]

    def test_the_first_splits_cut_no_file_that_may_be_copied(self):
        """A copy of a whole file takes a fraction of a second, and a file that is cut is decoded."""
        job = HandDriven(FILE, FILE)

        assert sizes(job) == [FILE, FILE]

    def test_the_first_splits_cut_no_file_that_is_hardly_larger(self):
        """The rest would be a split with fewer rows than the first one."""
        job = HandDriven(*[SPLIT_ROWS_MIN * 3 // 2] * 3, decodes=True)

        assert sizes(job) == [SPLIT_ROWS_MIN * 3 // 2] * 2

    def test_the_first_splits_cut_no_file_once_a_limit_was_lifted(self):
        """The job is past its beginning then."""
        job = HandDriven(*[FILE] * 3, decodes=True, reads_ahead=False, controls=Controls(rows_per_s=10_000.0))
        job.let_pass(3, split_s=0.5)
        began = len(job.begun)

        job.send(CommandReceived(1, 1, Throttle(None)))
        job.let_pass(3, split_s=0.1)

        assert all(split.ranges[-1].stop == split.ranges[-1].of for split in job.begun[began:])

    @given(
        rows=st.lists(st.integers(0, 3 * FILE), min_size=1, max_size=6),
        split_s=st.sampled_from([0.1, 0.4, 0.9, 1.5, 5.0]),
    )
    def test_the_first_splits_are_few_and_disjoint_for_any_files(self, rows, split_s):
        """Together they are the version, and the number of cuts is the number of doublings up to a file."""
        job = HandDriven(*rows, decodes=True)

        job.let_pass(120, split_s=split_s)

        spans = sorted((split.start, split.stop) for split in job.begun)
        edges = [*accumulate((stop - start for start, stop in spans), initial=0)]
        assert [start for start, _ in spans] == edges[:-1]
        assert edges[-1] == sum(rows)
        assert sum(count for _, count in job.sealed) == sum(rows)
        assert cut(job) <= IN_FLIGHT + log2(max(1, max(rows) / SPLIT_ROWS_MIN))
