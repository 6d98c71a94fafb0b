"""Checks of a target before anything is written: pure functions of the table and the spec.

A staged file is a plain Parquet file: nothing between Spark and the commit looks at its values. So whatever Delta
would enforce, compute or convert while it writes is refused here, or guarded while rows are staged (`sink.stage`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StructType, VariantType

from backfill_core.errors import (
    KeyInvalidError,
    TargetIsSourceError,
    TargetSchemaMismatchError,
    UnsupportedTargetFeatureError,
)
from backfill_core.log_shipping.columns import DEFAULT
from backfill_spark.delta.properties import MAPPING_MODE, ROW_TRACKING, VECTORS_ON, is_on, names_place, value
from backfill_spark.delta.table_facts import every_field, is_collated
from backfill_spark.rows.columns import instead
from backfill_spark.sinks.delta.table import TargetTable

ANOTHER = "Use a target without it."
FIELDS = {
    "delta.identity.start": ("an identity column", ANOTHER),
    "delta.generationExpression": ("a generated column", ANOTHER),
    "delta.invariants": ("a column invariant", ANOTHER),
    "__CHAR_VARCHAR_TYPE_STRING": (
        "a length limit (CHAR or VARCHAR)",
        "Alter the column to STRING, and limit it in spec.transform.",
    ),
}
"""Metadata of a column that a commit of plain files cannot honour: its name, and the hint."""

ICEBERG = ("delta.enableIcebergCompatV1", "delta.enableIcebergCompatV2", "delta.enableIcebergCompatV3")
CONSTRAINTS = "delta.constraints."
CHANGE_FEED = "delta.enableChangeDataFeed"
UNIFORM = "delta.universalFormat.enabledFormats"
FILE_METADATA = "_metadata"
"""Column of Spark that names the file of a row, and the row's place in it."""

BY_PLACE = (VECTORS_ON, ROW_TRACKING)
"""Properties of tables whose MERGE reads that column."""

FEATURES = {"materializePartitionColumns": "materialized partition columns"}
"""Features that Kernel writes, and our staged files would not honour."""


def check_apart(source: str, target: str) -> None:
    """Refuse a target that is the source, or lies inside it, or around it; both as qualified URIs.

    Raises:
        TargetIsSourceError: says which.
    """
    if source == target:
        raise TargetIsSourceError(
            f"source and target are the same table, {target}.", hint="Change spec.target.delta.path."
        )
    for inner, outer, words in (
        (target, source, "the target lies inside the source's folder"),
        (source, target, "the source lies inside the target's folder"),
    ):
        if inner.startswith(f"{outer}/"):
            raise TargetIsSourceError(
                f"{words}, {outer}: a VACUUM of the outer table removes the files of the inner one.",
                hint="Change spec.target.delta.path.",
            )


def check_key(schema: StructType, key: tuple[str, ...]) -> None:
    """Refuse a key that an Upsert cannot match by.

    Raises:
        KeyInvalidError: names the column.
    """
    if not key:
        raise KeyInvalidError("an Upsert target needs a key.", hint="Set spec.source.delta.key.")
    for column in key:
        if column not in schema.names:
            raise KeyInvalidError(
                f"the key column {column!r} is not in what the transform yields.", hint=instead(column, schema.names)
            )
        if isinstance(schema[column].dataType, MapType | ArrayType | StructType | VariantType):
            raise KeyInvalidError(f"the key column {column!r} is nested.", hint="Use plain columns as key.")


def check_layout(
    wanted: StructType, *, partition_by: tuple[str, ...], cluster_by: tuple[str, ...], follows: bool = False
) -> None:
    """Refuse partitions and clusters that a table with these columns cannot have.

    Args:
        wanted: Columns of the target.
        partition_by: Partition columns: those of the spec, or of the source.
        cluster_by: Clustering columns of the spec.
        follows: Are the partitions those of the source, because a strategy ships its log?

    Raises:
        TargetSchemaMismatchError: names the column, and the field of the spec if a user wrote it.
    """
    if follows:
        _check_followed_partitions(wanted, partition_by)
        return
    for name, columns in (("partitionBy", partition_by), ("clusterBy", cluster_by)):
        for column in columns:
            if column not in wanted.names:
                raise TargetSchemaMismatchError(
                    f"spec.target.delta.{name} names {column!r}, which the transform does not yield.",
                    hint=instead(column, wanted.names),
                )
    check_partitions("spec.target.delta.partitionBy", wanted, partition_by)


