"""Columns that are computed for distinct values have the rows that decoding gives, for each engine that wrote the file or reads it."""

from itertools import count

import pytest
from deltalake import convert_to_deltalake
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support.tables.computed_copies import ComputedCopies, by_another_engine, table
from support.tables.layouts import CODECS, ROWS

from backfill_spark.file_copies.computed_columns import ComputedColumns
from backfill_spark.file_copies.dictionaries.distinct_values import Dictionaries
from backfill_spark.file_copies.footers import Footers
from backfill_spark.jvm.gateway import java

ALONE = (
    "upper(s) AS s",
    "concat(s, '!') AS u|length(s) AS n",
    "i * 2 AS j",
    "t + INTERVAL 1 DAY AS next|date_format(t, 'yyyy') AS year",
    "cast(i AS double) / 3 AS third|cast(i AS float) AS f",
    "substr(s, 1, 3) AS same",
    "if(i = 2, 0, i) AS merged",
)
"""Columns that are computed from one column; the last two have equal values for different ones."""

BY_ROW = (
    "i > 1 AS large",
    "coalesce(s, 'none') AS s",
    "nullif(i, 2) AS n",
    "array(i) AS a",
    "if(i = 1, double('NaN'), 1) AS q",
    "concat(s, id) AS both",
)
"""Columns without a dictionary: of flags, with other nulls, nested, without bounds, and from two columns."""

DRAWN = (Phase.explicit, Phase.reuse, Phase.generate)
"""A smaller example of a failure takes minutes to find, and tells no more."""

LAYOUT = {"writer": "spark", "codec": "zstd", "group_rows": ROWS, "dictionary": True, "nulls": 5, "repeats": 3}

numbers = count()


