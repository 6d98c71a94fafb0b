"""Real targets with features of Delta: supported ones are filled correctly, others are refused before the first write."""

from functools import reduce
from pathlib import Path

import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import DataFrame

from backfill_core.errors import KeyInvalidError, TargetSchemaMismatchError, UnsupportedTargetFeatureError
from backfill_spark.receipts.row_sums import take_receipt
from backfill_spark.rows.changes import net_changes
from backfill_spark.rows.transform import Transform
from backfill_spark.rows.write_modes import write_mode
from backfill_spark.sinks.delta.committer import DeltaCommitter
from backfill_spark.sinks.delta.row_changes import WIDE_COLUMNS
from backfill_spark.sinks.delta.sink import DeltaSink


def sink_at(spark, path, *, mode="Append", key=(), **options):
    return DeltaSink(spark, str(path), write_mode=write_mode(mode), key=key, job_id="j", **options)


def fill(spark, sink, rows, work=1):
    """Prepare, stage, seal; return the table's rows."""
    sink.prepare(rows.schema)
    committer = DeltaCommitter(spark, sink.path, app_id="a", domain="backfill.x")
    committer.seal(work, committer.measure(sink.stage(rows, attempt=1, work_id=work)), "s")
    return found_at(spark, sink)


def found_at(spark, sink):
    """Return the current rows of the target."""
    return spark.read.format("delta").load(sink.path)


def rows_of(frame):
    """Return rows for a comparison in Python: a difference of two frames takes four Spark jobs."""
    return sorted(map(str, frame.collect()))


def log(path):
    return sorted(file.name for file in Path(path, "_delta_log").glob("*.json"))


class TestWhatASealCannotHonour:
    """The error names the feature, and the table's log stays unchanged."""

    @pytest.mark.parametrize(
        ("columns", "properties", "message"),
        [
            ("id BIGINT, a VARCHAR(3)", {}, "length limit.*: a,"),
            ("id BIGINT, a STRUCT<b: CHAR(3)>", {}, r"length limit.*: a"),
            ("id BIGINT, a BIGINT GENERATED ALWAYS AS (id + 1)", {}, "generated column: a"),
            ("id BIGINT, a BIGINT GENERATED ALWAYS AS IDENTITY", {}, "identity column: a"),
            ("id BIGINT, a STRING", {"delta.columnMapping.mode": "id"}, "column mapping by id"),
            (
                "id BIGINT, a STRING",
                {"delta.enableIcebergCompatV2": "true", "delta.columnMapping.mode": "name"},
                r"Iceberg compatibility \(delta.enableIcebergCompatV2\)",
            ),
            (
                "id BIGINT, a STRING",
                {"delta.enableIcebergCompatV1": "true", "delta.columnMapping.mode": "name"},
                r"Iceberg compatibility \(delta.enableIcebergCompatV1\)",
            ),
            ("id BIGINT, a STRUCT<b: INT NOT NULL>", {}, r"nested NOT NULL: a\.b"),
        ],
        ids=[
            "varchar",
            "nested char",
            "generated",
            "identity",
            "id mapping",
            "iceberg 2",
            "iceberg 1",
            "nested not null",
        ],
    )
    def test_the_table_is_refused(self, spark, tmp_path, columns, properties, message):
        """A refused table must stay unchanged."""
        listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        ending = f"TBLPROPERTIES ({listed})" if listed else ""
        spark.sql(f"CREATE TABLE delta.`{tmp_path}/t` ({columns}) USING delta {ending}")
        before = log(tmp_path / "t")

        with pytest.raises(UnsupportedTargetFeatureError, match=message) as refusal:
            sink_at(spark, tmp_path / "t").check(spark.range(1).schema, source_path="/else", has_state=False)
        assert refusal.value.hint
        assert log(tmp_path / "t") == before

    @pytest.mark.parametrize(
        ("column", "feature"),
        [
            ("a BIGINT GENERATED ALWAYS AS (id + 1)", "generatedColumns"),
            ("a BIGINT GENERATED ALWAYS AS IDENTITY", "identityColumns"),
        ],
    )
    def test_kernel_names_an_unsupported_feature_before_it_writes(self, spark, tmp_path, column, feature):
        """This check covers features that do not exist yet."""
        spark.sql(f"CREATE TABLE delta.`{tmp_path}/t` (id BIGINT, {column}) USING delta")
        before = log(tmp_path / "t")

        with pytest.raises(UnsupportedTargetFeatureError, match=feature):
            DeltaCommitter(spark, str(tmp_path / "t"), app_id="a", domain="backfill.x").check()
        assert log(tmp_path / "t") == before

    def test_a_check_of_a_table_with_an_old_protocol_does_not_upgrade_it(self, spark, tmp_path):
        """An upgrade locks out old readers."""
        spark.sql(
            f"CREATE TABLE delta.`{tmp_path}/t` (id BIGINT) USING delta "
            "TBLPROPERTIES ('delta.minReaderVersion' = '1', 'delta.minWriterVersion' = '2')"
        )
        DeltaCommitter(spark, str(tmp_path / "t"), app_id="a", domain="backfill.x").check()

        assert log(tmp_path / "t") == [f"{0:020d}.json"]
        assert fill(spark, sink_at(spark, tmp_path / "t"), spark.range(3)).count() == 3

    def test_a_default_of_a_missing_column_is_refused(self, spark, tmp_path):
        """The job's rows would contain null where the table promises 5."""
        spark.sql(
            f"CREATE TABLE delta.`{tmp_path}/t` (id BIGINT, a INT DEFAULT 5) USING delta "
            "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
        )
        sink = sink_at(spark, tmp_path / "t")

        with pytest.raises(TargetSchemaMismatchError, match="'a' of the target has the default 5"):
            sink.check(spark.range(1).schema, source_path="/else", has_state=False)
        rows = spark.sql("SELECT id, cast(null AS int) AS a FROM range(3)")
        sink.check(rows.schema, source_path="/else", has_state=False)
        assert fill(spark, sink, rows).where("a IS NULL").count() == 3


