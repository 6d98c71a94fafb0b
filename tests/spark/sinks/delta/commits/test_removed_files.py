"""A commit that takes files out: what Delta Kernel does with it, and what it does not when others were quicker."""

import json

import pytest
from deltalake import DeltaTable
from support.tables.jobs import forget_before

from backfill_core.errors import TargetChangedError, TransientError
from backfill_core.protocol.work import RemovedFile
from backfill_spark.delta.added_files import CommitLine
from backfill_spark.shipping.file_actions import removal
from backfill_spark.shipping.target_log import TargetLog
from backfill_spark.sinks.delta.committer import DeltaCommitter


class CommitterThatBeganBefore(DeltaCommitter):
    """Commits with a transaction that was begun at a chosen moment."""

    def begin_now(self, txn_version):
        self._kept = super()._begin(txn_version)

    def _begin(self, txn_version, retries=None):
        return self._kept


class Alone(DeltaCommitter):
    """Keeps its files for itself."""

    def __init__(self, *given, **named):
        super().__init__(*given, **named, alone=True)


class Overtaken(Alone):
    """Others commit once, between its look at the target and its commit."""

    def _commit(self, *given, **named):
        others, self.others = self.others, lambda: None
        others()
        return super()._commit(*given, **named)


@pytest.fixture
def held(spark, table):
    """A target with two files, and what takes the first out."""
    target = table(spark.range(1))
    target.committer.seal(1, target.stage(spark.range(5).coalesce(1)), "one")
    target.first = DeltaTable(target.path).file_uris()[0]
    target.committer.seal(2, target.stage(spark.range(10, 15).coalesce(1)), "two")
    [file] = [one for one in TargetLog(spark, target.path).newest().strangers if target.first.endswith(one)]
    line = next(action for action in target.actions(1) if "add" in action)
    target.removed = [RemovedFile(file, CommitLine(removal(json.dumps(line), data_change=True, now_ms=1)))]
    return target


class TestFilesThatGo:
    """Leave with the state that says so, in one commit, or stay."""

    def test_go_in_the_commit_of_those_that_come(self, spark, held):
        """Half of it would be lost or doubled rows."""
        held.committer.seal(3, held.stage(spark.range(20, 22)), "three", removed=held.removed)

        assert held.ids() == [*range(10, 15), 20, 21]
        assert held.read().count() == 7
        assert held.open().read_state().text == "three"

    def test_are_not_taken_out_again_after_a_delete_of_others(self, spark, held):
        """Their commit removed the file in another way: what of it stayed would be in no count."""
        committer = held.open(kind=CommitterThatBeganBefore)
        committer.begin_now(3)
        spark.sql(f"DELETE FROM delta.`{held.path}` WHERE id = 1")

        with pytest.raises(TransientError):
            committer.seal(3, (), "three", removed=held.removed)
        assert held.ids() == [0, 2, 3, 4, *range(10, 15)]
        assert held.open().read_state().text == "two"

    def test_go_where_others_only_added(self, spark, held):
        """Kernel rebases over an append: a remove of ours is about no file of theirs."""
        committer = held.open(kind=CommitterThatBeganBefore)
        committer.begin_now(3)
        spark.range(100, 102).write.format("delta").mode("append").save(held.path)
        committer.seal(3, (), "three", removed=held.removed)

        assert held.ids() == [*range(10, 15), 100, 101]


class TestATargetThatAJobKeepsAlone:
    """Has the source's files: what others do to them ends the job, and says what it was."""

    def test_takes_no_commit_after_files_of_others(self, spark, held):
        """An append counts, and an OPTIMIZE: it takes away the files that the source's log names."""
        committer = held.open(kind=Alone)
        committer.fence(3, "fence", opened=committer.read_state())
        spark.sql(f"OPTIMIZE delta.`{held.path}`")

        with pytest.raises(TargetChangedError, match="OPTIMIZE"):
            committer.seal(4, (), "four")
        later = held.open(kind=Alone)
        with pytest.raises(TargetChangedError, match=r"version \d+ \(OPTIMIZE"):
            later.fence(1 << 32, "next attempt", opened=later.read_state())
        assert held.open().read_state().text == "fence"

    def test_takes_one_after_properties_were_set(self, spark, held):
        """Nor does another application's transaction touch a file."""
        committer = held.open(kind=Alone)
        committer.fence(3, "fence", opened=committer.read_state())
        spark.sql(f"ALTER TABLE delta.`{held.path}` SET TBLPROPERTIES ('a.b' = 'c')")
        held.open(app_id="other").seal(1, (), "")
        committer.seal(4, (), "four", removed=held.removed)

        assert held.ids() == [*range(10, 15)]

    def test_takes_no_fence_over_files_that_come_while_it_is_made(self, spark, held):
        """Kernel would rebase over an append, and every later look begins at the fence."""

        def append():
            spark.range(100, 102).write.format("delta").mode("append").save(held.path)

        committer = held.open(kind=Overtaken)
        committer.others = append
        with pytest.raises(TransientError):
            committer.fence(1 << 32, "fence", opened=committer.read_state())
        with pytest.raises(TargetChangedError, match="WRITE"):
            committer.fence(1 << 32, "fence", opened=committer.read_state())

    def test_nor_its_very_first_one(self, spark, table):
        """There is no commit of its own to look back to: the look is at the rows."""
        target = table(spark.range(1))
        committer = target.open(kind=Overtaken)
        committer.others = lambda: spark.range(2).write.format("delta").mode("append").save(target.path)

        with pytest.raises(TransientError):
            committer.fence(1 << 32, "fence", opened=committer.read_state())

    def test_takes_none_where_its_log_does_not_go_back_far_enough(self, spark, held):
        """What others did before the log was cleaned is in none of its commits."""
        spark.range(100, 102).write.format("delta").mode("append").save(held.path)
        spark.sql(f"ALTER TABLE delta.`{held.path}` SET TBLPROPERTIES ('a.b' = 'c')")
        forget_before(spark, held.path, DeltaTable(held.path).version())
        later = held.open(kind=Alone)

        with pytest.raises(TargetChangedError, match=r"begins at version \d+, after the last commit of the job"):
            later.fence(1 << 32, "next attempt", opened=later.read_state())
