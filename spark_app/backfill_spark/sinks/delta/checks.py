"""Checks of a target before anything is written: pure functions of the table and the spec.

A staged file is a plain Parquet file, and nothing between Spark and the commit checks its values. So features that Delta
enforces, computes or converts during a write are rejected here, or guarded while rows are staged (`sink.stage`).
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
from backfill_spark.delta.properties import (
    MAPPING_MODE,
    ROW_TRACKING,
    VECTORS,
    VECTORS_ON,
    is_on,
    names_place,
    value,
)
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
"""Column metadata that a commit of plain files cannot enforce: description and hint, by key."""

ICEBERG = ("delta.enableIcebergCompatV1", "delta.enableIcebergCompatV2", "delta.enableIcebergCompatV3")
CONSTRAINTS = "delta.constraints."
CHANGE_FEED = "delta.enableChangeDataFeed"
UNIFORM = "delta.universalFormat.enabledFormats"
REWRITTEN = "spec.target.delta.filteredRows: Rewritten"
FILE_METADATA = "_metadata"
"""Spark's metadata column with the file of a row, and the row's index in it."""

BY_PLACE = (VECTORS_ON, ROW_TRACKING)
"""Properties of tables whose MERGE reads that column."""

FEATURES = {"materializePartitionColumns": "materialized partition columns"}
"""Features that Kernel can write, but that staged files do not implement."""


def check_apart(source: str, target: str) -> None:
    """Reject a target that is the source, is inside it, or contains it; both are qualified URIs.

    Raises:
        TargetIsSourceError: describes the overlap.
    """
    if source == target:
        raise TargetIsSourceError(
            f"source and target are the same table, {target}.", hint="Change spec.target.delta.path."
        )
    for inner, outer, problem in (
        (target, source, "the target lies inside the source's folder"),
        (source, target, "the source lies inside the target's folder"),
    ):
        if inner.startswith(f"{outer}/"):
            raise TargetIsSourceError(
                f"{problem}, {outer}: a VACUUM of the outer table removes the files of the inner one.",
                hint="Change spec.target.delta.path.",
            )


def check_key(schema: StructType, key: tuple[str, ...]) -> None:
    """Reject a key by which an Upsert cannot match rows.

    Raises:
        KeyInvalidError: names the column.
    """
    if not key:
        raise KeyInvalidError("an Upsert target needs a key.", hint="Set spec.source.delta.key.")
    for column in key:
        if column not in schema.names:
            raise KeyInvalidError(
                f"the transform does not yield the key column {column!r}.", hint=instead(column, schema.names)
            )
        if isinstance(schema[column].dataType, MapType | ArrayType | StructType | VariantType):
            raise KeyInvalidError(f"the key column {column!r} is nested.", hint="Use plain columns as key.")


def check_layout(
    schema: StructType, *, partition_by: tuple[str, ...], cluster_by: tuple[str, ...], follows: bool = False
) -> None:
    """Reject partition and clustering columns that a table with these columns cannot have.

    Args:
        schema: Columns of the target.
        partition_by: Partition columns of the spec, or of the source.
        cluster_by: Clustering columns of the spec.
        follows: True if the partitions are the source's, because the strategy ships its log.

    Raises:
        TargetSchemaMismatchError: names the column, and the field of the spec if a user wrote it.
    """
    if follows:
        _check_followed_partitions(schema, partition_by)
        return
    for name, columns in (("partitionBy", partition_by), ("clusterBy", cluster_by)):
        for column in columns:
            if column not in schema.names:
                raise TargetSchemaMismatchError(
                    f"spec.target.delta.{name} names {column!r}, which the transform does not yield.",
                    hint=instead(column, schema.names),
                )
    check_partitions("spec.target.delta.partitionBy", schema, partition_by)


def _check_followed_partitions(schema: StructType, partitions: tuple[str, ...]) -> None:
    for column in partitions:
        if column not in schema.names:
            raise TargetSchemaMismatchError(
                f"the source is partitioned by {column!r}, which spec.transform.select leaves out or renames; "
                "the target of this strategy has the partitions of its source.",
                hint=f"Add {column} to spec.transform.select, or use another strategy.",
            )
    if partitions and len(schema.names) == len(partitions):
        raise TargetSchemaMismatchError(
            f"spec.transform.select yields only the partition columns of the source ({', '.join(partitions)}), and a file "
            "must have another column.",
            hint="Add a column to spec.transform.select, or use another strategy.",
        )
    check_partitions("the source's partitions", schema, partitions, hint="Use another strategy.")


def check_partitions(what: str, schema: StructType, partitions: tuple[str, ...], *, hint: str = "") -> None:
    """Reject partition columns whose values cannot be folder names, or whose name breaks Delta's filters.

    Raises:
        TargetSchemaMismatchError: names the column.
    """
    for column in partitions:
        if isinstance(schema[column].dataType, BinaryType | MapType | ArrayType | StructType | VariantType):
            raise TargetSchemaMismatchError(
                f"{what}: column {column!r} is {schema[column].dataType.simpleString()}, "
                "and a partition is a folder with the value as its name.",
                hint=hint or "Partition by another column, or by a string computed from this one.",
            )
        if column.strip("`") != column:
            raise TargetSchemaMismatchError(
                f"{what}: the name {column!r} begins or ends with a backtick, and Delta's filters lose the rows of such a "
                "partition column.",
                hint=hint or "Rename the column with AS in spec.transform.select.",
            )


def check_properties(what: str, properties: Mapping[str, str], *, upserts: bool) -> None:
    """Reject table properties that a commit of plain files cannot support.

    Args:
        what: Origin of the properties: the table's path, or the field of the spec.
        properties: Properties of an existing table, or of a table to create.
        upserts: True if rows of the target change.

    Raises:
        UnsupportedTargetFeatureError: names the property.
    """
    if value(properties, MAPPING_MODE) == "id":
        raise _unsupported(what, f"column mapping by id ({MAPPING_MODE})", "Use column mapping by name.")
    for name in properties:
        if name.lower().startswith(CONSTRAINTS):
            feature = f"the check constraint {name[len(CONSTRAINTS) :]}"
            raise _unsupported(what, feature, "Drop it, and filter with spec.transform.where.")
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


def check_hides(table: TargetTable) -> None:
    """Reject an existing or planned table whose added files cannot have deletion vectors.

    Raises:
        UnsupportedTargetFeatureError: names the property.
    """
    if VECTORS not in table.features or not is_on(table.properties, VECTORS_ON):
        raise UnsupportedTargetFeatureError(
            f"spec.target.delta.filteredRows: Hidden needs deletion vectors, which {table.path} does not support.",
            hint=f"Run ALTER TABLE … SET TBLPROPERTIES ('{VECTORS_ON}' = 'true') on an existing target, remove the property from the spec "
            f"of a new one, or set {REWRITTEN}.",
        )
    if is_on(table.properties, CHANGE_FEED):
        raise UnsupportedTargetFeatureError(
            f"{table.path} has a change feed ({CHANGE_FEED}), in which the hidden rows of an added file would be rows.",
            hint=f"Set {CHANGE_FEED} to false, or set {REWRITTEN}.",
        )


def check_merge(what: str, names: Sequence[str], properties: Mapping[str, str]) -> None:
    """Reject a column whose name Delta's MERGE does not support in a table with these properties.

    Raises:
        UnsupportedTargetFeatureError: names the column.
    """
    check_change_feed(what, names, properties)
    check_file_metadata(what, names, properties)


def check_change_feed(what: str, names: Iterable[str], properties: Mapping[str, str]) -> None:
    """Reject a column that MERGE cannot write into the target's change feed, because Delta does not quote its name.

    Raises:
        UnsupportedTargetFeatureError: names the column.
    """
    named = next((name for name in names if "`" in name), None)
    if named is not None and is_on(properties, CHANGE_FEED):
        raise UnsupportedTargetFeatureError(
            f"{what} has a change feed ({CHANGE_FEED}), into which Delta's MERGE cannot write column {named!r}: "
            "its name has a backtick.",
            hint="Rename the column with AS in spec.transform.select, or use a target without a change feed.",
        )


def check_file_metadata(what: str, names: Iterable[str], properties: Mapping[str, str]) -> None:
    """Reject a column with the name of the metadata column by which Delta's MERGE locates rows in files.

    Raises:
        UnsupportedTargetFeatureError: names the column and the property.
    """
    named = next((name for name in names if name.lower() == FILE_METADATA), None)
    needs = next((name for name in BY_PLACE if is_on(properties, name)), None)
    if named is not None and needs is not None:
        raise UnsupportedTargetFeatureError(
            f"{what} has {needs}, with which Delta's MERGE reserves the name of column {named!r}.",
            hint=f"Rename the column with AS in spec.transform.select, or use a target with {needs}: 'false'.",
        )


def check_table(table: TargetTable, *, upserts: bool) -> None:
    """Reject an existing table with features that a commit of plain files cannot support.

    Raises:
        UnsupportedTargetFeatureError, TargetSchemaMismatchError: names the feature and the column.
    """
    check_properties(table.path, table.properties, upserts=upserts)
    for feature in sorted(table.features & FEATURES.keys()):
        raise _unsupported(table.path, FEATURES[feature], ANOTHER)
    for name, field in every_field(table.schema):
        for key, (feature, hint) in FIELDS.items():
            if key in field.metadata:
                raise _unsupported(table.path, f"{feature}: {name}", hint)
    for column in table.schema:
        if is_collated(column.dataType):
            raise _unsupported(
                table.path, f"a collation: {column.name}", "Use a target whose strings compare byte by byte."
            )
        for name, field in every_field(column.dataType, f"{column.name}."):
            if not field.nullable:
                raise _unsupported(table.path, f"a nested NOT NULL: {name}", "Alter the field to DROP NOT NULL.")
    check_partitions(table.path, table.schema, table.partitions)


def check_schema(schema: StructType, table: StructType) -> None:
    """Reject a table that lacks a column of the transform, or requires one that the transform does not yield.

    Raises:
        TargetSchemaMismatchError: names the column.
    """
    existing = {field.name: field for field in table}
    for field in schema:
        if field.name not in existing:
            raise TargetSchemaMismatchError(
                f"the target has no column {field.name!r}.", hint=instead(field.name, table.names)
            )
        if _plain(existing[field.name].dataType) != _plain(field.dataType):
            raise TargetSchemaMismatchError(
                f"column {field.name!r} is {existing[field.name].dataType.simpleString()} in the target, "
                f"the transform yields {field.dataType.simpleString()}.",
                hint="Cast it in spec.transform.select.",
            )
    for field in table:
        if field.name in schema.names:
            continue
        if not field.nullable:
            reason = "must not be null"
        elif DEFAULT in field.metadata:
            reason = f"has the default {field.metadata[DEFAULT]}, which a commit of staged files does not fill in"
        else:
            continue
        raise TargetSchemaMismatchError(
            f"column {field.name!r} of the target {reason}, and the transform does not yield it.",
            hint="Add it to spec.transform.select.",
        )


def _unsupported(what: str, feature: str, hint: str) -> UnsupportedTargetFeatureError:
    return UnsupportedTargetFeatureError(
        f"{what} has {feature}, which a commit of staged files does not support.", hint=hint
    )


def _plain(data_type: DataType) -> str:
    """Return the spelling of a type, without nullability, which is irrelevant here."""
    return data_type.simpleString().lower()