class TestNotNull:
    """Every staged value is checked. Work that fails the check is never sealed."""

    @pytest.fixture
    def sink(self, spark, tmp_path):
        spark.sql(f"CREATE TABLE delta.`{tmp_path}/t` (id BIGINT, `a.b` INT NOT NULL) USING delta")
        return sink_at(spark, tmp_path / "t")

    def test_values_that_are_not_null_are_sealed(self, spark, sink):
        """The check must not refuse good rows."""
        rows = spark.sql("SELECT id, if(id > 99, null, 1) AS `a.b` FROM range(3)")
        sink.check(rows.schema, source_path="/else", has_state=False)

        assert fill(spark, sink, rows).count() == 3

    def test_a_null_ends_the_work_with_the_column(self, spark, sink):
        """The error names the column, and nothing is written."""
        rows = spark.sql("SELECT id, if(id = 2, null, 1) AS `a.b` FROM range(3)")

        with pytest.raises(Exception) as failure:
            fill(spark, sink, rows)
        error = sink.explain_failure(failure.value)
        assert isinstance(error, TargetSchemaMismatchError)
        assert "'a.b' of the target must not be null" in error.message
        assert "coalesce" in error.hint
        assert log(sink.path) == [f"{0:020d}.json"]

    def test_a_merge_with_a_null_ends_alike(self, spark, sink):
        """Files and MERGE must keep the same promise."""
        merging = sink_at(spark, sink.path, mode="Upsert", key=("id",))
        net = spark.sql("SELECT 1L AS id, cast(null AS int) AS `a.b`, false AS __backfill_delete")

        with pytest.raises(Exception) as failure:
            merging.merge(net, app_id="a", txn_version=1)
        assert isinstance(merging.explain_failure(failure.value), TargetSchemaMismatchError)
        assert log(sink.path) == [f"{0:020d}.json"]

    def test_a_failure_of_something_else_is_not_explained(self, sink):
        """A wrong explanation misleads more than none."""
        assert sink.explain_failure(ValueError("x")) is None


