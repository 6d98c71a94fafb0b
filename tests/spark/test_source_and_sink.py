"""Reading a pinned version by exact files, the versions after it, and bringing both into a target."""

import random
import shutil
from collections import Counter
from pathlib import Path

import pytest
from support.jobs import make_orders

from backfill_core.errors import (
    BackfillError,
    ChangeFeedExpiredError,
    ChangeFeedMissingError,
    DuplicateKeyError,
    InvalidTransformError,
    KeyInvalidError,
    SchemaChangedError,
    SnapshotExpiredError,
    SourceNotAppendOnlyError,
    SourceReplacedError,
    TargetNotEmptyError,
    TargetSchemaMismatchError,
)
from backfill_core.sizing import pieces
from backfill_spark.changes import append_rows, changelog_rows, net_changes
from backfill_spark.sinks.delta.sink import DeltaSink
from backfill_spark.sources.delta.source import DeltaSource
from backfill_spark.transform import Transform
from backfill_spark.verify import differing_rows, take_receipt

ALL = Transform()


def rows_of(frame):
    return Counter(map(str, frame.collect()))


def opened(spark, path, **options):
    source = DeltaSource(spark, path, key=("id",), **options)
    source.pin(None)
    return source


def prefix_of(source):
    prefix = [0]
    for rows in source.pinned.rows:
        prefix.append(prefix[-1] + rows)
    return prefix


class TestASplitIsExactlyItsPartOfTheLine:
    """R-SNAP-8, R-SNAP-16: pieces cut anywhere cover the pinned version once, whatever happens to the table."""

    @pytest.mark.parametrize("kind", ["plain", "deleted", "partitioned", "renamed", "with a map"])
    def test_random_cuts_cover_the_version_once(self, spark, tmp_path, kind):
        path = str(tmp_path / "odd path=%20")
        extra = {"with a map": ["map('k', id % 3) AS m"]}.get(kind, [])
        frame = spark.range(0, 900, 1, 5).selectExpr("id", "id % 7 AS p", "concat('n', id % 50) AS name", *extra)
        writer = frame.write.format("delta").option("delta.enableDeletionVectors", "true")
        if kind == "renamed":
            writer = writer.option("delta.columnMapping.mode", "name")
        (writer.partitionBy("p") if kind == "partitioned" else writer).save(path)
        if kind == "deleted":
            spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 9 = 4")
        if kind == "renamed":
            spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN name TO title")
        wanted = rows_of(spark.read.format("delta").load(path))
        source = opened(spark, path)
        prefix, chance = prefix_of(source), random.Random(5)
        spark.sql(f"DELETE FROM delta.`{path}` WHERE id < 300")
        cuts = sorted({0, prefix[-1], *(chance.randrange(prefix[-1]) for _ in range(4))})

        found = Counter()
        for start, stop in zip(cuts, cuts[1:], strict=False):
            found += rows_of(source.read(pieces(prefix, start, stop)))
        assert found == wanted
        assert source.pinned.live_rows == sum(wanted.values())

    def test_files_without_statistics_are_counted(self, spark, tmp_path):
        path = str(tmp_path / "s")
        spark.range(70).write.format("delta").option("delta.dataSkippingNumIndexedCols", "0").save(path)
        spark.conf.set("spark.databricks.delta.stats.collect", "false")
        try:
            spark.range(30).write.format("delta").mode("append").save(path)
        finally:
            spark.conf.unset("spark.databricks.delta.stats.collect")

        assert sum(opened(spark, path).pinned.rows) == 100

    def test_a_vacuumed_version_is_said_to_be_expired(self, spark, tmp_path):
        """R-SNAP-47: never a hole."""
        path = str(tmp_path / "s")
        make_orders(spark, path, 100, files=2)
        source = opened(spark, path)
        spark.sql(f"UPDATE delta.`{path}` SET amount = 1")
        spark.sql(f"VACUUM delta.`{path}` RETAIN 0 HOURS")

        with pytest.raises(Exception) as failure:
            source.read(pieces(prefix_of(source), 0, 100)).collect()
        assert isinstance(source.explain_failure(failure.value), SnapshotExpiredError)

    def test_a_version_that_never_was_is_refused(self, spark, tmp_path):
        path = str(tmp_path / "s")
        make_orders(spark, path, 10, files=1)

        with pytest.raises(SnapshotExpiredError, match="version 9"):
            DeltaSource(spark, path, key=()).pin(9)


class TestKeys:
    """Missing, null or doubled: refused before anything is written."""

    def test_missing(self, spark, tmp_path):
        make_orders(spark, str(tmp_path / "s"), 10, files=1)

        with pytest.raises(KeyInvalidError, match="Did you mean 'customer'"):
            DeltaSource(spark, str(tmp_path / "s"), key=("custmer",)).pin(None)

    def test_null(self, spark, tmp_path):
        spark.sql("SELECT if(id = 3, null, id) AS id FROM range(9)").write.format("delta").save(str(tmp_path / "s"))

        with pytest.raises(KeyInvalidError, match="null in 1 rows"):
            opened(spark, str(tmp_path / "s")).check_key_values(unique=False)

    def test_doubled(self, spark, tmp_path):
        spark.sql("SELECT id % 8 AS id FROM range(9)").write.format("delta").save(str(tmp_path / "s"))
        source = opened(spark, str(tmp_path / "s"))
        source.check_key_values(unique=False)

        with pytest.raises(DuplicateKeyError, match="'id': 0"):
            source.check_key_values(unique=True)


