"""The target: checks before the first write, and the removal of files that were never sealed."""

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
    """A target that cannot be filled gets no write."""

    def check(self, spark, path, frame, **options):
        sink = DeltaSink(
            spark, path, write_mode=write_mode(options.pop("mode", "Upsert")), key=("id",), job_id="j", **options
        )
        sink.check(frame.schema, source_path="/elsewhere", has_state=False)

    def test_foreign_rows_are_refused(self, spark, tmp_path):
        """Foreign rows are kept only when the spec requests it."""
        spark.range(1).write.format("delta").save(str(tmp_path / "t"))

        with pytest.raises(TargetNotEmptyError, match="existingRows"):
            self.check(spark, str(tmp_path / "t"), spark.range(1), mode="Append")
        self.check(spark, str(tmp_path / "t"), spark.range(1), mode="Append", existing_rows="Keep")

    def test_foreign_files_are_refused(self, spark, tmp_path):
        """A table among other files would claim them."""
        (tmp_path / "t").mkdir()
        (tmp_path / "t" / "x").write_text("x")

        with pytest.raises(TargetNotEmptyError, match="not a Delta table"):
            self.check(spark, str(tmp_path / "t"), spark.range(1))

    def test_remains_of_an_unfinished_table_are_taken(self, spark, tmp_path):
        """The process was killed before the first commit, so the next attempt makes the table."""
        log = tmp_path / "t" / "_delta_log"
        log.mkdir(parents=True)
        (log / f".{0:020d}.json.tmp").write_text("half")
        self.check(spark, str(tmp_path / "t"), spark.range(1))
        sink = DeltaSink(spark, str(tmp_path / "t"), write_mode=UPSERT, key=("id",), job_id="j")
        assert DeltaCommitter(spark, sink.path, app_id="a", domain="d").read_state().table_version == -1

        sink.prepare(spark.range(1).schema)
        assert sink.exists()

    def test_a_log_that_has_lost_its_beginning_is_foreign(self, spark, tmp_path):
        """Its files cannot be interpreted."""
        log = tmp_path / "t" / "_delta_log"
        log.mkdir(parents=True)
        (log / f"{7:020d}.crc").write_text("{}")

        with pytest.raises(TargetNotEmptyError):
            self.check(spark, str(tmp_path / "t"), spark.range(1))

    @pytest.mark.parametrize(
        ("sql", "message"), [("id, 'x' AS b", "'b'"), ("cast(id AS int) AS id", "bigint in the target")]
    )
    def test_another_schema_is_refused(self, spark, tmp_path, sql, message):
        """The error names the column before any time is spent."""
        spark.range(0).write.format("delta").save(str(tmp_path / "t"))

        with pytest.raises(TargetSchemaMismatchError, match=message):
            self.check(spark, str(tmp_path / "t"), spark.range(1).selectExpr(*sql.split(", ")))

    def test_a_partition_column_that_does_not_exist_is_refused(self, spark, tmp_path):
        """A typing error must not become a table."""
        with pytest.raises(TargetSchemaMismatchError, match="'dya'"):
            self.check(spark, str(tmp_path / "t"), spark.range(1), partition_by=("dya",))

    def test_an_unsupported_property_of_a_new_table_is_refused(self, spark, tmp_path):
        """Otherwise the table would be made and then be refused."""
        with pytest.raises(
            UnsupportedTargetFeatureError, match=r"spec\.target\.delta\.properties.*column mapping by id"
        ):
            self.check(spark, str(tmp_path / "t"), spark.range(1), properties={"delta.columnMapping.mode": "id"})
        assert not (tmp_path / "t").exists()

    def test_a_folder_without_write_permission_is_refused(self, spark, tmp_path):
        """Hadoop checks the mode of the folder, also for root."""
        (tmp_path / "closed").mkdir(mode=0o555)

        with pytest.raises(PermissionDeniedError, match="closed is not writable"):
            self.check(spark, str(tmp_path / "closed" / "t"), spark.range(1))

    def test_a_storage_that_does_not_answer_is_not_a_matter_of_rights(self, spark):
        """It may answer soon, and a refusal would be final."""
        conf = java_context(spark).hadoopConfiguration()
        for name in ("ipc.client.connect.max.retries", "ipc.client.connect.max.retries.on.timeouts"):
            conf.set(name, "0")

        with pytest.raises(TransientError, match=r"the target .* cannot be made: ConnectException"):
            self.check(spark, "hdfs://127.0.0.1:1/t", spark.range(1))