class Watched(ComputedColumns):
    """Computed columns that remember how many files were computed for distinct values, and how many files of values there were."""

    by_value = values_files = 0

    def _by_value(self, *given):
        found = super()._by_value(*given)
        Watched.by_value = len(found)
        return found

    def _by_row(self, files, *given, **options):
        if options:
            Watched.values_files = len(files)
        return super()._by_row(files, *given, **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of all examples."""
    return tmp_path_factory.mktemp("dictionaries")


def layouts(repeats=st.just(3)):
    """Draw layouts in which each value has several rows in each row group."""
    return st.fixed_dictionaries(
        {
            "writer": st.sampled_from(["spark", "delta-rs"]),
            "codec": st.sampled_from(CODECS),
            "group_rows": st.sampled_from([20, ROWS]),
            "dictionary": st.just(True),
            "nulls": st.sampled_from([2, 5, ROWS + 1]),
            "repeats": repeats,
        }
    )


def staged(spark, folder, layout, select):
    """Stage a table of one layout; return the copies and their files."""
    number = next(numbers)
    table(spark, folder / f"s{number}", layout)
    copies = ComputedCopies(spark, folder / f"s{number}", folder / f"t{number}", ("id", "g", "m", *select), Watched)
    return copies, copies.stage()


class TestColumnsOfOneColumn:
    """Spark computes them for the values of the dictionary."""

    def test_files_with_many_pages_are_joined_at_once(self, spark, folder):
        """Codecs have buffers, which threads must not share."""
        source = folder / "pages"
        rows = "id", "cast(id % 7 AS string) AS s", "named_struct('x', id) AS g", "map('k', id) AS m"
        spark.range(0, 400_000, 1, 8).selectExpr(*rows).write.option("compression", "zstd").parquet(str(source))
        convert_to_deltalake(str(source))
        copies = ComputedCopies(spark, source, folder / "joined", ("id", "g", "m", "concat('v', s) AS v"), Watched)

        done = copies.stage()

        assert (Watched.by_value, len(done.copied)) == (8, 8)
        staged = spark.read.parquet(*(copy.staged.path for copy in done.copied))
        assert staged.where("v = concat('v', id % 7)").count() == staged.count() == 400_000

    def test_equal_results_have_one_number(self, spark, folder):
        """Readers may take a dictionary for a list of distinct values."""
        copies, done = staged(spark, folder, LAYOUT, ("if(i = 2, 0, i) AS merged",))

        assert (Watched.by_value, len(done.copied)) == (1, 1)
        assert copies.staged(done) == copies.decoded()

    @pytest.mark.parametrize("select", ["if(s IS NULL, 'none', s) AS s", "nullif(i, 2) AS n"], ids=["value", "null"])
    def test_a_null_that_gets_a_value_or_a_new_null_is_seen(self, spark, folder, select):
        """The levels of the rows would be wrong."""
        copies, done = staged(spark, folder, LAYOUT, (select,))

        assert (Watched.by_value, len(done.copied)) == (0, 1)
        assert copies.staged(done) == copies.decoded()

    @pytest.mark.rest
    @settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=DRAWN)
    @given(layout=layouts(), select=st.sampled_from(ALONE))
    def test_columns_have_the_rows_of_decoding(self, spark, folder, layout, select):
        """Two engines read the copies."""
        copies, done = staged(spark, folder, layout, select.split("|"))

        assert (Watched.by_value, len(done.copied)) == (1, 1)
        assert copies.staged(done) == copies.decoded()
        other = folder / f"o{next(numbers)}"
        copies.source_rows().selectExpr(*copies.select).write.parquet(str(other))
        assert by_another_engine(copies.target / "work") == by_another_engine(other)

    @settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=DRAWN)
    @given(layout=layouts(), select=st.sampled_from(BY_ROW))
    def test_other_columns_are_computed_for_each_row(self, spark, folder, layout, select):
        """Their values are right, too."""
        copies, done = staged(spark, folder, layout, (select,))

        assert (Watched.by_value, len(done.copied)) == (0, 1)
        assert copies.staged(done) == copies.decoded()

    def test_values_that_hardly_repeat_are_computed_for_each_row(self, spark, folder):
        """A dictionary with a value for each row saves nothing."""
        layout = {
            "writer": "spark",
            "codec": "zstd",
            "group_rows": ROWS,
            "dictionary": True,
            "nulls": 5,
            "repeats": ROWS,
        }
        copies, done = staged(spark, folder, layout, ("upper(s) AS s",))

        assert Watched.by_value == 0
        assert copies.staged(done) == copies.decoded()

    def test_two_columns_of_a_file_are_found_in_any_case(self, spark, folder):
        """Spark reads both, so a computed column may need both."""
        spark.range(0, 40, 1, 1).selectExpr("id % 2 AS a", "id % 3 AS b").write.parquet(str(folder / "cases"))
        footer = Footers(spark).read(str(next((folder / "cases").glob("*.parquet"))))
        dictionaries = Dictionaries(spark)

        assert dictionaries.of(footer, {"A"}) is not None
        assert dictionaries.of(footer, {"a", "B"}) is None

    @pytest.mark.parametrize("select", ["upper(s) AS s", "cast(s AS int) AS n"], ids=["bounds", "error"])
    def test_a_dictionary_with_a_value_without_rows_is_not_used(self, spark, folder, select):
        """Other writers make such dictionaries. No row has this value: it must not be a bound, and must not fail."""
        source = folder / f"unused{next(numbers)}"
        write_dictionary(spark, source / "file.parquet", (b"1", b"2", b"x"), (0, 1) * 20)
        convert_to_deltalake(str(source))
        copies = ComputedCopies(spark, source, folder / f"used{next(numbers)}", ("id", select), Watched)

        done = copies.stage()

        assert (Watched.by_value, len(done.copied)) == (0, 1)
        assert copies.staged(done) == copies.decoded()


class ChangedTable:
    """A target whose columns change."""

    def __init__(self, sink):
        self.sink = sink

    def stored_columns(self, *given):
        """See `SupportsCopies`."""
        return self.sink.stored_columns(*given)


class TestSharedValues:
    """Files of one writer share their distinct values, so that one task computes them all."""

    def test_each_file_keeps_its_bounds_and_its_nulls(self, spark, folder):
        """One value becomes null: only its file is computed for each row."""
        source = folder / "shared"
        for number, values in enumerate(("1, 2, null", "2, 3, 2", "7, 2, 2")):
            rows = "id", f"if(id < 0, null, element_at(array({values}), int(id % 3 + 1))) AS i"
            spark.range(0, 120, 1, 1).selectExpr(*rows).write.mode("append").parquet(str(source / f"part={number}"))
        copied = source.with_name("flat")
        copied.mkdir()
        for file in source.rglob("*.parquet"):
            file.rename(copied / f"{file.parent.name[-1]}.parquet")
        convert_to_deltalake(str(copied))
        copies = ComputedCopies(spark, copied, folder / "each", ("id", "nullif(i, 3) AS n"), Watched)

        done = copies.stage()

        assert (Watched.values_files, Watched.by_value, len(done.copied)) == (1, 2, 3)
        assert copies.staged(done) == copies.decoded()
        for copy in done.copied:
            (chunk,) = (
                chunk.getStatistics()
                for chunk in Footers(spark).read(copy.staged.path).java.getBlocks().get(0).getColumns()
                if chunk.getPath().toDotString() == "n"
            )
            bounds = chunk.minAsString(), chunk.maxAsString(), chunk.getNumNulls()
            rows = spark.read.parquet(copy.staged.path)
            assert bounds == tuple(rows.selectExpr("'' || min(n)", "'' || max(n)", "count_if(n IS NULL)").first())

    def test_later_files_use_the_columns_that_earlier_ones_computed(self, spark, folder):
        """Spark computes values again only if one of them is new."""
        source = folder / "later"
        rows = "id", "if(id < 0, null, cast(if(id < 240, id % 3, id % 4) AS string)) AS s"
        spark.range(0, 360, 1, 3).selectExpr(*rows).write.parquet(str(source))
        convert_to_deltalake(str(source))
        copies = ComputedCopies(spark, source, folder / "three", ("id", "concat(s, '!') AS c"), Watched)
        planned, computed = sorted(copies.planned, key=lambda copy: copy.file.path), copies.made()
        copies.computed = lambda *_: computed

        for file, values_files in zip(planned, (1, 0, 1), strict=True):
            copies.planned = [file]
            done = copies.stage()

            assert (Watched.values_files, Watched.by_value) == (values_files, 1)
            assert copies.staged(done) == copies.decoded()

    def test_a_null_after_files_without_nulls_is_computed(self, spark, folder):
        """Earlier files tell nothing about it: here it gets a value."""
        source = folder / "nulls"
        rows = "id", "if(id < 240, cast(id % 2 AS string), nullif('0', cast(id % 2 AS string))) AS s"
        spark.range(0, 480, 1, 2).selectExpr(*rows).write.parquet(str(source))
        convert_to_deltalake(str(source))
        copies = ComputedCopies(spark, source, folder / "both", ("id", "if(s IS NULL, 'none', s) AS c"), Watched)
        planned, computed = sorted(copies.planned, key=lambda copy: copy.file.path), copies.made()
        copies.computed = lambda *_: computed

        for file, by_value in zip(planned, (1, 0), strict=True):
            copies.planned = [file]
            done = copies.stage()

            assert Watched.by_value == by_value
            assert copies.staged(done) == copies.decoded()

    def test_columns_with_another_definition_are_computed_again(self, spark, folder):
        """Another writer may change the table while the job runs."""
        source = folder / "defined"
        spark.range(0, 240, 1, 2).selectExpr("id", "cast(id % 3 AS string) AS s").write.parquet(str(source))
        convert_to_deltalake(str(source))
        before, after = (
            ComputedCopies(spark, source, folder / f"with-{name}", ("id", f"cast({name}(s) AS {name}) AS c"), Watched)
            for name in ("string", "binary")
        )
        table, planned = ChangedTable(before.sink), before.planned
        computed = Watched(spark, before.transform, before.source, table)
        before.computed = lambda *_: computed
        before.planned = planned[:1]
        before.stage()
        table.sink = after.sink

        before.planned = planned[1:]
        done = before.stage()

        assert Watched.values_files == 1
        (staged,) = done.copied
        assert spark.read.parquet(staged.staged.path).schema["c"].dataType.typeName() == "binary"

    def test_files_of_two_partitions_do_not_share(self, spark, folder):
        """An expression may read the value of the partition."""
        source = folder / "partitions"
        rows = "id", "cast(id % 3 AS string) AS s", "id % 2 AS p"
        spark.range(0, 400, 1, 1).selectExpr(*rows).write.format("delta").partitionBy("p").save(str(source))
        copies = ComputedCopies(spark, source, folder / "of-both", ("id", "concat(p, s) AS c"), Watched)

        done = copies.stage()

        assert (Watched.values_files, Watched.by_value, len(done.copied)) == (2, 2, 2)
        staged = spark.read.parquet(*(copy.staged.path for copy in done.copied))
        assert staged.where("c = concat(id % 2, id % 3)").count() == staged.count() == 400

    def test_their_number_is_bounded(self, spark, folder):
        """One task computes them; the values of a single file are never divided."""
        source = folder / "many"
        spark.range(0, 400, 1, 4).selectExpr("id", "id % 20 + id div 100 AS i").write.parquet(str(source))
        footers, dictionaries = Footers(spark), Dictionaries(spark)

        def members(most):
            files = [footers.read(str(path)) for path in sorted(source.glob("*.parquet"))]
            return [
                shared.members for shared in dictionaries.shared([dictionaries.of(file, {"i"}) for file in files], most)
            ]

        assert members(100) == [[0, 1, 2, 3]]
        assert members(40) == [[0, 1], [2, 3]]
        assert members(1) == [[0], [1], [2], [3]]


def write_dictionary(spark, path, values, numbers):
    """Write a file with an `id` and a text `s`: a dictionary, and the number of each row's value in it."""
    path.parent.mkdir()
    jvm = java(spark)
    parquet_java = jvm.org.apache.parquet
    schema = parquet_java.schema.MessageTypeParser.parseMessageType(
        "message spark_schema { required int64 id; optional binary s (STRING); }"
    )
    file = parquet_java.io.LocalOutputFile(jvm.java.io.File(str(path)).toPath())
    mode = getattr(parquet_java.hadoop, "ParquetFileWriter$Mode").CREATE
    writer = parquet_java.hadoop.ParquetFileWriter(file, schema, mode, 1 << 27, 0)
    codec, encoding = parquet_java.hadoop.metadata.CompressionCodecName.UNCOMPRESSED, parquet_java.column.Encoding
    count = len(numbers)

    def page(content, values_encoding):
        given = getattr(parquet_java.bytes.BytesInput, "from")(content)
        writer.writeDataPage(count, len(content), given, encoding.RLE, encoding.RLE, values_encoding)

    writer.start()
    writer.startBlock(count)
    writer.startColumn(schema.getColumns().get(0), count, codec)
    page(b"".join(row.to_bytes(8, "little") for row in range(count)), encoding.PLAIN)
    writer.endColumn()
    writer.startColumn(schema.getColumns().get(1), count, codec)
    plain = b"".join(len(value).to_bytes(4, "little") + value for value in values)
    dictionary = getattr(parquet_java.bytes.BytesInput, "from")(plain)
    writer.writeDictionaryPage(
        parquet_java.column.page.DictionaryPage(dictionary, len(values), encoding.PLAIN_DICTIONARY)
    )
    runs = b"".join(bytes((2, number)) for number in numbers)  # runs of one value each
    page(bytes((2, 0, 0, 0, 2 * count, 1)) + bytes((2,)) + runs, encoding.PLAIN_DICTIONARY)
    writer.endColumn()
    writer.endBlock()
    writer.end(jvm.java.util.HashMap())
