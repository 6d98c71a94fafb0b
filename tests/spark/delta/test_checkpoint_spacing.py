"""The distance between checkpoints of a growing table."""

from hypothesis import given
from hypothesis import strategies as st

from backfill_spark.delta.checkpoints.spacing import COMMITS_MAX, commits_between


class TestCommitsBetween:
    """Checkpoints cost a bounded share of the time, and readers open a bounded number of commits."""

    def test_a_small_table_gets_each_checkpoint(self):
        """Kernel asks for one after ten commits."""
        assert commits_between(54_999) <= 10

    @given(st.integers(0, 10**8))
    def test_readers_open_a_bounded_number_of_commits(self, files):
        """Each reader opens all commits after the checkpoint."""
        assert 0 <= commits_between(files) <= COMMITS_MAX

    def test_the_work_grows_with_the_files_and_not_with_their_square(self):
        """Ten times the files, in commits of 100, make at most 15 times the entries in checkpoints."""

        def entries(files):
            """Return the number of files in all checkpoints of a table that grows to this size."""
            last, total = 0, 0
            for commit in range(10, files // 100, 10):
                if commit - last >= commits_between(last * 100):
                    last, total = commit, total + commit * 100
            return total

        assert entries(1_000_000) < 15 * entries(100_000)
