"""Promises of the first splits of a copy without a limit, driven by hand: the first commit comes soon, and few splits cut a file."""

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
    """Return how many splits end inside a file."""
    return sum(any(part.stop < part.of for part in split.ranges) for split in job.begun)


class TestTheFirstCommit:
    """A user waits for it: a split was a whole file, which takes ten seconds in a Java that has just started."""

    def test_comes_as_soon_as_the_first_split_is_staged(self):
        """The next barrier is up to a second away."""
        job = HandDriven(FILE, FILE, decodes=True)
        job.let_pass(0.3)

        job.finish_split()

        assert job.sealed[-1] == (job.now_s, SPLIT_ROWS_MIN)

    def test_is_followed_by_commits_at_barriers(self):
        """Commits of their own would be too many."""
        job = HandDriven(FILE, FILE, decodes=True)
        job.let_pass(0.3)
        job.finish_split()
        commits = len(job.sealed)

        job.finish_split()

        assert len(job.sealed) == commits

    def test_waits_for_its_barrier_under_a_limit(self):
        """A limit admits rows at barriers alone."""
        job = HandDriven(FILE, decodes=True, controls=Controls(rows_per_s=1000.0))
        job.let_pass(1.1)
        commits = len(job.sealed)

        job.finish_split()

        assert len(job.sealed) == commits


class TestTheFirstSplits:
    """They grow, because each part of a file that is read alone costs a read of the whole file."""

    def test_double_until_whole_files_are_as_small(self):
        """Of the second file none is cut."""
        job = HandDriven(*[FILE] * 4, decodes=True)

        job.let_pass(6, split_s=0.3)

        assert sizes(job)[:5] == [50_000, 50_000, 100_000, 200_000, 600_000]
        assert cut(job) == 4
        assert all(split.start >= FILE or split.stop <= FILE for split in job.begun)

    def test_end_with_one_that_takes_a_quarter_of_the_time_of_a_split(self):
        """A file may be so large that a read of it costs more than it brings."""
        job = HandDriven(100 * FILE, 100 * FILE, decodes=True)
        job.let_pass(1.5)

        job.finish_split()
        job.finish_split()

        assert sizes(job) == [50_000, 50_000, 100 * FILE - 100_000, 100 * FILE]

    def test_cut_no_file_that_may_be_copied(self):
        """A copy of a whole file takes a fraction of a second, and a file that is cut is decoded."""
        job = HandDriven(FILE, FILE)

        assert sizes(job) == [FILE, FILE]

    def test_cut_no_file_that_is_hardly_larger(self):
        """The rest would be a split with fewer rows than the first one."""
        job = HandDriven(*[SPLIT_ROWS_MIN * 3 // 2] * 3, decodes=True)

        assert sizes(job) == [SPLIT_ROWS_MIN * 3 // 2] * 2

    def test_cut_no_file_once_a_limit_was_lifted(self):
        """The job is not at its beginning any more."""
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
    def test_are_few_and_disjoint_whatever_the_files(self, rows, split_s):
        """Together they are the version, and as many splits cut a file as it takes to double up to it."""
        job = HandDriven(*rows, decodes=True)

        job.let_pass(120, split_s=split_s)

        spans = sorted((split.start, split.stop) for split in job.begun)
        edges = [*accumulate((stop - start for start, stop in spans), initial=0)]
        assert [start for start, _ in spans] == edges[:-1]
        assert edges[-1] == sum(rows)
        assert sum(count for _, count in job.sealed) == sum(rows)
        assert cut(job) <= IN_FLIGHT + log2(max(1, max(rows) / SPLIT_ROWS_MIN))
