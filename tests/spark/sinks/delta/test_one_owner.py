"""The first commits of two jobs meet in one table: Delta itself lets one of them pass."""

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
    """An empty table, and jobs that want to fill it."""

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
    """Let another writer commit between the look and the commit."""

    class Slow(type(committer)):
        def _commit(self, *args, **kwargs):
            meanwhile()
            self.__class__ = DeltaCommitter
            return self._commit(*args, **kwargs)

    committer.__class__ = Slow


class TestTheFirstCommitOfAJob:
    """ADR 0005."""

    def test_is_refused_where_another_job_has_made_its_own(self, table):
        """The second job learns the name of the first."""
        table.job("a")[1]()

        with pytest.raises(TargetTakenError, match="ns/a"):
            table.job("b")[1]()
        assert table.versions == 2

    def test_is_refused_when_both_saw_an_empty_table(self, table):
        """A look before the commit cannot tell."""
        (_, first), (late, second) = table.job("a"), table.job("b")
        slow(late, first)

        with pytest.raises(TargetTakenError, match="ns/a"):
            second()
        assert table.versions == 2

    def test_looks_again_when_another_that_shares_was_quicker(self, table):
        """Jobs that share must not lose each other's claim."""
        (_, first), (late, second) = table.job("a", shares=True), table.job("b", shares=True)
        slow(late, first)

        with pytest.raises(StateMovedError):
            second()
        second()
        assert [one.shares for one in late.read_state().claims] == [True, True]

    def test_looks_again_when_another_that_shares_was_quicker_than_the_look(self, table):
        """The transaction was begun, the other's claim landed, and only then was the table looked at."""
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
        assert [one.shares for one in late.read_state().claims] == [True, True]

    def test_finds_rows_that_came_after_the_target_was_looked_at(self, spark, table):
        """A plain writer may be quicker than the first commit."""
        spark.range(3).write.format("delta").mode("append").save(table.path)

        with pytest.raises(TargetNotEmptyError, match="after the check of the target"):
            table.job("a")[1]()
        table.job("b", shares=True)[1]()
