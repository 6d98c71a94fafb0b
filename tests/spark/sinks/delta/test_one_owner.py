"""First commits of two jobs in one table: Delta itself accepts one of them."""

from pathlib import Path

import pytest

from backfill_core.errors import StateMovedError, TargetNotEmptyError, TargetTakenError
from backfill_core.job.owner import Claim
from backfill_spark.ports.committer import StoredState
from backfill_spark.rows.write_modes import APPEND
from backfill_spark.sinks.delta.committer import DeltaCommitter
from backfill_spark.sinks.delta.sink import DeltaSink

TXN = 1 << 32 | 1


@pytest.fixture
def table(spark, tmp_path):
    """An empty table, and jobs that request to fill it."""

    class Table:
        path = str(tmp_path / "target")

        def __init__(self):
            DeltaSink(spark, self.path, write_mode=APPEND, key=(), job_id="x").prepare(spark.range(1).schema)

        def job(self, name, *, shares=False, begins=True):
            committer = DeltaCommitter(spark, self.path, app_id=name, domain=f"backfill.{name}")
            claim = Claim(f"backfill.{name}", f"ns/{name}", shares, begins=begins)
            return committer, lambda: committer.fence(
                TXN, f'{{"jobId":"ns/{name}"}}', opened=StoredState(None, -1, None), claim=claim
            )

        @property
        def versions(self):
            return len(list(Path(self.path, "_delta_log").glob("*.json")))

    return Table()


def slow(committer, meanwhile):
    """Let another writer commit between the check and the commit."""

    class Slow(type(committer)):
        def _commit(self, *args, **kwargs):
            meanwhile()
            self.__class__ = DeltaCommitter
            return self._commit(*args, **kwargs)

    committer.__class__ = Slow


class TestTheFirstCommitOfAJob:
    """The first commit claims the target for its job (ADR 0005)."""

    def test_a_first_commit_after_that_of_another_job_is_refused(self, table):
        """The error names the first job."""
        table.job("a")[1]()

        with pytest.raises(TargetTakenError, match="ns/a"):
            table.job("b")[1]()
        assert table.versions == 2

    def test_a_first_commit_is_refused_when_both_jobs_saw_an_empty_table(self, table):
        """A check before the commit cannot detect this."""
        (_, first), (late, second) = table.job("a"), table.job("b")
        slow(late, first)

        with pytest.raises(TargetTakenError, match="ns/a"):
            second()
        assert table.versions == 2

    def test_a_sharing_job_checks_again_when_another_committed_first(self, table):
        """Jobs that share must not lose each other's claim."""
        (_, first), (late, second) = table.job("a", shares=True), table.job("b", shares=True)
        slow(late, first)

        with pytest.raises(StateMovedError):
            second()
        second()
        assert [claim.shares for claim in late.read_state().claims] == [True, True]

    def test_a_sharing_job_checks_again_when_another_committed_before_its_check(self, table):
        """The transaction began, the other job's claim landed, and only then was the table read."""
        (_, first), (late, second) = table.job("a", shares=True), table.job("b", shares=True)

        class SlowToLook(type(late)):
            def _check_before_fence(self, *args, **kwargs):
                self.__class__ = DeltaCommitter
                first()
                return self._check_before_fence(*args, **kwargs)

        late.__class__ = SlowToLook
        with pytest.raises(StateMovedError):
            second()
        second()
        assert [claim.shares for claim in late.read_state().claims] == [True, True]

    def test_rows_that_came_after_the_check_are_noticed(self, spark, table):
        """A plain writer may commit before the job's first commit."""
        spark.range(3).write.format("delta").mode("append").save(table.path)

        with pytest.raises(TargetNotEmptyError, match="after the check of the target"):
            table.job("a")[1]()
        table.job("b", shares=True)[1]()