class TestTheKeyOfAnUpsert:
    """The transform may yield a null key from a source key that is not null."""

    @pytest.mark.parametrize("bad", ["nullif(id, 2)", "cast(null AS bigint)"])
    def test_a_null_key_is_not_staged(self, spark, tmp_path, bad):
        """A MERGE would never find its row again."""
        sink = sink_at(spark, tmp_path / "t", mode="Upsert", key=("k",))
        rows = spark.range(3).selectExpr(f"{bad} AS k", "id")

        with pytest.raises(Exception) as failure:
            fill(spark, sink, rows)
        error = sink.explain_failure(failure.value)
        assert isinstance(error, KeyInvalidError)
        assert "'k' is null" in error.message

    def test_an_append_has_no_key(self, spark, tmp_path):
        """Only an Upsert matches rows."""
        sink = sink_at(spark, tmp_path / "t", key=("k",))

        assert fill(spark, sink, spark.range(3).selectExpr("nullif(id, 2) AS k")).where("k IS NULL").count() == 1


class TestTypeWidening:
    """Old files keep the narrow type, and the job's files have the wide one."""

    def test_rows_from_before_and_after_the_change_are_read(self, spark, tmp_path):
        """Readers convert the old files, so the job's files must have the wide type."""
        spark.sql(
            f"CREATE TABLE delta.`{tmp_path}/t` (id BIGINT, a INT) USING delta "
            "TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
        )
        spark.sql(f"INSERT INTO delta.`{tmp_path}/t` VALUES (1, 1)")
        spark.sql(f"ALTER TABLE delta.`{tmp_path}/t` ALTER COLUMN a TYPE BIGINT")
        sink = sink_at(spark, tmp_path / "t", existing_rows="Keep")
        rows = spark.sql("SELECT 2L AS id, 5000000000L AS a")
        sink.check(rows.schema, source_path="/else", has_state=False)
        DeltaCommitter(spark, sink.path, app_id="a", domain="backfill.x").check()

        assert sorted(map(tuple, fill(spark, sink, rows).collect())) == [(1, 1), (2, 5_000_000_000)]
        assert spark.read.format("delta").load(sink.path).where("a > 4000000000").count() == 1


class TestPartitionsWithMappedNames:
    """Folders have physical names, and readers see logical ones."""

    def test_rows_and_partitions_come_back_and_changes_are_merged(self, spark, tmp_path):
        """A logical name in a folder would hide the partition. MERGE must find rows that Kernel committed."""
        rows = spark.sql("SELECT id, concat('p ', id % 3, '/=%') AS p, named_struct('x', id) AS s FROM range(9)")
        sink = sink_at(
            spark, tmp_path / "t", mode="Upsert", key=("id",), partition_by=("p",),
            properties={"delta.columnMapping.mode": "name"},
        )  # fmt: skip
        stored = fill(spark, sink, rows)
        assert rows_of(stored) == rows_of(rows)
        assert stored.where("p = 'p 1/=%'").count() == 3

        changed = rows.where("id IN (1, 2)").selectExpr(
            "id",
            "'p 0/=%' AS p",
            "s",
            "if(id = 1, 'update_postimage', 'delete') AS _change_type",
            "4L AS _commit_version",
        )
        sink.merge(net_changes(changed, Transform(), ("id",)).localCheckpoint(), app_id="a", txn_version=7)
        assert [(row["id"], row["p"], row["s"]["x"]) for row in found_at(spark, sink).sort("id").collect()] == [
            (at, "p 0/=%" if at == 1 else f"p {at % 3}/=%", at) for at in (0, 1, *range(3, 9))
        ]

    def test_a_name_that_another_column_had_before_is_filled(self, spark, tmp_path):
        """After a rename the physical name of one column is the logical name of another."""
        path = str(tmp_path / "t")
        spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, a STRING, p STRING) USING delta PARTITIONED BY (p)")
        spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
        for old, new in (("p", "x"), ("a", "p"), ("x", "a")):
            spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN {old} TO {new}")
        rows = spark.sql("SELECT id, concat('plain ', id) AS p, concat('part ', id) AS a FROM range(3)")
        sink = sink_at(spark, path)
        sink.check(rows.schema, source_path="/else", has_state=False)

        stored = fill(spark, sink, rows)
        assert rows_of(stored.select("id", "p", "a")) == rows_of(rows)
        assert stored.where("a = 'part 1' AND p = 'plain 1'").count() == 1


