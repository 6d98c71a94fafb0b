"""After a switch-over the old source follows the target, and an undo loses no write to the target."""

import json
from collections import Counter
from pathlib import Path

import pytest
from support.drivers.background import Running
from support.endings import assert_ending
from support.switch_over.following_back import FollowingBack
from support.switch_over.names import ids_in, make_name
from support.tables import other_engine
from support.tables.jobs import document, make_kind, make_orders
from support.tables.oracle import adds_of, foreign_files

from backfill import Backfill, Settings
from backfill.errors import BackfillError, ReverseEndedError, SwitchBlockedError
from backfill_api.load import load_backfill
from backfill_core.source_fence.table_protocol import FENCED, SWITCH
from backfill_core.switch_over.mark import mark_of
from backfill_spark.delta.log import head_actions
from backfill_spark.switch_over.copy_back import CopyBack
from backfill_spark.switch_over.plan import opened


@pytest.fixture
def moved(spark, tmp_path):
    """Return a function that makes a source, a name for it, and a job whose source follows the target later."""

    def make(kind=None, **spec):
        source, target = str(tmp_path / "orders"), str(tmp_path / "orders_v2")
        if kind is None:
            make_orders(spark, source, 100, files=2, **{"delta.checkpointInterval": "2"})
        else:
            make_kind(spark, source, kind)
        name, flip = make_name(tmp_path, source)
        settings = Settings(state_dir=tmp_path / "state", cores=2)
        switch = {"flip": flip, "keepSource": "Following"} | spec.pop("switch", {})
        written = document(
            source,
            target,
            strategy={"type": "Replica"},
            after="Follow",
            switch=switch,
            barrier={"intervalMs": 200},
            **spec,
        )
        return Backfill.of(written, settings=settings), name, source, target

    return make


