"""Commits that remove files: Delta Kernel accepts or refuses them, depending on foreign commits."""

import json

import pytest
from deltalake import DeltaTable
from support.tables.jobs import forget_before

from backfill_core.errors import TargetChangedError, TransientError
from backfill_core.protocol.work import RemovedFile
from backfill_spark.delta.added_files import CommitLine
from backfill_spark.log_shipping.file_actions import removal
from backfill_spark.log_shipping.target_log import TargetLog
from backfill_spark.sinks.delta.committer import DeltaCommitter


class CommitterThatBeganBefore(DeltaCommitter):
    """Commits with a transaction that began earlier, when the test chose."""

    def begin_now(self, txn_version):
        self._kept = super()._begin(txn_version)

    def _begin(self, txn_version, retries=None):
        return self._kept


class Alone(DeltaCommitter):
    """A committer of a job that owns its target exclusively."""

    def __init__(self, *given, **named):
        super().__init__(*given, **named, alone=True)


class Overtaken(Alone):
    """Another writer commits once between this committer's check of the target and its commit."""

    def _commit(self, *given, **named):
        commit_first, self.others = self.others, lambda: None
        commit_first()
        return super()._commit(*given, **named)


@pytest.fixture
def held(spark, table):
    """A target with two files, and the action that removes the first."""
    target = table(spark.range(1))
    target.committer.seal(1, target.stage(spark.range(5).coalesce(1)), "one")
    target.first = DeltaTable(target.path).file_uris()[0]
    target.committer.seal(2, target.stage(spark.range(10, 15).coalesce(1)), "two")
    [file] = [path for path in TargetLog(spark, target.path).newest().foreign_files if target.first.endswith(path)]
    line = next(action for action in target.actions(1) if "add" in action)
    target.removed = [RemovedFile(file, CommitLine(removal(json.dumps(line), data_change=True, now_ms=1)))]
    return target


class TestFilesThatGo:
    """Files are removed in the commit that has the matching state, or they stay."""

    def test_files_are_removed_in_the_commit_of_the_new_files(self, spark, held):
        """Half of it would lose or double rows."""
        held.committer.seal(3, held.stage(spark.range(20, 22)), "three", removed=held.removed)

        assert held.ids() == [*range(10, 15), 20, 21]
        assert held.read().count() == 7
        assert held.open().read_state().text == "three"

    def test_files_are_not_removed_again_after_a_foreign_delete(self, spark, held):
        """The foreign commit replaced the file, and its remaining rows would be in no count."""
        committer = held.open(kind=CommitterThatBeganBefore)
        committer.begin_now(3)
        spark.sql(f"DELETE FROM delta.`{held.path}` WHERE id = 1")

        with pytest.raises(TransientError):
            committer.seal(3, (), "three", removed=held.removed)
        assert held.ids() == [0, 2, 3, 4, *range(10, 15)]
        assert held.open().read_state().text == "two"

    def test_files_are_removed_after_foreign_appends(self, spark, held):
        """Kernel rebases over an append: the removal concerns no foreign file."""
        committer = held.open(kind=CommitterThatBeganBefore)
        committer.begin_now(3)
        spark.range(100, 102).write.format("delta").mode("append").save(held.path)
        committer.seal(3, (), "three", removed=held.removed)

        assert held.ids() == [*range(10, 15), 100, 101]


class TestATargetThatAJobKeepsAlone:
    """The target has the source's files. A foreign commit that changes them ends the job, and the error names it."""

    def test_a_commit_after_foreign_files_is_refused(self, spark, held):
        """An append counts, and so does an OPTIMIZE: it removes the files that the source's log names."""
        committer = held.open(kind=Alone)
        committer.fence(3, "fence", opened=committer.read_state())
        spark.sql(f"OPTIMIZE delta.`{held.path}`")

        with pytest.raises(TargetChangedError, match="OPTIMIZE"):
            committer.seal(4, (), "four")
        later = held.open(kind=Alone)
        with pytest.raises(TargetChangedError, match=r"version \d+ \(OPTIMIZE"):
            later.fence(1 << 32, "next attempt", opened=later.read_state())
        assert held.open().read_state().text == "fence"

    def test_a_commit_after_changed_properties_is_taken(self, spark, held):
        """Another application's transaction does not change a file either."""
        committer = held.open(kind=Alone)
        committer.fence(3, "fence", opened=committer.read_state())
        spark.sql(f"ALTER TABLE delta.`{held.path}` SET TBLPROPERTIES ('a.b' = 'c')")
        held.open(app_id="other").seal(1, (), "")
        committer.seal(4, (), "four", removed=held.removed)

        assert held.ids() == [*range(10, 15)]

    def test_a_fence_over_files_that_come_meanwhile_is_refused(self, spark, held):
        """Kernel would rebase over an append, and every later check begins at the fence."""

        def append():
            spark.range(100, 102).write.format("delta").mode("append").save(held.path)

        committer = held.open(kind=Overtaken)
        committer.others = append
        with pytest.raises(TransientError):
            committer.fence(1 << 32, "fence", opened=committer.read_state())
        with pytest.raises(TargetChangedError, match="WRITE"):
            committer.fence(1 << 32, "fence", opened=committer.read_state())

    def test_a_first_fence_over_files_that_come_meanwhile_is_refused(self, spark, table):
        """The job has no earlier commit to compare with, so it checks the rows."""
        target = table(spark.range(1))
        committer = target.open(kind=Overtaken)
        committer.others = lambda: spark.range(2).write.format("delta").mode("append").save(target.path)

        with pytest.raises(TransientError):
            committer.fence(1 << 32, "fence", opened=committer.read_state())

    def test_a_commit_is_refused_if_the_log_does_not_reach_back_far_enough(self, spark, held):
        """Foreign commits before the clean-up of the log are in none of its commits."""
        spark.range(100, 102).write.format("delta").mode("append").save(held.path)
        spark.sql(f"ALTER TABLE delta.`{held.path}` SET TBLPROPERTIES ('a.b' = 'c')")
        forget_before(spark, held.path, DeltaTable(held.path).version())
        later = held.open(kind=Alone)

        with pytest.raises(TargetChangedError, match=r"begins at version \d+, after the last commit of the job"):
            later.fence(1 << 32, "next attempt", opened=later.read_state())
