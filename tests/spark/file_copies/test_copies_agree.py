"""A copied file and a decoded one have the same rows, for any layout and for each engine that wrote the file."""

import struct
from collections import Counter
from itertools import count
from pathlib import Path

import pytest
from deltalake import DeltaTable, QueryBuilder, convert_to_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.tables.layouts import layouts, write

from backfill_core.errors import StagedFilesGoneError
from backfill_core.file_copies.copy_modes import Projected, Whole
from backfill_spark.delta.added_files import Statistics
from backfill_spark.delta.source_file import SourceFile
from backfill_spark.file_copies.copied_files import PlannedCopy
from backfill_spark.file_copies.copier import FileTransfer
from backfill_spark.file_copies.footers import Footers
from backfill_spark.jvm.gateway import hadoop_conf, java

MODES = {
    "id, i, s, t, d, a, g, m": Whole(),
    "i AS j, s, d, g": Projected(renamed=(("i", "j"),), pruned=("a", "id", "m", "t")),
    "m, a AS b, g AS h": Projected(renamed=(("a", "b"), ("g", "h")), pruned=("d", "i", "id", "s", "t")),
}
"""Expressions that a transform selects, and the copy mode that follows."""

numbers = count()


def copied(spark, source, target, mode, *, scheme=""):
    """Copy the files of a folder; return their number."""
    footers = Footers(spark)
    planned = []
    for path in sorted(source.glob("*.parquet")):
        footer = footers.read(f"{scheme}{path}")
        planned.append(PlannedCopy(SourceFile(path.name, path.stat().st_size, {}, None, None), mode, {}, footer.rows))
    rows_by_name = {copy.file.name: copy.rows for copy in planned}

    def measure(path, file):
        # The footer of a projected copy is not read for it.
        assert file.written == footers.read(f"{scheme}{path}").written
        return Statistics(0, rows_by_name[Path(path).name], None)

    transfer = FileTransfer(spark, source=f"{scheme}{source}", target=f"{scheme}{target}", measure=measure)
    return len(transfer.copy(planned, ".", check=lambda: None).copied)


def by_spark(spark, folder, select):
    """Return the rows of Parquet files as Spark reads them."""
    return Counter(map(repr, spark.read.parquet(f"{folder}/*.parquet").selectExpr(*select.split(", ")).collect()))