class TestPartitionValues:
    """Values of every type that can be a partition are read back unchanged from the folder's name."""

    VALUES = (
        "timestamp_micros(1700000000123456)", "timestamp'1969-12-31 23:59:59.999999'", "timestamp'2020-01-01'",
        "timestamp_ntz'2020-01-01 00:00:00.000001'", "date'0001-01-01'", "true", "cast(7 AS tinyint)",
        "cast(-7 AS smallint)", "9000000000", "1.5D", "1.5F", "double('nan')", "double('-infinity')",
        "cast(12.30 AS decimal(10, 2))", "cast(-0.00001 AS decimal(20, 5))", "'a=b/c%20 ü:?\\\\'", "' '", "'null'",
    )  # fmt: skip

    def test_partition_values_of_every_type_are_read_back(self, spark, tmp_path):
        """One table has a column of each type: a table for each would take a minute."""
        columns = {f"p{number}": value for number, value in enumerate(self.VALUES)}
        values = ", ".join(f"{value} AS {name}" for name, value in columns.items())
        rows = spark.sql(f"SELECT 1L AS id, {values} UNION ALL SELECT 2L{', null' * len(columns)}")
        stored = fill(spark, sink_at(spark, tmp_path / "t", partition_by=tuple(columns)), rows)

        assert take_receipt(rows, stored, key=("id",), vnodes=4, source_version=0, target_version=0, epoch=0).equal, (
            stored.collect()
        )
        equal = stored.where("id = 1").selectExpr(*(f"{name} = {value} AS {name}" for name, value in columns.items()))
        assert equal.first().asDict() == dict.fromkeys(columns, True)
        assert stored.where(" AND ".join(f"{name} = {value}" for name, value in columns.items())).count() == 1


class TestAnEmptyTextInAPartition:
    """Delta has no empty partition value: it is stored as null, by the job as by any other writer."""

    ROWS = "SELECT id, if(id = 1, '', concat('p', id)) AS p, '' AS other FROM range(3)"

    def test_an_empty_string_is_null_and_the_receipt_accepts_it(self, spark, tmp_path):
        """Spark's own write of the same query gives the same table."""
        rows = spark.sql(self.ROWS)
        sink = sink_at(spark, tmp_path / "t", partition_by=("p",))
        stored = fill(spark, sink, rows)
        rows.write.format("delta").partitionBy("p").save(str(tmp_path / "plain"))

        plain = spark.read.format("delta").load(str(tmp_path / "plain"))
        assert rows_of(stored) == rows_of(plain)
        assert stored.where("p IS NULL AND other = ''").count() == 1
        sides = {"key": ("id",), "vnodes": 4, "source_version": 0, "target_version": 0, "epoch": 0}
        assert take_receipt(sink.as_stored(rows), stored, **sides).equal
        assert not take_receipt(rows, stored, **sides).equal

    def test_a_merge_writes_null_too(self, spark, tmp_path):
        """A row must not depend on the write mode."""
        sink = sink_at(spark, tmp_path / "t", mode="Upsert", key=("id",), partition_by=("p",))
        fill(spark, sink, spark.sql("SELECT 1L AS id, 'p' AS p"))
        net = spark.sql("SELECT 1L AS id, '' AS p, false AS __backfill_delete UNION ALL SELECT 2L, '', false")

        sink.merge(sink.as_stored(net).localCheckpoint(), app_id="a", txn_version=7)
        assert spark.read.format("delta").load(sink.path).where("p IS NULL").count() == 2

    def test_an_empty_string_in_the_key_is_refused(self, spark, tmp_path):
        """As null it would match no later change."""
        sink = sink_at(spark, tmp_path / "t", mode="Upsert", key=("p",), partition_by=("p",))

        with pytest.raises(Exception) as failure:
            fill(spark, sink, spark.sql("SELECT '' AS p, 1 AS x"))
        assert "an empty string, in a partition column" in sink.explain_failure(failure.value).message

    def test_an_empty_string_in_another_column_is_kept(self, spark, tmp_path):
        """Only partition values lose the difference."""
        sink = sink_at(spark, tmp_path / "t")
        rows = spark.sql("SELECT '' AS p")
        sink.prepare(rows.schema)

        assert sink.as_stored(rows) is rows