class TestFoldersOfTheirOwn:
    """The check compares locations, in every spelling and on every file system."""

    def check(self, spark, source, target):
        DeltaSink(spark, target, write_mode=APPEND, key=(), job_id="j").check(
            spark.range(1).schema, source_path=source, has_state=False
        )

    @pytest.mark.parametrize("spelling", ["{0}/s", "file:{0}/s", "file://{0}/s/", "{0}/link", "file:{0}/x/../s"])
    def test_the_source_by_another_name_is_refused(self, spark, tmp_path, spelling):
        """A link must not hide that both are one table."""
        (tmp_path / "s").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "s")

        with pytest.raises(TargetIsSourceError, match="the same table"):
            self.check(spark, str(tmp_path / "s"), spelling.format(tmp_path))

    def test_a_folder_inside_the_other_is_refused(self, spark, tmp_path):
        """The folder's name contains a space and a percent sign."""
        outer = tmp_path / "odd path=%20"

        with pytest.raises(TargetIsSourceError, match="the target lies inside"):
            self.check(spark, str(outer), str(outer / "t"))
        with pytest.raises(TargetIsSourceError, match="the source lies inside"):
            self.check(spark, str(outer / "s"), str(outer))

    def test_folders_on_two_file_systems_are_fine(self, spark, tmp_path):
        """`viewfs` represents any other file system: it needs no server."""
        java_context(spark).hadoopConfiguration().set("fs.viewfs.mounttable.one.link./s", f"file:{tmp_path}")

        self.check(spark, "viewfs://one/s", str(tmp_path / "t"))


class TestAMerge:
    """A MERGE applies changes of keys to the table."""

    @pytest.mark.parametrize("kind", ["tinyint", "smallint", "int", "bigint", "string"])
    def test_a_merge_reads_no_file_that_cannot_contain_its_keys(self, spark, tmp_path, kind):
        """A target is much larger than its changes, so a MERGE must cost only the files that it changes."""
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
    def test_a_merge_finds_rows_of_keys_that_python_does_not_have(self, spark, tmp_path, key):
        """A key that is converted wrongly adds its row twice."""
        sink = self.target(spark, tmp_path, f"{key} AS id, 'old' AS v", rows=1)
        self.merge(spark, sink, f"{key} AS id, 'new' AS v", "(1)")

        assert [row["v"] for row in self.rows(spark, sink)] == ["new"]

    def test_a_merge_finds_rows_that_another_engine_wrote(self, spark, tmp_path):
        """delta-rs truncates long strings in its statistics by its own rules."""
        keys = [f"{letter * 80}{at}" for letter in ("a", "\u00fc", "\U0001f600", "\uffff") for at in range(3)]
        path = str(tmp_path / "t")
        for word in keys:
            write_deltalake(
                path, QueryBuilder().execute(f"SELECT '{word}' AS id, 'old' AS v").read_all(), mode="append"
            )
        sink = DeltaSink(spark, path, write_mode=UPSERT, key=("id",), job_id="j", existing_rows="Keep")
        self.merge(spark, sink, "id, 'new' AS v", ", ".join(f"('{word}')" for word in keys))

        assert {row["id"]: row["v"] for row in self.rows(spark, sink)} == dict.fromkeys(keys, "new")
        assert len(self.rows(spark, sink)) == len(keys)

    def test_a_merge_of_many_keys_is_the_same(self, spark, tmp_path):
        """The number of keys exceeds `KEYS_MAX`, so all files are read."""
        sink = self.target(spark, tmp_path, "id, id % 7 AS other, 'old' AS v", rows=3000, key=("id", "other"))
        changed = ", ".join(f"({at})" for at in range(1000, 1000 + KEYS_MAX + 1))
        self.merge(spark, sink, "CAST(id AS BIGINT) AS id, CAST(id % 7 AS BIGINT) AS other, 'new' AS v", changed)

        values_by_id = {int(row["id"]): row["v"] for row in self.rows(spark, sink)}
        assert values_by_id == {at: "new" if 1000 <= at <= 1000 + KEYS_MAX else "old" for at in range(3000)}

    def target(self, spark, tmp_path, columns, *, rows=50, key=("id",)):
        """Return a sink whose table has rows in five files."""
        frame = spark.sql(f"SELECT {columns} FROM range(0, {rows}, 1, {min(rows, 5)})")
        sink = DeltaSink(spark, str(tmp_path / "t"), write_mode=UPSERT, key=key, job_id="j")
        sink.prepare(frame.schema)
        frame.write.format("delta").mode("append").save(sink.path)
        return sink

    def merge(self, spark, sink, columns, values):
        """Merge new images of keys into the target."""
        changes = spark.sql(
            f"SELECT {columns}, 'insert' AS _change_type, 1L AS _commit_version FROM VALUES {values} AS t (id)"
        )
        key = tuple(name for name in ("id", "other") if name in changes.columns)
        net = sink.as_stored(net_changes(changes, Transform(), key)).localCheckpoint()
        sink.merge(net, app_id="a", txn_version=1)

    def rows(self, spark, sink):
        """Return the rows of the target."""
        return spark.read.format("delta").load(sink.path).selectExpr("CAST(id AS STRING) AS id", "v").collect()


