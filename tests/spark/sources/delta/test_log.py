"""A source's log may contain any string, any spelling of a property, and comments on columns.

Invalid commits are named.
"""

import gc
import json
import tracemalloc
from pathlib import Path

import pytest
from deltalake import DeltaTable, QueryBuilder
from support.tables.jobs import job, make_kind, make_orders
from support.tables.logs import forget_sums
from support.tables.oracle import rows_in

from backfill_core.errors import SchemaChangedError, SourceDamagedError
from backfill_spark.delta.log import files_at, lines_of, table_at
from backfill_spark.delta.properties import is_on, value
from backfill_spark.driver.attempt import run_driver
from backfill_spark.settings import DriverSettings
from backfill_spark.sources.delta.source import DeltaTableSource

ODD = ("next\u0085line", "line\u2028", "\u2029paragraph", "form\x0cfeed", "group\x1dseparator", "a\r\nb")
"""Characters at which some languages end a line."""


def opened(spark, path, **options):
    source = DeltaTableSource(spark, str(path), key=("id",), **options)
    source.pin(None)
    return source


def commit(path, version):
    return Path(path, "_delta_log", f"{version:020d}.json")


class TestAnyText:
    """A line of the log ends with a line feed, and with no character that a value may contain."""

    def test_any_string_in_statistics_partitions_and_commits_is_read(self, spark, tmp_path):
        """Python ends lines at characters that JSON allows."""
        path = str(tmp_path / "s")
        rows = spark.createDataFrame(list(enumerate(ODD)), "id long, text string").selectExpr("id", "text", "text AS p")
        writer = rows.coalesce(1).write.format("delta").option("delta.enableChangeDataFeed", "true")
        writer.option("userMetadata", "".join(ODD)).partitionBy("p").save(path)
        source = opened(spark, path)
        DeltaTable(path).update(updates={"text": "text || 'é\u2028'"}, predicate="id < 3")
        upto = source.head().position
        source.check_versions(0, upto)

        assert any(character in commit(path, 0).read_text() for character in "\u0085\u2028\u2029")
        assert sum(file.rows for file in files_at(spark, path, 0, nulls_of=[])) == rows_in(path) == len(ODD)
        changed = {
            row["id"]: row["text"] for row in source.changes(0, upto).where("_change_type LIKE '%post%'").collect()
        }
        expected = (
            QueryBuilder().register("t", DeltaTable(path)).execute("SELECT id, text FROM t WHERE id < 3").read_all()
        )
        assert changed == dict(zip(expected["id"].to_pylist(), expected["text"].to_pylist(), strict=True))
        assert changed[1] == "line\u2028é\u2028"

    def test_only_line_feeds_end_a_line(self):
        """JSON allows other characters that end a line in Python."""
        text = "".join(json.dumps({"a": value}, ensure_ascii=False) + "\n" for value in ODD)

        assert [json.loads(line)["a"] for line in lines_of(text)] == list(ODD)
        assert lines_of("\n \n") == []


class TestWordsAboutColumns:
    """Comments and names in files do not change a column's type."""

    def test_a_comment_and_column_mapping_change_no_type(self, spark, tmp_path):
        """A comment on a column must not end a job."""
        path = str(tmp_path / "s")
        spark.sql(
            "SELECT id, named_struct('x', id, 'y', array(named_struct('z', 1))) AS st FROM range(3)"
        ).write.format("delta").save(path)
        source = opened(spark, path)
        spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN st.x COMMENT 'of x'")
        spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
        source.check_versions(0, source.head().position)

        spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN st.x TO w")
        with pytest.raises(SchemaChangedError, match=r"'st' changed its type: struct<x:.* became struct<w:"):
            source.check_versions(0, source.head().position)

    def test_a_column_that_was_dropped_and_added_again_is_another_one(self, spark, tmp_path):
        """Its values are gone, and no row changed."""
        path = str(tmp_path / "s")
        make_kind(spark, path, "renamed")
        source = opened(spark, path)
        spark.sql(f"ALTER TABLE delta.`{path}` DROP COLUMN title")
        spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN title STRING")
        # One commit has both changes, as REPLACE COLUMNS writes it.
        commit(path, 2).write_text(commit(path, 3).read_text())
        commit(path, 3).unlink()
        for sums in Path(path, "_delta_log").glob(".*.crc"):
            sums.unlink()

        with pytest.raises(SchemaChangedError, match="'title' was dropped and added again in version 2"):
            source.check_versions(1, 2)


MAPPED = "delta.columnMapping.mode"


def make_partitioned(spark, path, **properties):
    """Make a table of eight rows with a change feed, partitioned by b."""
    rows = spark.range(8).selectExpr("id", "concat('a', id % 2) AS a", "concat('b', id % 3) AS b", "id AS v")
    writer = rows.coalesce(1).write.format("delta").option("delta.enableChangeDataFeed", "true").partitionBy("b")
    for name, text in properties.items():
        writer = writer.option(name, text)
    writer.save(path)