def _check_followed_partitions(wanted: StructType, partitions: tuple[str, ...]) -> None:
    for column in partitions:
        if column not in wanted.names:
            raise TargetSchemaMismatchError(
                f"the source is partitioned by {column!r}, which spec.transform.select leaves out or renames; "
                "the target of this strategy has the partitions of its source.",
                hint=f"Add {column} to spec.transform.select, or use another strategy.",
            )
    if partitions and len(wanted.names) == len(partitions):
        raise TargetSchemaMismatchError(
            f"spec.transform.select yields only the partition columns of the source ({', '.join(partitions)}), and a file "
            "must have another column.",
            hint="Add a column to spec.transform.select, or use another strategy.",
        )
    check_partitions("the source's partitions", wanted, partitions, hint="Use another strategy.")


def check_partitions(what: str, schema: StructType, partitions: tuple[str, ...], *, hint: str = "") -> None:
    """Refuse partition columns whose values a folder's name cannot hold, or whose name Delta's filters do not find.

    Raises:
        TargetSchemaMismatchError: names the column.
    """
    for column in partitions:
        if isinstance(schema[column].dataType, BinaryType | MapType | ArrayType | StructType | VariantType):
            raise TargetSchemaMismatchError(
                f"{what}: column {column!r} is {schema[column].dataType.simpleString()}, "
                "and a partition is a folder with the value as its name.",
                hint=hint or "Partition by another column, or by a text made of this one.",
            )
        if column.strip("`") != column:
            raise TargetSchemaMismatchError(
                f"{what}: the name {column!r} begins or ends with a backtick, and Delta's filters lose the rows of such a "
                "partition column.",
                hint=hint or "Name the column otherwise with AS in spec.transform.select.",
            )


def check_properties(what: str, properties: Mapping[str, str], *, upserts: bool) -> None:
    """Refuse table properties that a commit of plain files cannot honour.

    Args:
        what: Whose they are: the table's path, or the field of the spec.
        properties: Of a table that exists, or is to be made.
        upserts: Are rows of the target changed?

    Raises:
        UnsupportedTargetFeatureError: names the property.
    """
    if value(properties, MAPPING_MODE) == "id":
        raise _unsupported(what, f"column mapping by id ({MAPPING_MODE})", "Use column mapping by name.")
    for name in properties:
        if name.lower().startswith(CONSTRAINTS):
            words = f"the check constraint {name[len(CONSTRAINTS) :]}"
            raise _unsupported(what, words, "Drop it, and filter with spec.transform.where.")
    place = names_place(properties)
    if place is not None:
        raise _unsupported(what, f"a property that names a server or another table ({place})", ANOTHER)
    for name in ICEBERG:
        if is_on(properties, name):
            raise _unsupported(what, f"Iceberg compatibility ({name})", ANOTHER)
    if value(properties, UNIFORM):
        raise _unsupported(what, f"a second format ({UNIFORM} = {value(properties, UNIFORM)})", ANOTHER)
    if upserts and is_on(properties, "delta.appendOnly"):
        raise _unsupported(
            what, "delta.appendOnly, and an Upsert changes rows", "Use writeMode Append or Changelog, or unset it."
        )


def check_merge(what: str, names: Sequence[str], properties: Mapping[str, str]) -> None:
    """Refuse a column whose name Delta's MERGE cannot have in a table with these properties.

    Raises:
        UnsupportedTargetFeatureError: names the column.
    """
    check_change_feed(what, names, properties)
    check_file_metadata(what, names, properties)


