"""Computed files have the rows that decoding gives: columns that Spark computed are joined to copied ones, each value in its row.

This holds for any layout of the file, for each engine that wrote it, and for two engines that read it.
"""

from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from deltalake import convert_to_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.tables.computed_copies import ComputedCopies, by_another_engine, table
from support.tables.foreign_files import write_encrypted
from support.tables.layouts import ROWS, layouts

from backfill_core.file_copies.copy_modes import Decoded, PartlyComputed, Reason
from backfill_core.file_copies.facts import UnsupportedColumn
from backfill_core.protocol.work import StagedMode
from backfill_spark.file_copies.computed_columns import ComputedColumns
from backfill_spark.jvm.gateway import hadoop_conf, java

SELECTS = (
    ("id", "s", "t", "d", "a", "g", "m", "i * 2 + id AS j"),
    ("upper(s) AS s", "id", "i AS k", "g"),
    ("m", "a", "struct(i AS x, array(s, null) AS y) AS n", "id", "map(id, g) AS o"),
    ("*", "concat_ws('-', s, id) AS w", "date_add(DATE '1500-01-01', i) AS old"),
)
"""Some columns are computed; one replaces a column of its name, some are nested, and one has dates before 1582."""

numbers = count()


class EncryptedColumns(ComputedColumns):
    """Computed parts as Spark writes them if encryption is configured."""

    def parts(self, files, columns, folder, *, check):
        """Encrypt the files that Spark wrote."""

        def encrypted(below):
            for part in folder.written(below):
                Path(part.path).unlink()
                write_encrypted(self._spark, part.path, part.rows, plain_footer=True)
            return folder.written(below)

        return super().parts(files, columns, replace(folder, written=encrypted), check=check)


