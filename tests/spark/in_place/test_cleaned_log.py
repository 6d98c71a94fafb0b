"""A commit of a job that fills a column, after log cleanup removed commits that it must check."""

from support.tables.jobs import forget_before, make_kind
from support.tables.logs import actions_in, commit_of
from support.tables.other_engine import insert

from backfill_core.in_place.column_claims import ColumnClaims
from backfill_core.in_place.conflicts import Replacement
from backfill_core.in_place.files import FillScope, LiveFile
from backfill_core.in_place.work import CheckedReplacement
from backfill_core.protocol.epochs import txn_version
from backfill_core.protocol.work import RemovedFile, StagedFile
from backfill_spark.delta.added_files import CommitLine
from backfill_spark.sinks.delta.live.committer import LiveCommitter


class TestACommitAfterALongPause:
    """The log keeps commits for some time only; a job may be paused for longer."""

    def test_replaces_nothing_and_opens_the_table_again(self, spark, tmp_path):
        """A writer may have removed the file, or changed columns: the table is no damaged one."""
        path, discarded = str(tmp_path / "t"), []
        make_kind(spark, path, "plain")
        for _ in range(2):
            insert(path, "SELECT id + 1000 AS id, part, name FROM now WHERE id < 2")
        forget_before(spark, path, 2)
        committer = LiveCommitter(
            spark, path, app_id="backfill-x", claims=ColumnClaims("0" * 12, ("name",)), discard=discarded.extend,
            scope=lambda: FillScope("tag", ("name",)), data_change=True,
        )  # fmt: skip
        staged = Replacement(LiveFile("x.parquet", 9, 3), files=(StagedFile("/t/y.parquet", 9, 3, CommitLine("{}")),))
        removed = [RemovedFile("x.parquet", CheckedReplacement(staged, after=0))]

        sealed = committer.seal(txn_version(1, 1), staged.files, '{"jobId": "j"}', removed=removed)

        assert (sealed.version, sealed.outdates, discarded) == (3, True, ["/t/y.parquet"])
        assert not any("remove" in action or "add" in action for action in actions_in(commit_of(path, 3)))
