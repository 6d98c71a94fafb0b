"""The target: checks before the first write, and the removal of what was never sealed."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from deltalake import QueryBuilder, write_deltalake
from support.tables.jobs import forget_before, vacuum

from backfill_core.errors import (
    BackfillError,
    PermissionDeniedError,
    TargetIsSourceError,
    TargetNotEmptyError,
    TargetSchemaMismatchError,
    TransientError,
    UnexpectedError,
    UnsupportedTargetFeatureError,
)
from backfill_spark.jvm.gateway import java_context
from backfill_spark.rows.changes import KEYS_MAX, net_changes
from backfill_spark.rows.transform import Transform
from backfill_spark.rows.write_modes import APPEND, UPSERT, write_mode
from backfill_spark.sinks.delta.committer import DeltaCommitter
from backfill_spark.sinks.delta.sink import DeltaSink


class TestTargetsAreCheckedFirst:
    """Nothing is written to a target that cannot be filled."""

    def check(self, spark, path, frame, **options):
        sink = DeltaSink(
            spark, path, write_mode=write_mode(options.pop("mode", "Upsert")), key=("id",), job_id="j", **options
        )
        sink.check(frame.schema, source_path="/elsewhere", has_state=False)

    def test_foreign_rows(self, spark, tmp_path):
        """Rows of others are kept only when the spec says so."""
        spark.range(1).write.format("delta").save(str(tmp_path / "t"))

        with pytest.raises(TargetNotEmptyError, match="existingRows"):
            self.check(spark, str(tmp_path / "t"), spark.range(1), mode="Append")
        self.check(spark, str(tmp_path / "t"), spark.range(1), mode="Append", existing_rows="Keep")

    def test_foreign_files(self, spark, tmp_path):
        """A table in the middle of other files would claim them."""
        (tmp_path / "t").mkdir()
        (tmp_path / "t" / "x").write_text("x")

        with pytest.raises(TargetNotEmptyError, match="not a Delta table"):
            self.check(spark, str(tmp_path / "t"), spark.range(1))

    def test_what_is_left_of_a_table_that_was_being_made(self, spark, tmp_path):
        """Killed before the first commit: the next attempt makes it."""
        log = tmp_path / "t" / "_delta_log"
        log.mkdir(parents=True)
        (log / f".{0:020d}.json.tmp").write_text("half")
        self.check(spark, str(tmp_path / "t"), spark.range(1))
        sink = DeltaSink(spark, str(tmp_path / "t"), write_mode=UPSERT, key=("id",), job_id="j")
        assert DeltaCommitter(spark, sink.path, app_id="a", domain="d").read_state().table_version == -1

        sink.prepare(spark.range(1).schema)
        assert sink.exists()

    def test_a_log_that_has_lost_its_beginning_is_foreign(self, spark, tmp_path):
        """Its files cannot be understood."""
        log = tmp_path / "t" / "_delta_log"
        log.mkdir(parents=True)
        (log / f"{7:020d}.crc").write_text("{}")

        with pytest.raises(TargetNotEmptyError):
            self.check(spark, str(tmp_path / "t"), spark.range(1))

    @pytest.mark.parametrize(
        ("sql", "words"), [("id, 'x' AS b", "'b'"), ("cast(id AS int) AS id", "bigint in the target")]
    )
    def test_another_schema(self, spark, tmp_path, sql, words):
        """The error names the column before any time is spent."""
        spark.range(0).write.format("delta").save(str(tmp_path / "t"))

        with pytest.raises(TargetSchemaMismatchError, match=words):
            self.check(spark, str(tmp_path / "t"), spark.range(1).selectExpr(*sql.split(", ")))

    def test_a_partition_column_that_is_not_there(self, spark, tmp_path):
        """A typing error must not become a table."""
        with pytest.raises(TargetSchemaMismatchError, match="'dya'"):
            self.check(spark, str(tmp_path / "t"), spark.range(1), partition_by=("dya",))

    def test_a_property_of_a_table_that_is_not_there_yet(self, spark, tmp_path):
        """The table would be made and then be refused."""
        with pytest.raises(
            UnsupportedTargetFeatureError, match=r"spec\.target\.delta\.properties.*column mapping by id"
        ):
            self.check(spark, str(tmp_path / "t"), spark.range(1), properties={"delta.columnMapping.mode": "id"})
        assert not (tmp_path / "t").exists()

    def test_a_folder_that_may_not_be_written(self, spark, tmp_path):
        """Hadoop goes by the mode of the folder, also for root."""
        (tmp_path / "closed").mkdir(mode=0o555)

        with pytest.raises(PermissionDeniedError, match="closed is not writable"):
            self.check(spark, str(tmp_path / "closed" / "t"), spark.range(1))

    def test_a_storage_that_is_away_is_not_a_matter_of_rights(self, spark):
        """It may be back in a moment; a refusal would be final."""
        conf = java_context(spark).hadoopConfiguration()
        for name in ("ipc.client.connect.max.retries", "ipc.client.connect.max.retries.on.timeouts"):
            conf.set(name, "0")

        with pytest.raises(TransientError, match=r"the target .* cannot be made: ConnectException"):
            self.check(spark, "hdfs://127.0.0.1:1/t", spark.range(1))


class TestFoldersOfTheirOwn:
    """However they are written, and whatever they are on."""

    def check(self, spark, source, target):
        DeltaSink(spark, target, write_mode=APPEND, key=(), job_id="j").check(
            spark.range(1).schema, source_path=source, has_state=False
        )

    @pytest.mark.parametrize("spelling", ["{0}/s", "file:{0}/s", "file://{0}/s/", "{0}/link", "file:{0}/x/../s"])
    def test_the_source_by_another_name(self, spark, tmp_path, spelling):
        """A link must not hide that both are one."""
        (tmp_path / "s").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "s")

        with pytest.raises(TargetIsSourceError, match="the same table"):
            self.check(spark, str(tmp_path / "s"), spelling.format(tmp_path))

    def test_one_inside_the_other(self, spark, tmp_path):
        """In an odd folder too."""
        outer = tmp_path / "odd path=%20"

        with pytest.raises(TargetIsSourceError, match="the target lies inside"):
            self.check(spark, str(outer), str(outer / "t"))
        with pytest.raises(TargetIsSourceError, match="the source lies inside"):
            self.check(spark, str(outer / "s"), str(outer))

    def test_two_file_systems(self, spark, tmp_path):
        """`viewfs` stands for any other: it needs no server."""
        java_context(spark).hadoopConfiguration().set("fs.viewfs.mounttable.one.link./s", f"file:{tmp_path}")

        self.check(spark, "viewfs://one/s", str(tmp_path / "t"))


class TestAMerge:
    """It brings changes of keys into the table."""

    @pytest.mark.parametrize("kind", ["tinyint", "smallint", "int", "bigint", "string"])
    def test_reads_no_file_that_its_keys_cannot_be_in(self, spark, tmp_path, kind):
        """A target is much larger than what changes in it: the cost of a MERGE must be that of the files it touches."""
        sink = self.target(spark, tmp_path, f"CAST(id AS {kind}) AS id, 'old' AS v")
        far = spark.read.format("delta").load(sink.path).where("id = 30").select("_metadata.file_path").first()[0]
        hidden = Path(urlsplit(far).path)
        hidden.rename(tmp_path / "hidden")
        self.merge(spark, sink, f"CAST(id AS {kind}) AS id, 'new' AS v", "(3), (47), (-5)")
        (tmp_path / "hidden").rename(hidden)

        expected = {str(at): "new" if at in {3, 47} else "old" for at in range(50)} | {"-5": "new"}
        assert {row["id"]: row["v"] for row in self.rows(spark, sink)} == expected

    @pytest.mark.parametrize(
        "key",
        [
            "CAST(unhex('FF') AS STRING)",
            "concat('a', char(0), '\u2028')",
            "'\U0001f600'",
            "DATE'-0044-03-15'",
            "TIMESTAMP_NTZ'0001-01-01 00:00:00'",
            "CAST('NaN' AS DOUBLE)",
            "-0.0D",
            "CAST(1.5 AS DECIMAL(38, 18))",
            "unhex('00FF')",
        ],
    )
    def test_finds_rows_of_keys_that_python_has_not(self, spark, tmp_path, key):
        """A key that is told wrongly is a row that is there twice."""
        sink = self.target(spark, tmp_path, f"{key} AS id, 'old' AS v", rows=1)
        self.merge(spark, sink, f"{key} AS id, 'new' AS v", "(1)")

        assert [row["v"] for row in self.rows(spark, sink)] == ["new"]

    def test_finds_rows_that_another_engine_wrote(self, spark, tmp_path):
        """delta-rs cuts long texts in its statistics by rules of its own."""
        words = [f"{letter * 80}{at}" for letter in ("a", "\u00fc", "\U0001f600", "\uffff") for at in range(3)]
        path = str(tmp_path / "t")
        for word in words:
            write_deltalake(
                path, QueryBuilder().execute(f"SELECT '{word}' AS id, 'old' AS v").read_all(), mode="append"
            )
        sink = DeltaSink(spark, path, write_mode=UPSERT, key=("id",), job_id="j", existing_rows="Keep")
        self.merge(spark, sink, "id, 'new' AS v", ", ".join(f"('{word}')" for word in words))

        assert {row["id"]: row["v"] for row in self.rows(spark, sink)} == dict.fromkeys(words, "new")
        assert len(self.rows(spark, sink)) == len(words)

    def test_of_many_keys_is_the_same(self, spark, tmp_path):
        """More keys than are told apart: all files are looked at."""
        sink = self.target(spark, tmp_path, "id, id % 7 AS other, 'old' AS v", rows=3000, key=("id", "other"))
        changed = ", ".join(f"({at})" for at in range(1000, 1000 + KEYS_MAX + 1))
        self.merge(spark, sink, "CAST(id AS BIGINT) AS id, CAST(id % 7 AS BIGINT) AS other, 'new' AS v", changed)

        found = {int(row["id"]): row["v"] for row in self.rows(spark, sink)}
        assert found == {at: "new" if 1000 <= at <= 1000 + KEYS_MAX else "old" for at in range(3000)}

    def target(self, spark, tmp_path, columns, *, rows=50, key=("id",)):
        """Return a sink whose table has rows in five files."""
        frame = spark.sql(f"SELECT {columns} FROM range(0, {rows}, 1, {min(rows, 5)})")
        sink = DeltaSink(spark, str(tmp_path / "t"), write_mode=UPSERT, key=key, job_id="j")
        sink.prepare(frame.schema)
        frame.write.format("delta").mode("append").save(sink.path)
        return sink

    def merge(self, spark, sink, columns, values):
        """Bring new images of keys into it."""
        changes = spark.sql(
            f"SELECT {columns}, 'insert' AS _change_type, 1L AS _commit_version FROM VALUES {values} AS t (id)"
        )
        key = tuple(name for name in ("id", "other") if name in changes.columns)
        net = sink.as_stored(net_changes(changes, Transform(), key)).localCheckpoint()
        sink.merge(net, app_id="a", txn_version=1)

    def rows(self, spark, sink):
        """Return what is there."""
        return spark.read.format("delta").load(sink.path).selectExpr("CAST(id AS STRING) AS id", "v").collect()


class TestOrphans:
    """What an earlier attempt staged and never sealed is removed; what was sealed never is."""

    def test_only_unsealed_work_of_earlier_attempts_goes(self, spark, tmp_path):
        """A removed file that a commit names is lost data."""
        sink = DeltaSink(spark, str(tmp_path / "t"), write_mode=APPEND, key=(), job_id="j")
        sink.prepare(spark.range(1).schema)
        committer = DeltaCommitter(spark, sink.path, app_id="a", domain="backfill.x")
        for work in (1, 2):
            paths = sink.stage(spark.range(5), attempt=1, work_id=work)
            if work == 1:
                committer.seal(1, committer.measure(paths), "s")
        sink.stage(spark.range(5), attempt=2, work_id=1)

        assert sink.remove_orphans(2) == 1
        assert sorted(str(p.relative_to(sink.staging)) for p in Path(sink.staging).glob("*/*")) == ["a1/s1", "a2/s1"]
        assert spark.read.format("delta").load(sink.path).count() == 5

    def test_a_vacuum_removes_them_and_what_was_replaced_and_nothing_that_is_sealed(self, spark, tmp_path):
        """The folder has a plain name, or VACUUM would never look there (port.md, section 3)."""
        sink = DeltaSink(spark, str(tmp_path / "t"), write_mode=APPEND, key=(), job_id="j")
        sink.prepare(spark.range(1).schema)
        committer = DeltaCommitter(spark, sink.path, app_id="a", domain="backfill.x")
        for work in (1, 2):
            paths = sink.stage(spark.range(work * 10, work * 10 + 5), attempt=1, work_id=work)
            committer.seal(work, committer.measure(paths), "s")
        sink.stage(spark.range(5), attempt=1, work_id=3)
        spark.sql(f"DELETE FROM delta.`{sink.path}` WHERE id >= 20")

        vacuum(spark, sink.path)
        left = {path.parent.name for path in Path(sink.staging).glob("*/*/*.parquet")}
        assert left == {"s1"}
        assert sorted(row["id"] for row in spark.read.format("delta").load(sink.path).collect()) == list(range(10, 15))
        assert committer.read_state().text == "s"

    def test_what_the_log_tells_no_more_is_left_to_a_vacuum(self, spark, tmp_path):
        """A commit that named it may be among those that were cleaned away."""
        sink = DeltaSink(spark, str(tmp_path / "t"), write_mode=APPEND, key=(), job_id="j")
        sink.prepare(spark.range(1).schema)
        committer = DeltaCommitter(spark, sink.path, app_id="a", domain="backfill.x")
        sink.stage(spark.range(5), attempt=1, work_id=1)
        newest = [committer.seal(number, (), "s") for number in (1, 2)][-1].version
        forget_before(spark, sink.path, newest)

        assert sink.remove_orphans(2) == 0
        assert list(Path(sink.staging).glob("a1/s1/*.parquet"))
        vacuum(spark, sink.path)
        assert not list(Path(sink.staging).glob("a1/s1/*.parquet"))

    def test_what_others_put_there_is_left_alone(self, spark, tmp_path):
        """Nor does it keep ours from going."""
        sink = DeltaSink(spark, str(tmp_path / "t"), write_mode=APPEND, key=(), job_id="j")
        sink.prepare(spark.range(1).schema)
        sink.stage(spark.range(5), attempt=1, work_id=1)
        staging = Path(sink.staging)
        for name in ("archive/s1", "a", "a1/notes", "a1x/s1"):
            (staging / name).mkdir(parents=True)
        for name in ("a0", "a1/s2"):
            (staging / name).write_text("a file")

        assert sink.remove_orphans(2) == 1
        left = sorted(str(path.relative_to(staging)) for path in staging.glob("**/*"))
        assert left == ["a", "a0", "a1", "a1/notes", "a1/s2", "a1x", "a1x/s1", "archive", "archive/s1"]


def test_every_error_has_a_reason_and_an_exit_code_of_its_class():
    """Reasons are an API: one each, and never the base's, which are those of an unexpected error."""
    classes = BackfillError.__subclasses__()

    assert len({error.reason for error in classes}) == len(classes)
    shared = [error for error in classes if error.exit_code == BackfillError.exit_code]
    assert shared == [UnexpectedError]
    assert UnexpectedError.reason == BackfillError.reason
