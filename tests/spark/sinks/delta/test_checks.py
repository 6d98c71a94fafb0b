"""Checks of a target on plain values, without a table or a session."""

import json
from typing import ClassVar

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    VariantType,
)

from backfill_core.errors import (
    KeyInvalidError,
    TargetIsSourceError,
    TargetSchemaMismatchError,
    UnsupportedTargetFeatureError,
)
from backfill_spark.delta.properties import VECTORS_ON
from backfill_spark.delta.types import nullable
from backfill_spark.sinks.delta import checks
from backfill_spark.sinks.delta.create import planned_table
from backfill_spark.sinks.delta.new_table import check_new
from backfill_spark.sinks.delta.table import TargetTable

ID = StructField("id", LongType())
NAME = StructField("name", StringType())


def schema(*fields):
    return StructType([ID, *fields])


def table(*fields, partitions=(), features=(), **properties):
    return TargetTable("/t", schema(*fields), partitions, properties, frozenset(features))


def marked(key, value="x", data_type=None):
    return StructField("name", data_type or StringType(), metadata={key: value})


class TestColumnsThatASealCannotHonour:
    """The error names the column, at any depth, and has a hint."""

    @pytest.mark.parametrize(
        ("key", "message"),
        [
            ("delta.identity.start", "an identity column"),
            ("delta.generationExpression", "a generated column"),
            ("delta.invariants", "a column invariant"),
            ("__CHAR_VARCHAR_TYPE_STRING", "a length limit"),
        ],
    )
    @pytest.mark.parametrize(
        ("wrap", "path"),
        [
            (lambda field: field, "name"),
            (lambda field: StructField("s", StructType([field])), "s.name"),
            (lambda field: StructField("l", ArrayType(StructType([field]))), "l.element.name"),
            (lambda field: StructField("m", MapType(StringType(), StructType([field]))), "m.value.name"),
        ],
        ids=["top", "struct", "list", "map"],
    )
    def test_columns_that_a_seal_cannot_honour_are_refused(self, key, message, wrap, path):
        """Kernel would silently write wrong values."""
        with pytest.raises(UnsupportedTargetFeatureError, match=f"{message}.*: {path},") as refusal:
            checks.check_table(table(wrap(marked(key))), upserts=False)
        assert refusal.value.hint

    @pytest.mark.parametrize("wrap", [lambda kind: kind, ArrayType, lambda kind: StructType([StructField("x", kind)])])
    def test_strings_with_a_collation_are_refused(self, wrap):
        """Bounds of files compare bytes, and readers skip files by them. A new table has no such column either."""
        lower = schema(StructField("name", wrap(StringType("UTF8_LCASE"))))
        there = StructType.fromJson(json.loads(lower.json()))

        with pytest.raises(UnsupportedTargetFeatureError, match=r"a collation: name"):
            checks.check_table(TargetTable("/t", there, (), {}, frozenset()), upserts=False)
        with pytest.raises(TargetSchemaMismatchError, match=r"'name' has strings with a collation"):
            check_new(lower, partition_by=(), cluster_by=(), properties={})

    def test_a_nested_not_null_is_refused(self):
        """A commit cannot check nested values."""
        inner = StructType([StructField("a.b", LongType(), nullable=False)])

        with pytest.raises(UnsupportedTargetFeatureError, match=r"a nested NOT NULL: s\.a\.b"):
            checks.check_table(table(StructField("s", inner)), upserts=False)

    def test_columns_that_a_seal_can_honour_are_taken(self):
        """A check that is too strict would refuse good tables."""
        changed = {"delta.typeChanges": [{"fromType": "integer", "toType": "long"}], "comment": "x"}
        fine = (
            StructField("a.b", LongType(), nullable=False),
            StructField("w", LongType(), metadata=changed),
            StructField("l", ArrayType(StructType([NAME]))),
        )

        checks.check_table(table(*fine, features={"typeWidening", "deletionVectors"}), upserts=True)


class TestAChangeFeedOfTheTarget:
    """Delta's MERGE fails at a column name with a backtick, after the whole copy."""

    FEED: ClassVar = {"delta.enableChangeDataFeed": "TRUE"}

    def test_the_feed_is_refused_with_a_backtick_in_a_name(self):
        """The user must learn the column before the first write."""
        with pytest.raises(UnsupportedTargetFeatureError, match=r"change feed.*'a`b'") as refusal:
            checks.check_change_feed("/t", ["id", "a`b"], self.FEED)
        assert "AS in spec.transform.select" in refusal.value.hint

    @pytest.mark.parametrize(("name", "properties"), [("a`b", {}), ("a b", FEED), ("a`b", {"x": "true"})])
    def test_the_feed_with_other_names_is_taken(self, name, properties):
        """Without the feed, or with any other unusual name, the MERGE works."""
        checks.check_change_feed("/t", ["id", name], properties)