def check_change_feed(what: str, names: Iterable[str], properties: Mapping[str, str]) -> None:
    """Refuse a column that a MERGE cannot write into the target's own change feed: Delta spells its name without quotes.

    Raises:
        UnsupportedTargetFeatureError: names the column.
    """
    named = next((name for name in names if "`" in name), None)
    if named is not None and is_on(properties, CHANGE_FEED):
        raise UnsupportedTargetFeatureError(
            f"{what} has a change feed ({CHANGE_FEED}), into which Delta's MERGE cannot write column {named!r}: "
            "its name has a backtick.",
            hint="Name the column otherwise with AS in spec.transform.select, or use a target without a change feed.",
        )


def check_file_metadata(what: str, names: Iterable[str], properties: Mapping[str, str]) -> None:
    """Refuse a column that has the name of the column by which Delta's MERGE finds rows in files.

    Raises:
        UnsupportedTargetFeatureError: names the column and the property.
    """
    named = next((name for name in names if name.lower() == FILE_METADATA), None)
    needs = next((name for name in BY_PLACE if is_on(properties, name)), None)
    if named is not None and needs is not None:
        raise UnsupportedTargetFeatureError(
            f"{what} has {needs}, with which Delta's MERGE needs the name of column {named!r} for itself.",
            hint=f"Name the column otherwise with AS in spec.transform.select, or use a target with {needs}: 'false'.",
        )


def check_table(table: TargetTable, *, upserts: bool) -> None:
    """Refuse an existing table that a commit of plain files cannot honour.

    Raises:
        UnsupportedTargetFeatureError, TargetSchemaMismatchError: names the feature and the column.
    """
    check_properties(table.path, table.properties, upserts=upserts)
    for feature in sorted(table.features & FEATURES.keys()):
        raise _unsupported(table.path, FEATURES[feature], ANOTHER)
    for name, field in every_field(table.schema):
        for key, (words, hint) in FIELDS.items():
            if key in field.metadata:
                raise _unsupported(table.path, f"{words}: {name}", hint)
    for column in table.schema:
        if is_collated(column.dataType):
            raise _unsupported(
                table.path, f"a collation: {column.name}", "Use a target whose texts compare byte by byte."
            )
        for name, field in every_field(column.dataType, f"{column.name}."):
            if not field.nullable:
                raise _unsupported(table.path, f"a nested NOT NULL: {name}", "Alter the field to DROP NOT NULL.")
    check_partitions(table.path, table.schema, table.partitions)


def check_schema(wanted: StructType, table: StructType) -> None:
    """Refuse a table that lacks a column of the transform, or needs one that the transform does not yield.

    Raises:
        TargetSchemaMismatchError: names the column.
    """
    theirs = {field.name: field for field in table}
    for field in wanted:
        if field.name not in theirs:
            raise TargetSchemaMismatchError(
                f"the target has no column {field.name!r}.", hint=instead(field.name, table.names)
            )
        if _plain(theirs[field.name].dataType) != _plain(field.dataType):
            raise TargetSchemaMismatchError(
                f"column {field.name!r} is {theirs[field.name].dataType.simpleString()} in the target, "
                f"the transform yields {field.dataType.simpleString()}.",
                hint="Cast it in spec.transform.select.",
            )
    for field in table:
        if field.name in wanted.names:
            continue
        if not field.nullable:
            words = "must not be null"
        elif DEFAULT in field.metadata:
            words = f"has the default {field.metadata[DEFAULT]}, which a commit of staged files does not fill in"
        else:
            continue
        raise TargetSchemaMismatchError(
            f"column {field.name!r} of the target {words}, and the transform does not yield it.",
            hint="Add it to spec.transform.select.",
        )


def _unsupported(what: str, feature: str, hint: str) -> UnsupportedTargetFeatureError:
    return UnsupportedTargetFeatureError(
        f"{what} has {feature}, which a commit of staged files cannot honour.", hint=hint
    )


def _plain(data_type: DataType) -> str:
    """Return a type as it is written, without nullability, which differs for no reason that matters here."""
    return data_type.simpleString().lower()
