"""The commit that replaces a scope, while another writer commits between its check and itself (ADR 0048)."""

import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from support.endings import assert_ending

from backfill_core.errors import TargetChangedError
from backfill_spark.rows.write_modes import APPEND
from backfill_spark.sinks.delta.scope.committer import ScopedCommitter
from backfill_spark.sinks.delta.scope.sink import ScopedSink

OURS = "SELECT value AS id, value % 4 AS part FROM range(8)"


class InterruptedCommitter(ScopedCommitter):
    """A committer whose check is followed by a commit of another writer, a number of times."""

    interruptions: list

    def _checked(self, newest, scope_pin):
        listing = super()._checked(newest, scope_pin)
        if self.interruptions:
            self.interruptions.pop()()
        return listing


@pytest.fixture
def target(spark, tmp_path):
    """A table of four partitions with two rows each, and a job that empties the last one."""

    class Target:
        path = str(tmp_path / "t")

        def __init__(self):
            rows = QueryBuilder().execute(OURS).read_all()
            write_deltalake(self.path, rows, partition_by=["part"])
            self.sink = ScopedSink(spark, self.path, scope="part = 3", write_mode=APPEND, key=(), job_id="ns/job")
            self.pin = DeltaTable(self.path).version()

        def insert(self, part):
            return lambda: spark.sql(f"INSERT INTO delta.`{self.path}` VALUES (9L, {part}L)")

        def publish(self, *interruptions):
            given = self.sink.committer(app_id="backfill-a", domain="backfill.a")
            given.__class__ = InterruptedCommitter
            given.interruptions = list(interruptions)
            return given.publish(1, "{}", (), shared=True, scope_pin=self.pin).version

        def rows(self):
            counted = "SELECT part, count(*) AS n FROM t GROUP BY part ORDER BY part"
            rows = QueryBuilder().register("t", DeltaTable(self.path)).execute(counted).read_all()
            return dict(zip(*([value.as_py() for value in rows[name]] for name in ("part", "n")), strict=True))

    return Target()


class TestAWriterBetweenCheckAndCommit:
    """Nothing that another writer commits is lost, and nothing in the scope is replaced unseen."""

    def test_a_commit_outside_of_the_scope_delays_the_publication_only(self, target):
        """The new commit is checked, and the next try follows; nothing waits for a timer."""
        version = target.publish(*[target.insert(1)] * 3)

        assert version == target.pin + 4
        assert target.rows() == {0: 2, 1: 5, 2: 2}

    def test_a_commit_inside_of_the_scope_is_found_by_the_next_try(self, target):
        """Kernel alone would commit after it, and its row would stay next to the new ones."""
        with pytest.raises(TargetChangedError, match=r"inside of .*scope = 'part = 3'.*version 2 \(WRITE") as refused:
            target.publish(target.insert(3), target.insert(1))

        assert_ending(refused.value, "TargetChanged")
        assert target.rows() == {0: 2, 1: 3, 2: 2, 3: 3}