class TestAColumnWithTheNameOfSparksOwn:
    """Delta's MERGE finds rows by `_metadata`, and fails at the first update, after the whole copy (fault B10)."""

    @pytest.mark.parametrize("name", ["_metadata", "_METADATA"])
    @pytest.mark.parametrize("property", ["delta.enableDeletionVectors", "delta.enableRowTracking"])
    def test_the_column_is_refused_with_the_property(self, name, property):
        """The user must learn both before the first write."""
        with pytest.raises(UnsupportedTargetFeatureError, match=rf"{property}.*'{name}'") as refusal:
            checks.check_merge("/t", ["id", name], {property: "true"})
        assert "AS in spec.transform.select" in refusal.value.hint

    @pytest.mark.parametrize(
        ("name", "properties"),
        [
            ("_metadata", {"delta.enableDeletionVectors": "false"}),
            ("_metadata_", {"delta.enableDeletionVectors": "true"}),
        ],
    )
    def test_the_column_is_taken_elsewhere(self, name, properties):
        """A MERGE without the properties does not read Spark's column."""
        checks.check_merge("/t", ["id", name], properties)


class TestAPartitionColumnThatDeltaDoesNotFind:
    """Delta's filters treat backticks at the ends of a name as quotes, and drop every file."""

    @pytest.mark.parametrize("name", ["`a`", "`a", "a`"])
    def test_the_partition_column_is_refused(self, name):
        """A MERGE by such a key would add each row once more."""
        with pytest.raises(TargetSchemaMismatchError, match=r"begins or ends with a backtick"):
            checks.check_partitions("/t", StructType([StructField(name, LongType())]), (name,))

    def test_other_columns_are_taken(self):
        """Delta finds a name with a backtick inside.

        A name with outer backticks is fine for a column that is no partition.
        """
        schema = StructType([StructField("a`b", LongType()), StructField("`c`", LongType())])
        checks.check_partitions("/t", schema, ("a`b",))


class TestPropertiesThatASealCannotHonour:
    """The checks apply to an existing table and to properties in the spec of a new one."""

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("delta.columnMapping.mode", "id"),
            ("delta.constraints.positive", "id > 0"),
            ("delta.enableIcebergCompatV1", "true"),
            ("delta.enableIcebergCompatV2", "TRUE"),
            ("delta.enableIcebergCompatV3", "true"),
            ("delta.universalFormat.enabledFormats", "iceberg"),
            ("delta.coordinatedCommits.commitCoordinator-preview", "dynamodb"),
            ("DELTA.RedirectWriterOnly-preview", "{}"),
        ],
    )
    def test_these_properties_are_refused_by_name(self, name, value):
        """The user must learn which property to remove."""
        for what in ("/t", "spec.target.delta.properties"):
            with pytest.raises(UnsupportedTargetFeatureError) as refusal:
                checks.check_properties(what, {name: value}, upserts=False)
            assert what in str(refusal.value)
            assert name.removeprefix("delta.constraints.") in str(refusal.value)

    def test_an_append_only_table_takes_no_upserts(self):
        """Delta would refuse the first MERGE, after the whole copy."""
        checks.check_properties("/t", {"delta.appendOnly": "true"}, upserts=False)

        with pytest.raises(UnsupportedTargetFeatureError, match=r"delta\.appendOnly"):
            checks.check_properties("/t", {"delta.appendOnly": "true"}, upserts=True)

    def test_a_feature_that_staged_files_break_is_refused(self):
        """The product's files contain no partition columns."""
        with pytest.raises(UnsupportedTargetFeatureError, match="materialized partition columns"):
            checks.check_table(table(features={"materializePartitionColumns"}), upserts=False)

    def test_a_property_that_is_off_does_not_matter(self):
        """A property with the value false requires nothing."""
        checks.check_properties(
            "/t", {"delta.enableIcebergCompatV2": "false", "delta.appendOnly": "false"}, upserts=True
        )


class TestColumnsThatAreNotYielded:
    """Columns of the target that the transform does not yield would be null in the new rows."""

    @pytest.mark.parametrize(
        ("field", "message"),
        [
            (StructField("name", StringType(), nullable=False), "'name' of the target must not be null"),
            (marked("CURRENT_DEFAULT", "'none'"), "'name' of the target has the default 'none'"),
        ],
    )
    def test_missing_columns_are_refused_where_null_is_wrong(self, field, message):
        """Each row would break the constraint."""
        with pytest.raises(TargetSchemaMismatchError, match=message):
            checks.check_schema(schema(), schema(field))
        checks.check_schema(schema(NAME), schema(field))

    def test_missing_columns_are_fine_where_null_is_right(self):
        """A target may have more columns than the source."""
        checks.check_schema(schema(), schema(NAME))