class TestASourceThatFollows:
    """Readers of the old path see the changes of the new table."""

    def test_gets_each_change_of_the_target_and_an_undo_keeps_them(self, spark, tmp_path, moved):
        """Appends, updates and deletions of another engine; afterwards the job follows the source as before."""
        job, name, source, target = moved()
        fenced = job.switch(spark).fence.version

        with FollowingBack(spark, job) as back:
            other_engine.insert(target, "SELECT * REPLACE (CAST(5000 AS BIGINT) AS id) FROM now LIMIT 1")
            other_engine.update(target, "id = 7", note="'changed'")
            other_engine.delete(target, "id = 9")
            newest = head_actions(spark, target).version
            back.until(lambda state: state.version >= newest)
            assert ids_in(source) == ids_in(target) == sorted({*range(100)} - {9} | {5000})
            last = json.loads(Path(source, "_delta_log", "_last_checkpoint").read_text())["version"]
            assert last > fenced
            assert FENCED in head_actions(spark, source).protocol["writerFeatures"]
            other_engine.insert(target, "SELECT * REPLACE (CAST(5001 AS BIGINT) AS id) FROM now LIMIT 1")
            done = job.undo_switch(spark)

        assert (done.end, name.read_text(), back.error) == ("Undone", source, None)
        feed = (
            spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", fenced).load(source)
        )
        net = Counter()
        for row in feed.select("id", "_change_type").collect():
            net[row["id"]] += 1 if row["_change_type"] in ("insert", "update_postimage") else -1
        assert {order: count for order, count in net.items() if count} == {9: -1, 5000: 1, 5001: 1}
        assert ids_in(source) == ids_in(target)
        assert 5001 in ids_in(source)
        properties = head_actions(spark, source).metadata["configuration"]
        assert not {FENCED, SWITCH} & properties.keys()
        other_engine.delete(source, "id = 5001")
        with Running(spark, load_backfill(job.document), tmp_path / "state") as running:
            newest = head_actions(spark, source).version
            running.until(lambda progress: (progress.consumed_version or 0) >= newest)
        assert ids_in(target) == ids_in(source)
        assert job.compare(spark).receipt.equal

    @pytest.mark.parametrize("kind", ["partitioned", "renamed"])
    def test_gets_deletion_vectors_partitions_and_rewritten_files_of_spark(self, spark, tmp_path, moved, kind):
        """Its log gets checkpoints, too; after the undo the job applies vectors to files of either table."""
        job, _, source, target = moved(kind)
        job.switch(spark)
        name = {"partitioned": "name", "renamed": "title"}[kind]
        for statement in (
            "DELETE FROM {t} WHERE id % 10 = 3",
            "INSERT INTO {t} SELECT id + 10000, part, {name} FROM {t} WHERE id < 40",
            "UPDATE {t} SET {name} = NULL WHERE id % 7 = 1",
            "DELETE FROM {t} WHERE id % 10 = 5",
            "OPTIMIZE {t}",
            "DELETE FROM {t} WHERE id > 10020",
        ):
            spark.sql(statement.format(t=f"delta.`{target}`", name=name))

        done = job.undo_switch(spark)

        assert done.receipt.equal
        assert foreign_files(source, target) == foreign_files(target, source) == 0
        rows = [
            sorted(map(tuple, spark.read.format("delta").load(path).collect()), key=str) for path in (source, target)
        ]
        assert rows[0] == rows[1]
        assert ids_in(source) == ids_in(target) == [row[0] for row in sorted(rows[0])]
        spark.sql(f"DELETE FROM delta.`{source}` WHERE id % 10 = 1")
        with Running(spark, load_backfill(job.document), tmp_path / "state") as running:
            newest = head_actions(spark, source).version
            running.until(lambda progress: (progress.consumed_version or 0) >= newest)
        assert job.compare(spark).receipt.equal
        assert ids_in(target) == ids_in(source)

    def test_with_a_damaged_copy_refuses_the_undo_while_writers_use_the_target(self, spark, moved):
        """The undo compares before it makes the target read-only; with the right bytes it succeeds."""
        job, name, source, target = moved()
        job.switch(spark)

        with FollowingBack(spark, job) as back:
            other_engine.insert(target, "SELECT * REPLACE (CAST(5000 AS BIGINT) AS id) FROM now LIMIT 1")
            newest = head_actions(spark, target).version
            back.until(lambda state: state.version >= newest)
            copied = Path(source, list(adds_of(source))[-1])
            content = copied.read_bytes()
            copied.write_bytes(bytes(255 - byte if at < len(content) // 4 else byte for at, byte in enumerate(content)))
            with pytest.raises(BackfillError):
                job.undo_switch(spark)
            assert name.read_text() == target
            assert FENCED not in str(head_actions(spark, target).protocol)
            other_engine.insert(target, "SELECT * REPLACE (CAST(5001 AS BIGINT) AS id) FROM now LIMIT 1")
            copied.write_bytes(content)
            done = job.undo_switch(spark)

        assert (done.end, done.receipt.equal, name.read_text()) == ("Undone", True, source)
        assert [part.startswith("compared the changes") for part in done.compared] == [True, True]
        assert ids_in(source) == ids_in(target) == sorted({*range(100), 5000, 5001})


class TestACatchUp:
    """It may take hours, of versions that users wrote while nothing copied back."""

    def test_reports_each_commit_at_once(self, spark, tmp_path, moved):
        """An attempt that dies in it has made progress, and is no failure."""
        job, _, source, target = moved()
        first = job.switch(spark)
        for order in (5000, 5001):
            other_engine.insert(target, f"SELECT * REPLACE (CAST({order} AS BIGINT) AS id) FROM now LIMIT 1")
        newest, states, settings = head_actions(spark, target).version, [], Settings(state_dir=tmp_path / "state")

        with opened(load_backfill(job.document), settings, spark, None, lambda _: None) as tables:
            mark = mark_of(tables.source.head())
            back = CopyBack(tables, mark, lambda: None, copied=states.append, bytes_max=1)
            back.catch_up()

        assert first.end == "Switched"
        assert [(state.version, state.commits) for state in states] == [(newest - 1, 1), (newest, 2)]
        assert [state.source_version for state in states] == [
            head_actions(spark, source).version - 1,
            head_actions(spark, source).version,
        ]


class TestAnEnd:
    """The old source stays an equal copy, or the copy back ends by name and the target stays in use."""

    def test_comes_with_a_foreign_commit_a_new_column_and_the_completion(self, spark, moved):
        """Each is found by a running copy back, or by the next one; then an undo is refused, and changes nothing."""
        job, name, source, target = moved()
        job.switch(spark)
        with FollowingBack(spark, job) as back:
            back.until(lambda state: state.commits == 0)
            spark.sql(f"ALTER TABLE delta.`{target}` ADD COLUMN later INT")
            other_engine.insert(target, "SELECT * REPLACE (CAST(5000 AS BIGINT) AS id) FROM now LIMIT 1")
        assert_ending(back.error, "ReverseEnded")
        assert "only the target has later" in back.error.message
        with pytest.raises(ReverseEndedError, match="only the target has later"):
            job.undo_switch(spark)
        assert (name.read_text(), ids_in(source)) == (target, list(range(100)))

        other_engine.commit_actions(Path(source), [], list(adds_of(source).values())[:1])
        with pytest.raises(ReverseEndedError, match="another writer's commit at version"):
            job.follow_back(spark)

        assert job.complete_switch(spark).end == "Completed"
        assert FENCED not in str(head_actions(spark, source).protocol)
        with pytest.raises(SwitchBlockedError, match="no finished switch-over"):
            job.follow_back(spark)