def groups(spark, path):
    """Return for each row group of a file its rows and its number of column chunks."""
    parquet = java(spark).org.apache.parquet.hadoop
    file = parquet.util.HadoopInputFile.fromPath(java(spark).org.apache.hadoop.fs.Path(str(path)), hadoop_conf(spark))
    reader = parquet.ParquetFileReader.open(file)
    try:
        return [(block.getRowCount(), block.getColumns().size()) for block in reader.getFooter().getBlocks()]
    finally:
        reader.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of all examples."""
    return tmp_path_factory.mktemp("grafts")


class TestAPartlyComputedFile:
    """A computed file has the rows that decoding gives, in the order of the source."""

    @pytest.mark.rest
    @settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(layout=layouts(), select=st.sampled_from(SELECTS))
    def test_a_computed_file_of_any_layout_has_the_rows_of_decoding(self, spark, folder, layout, select):
        """Codecs, row groups, dictionaries, nulls, nested columns; written by Spark or by delta-rs, read by both."""
        number = next(numbers)
        source, target, other = (folder / f"{name}{number}" for name in "stu")
        table(spark, source, layout)
        copies = ComputedCopies(spark, source, target, select)
        assert isinstance(copies.mode, PartlyComputed)

        done = copies.stage()

        assert (done.left, {copy.staged.mode for copy in done.copied}) == ((), {StagedMode.PARTLY_COMPUTED})
        assert copies.staged(done) == copies.decoded()
        assert not (target / "work" / "computed").exists()
        spark.read.format("delta").load(str(source)).selectExpr(*select).write.parquet(str(other))
        assert by_another_engine(target / "work") == by_another_engine(other)

    def test_a_computed_file_has_the_row_groups_of_the_source(self, spark, tmp_path):
        """Each has a chunk of every column."""
        table(spark, tmp_path / "s", LAYOUT | {"group_rows": 7})
        copies = ComputedCopies(spark, tmp_path / "s", tmp_path / "t", ("id", "i", "upper(s) AS u"))
        (staged,) = (copy.staged for copy in copies.stage().copied)

        assert [rows for rows, _ in groups(spark, staged.path)] == [7, 7, 7, 7, 7, 5]
        assert {columns for _, columns in groups(spark, staged.path)} == {3}

    def test_one_job_computes_the_columns_of_many_files(self, spark, tmp_path):
        """Files with other row groups are included, and each gets its own rows."""
        source = tmp_path / "s"
        for number, rows in enumerate((5, 40, 11, 40, 7)):
            frame = spark.range(number * 100, number * 100 + rows, 1, 1).selectExpr("id", "id + 1 AS i")
            options = {"parquet.block.size": "1", "parquet.block.row.count.limit": str(10 + number % 2)}
            frame.write.options(**options).mode("append").parquet(str(source))
        convert_to_deltalake(str(source))
        copies = ComputedCopies(spark, source, tmp_path / "t", ("id", "id * 10 AS ten"))

        done = copies.stage()

        assert len(done.copied) == 5
        assert copies.staged(done) == copies.decoded()


LAYOUT = {"writer": "spark", "codec": "zstd", "group_rows": ROWS, "dictionary": True, "nulls": 5, "repeats": 3}


class TestAFileWhoseColumnsCannotBeJoined:
    """The footer decides that a file is decoded."""

    def test_a_file_with_many_row_groups_is_decoded(self, spark, tmp_path):
        """A job would keep a file open for each of them."""
        table(spark, tmp_path / "s", LAYOUT | {"group_rows": 1})
        done = ComputedCopies(spark, tmp_path / "s", tmp_path / "t", ("id", "i", "upper(s) AS u")).stage()

        assert (len(done.copied), len(done.left)) == (0, 1)

    def test_a_file_with_encrypted_computed_columns_is_decoded(self, spark, tmp_path):
        """Their chunks would be in a file whose footer does not declare encryption."""
        table(spark, tmp_path / "s", LAYOUT | {"group_rows": 7})
        done = ComputedCopies(spark, tmp_path / "s", tmp_path / "t", ("id", "i + 1 AS j"), EncryptedColumns).stage()

        assert (len(done.copied), len(done.left)) == (0, 1)

    def test_a_file_with_days_of_another_calendar_is_decoded(self, spark, tmp_path):
        """A footer declares the calendar for all columns, and computed ones have another."""
        spark.conf.set("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY")
        try:
            frame = spark.range(0, ROWS, 1, 1).selectExpr("id", "DATE '1500-01-01' AS day", "id AS i")
            frame.write.format("delta").save(str(tmp_path / "s"))
        finally:
            spark.conf.unset("spark.sql.parquet.datetimeRebaseModeInWrite")
        done = ComputedCopies(spark, tmp_path / "s", tmp_path / "t", ("id", "day", "date_add(day, 1) AS next")).stage()

        assert (len(done.copied), len(done.left)) == (0, 1)


OF_MAPPED = (
    ("id", "words", "t", "d", "a", "g", "m", "i * 2 + id AS j"),
    ("upper(words) AS words", "id", "i AS k", "g"),
    ("m", "a", "struct(i AS x, g.x AS y) AS n", "id", "upper(words) AS s"),
    ("*", "concat_ws('-', words, id, g.x) AS w"),
)
"""One column has another name than in files, and a computed column may now have that name."""


def mapped(spark, folder, layout):
    """Make a table whose columns have other names in files, from a file of one layout."""
    table(spark, folder, layout)
    for change in (
        "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "RENAME COLUMN s TO words",
    ):
        spark.sql(f"ALTER TABLE delta.`{folder}` {change}")


class TestAMappedTable:
    """Names in files are not the columns' names."""

    @settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(layout=layouts(), select=st.sampled_from(OF_MAPPED))
    def test_a_mapped_table_of_any_layout_has_the_rows_of_decoding(self, spark, folder, layout, select):
        """A target without column mapping gets files with the columns' own names."""
        number = next(numbers)
        source = folder / f"s{number}"
        mapped(spark, source, layout)
        copies = ComputedCopies(spark, source, folder / f"t{number}", select)
        assert isinstance(copies.mode, PartlyComputed)

        done = copies.stage()

        assert (done.left, len(done.copied)) == ((), 1)
        assert copies.staged(done) == copies.decoded()

    def test_a_table_with_other_names_inside_a_column_is_decoded(self, spark, tmp_path):
        """A target without column mapping needs other names in its files there."""
        mapped(spark, tmp_path / "s", LAYOUT)
        spark.sql(f"ALTER TABLE delta.`{tmp_path}/s` RENAME COLUMN g.x TO z")
        copies = ComputedCopies(spark, tmp_path / "s", tmp_path / "t", ("id", "g", "upper(words) AS u"))

        assert copies.mode == Decoded(Reason.TYPE, "g")

    def test_a_table_mapped_by_id_is_decoded(self, spark, tmp_path):
        """Its files may have names that the log does not have."""
        spark.sql(
            f"CREATE TABLE delta.`{tmp_path}/s` (id LONG, v STRING) USING delta "
            "TBLPROPERTIES ('delta.columnMapping.mode' = 'id')"
        )
        spark.sql(f"INSERT INTO delta.`{tmp_path}/s` SELECT id, 'x' FROM range(9)")
        copies = ComputedCopies(spark, tmp_path / "s", tmp_path / "t", ("id", "v", "upper(v) AS u"))

        assert copies.mode == Decoded(Reason.MAPPED_BY_ID)


class TestAWidenedColumn:
    """Older files have the narrow type."""

    @pytest.fixture
    def source(self, spark, tmp_path):
        at = f"delta.`{tmp_path}/s`"
        spark.sql(
            f"CREATE TABLE {at} (id LONG, v STRING, n INT) USING delta TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
        )
        spark.sql(f"INSERT INTO {at} SELECT id, concat('v', id), id FROM range(0, 40, 1, 1)")
        spark.sql(f"ALTER TABLE {at} ALTER COLUMN n TYPE LONG")
        spark.sql(f"INSERT INTO {at} SELECT id, concat('v', id), id + 5000000000 FROM range(40, 60, 1, 1)")
        return tmp_path / "s"

    def test_a_widened_column_is_computed_with_the_wide_type(self, spark, source, tmp_path):
        """The other columns are copied from narrow and from wide files alike."""
        copies = ComputedCopies(spark, source, tmp_path / "t", ("id", "v", "n * 3 AS thrice"))
        assert isinstance(copies.mode, PartlyComputed)

        done = copies.stage()

        assert len(done.copied) == 2
        assert copies.staged(done) == copies.decoded()

    def test_a_widened_column_is_not_copied(self, spark, source, tmp_path):
        """A file of the target would have the narrow type, and its log does not record that."""
        copies = ComputedCopies(spark, source, tmp_path / "t", ("id", "n", "upper(v) AS u"))

        assert copies.mode == Decoded(Reason.COLUMN, f"n: {UnsupportedColumn.TYPE_CHANGED.value}")