def overwrite(spark, path, *, partition):
    """Keep half of the rows, in another layout."""
    half = spark.read.format("delta").load(path).where("id < 4")
    half.write.format("delta").mode("overwrite").option("overwriteSchema", "true").partitionBy(partition).save(path)


def describe_again(path, version, mode):
    """Give a version metadata: with column mapping, in which column v is another one, or without."""
    first = [json.loads(line) for line in commit(path, 0).read_text().splitlines()]
    metadata = next(action["metaData"] for action in first if "metaData" in action)
    schema = json.loads(metadata["schemaString"])
    for field in schema["fields"]:
        if mode == "none":
            field["metadata"] = {}
        elif field["name"] == "v":
            field["metadata"]["delta.columnMapping.physicalName"] = "col-other"
    metadata |= {"schemaString": json.dumps(schema), "configuration": {**metadata["configuration"], MAPPED: mode}}
    with commit(path, version).open("a") as file:
        file.write(json.dumps({"metaData": metadata}) + "\n")
    forget_sums(path)


class TestLayouts:
    """Each change is read by the layout of its files, or refused."""

    def test_refuses_other_partition_columns(self, spark, tmp_path):
        """Delta's change feed reads removed files by the new layout, but no file has its partition value (fault B3)."""
        path = str(tmp_path / "s")
        make_partitioned(spark, path)
        source = opened(spark, path)
        overwrite(spark, path, partition="a")

        with pytest.raises(SchemaChangedError, match=r"the partition columns became \['a'\] in version 1 of"):
            source.check_versions(0, 1)

    def test_reads_changes_by_the_layout_of_their_version(self, spark, tmp_path):
        """The newest version has another layout than the version of the changes (fault B3)."""
        path = str(tmp_path / "s")
        make_partitioned(spark, path)
        source = opened(spark, path)
        DeltaTable(path).update(updates={"v": "100"}, predicate="id = 1")
        overwrite(spark, path, partition="a")
        source.check_versions(0, 1)

        changed = source.changes(0, 1).select("_change_type", "id", "a", "b", "v").collect()
        assert sorted(map(tuple, changed)) == [
            ("update_postimage", 1, "a1", "b1", 100),
            ("update_preimage", 1, "a1", "b1", 1),
        ]

    def test_reads_changes_across_an_upgrade_to_column_mapping(self, spark, tmp_path):
        """The names in files stay the same, so plain Spark reads them, too."""
        path = str(tmp_path / "s")
        make_partitioned(spark, path)
        source = opened(spark, path)
        spark.sql(f"UPDATE delta.`{path}` SET v = 100 WHERE id = 1")
        spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('{MAPPED}' = 'name')")
        spark.sql(f"UPDATE delta.`{path}` SET v = 200 WHERE id = 2")
        source.check_versions(0, 3)

        changed = source.changes(0, 3).where("_change_type = 'update_postimage'").select("id", "a", "b", "v").collect()
        assert sorted(map(tuple, changed)) == [(1, "a1", "b1", 100), (2, "a0", "b2", 200)]

    def test_refuses_a_column_that_was_added_again_after_an_upgrade(self, spark, tmp_path):
        """The pinned version has no physical names: its logical names are those in files."""
        path = str(tmp_path / "s")
        make_partitioned(spark, path)
        source = opened(spark, path)
        spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('{MAPPED}' = 'name')")
        spark.sql(f"ALTER TABLE delta.`{path}` DROP COLUMN v")
        spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN v BIGINT")
        # One commit has both changes, as REPLACE COLUMNS writes it.
        commit(path, 2).write_text(commit(path, 3).read_text())
        forget_sums(path)

        with pytest.raises(SchemaChangedError, match="'v' was dropped and added again in version 2"):
            source.check_versions(0, 2)

    @pytest.mark.parametrize(
        ("mode", "message"),
        [
            ("name", "'v' was dropped and added again in version 2"),
            ("none", "'id' has another name in files in version 2"),
        ],
    )
    def test_refuses_removed_files_with_other_names(self, spark, tmp_path, mode, message):
        """Each deleted row is null if it is read by the new names.

        Other engines allow such an overwrite of a table with a change feed.
        """
        path = str(tmp_path / "s")
        make_partitioned(spark, path, **{MAPPED: "name", "delta.enableChangeDataFeed": "false"})
        # Delta refuses to write both at once.
        spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
        source = opened(spark, path)
        spark.sql(f"DELETE FROM delta.`{path}` WHERE b = 'b1'")
        describe_again(path, 2, mode)

        with pytest.raises(SchemaChangedError, match=message):
            source.check_versions(1, 2)


class TestProperties:
    """Delta stores a property unchanged, and ignores the case of letters when it reads it. So does the product."""

    def test_a_change_feed_in_capitals_counts(self, spark, tmp_path):
        """It may be on at the pin, or later."""
        for name, first in (("a", "TRUE"), ("b", "false")):
            path = str(tmp_path / name)
            make_orders(spark, path, 4, files=1)
            spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableChangeDataFeed' = '{first}')")
            source = opened(spark, path)
            assert source.pinned.change_feed is (first == "TRUE")
            if first == "false":
                spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'True')")
            spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 1")
            upto = source.head().position

            assert [row["id"] for row in source.changes(source.version, upto).collect()] == [1]

    def test_names_and_values_of_properties_ignore_case(self):
        """A property in capitals is still a property."""
        assert value({"Delta.ColumnMapping.Mode": "NAME "}, "delta.columnMapping.mode") == "name"
        assert is_on({"delta.appendOnly": "True"}, "delta.appendOnly")
        assert not is_on({}, "delta.appendOnly")