def by_another_engine(folder, select):
    """Return the same as delta-rs reads them, from a log that it makes."""
    if not (folder / "_delta_log").exists():
        convert_to_deltalake(str(folder))
    result = QueryBuilder().register("now", DeltaTable(str(folder))).execute(f"SELECT {select} FROM now").read_all()
    return Counter(zip(*(map(repr, result.column(name).to_pylist()) for name in result.column_names), strict=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of all examples."""
    return tmp_path_factory.mktemp("ways")


@pytest.fixture
def another_default(spark):
    """Set an unreachable file system as the default of paths without a scheme."""
    conf = hadoop_conf(spark)
    before = conf.get("fs.defaultFS")
    conf.set("fs.defaultFS", "hdfs://nowhere.invalid:1")
    yield
    conf.set("fs.defaultFS", before)


class TestEachWayGivesTheRowsThatDecodingGives:
    """Files are copied whole or projected, and read by two engines that share no code."""

    @settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(layout=layouts(), select=st.sampled_from(list(MODES)))
    def test_each_way_gives_the_rows_of_decoding_for_any_layout(self, spark, folder, layout, select):
        """Codecs, row groups, dictionaries, nulls and nested columns; written by Spark or by delta-rs."""
        number = next(numbers)
        source, target = folder / f"s{number}", folder / f"t{number}"
        write(spark, source, layout)

        assert copied(spark, source, target, MODES[select]) == len(list(source.glob("*.parquet"))) > 0

        names = ", ".join(column.split(" AS ")[-1] for column in select.split(", "))
        assert by_spark(spark, source, select) == by_spark(spark, target, names)
        assert by_another_engine(source, select) == by_another_engine(target, names)


class TestAFileOfThisMachine:
    """A path with a scheme is of the file system that it names."""

    @pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
    def test_a_file_of_this_machine_is_copied_with_any_default_file_system(self, spark, tmp_path, request, mode):
        """A cluster has its own default, and a local table is named with `file:`."""
        source, target = tmp_path / "s", tmp_path / "t"
        spark.range(3).selectExpr("id", *(f"id AS {name}" for name in "istdagm")).write.parquet(f"file:{source}")
        request.getfixturevalue("another_default")

        assert copied(spark, source, target, mode, scheme="file:") == len(list(source.glob("*.parquet"))) > 0
        assert len(list(target.glob("**/*.parquet"))) == len(list(source.glob("*.parquet")))


class TestAnEmptyRowGroup:
    """Arrow writes one for an empty batch, and Parquet's own writer refuses it."""

    @pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
    def test_an_empty_row_group_is_left_out_of_a_copy(self, spark, tmp_path, mode):
        """The file has the same rows, first, between and last."""
        source, target = tmp_path / "s", tmp_path / "t"
        made = spark.range(6).selectExpr("id", *(f"id AS {name}" for name in "istdagm")).coalesce(1)
        made.write.options(**{"parquet.block.row.count.limit": "3"}).parquet(str(source))
        (file,) = source.glob("*.parquet")
        file.write_bytes(with_empty_groups(spark, file.read_bytes()))
        (source / f".{file.name}.crc").unlink()

        assert copied(spark, source, target, mode) == 1

        (copy,) = target.glob("*.parquet")
        footer = Footers(spark).read(str(copy))
        assert footer.groups == ((0, 3, 0, 3, 0) if isinstance(mode, Whole) else (3, 3))
        assert sorted(row[0] for row in spark.read.parquet(str(copy)).selectExpr(footer.names[0]).collect()) == [
            *range(6)
        ]


def with_empty_groups(spark, content):
    """Return a Parquet file with a row group without rows before and after each row group."""
    jvm = java(spark)
    formats = jvm.org.apache.parquet.format.Util
    (length,) = struct.unpack("<I", content[-8:-4])
    footer = formats.readFileMetaData(jvm.java.io.ByteArrayInputStream(content[-8 - length : -8]))
    groups = footer.getRow_groups()
    for at in range(len(groups), -1, -1):
        empty = groups.get(min(at, len(groups) - 1)).deepCopy()
        empty.setNum_rows(0)
        empty.setTotal_byte_size(0)
        for chunk in empty.getColumns():
            metadata = chunk.getMeta_data()
            metadata.setNum_values(0)
            metadata.setTotal_compressed_size(0)
            metadata.setTotal_uncompressed_size(0)
            metadata.unsetStatistics()
        groups.add(at, empty)
    written = jvm.java.io.ByteArrayOutputStream()
    formats.writeFileMetaData(footer, written)
    changed = bytes(written.toByteArray())
    return content[: -8 - length] + changed + struct.pack("<I", len(changed)) + b"PAR1"


class TestACopyThatIsTakenAway:
    """A VACUUM with a short retention removes a copy, or the next attempt, for which it is an orphan.

    The work is done again.
    """

    @pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
    def test_a_removed_copy_is_no_damage_of_the_target(self, spark, tmp_path, mode):
        """No commit names it yet."""
        source, target = tmp_path / "source", tmp_path / "target"
        made = spark.range(3).selectExpr("id", *(f"id AS {name}" for name in "istdagm")).coalesce(1)
        made.write.parquet(str(source))
        footers = Footers(spark)
        [path] = source.glob("*.parquet")
        rows = footers.read(str(path)).rows
        planned = PlannedCopy(SourceFile(path.name, path.stat().st_size, {}, None, None), mode, {}, rows)

        def take():
            for copy in target.rglob("*.parquet"):
                copy.unlink()

        def measure(path, file):
            take()
            return Statistics(footers.read(path).rows, rows, None)

        transfer = FileTransfer(spark, source=str(source), target=str(target), measure=measure)
        with pytest.raises(StagedFilesGoneError, match="a staged file is gone"):
            transfer.copy([planned], "backfill-x/a1/s1", check=take)