class TestTheVersionsAfter:
    """R-SNAP-9, R-SNAP-19: exactly the changes of each version, or a reason."""

    @pytest.fixture
    def path(self, spark, tmp_path):
        make_orders(spark, str(tmp_path / "s"), 40, files=2)
        return str(tmp_path / "s")

    def test_an_optimize_is_no_change(self, spark, path):
        source = opened(spark, path)
        spark.sql(f"OPTIMIZE delta.`{path}`")
        source.check_versions(0, source.head().version)

        assert source.changes(0, source.head().version).count() == 0

    def test_a_table_without_change_feed_may_append(self, spark, tmp_path):
        path = str(tmp_path / "plain")
        spark.range(5).write.format("delta").save(path)
        source = opened(spark, path)
        for start in (10, 20):
            spark.range(start, start + 3).write.format("delta").mode("append").save(path)
        spark.sql(f"OPTIMIZE delta.`{path}`")

        assert sorted(row["id"] for row in source.changes(0, 3).collect()) == [10, 11, 12, 20, 21, 22]
        spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 11")
        with pytest.raises(ChangeFeedMissingError, match="version 4"):
            source.changes(3, 4)

    @pytest.mark.parametrize(
        ("change", "column"),
        [("DROP COLUMN note", "note"), ("RENAME COLUMN note TO remark", "note"), ("ADD COLUMN extra INT", "extra")],
    )
    def test_a_schema_change_names_the_column(self, spark, path, change, column):
        spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
        source = opened(spark, path)
        spark.sql(f"ALTER TABLE delta.`{path}` {change}")

        with pytest.raises(SchemaChangedError, match=column):
            source.check_versions(source.version, source.head().version)

    def test_an_added_column_can_be_ignored(self, spark, path):
        source = opened(spark, path, schema_change="Ignore")
        spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN extra INT")
        spark.sql(f"UPDATE delta.`{path}` SET extra = 1, amount = 5 WHERE id = 1")
        source.check_versions(0, 2)

        assert "extra" not in source.changes(0, 2).columns
        assert source.changes(0, 2).count() == 2

    def test_a_version_that_was_cleaned_away_is_named(self, spark, path):
        source = opened(spark, path)
        spark.sql(f"UPDATE delta.`{path}` SET amount = 5")
        Path(path, "_delta_log", f"{1:020d}.json").unlink()

        with pytest.raises(ChangeFeedExpiredError, match="version 1 "):
            source.check_versions(0, 1)

    def test_another_table_at_the_path_is_noticed(self, spark, path):
        source = opened(spark, path)
        shutil.rmtree(path)
        make_orders(spark, path, 5, files=1)

        with pytest.raises(SourceReplacedError):
            source.head()


class TestTransforms:
    """Row-wise and deterministic, or refused with the field, the expression and the cure."""

    @pytest.mark.parametrize(
        ("select", "where", "words"),
        [
            (("idd",), None, "Did you mean 'id'"),
            (("count(*) AS n",), None, "an aggregate"),
            (("explode(array(id)) AS e",), None, "a generator"),
            (("row_number() OVER (ORDER BY id) AS n",), None, "a window function"),
            (("rand() AS r",), None, "not deterministic"),
            (("uuid() AS r",), None, "not deterministic"),
            (("current_timestamp() AS r",), None, "depends on when"),
            (("current_date() AS r",), None, "depends on when"),
            (("monotonically_increasing_id() AS r",), None, "not deterministic"),
            (("(SELECT max(id) FROM range(3)) AS r",), None, "subquery"),
            (("id", "amount AS ID"), None, "more than once"),
            (("id +",), None, r"select\[0\]"),
            (None, "amont > 3", "Did you mean 'amount'"),
            (None, "rand() > 0.5", "not deterministic"),
        ],
    )
    def test_refused(self, spark, select, where, words):
        empty = spark.createDataFrame([], "id long, amount double")

        with pytest.raises(InvalidTransformError, match=words):
            Transform(select, where).check(empty)

    def test_accepted(self, spark):
        empty = spark.createDataFrame([], "id long, amount double")
        Transform(("id", "upper(cast(amount AS string)) AS a", "CASE WHEN id > 3 THEN 1 END AS c"), "amount > 0").check(empty)

    def test_columns_of_a_changelog_are_reserved(self, spark):
        with pytest.raises(InvalidTransformError, match="_op"):
            Transform(("id AS _op",)).check(spark.createDataFrame([], "id long"), changelog=True)


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
            [(1, 9, "insert", 4), (1, 5, "delete", 4)], "id long, amount long, _change_type string, _commit_version long"
        )

        row = net_changes(changes, ALL, ("id",)).collect()[0]
        assert (row["amount"], row["_delete"]) == (9, False)

    def test_an_append_target_takes_no_update(self, spark):
        changes = spark.createDataFrame([(1, "delete", 4)], "id long, _change_type string, _commit_version long")

        with pytest.raises(SourceNotAppendOnlyError, match="version 4"):
            append_rows(changes)

    def test_a_changelog_keeps_the_halves_that_pass_the_filter(self, spark):
        changes = spark.createDataFrame(
            [(1, 5, "update_preimage", 2), (1, 50, "update_postimage", 2), (2, 60, "update_preimage", 2), (2, 6, "update_postimage", 2)],
            "id long, amount long, _change_type string, _commit_version long",
        )
        found = changelog_rows(changes, Transform(None, "amount > 10"), epoch=3).collect()

        assert sorted((row["id"], row["_op"], row["_epoch"]) for row in found) == [(1, "update_postimage", 3), (2, "update_preimage", 3)]


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

    @pytest.mark.parametrize(("sql", "words"), [("id, 'x' AS b", "'b'"), ("cast(id AS int) AS id", "bigint in the target")])
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

    @pytest.fixture(scope="class")
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

        assert not self.receipt(left.selectExpr("id", "cast(a AS int) a", "b"), right.selectExpr("id", "a", "cast(b AS int) b")).equal

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
