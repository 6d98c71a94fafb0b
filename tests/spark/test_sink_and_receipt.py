"""Bringing changes into a target: what must be done, the checks before, orphans, and the receipt."""

import random
from pathlib import Path

import pytest

from backfill_core.errors import (
    BackfillError,
    SourceNotAppendOnlyError,
    TargetNotEmptyError,
    TargetSchemaMismatchError,
)
from backfill_spark.changes import append_rows, changelog_rows, net_changes
from backfill_spark.sinks.delta.sink import DeltaSink
from backfill_spark.transform import Transform
from backfill_spark.verify import differing_rows, take_receipt

ALL = Transform()


def play(table, version, chance, keys):
    """Change a table in memory; return it and the changes as the feed would tell them."""
    changes, table = [], dict(table)
    for _ in range(chance.randrange(1, 6)):
        key = chance.randrange(keys)
        free = [one for one in range(keys) if one not in table]
        match chance.randrange(4):
            case 0 if key not in table:
                table[key] = chance.randrange(100)
                changes.append((key, table[key], "insert"))
            case 1 if key in table:
                changes.append((key, table[key], "update_preimage"))
                table[key] = chance.randrange(100)
                changes.append((key, table[key], "update_postimage"))
            case 2 if key in table:
                changes.append((key, table.pop(key), "delete"))
            case 3 if key in table and free:
                other, value = chance.choice(free), table.pop(key)
                table[other] = value
                changes += [(key, value, "update_preimage"), (other, value, "update_postimage")]
    # One Delta commit holds each row's net effect; a key touched twice in it is a delete and an insert.
    return table, [(*change, version) for change in changes]


def net_of_version(before, after, version):
    """Return the changes of one commit as Delta's feed tells them."""
    out = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if old is not None and new is not None and old != new:
            out += [(key, old, "update_preimage", version), (key, new, "update_postimage", version)]
        elif old is not None and new is None:
            out.append((key, old, "delete", version))
        elif old is None and new is not None:
            out.append((key, new, "insert", version))
    return out


class TestChangesBecomeWhatTheTargetMustDo:
    """Net changes merged into the old view give the new view, filter and key changes included (R-SNAP-48)."""

    @pytest.mark.parametrize("seed", range(4))
    def test_random_histories(self, spark, tmp_path, seed):
        chance = random.Random(seed)
        start = {key: chance.randrange(100) for key in range(0, 20, 2)}
        table, feed = start, []
        for version in range(1, 8):
            after, _ = play(table, version, chance, 20)
            feed += net_of_version(table, after, version)
            table = after
        transform = Transform(("id AS key", "amount * 2 AS twice"), "amount >= 30")
        changes = spark.createDataFrame(feed, "id long, amount long, _change_type string, _commit_version long")
        sink = DeltaSink(spark, str(tmp_path / "t"), write_mode="Upsert", key=("key",), job_id="j")
        old = spark.createDataFrame(list(start.items()), "id long, amount long")
        sink.prepare(transform.apply(old).schema)
        transform.apply(old).write.format("delta").mode("append").save(sink.path)

        sink.merge(net_changes(changes, transform, ("key",)).localCheckpoint(), app_id="a", txn_version=1)
        found = {row["key"]: row["twice"] for row in spark.read.format("delta").load(sink.path).collect()}
        assert found == {key: 2 * value for key, value in table.items() if value >= 30}

    def test_a_delete_and_an_insert_of_a_key_in_one_version_leave_the_insert(self, spark):
        changes = spark.createDataFrame(
            [(1, 9, "insert", 4), (1, 5, "delete", 4)],
            "id long, amount long, _change_type string, _commit_version long",
        )

        row = net_changes(changes, ALL, ("id",)).collect()[0]
        assert (row["amount"], row["_delete"]) == (9, False)

    def test_an_append_target_takes_no_update(self, spark):
        changes = spark.createDataFrame([(1, "delete", 4)], "id long, _change_type string, _commit_version long")

        with pytest.raises(SourceNotAppendOnlyError, match="version 4"):
            append_rows(changes)

    def test_a_changelog_keeps_the_halves_that_pass_the_filter(self, spark):
        changes = spark.createDataFrame(
            [
                (1, 5, "update_preimage", 2),
                (1, 50, "update_postimage", 2),
                (2, 60, "update_preimage", 2),
                (2, 6, "update_postimage", 2),
            ],
            "id long, amount long, _change_type string, _commit_version long",
        )
        found = changelog_rows(changes, Transform(None, "amount > 10"), epoch=3).collect()

        assert sorted((row["id"], row["_op"], row["_epoch"]) for row in found) == [
            (1, "update_postimage", 3),
            (2, "update_preimage", 3),
        ]