class TestNamesOfColumns:
    """Columns with names that Delta accepts are filled, read back and found by their statistics."""

    @pytest.mark.parametrize(
        ("names", "properties"),
        [
            (("a.b", "a`b", "ä-ö"), {}),
            (("a=b", "a b,;{}()", "a.b c"), {"delta.columnMapping.mode": "name"}),
        ],
    )
    def test_any_valid_name_is_filled_and_found(self, spark, tmp_path, names, properties):
        """A quote or a dot in a name must not break SQL or statistics."""
        quoted = ["`" + name.replace("`", "``") + "`" for name in names]
        rows = spark.range(9).selectExpr(*(f"id AS {name}" for name in quoted), "named_struct('b', 5L) AS a")
        rows = rows.localCheckpoint()
        sink = sink_at(spark, tmp_path / "t", mode="Upsert", key=names, properties=properties)
        stored = fill(spark, sink, rows)
        each = [stored.where(f"{name} = 7").selectExpr("a.b") for name in quoted]
        assert [row["b"] for row in reduce(DataFrame.unionAll, each).collect()] == [5] * len(names)

        net = rows.selectExpr(*quoted, "a", f"{quoted[0]} = 3 AS __backfill_delete")
        sink.merge(net.localCheckpoint(), app_id="a", txn_version=7)
        assert sorted(row[0] for row in found_at(spark, sink).collect()) == [0, 1, 2, 4, 5, 6, 7, 8]


class TestVariants:
    """Variants are staged and compared unchanged."""

    def test_variants_are_read_back(self, spark, tmp_path):
        """A variant is stored in two binary parts and compared as a value."""
        rows = spark.sql("""SELECT id, parse_json(concat('{"a": ', id, ', "b": [1, null]}')) AS v FROM range(3)""")
        stored = fill(spark, sink_at(spark, tmp_path / "t"), rows)

        sides = {"key": ("id",), "vnodes": 4, "source_version": 0, "target_version": 0, "epoch": 0}
        assert take_receipt(rows, stored, **sides).equal
        assert stored.where("id = 1").selectExpr("to_json(v) AS j").first()["j"] == '{"a":1,"b":[1,null]}'


class TestManyColumns:
    """A MERGE into a wide table is planned without inferred constraints, which took most of a minute."""

    def test_a_merge_changes_adds_and_removes_the_right_rows(self, spark, tmp_path):
        """The other plan has the same result. delta-rs reads the rows, because it shares no code with Spark."""
        names = [f"c{at}" for at in range(WIDE_COLUMNS + 1)]
        rows = spark.range(4).selectExpr("id", *(f"if(id = 1, null, id) AS {name}" for name in names))
        sink = sink_at(spark, tmp_path, mode="Upsert", key=("id",))
        fill(spark, sink, rows)
        change = (
            rows.where("id IN (1, 2, 3)")
            .selectExpr("IF(id = 3, 9L, id) AS id", "id * 7 AS c0", *names[1:], "id = 2 AS gone")
            .selectExpr("* EXCEPT (gone)", "if(gone, 'delete', 'insert') AS _change_type", "5L AS _commit_version")
        )

        net = net_changes(change, Transform(), ("id",))
        sink.merge(sink.as_stored(net).localCheckpoint(), app_id="a", txn_version=7)

        query = QueryBuilder().register("t", DeltaTable(str(tmp_path)))
        result = query.execute(f"SELECT id, c0, {names[-1]} FROM t ORDER BY id").read_all()
        columns = [
            [value.as_py() if hasattr(value, "as_py") else value for value in result.column(at)] for at in range(3)
        ]
        assert list(zip(*columns, strict=True)) == [(0, 0, 0), (1, 7, None), (3, 3, 3), (9, 21, 3)]