class TestOrphans:
    """Files that an earlier attempt staged and never sealed are removed. Sealed files never are."""

    def test_only_unsealed_work_of_earlier_attempts_is_removed(self, spark, tmp_path):
        """A commit that names a removed file has lost data."""
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

    def test_a_vacuum_removes_orphans_and_replaced_files_and_nothing_sealed(self, spark, tmp_path):
        """The folder's name has no leading underscore, because VACUUM would skip it (port.md, section 3)."""
        sink = DeltaSink(spark, str(tmp_path / "t"), write_mode=APPEND, key=(), job_id="j")
        sink.prepare(spark.range(1).schema)
        committer = DeltaCommitter(spark, sink.path, app_id="a", domain="backfill.x")
        for work in (1, 2):
            paths = sink.stage(spark.range(work * 10, work * 10 + 5), attempt=1, work_id=work)
            committer.seal(work, committer.measure(paths), "s")
        sink.stage(spark.range(5), attempt=1, work_id=3)
        spark.sql(f"DELETE FROM delta.`{sink.path}` WHERE id >= 20")

        vacuum(spark, sink.path)
        folders = {path.parent.name for path in Path(sink.staging).glob("*/*/*.parquet")}
        assert folders == {"s1"}
        assert sorted(row["id"] for row in spark.read.format("delta").load(sink.path).collect()) == list(range(10, 15))
        assert committer.read_state().text == "s"

    def test_orphans_that_the_log_cannot_prove_are_left_to_a_vacuum(self, spark, tmp_path):
        """A commit that named such a file may have been cleaned up."""
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

    def test_foreign_files_in_the_staging_folder_stay(self, spark, tmp_path):
        """They do not prevent the removal of the job's orphans."""
        sink = DeltaSink(spark, str(tmp_path / "t"), write_mode=APPEND, key=(), job_id="j")
        sink.prepare(spark.range(1).schema)
        sink.stage(spark.range(5), attempt=1, work_id=1)
        staging = Path(sink.staging)
        for name in ("archive/s1", "a", "a1/notes", "a1x/s1"):
            (staging / name).mkdir(parents=True)
        for name in ("a0", "a1/s2"):
            (staging / name).write_text("a file")

        assert sink.remove_orphans(2) == 1
        remaining = sorted(str(path.relative_to(staging)) for path in staging.glob("**/*"))
        assert remaining == ["a", "a0", "a1", "a1/notes", "a1/s2", "a1x", "a1x/s1", "archive", "archive/s1"]


def test_every_error_has_a_reason_and_an_exit_code_of_its_class():
    """Reasons are an API: each class has its own, and never the base's, which are those of an unexpected error."""
    classes = BackfillError.__subclasses__()

    assert len({error.reason for error in classes}) == len(classes)
    shared = [error for error in classes if error.exit_code == BackfillError.exit_code]
    assert shared == [UnexpectedError]
    assert UnexpectedError.reason == BackfillError.reason