class TestTargetsAreCheckedFirst:
    """Nothing is written to a target that cannot be filled."""

    def check(self, spark, path, frame, **options):
        sink = DeltaSink(spark, path, write_mode=options.pop("mode", "Upsert"), key=("id",), job_id="j", **options)
        sink.check(frame.schema, source_path="/elsewhere", has_state=False)

    def test_foreign_rows(self, spark, tmp_path):
        spark.range(1).write.format("delta").save(str(tmp_path / "t"))

        with pytest.raises(TargetNotEmptyError, match="existingRows"):
            self.check(spark, str(tmp_path / "t"), spark.range(1))
        self.check(spark, str(tmp_path / "t"), spark.range(1), existing_rows="Keep")

    def test_foreign_files(self, spark, tmp_path):
        (tmp_path / "t").mkdir()
        (tmp_path / "t" / "x").write_text("x")

        with pytest.raises(TargetNotEmptyError, match="no Delta table"):
            self.check(spark, str(tmp_path / "t"), spark.range(1))

    @pytest.mark.parametrize(
        ("sql", "words"), [("id, 'x' AS b", "'b'"), ("cast(id AS int) AS id", "bigint in the target")]
    )
    def test_another_schema(self, spark, tmp_path, sql, words):
        spark.range(0).write.format("delta").save(str(tmp_path / "t"))

        with pytest.raises(TargetSchemaMismatchError, match=words):
            self.check(spark, str(tmp_path / "t"), spark.range(1).selectExpr(*sql.split(", ")))

    def test_a_partition_column_that_is_not_there(self, spark, tmp_path):
        with pytest.raises(TargetSchemaMismatchError, match="'dya'"):
            self.check(spark, str(tmp_path / "t"), spark.range(1), partition_by=("dya",))


class TestOrphans:
    """What an earlier attempt staged and never sealed is removed; what was sealed never is."""

    def test_only_unsealed_work_of_earlier_attempts_goes(self, spark, tmp_path):
        from backfill_spark.seal import Sealer

        sink = DeltaSink(spark, str(tmp_path / "t"), write_mode="Append", key=(), job_id="j")
        sink.prepare(spark.range(1).schema)
        sealer = Sealer(spark, sink.path, app_id="a", domain="backfill.x")
        for work in (1, 2):
            paths = sink.stage(spark.range(5), attempt=1, work_id=work)
            if work == 1:
                sealer.seal(1, sealer.measure(paths), "s")
        sink.stage(spark.range(5), attempt=2, work_id=1)

        assert sink.remove_orphans(2) == 1
        assert sorted(str(p.relative_to(sink.staging)) for p in Path(sink.staging).glob("*/*")) == ["a1/s1", "a2/s1"]
        assert spark.read.format("delta").load(sink.path).count() == 5


class TestTheReceipt:
    """One changed cell, one lost row, one doubled row: found, and the vnode named."""

    def receipt(self, left, right, key=("id",)):
        return take_receipt(left, right, key=key, vnodes=16, source_version=1, target_version=2, epoch=3)

    @pytest.fixture
    def rows(self, spark):
        return spark.range(500).selectExpr(
            "id", "if(id % 5 = 0, null, id) AS a", "cast(id AS double) AS b", "map('x', id, 'y', null) AS m",
            "array(id, null) AS l", "named_struct('p', id, 'q', cast(null AS int)) AS s",
        ).localCheckpoint()  # fmt: skip

    def test_equal_tables_are_equal_in_any_order(self, rows):
        found = self.receipt(rows, rows.repartition(3))

        assert found.equal
        assert found.rows == 500

    @pytest.mark.parametrize("key", [("id",), ()])
    @pytest.mark.parametrize(
        "damage",
        [
            lambda rows: rows.selectExpr("id", "if(id = 77, 78, a) AS a", "b", "m", "l", "s"),
            lambda rows: rows.where("id <> 77"),
            lambda rows: rows.unionAll(rows.where("id = 77")),
            lambda rows: rows.selectExpr("id", "a", "b", "if(id = 77, map('x', id, 'z', null), m) AS m", "l", "s"),
            lambda rows: rows.selectExpr("id", "a", "b", "m", "if(id = 77, array(null, id), l) AS l", "s"),
        ],
        ids=["cell", "lost", "doubled", "map", "moved null"],
    )
    def test_one_difference_is_found(self, rows, damage, key):
        found = self.receipt(rows, damage(rows), key)

        assert 1 <= len(found.mismatches) <= (1 if key else 2)

    def test_a_null_that_moved_to_another_column_is_seen(self, spark):
        left = spark.sql("SELECT 1 AS id, null AS a, 5 AS b")
        right = spark.sql("SELECT 1 AS id, 5 AS a, null AS b")

        assert not self.receipt(
            left.selectExpr("id", "cast(a AS int) a", "b"), right.selectExpr("id", "a", "cast(b AS int) b")
        ).equal

    def test_the_differing_rows_are_shown(self, rows):
        damaged = rows.where("id <> 77")
        wrong = tuple(one.vnode for one in self.receipt(rows, damaged).mismatches)
        shown = differing_rows(rows, damaged, key=("id",), vnodes=16, wrong=wrong)

        assert [(side, row["id"]) for side, row in shown] == [("only in the source", 77)]


def test_every_error_has_a_reason_and_an_exit_code_of_its_class():
    """Reasons are an API: one each, and never the base's."""
    classes = BackfillError.__subclasses__()

    assert len({one.reason for one in classes}) == len(classes)
    assert all(one.exit_code != BackfillError.exit_code for one in classes)