BLANK = {
    "at the end": lambda text: text + "\n",
    "in between": lambda text: text.replace("\n", "\n\n", 1),
    "at the beginning": lambda text: "\n" + text,
    "of spaces and tabs": lambda text: text.replace("\n", "\n \t \n"),
}


class TestBlankLines:
    """Blank lines of a commit mean nothing: Spark and a job skip them. Kernel cannot read such a commit (fault B6)."""

    @pytest.fixture
    def path(self, spark, tmp_path):
        path = str(tmp_path / "s")
        rows = spark.range(6).selectExpr("id", "if(id = 0, NULL, concat('p', id % 2)) AS p").coalesce(1)
        for _ in range(2):
            writer = rows.write.format("delta").option("delta.enableChangeDataFeed", "true").partitionBy("p")
            writer.mode("append").save(path)
        return path

    def edit(self, path, change):
        commit(path, 1).write_text(change(commit(path, 1).read_text()))
        forget_sums(path)
        Path(path, "_delta_log", f"{1:020d}.crc").unlink()

    @pytest.mark.parametrize("where", BLANK)
    def test_blank_lines_are_skipped(self, spark, path, where):
        """Each query of the log has a result: the newest version, its files, its layout."""
        expected = files_at(spark, path, 1, nulls_of=["id"])
        layout = table_at(spark, path, 1)
        self.edit(path, BLANK[where])
        source = opened(spark, path)

        assert (source.version, source.pinned.live_rows, source.at(1).count()) == (1, 12, 12)
        files = files_at(spark, path, 1, nulls_of=["id"])
        assert [file.path for file in files] == [file.path for file in expected]
        for file, other in zip(files, expected, strict=True):
            assert json.loads(file.action) == json.loads(other.action)
            assert (file.bytes, file.rows, file.nulls) == (other.bytes, other.rows, other.nulls)
            assert json.loads(file.statistics) == json.loads(other.statistics)
        assert table_at(spark, path, 1) == layout

    def test_commits_with_blank_lines_are_copied_and_followed_by_a_job(self, spark, path, tmp_path):
        """The job ended every attempt as `Transient`, and named no file."""
        self.edit(path, BLANK["at the end"])
        target = str(tmp_path / "t")
        outcome = run_driver(
            job(path, target, strategy={"type": "Replica"}, source={"key": []}, verify="Final"),
            settings=DriverSettings(state_dir=tmp_path / "state", cores=2), spark=spark,
        )  # fmt: skip

        assert (outcome.outcome, outcome.message, rows_in(target)) == ("Complete", "", 12)

    def test_blank_lines_do_not_hide_a_line_that_is_no_json(self, spark, path):
        """The message names the file that no engine can read."""
        self.edit(path, lambda text: f"\n# a script\n{text}")

        with pytest.raises(SourceDamagedError, match=f"{1:020d}.json"):
            opened(spark, path)


class TestManyFiles:
    """A job that follows a table for months reads commits of any size."""

    def test_the_files_of_past_versions_take_no_memory(self, spark, tmp_path):
        """Facts of 10,000 versions are kept. With their files, commits of 500 files took gigabytes of the driver."""
        path = str(tmp_path / "s")
        make_orders(spark, path, 4, files=1)
        source = opened(spark, path)
        (add,) = (json.loads(line) for line in commit(path, 0).read_text().splitlines() if line.startswith('{"add"'))
        for version in (1, 2, 3):
            paths = (f"part-{version}-{number}.parquet" for number in range(4000))
            commit(path, version).write_text(
                "".join(json.dumps({"add": add["add"] | {"path": name}}) + "\n" for name in paths)
            )
        source.check_versions(0, 1)  # loads what the first commit needs

        tracemalloc.start()
        source.check_versions(1, 3)
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()

        assert kept < 200_000
        assert len(source.appended(0, 3)) == 12_000


class TestNoCommit:
    """A truncated commit does not count as empty, and it is damage that no retry fixes."""

    @pytest.mark.parametrize(
        "text", ["", "\n", '{"commitInfo":{"oper', "[]\n", '{"metaData":{"id":"x"}}\n', '{"add":7}\n']
    )
    def test_an_invalid_commit_is_named(self, spark, tmp_path, text):
        """A guess at a damaged commit would lose its changes."""
        path = str(tmp_path / "s")
        make_orders(spark, path, 4, files=1)
        source = opened(spark, path)
        commit(path, 1).write_text(text)

        with pytest.raises(SourceDamagedError, match=r"version 1 of .* is not a valid commit"):
            source.check_versions(0, 1)