class TestTheLayoutInAPlan:
    """A user reads the target's layout in a plan before the start (fault U10)."""

    def test_the_layout_names_columns_and_features_of_readers(self):
        """A column's type may require a feature of readers, too."""
        made = planned_table("/t", StructType([NAME, StructField("at", TimestampNTZType())]), (), {VECTORS_ON: "true"})
        shown = made.described(("name",))

        assert (shown.columns, shown.cluster_by) == ("name string, at timestamp_ntz", ("name",))
        assert shown.reader_features == ("deletionVectors", "timestampNtz")

    def test_the_layout_of_many_columns_names_the_first(self):
        """A pod's termination message is limited to 4 KiB."""
        wide = StructType([StructField(f"column_{number:04}", LongType()) for number in range(2000)])

        shown = planned_table("/t", wide, (), {}).described(())

        assert shown.columns.startswith("column_0000 bigint, column_0001 bigint, ")
        assert shown.columns.endswith(" more")
        assert len(shown.columns) < 1500


class TestPartitions:
    """The value of a partition column names its folder."""

    @pytest.mark.parametrize(
        "data_type", [BinaryType(), ArrayType(LongType()), VariantType()], ids=lambda data_type: data_type.typeName()
    )
    def test_partitions_by_types_that_cannot_name_a_folder_are_refused(self, data_type):
        """The first write would fail with an error of Spark."""
        column = StructField("p", data_type)

        with pytest.raises(TargetSchemaMismatchError, match=r"partitionBy: column 'p'"):
            checks.check_layout(schema(column), partition_by=("p",), cluster_by=())
        with pytest.raises(TargetSchemaMismatchError, match="/t: column 'p'"):
            checks.check_table(table(column, partitions=("p",)), upserts=False)

    @pytest.mark.parametrize(
        ("columns", "partitions", "message"),
        [
            ([NAME], ("p",), "the source is partitioned by 'p', which spec.transform.select leaves out"),
            ([StructField("p", BinaryType()), NAME], ("p",), "the source's partitions: column 'p' is binary"),
            ([NAME], (NAME.name,), "only the partition columns of the source"),
        ],
    )
    def test_partitions_of_the_source_name_no_field_that_the_user_did_not_write(self, columns, partitions, message):
        """A replica has the partitions of its source: `partitionBy` may not be set with it (fault D4)."""
        selected = StructType(columns)

        with pytest.raises(TargetSchemaMismatchError, match=message) as refused:
            checks.check_layout(selected, partition_by=partitions, cluster_by=(), follows=True)
        assert "partitionBy" not in f"{refused.value.message} {refused.value.hint}"

    def test_the_field_of_the_spec_is_named(self):
        """The suggestion corrects a typing error."""
        with pytest.raises(TargetSchemaMismatchError, match=r"clusterBy names 'nme'.*Did you mean 'name'"):
            checks.check_layout(schema(NAME), partition_by=(), cluster_by=("nme",))


class TestKeys:
    """An Upsert matches by plain columns of the target."""

    @pytest.mark.parametrize(
        ("key", "message"),
        [((), "needs a key"), (("nme",), "Did you mean 'name'"), (("l",), "'l' is nested")],
    )
    def test_other_keys_are_refused(self, key, message):
        """A key that cannot be compared matches no row."""
        with pytest.raises(KeyInvalidError, match=message):
            checks.check_key(schema(NAME, StructField("l", ArrayType(IntegerType()))), key)


class TestFoldersOfTheirOwn:
    """A VACUUM of a table removes every file in its folder that the table does not name."""

    @pytest.mark.parametrize(
        ("source", "target", "message"),
        [
            ("file:/a/s", "file:/a/s", "the same table"),
            ("file:/a/s", "file:/a/s/copy", "the target lies inside the source's folder"),
            ("s3a://b/t/in", "s3a://b/t", "the source lies inside the target's folder"),
        ],
    )
    def test_nested_folders_are_refused(self, source, target, message):
        """A VACUUM of one table would delete the other."""
        with pytest.raises(TargetIsSourceError, match=message):
            checks.check_apart(source, target)

    @pytest.mark.parametrize(
        ("source", "target"), [("file:/a/s", "file:/a/s2"), ("file:/a/s", "s3a://a/s"), ("s3a://a/s", "s3a://b/s")]
    )
    def test_adjacent_folders_are_fine(self, source, target):
        """Most lakes keep tables side by side."""
        checks.check_apart(source, target)


class TestTablesOfOurs:
    """No field of a new table is NOT NULL, at any depth: an expression that is never null today may be null tomorrow."""

    def test_every_part_may_be_null(self):
        """A later change may bring a null."""
        inner = StructType([StructField("a", LongType(), nullable=False)])
        made = nullable(
            StructType(
                [
                    StructField("s", inner, nullable=False),
                    StructField("l", ArrayType(inner, containsNull=False)),
                    StructField("m", MapType(StringType(), inner, valueContainsNull=False)),
                ]
            )
        )

        assert all(field.nullable for _, field in checks.every_field(made))
        assert made["l"].dataType.containsNull
        assert made["m"].dataType.valueContainsNull
        assert [name for name, _ in checks.every_field(made)] == ["s", "s.a", "l", "l.element.a", "m", "m.value.a"]
