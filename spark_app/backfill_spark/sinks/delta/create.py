"""Creation of a missing target, and changes of a target's columns in the commit of files with these columns."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructField, StructType

from backfill_core.errors import InvalidSpecError
from backfill_core.log_shipping.columns import DEFAULTS, defaults_of, with_defaults
from backfill_core.protocol.work import NewColumns
from backfill_spark.delta.location import SPARK_CATALOG
from backfill_spark.delta.properties import CHANGE_FEED, FEATURE, VECTORS, VECTORS_ON, is_on
from backfill_spark.delta.spark_internals import check_properties, gives_properties, is_feature
from backfill_spark.delta.table_facts import LAST_ID
from backfill_spark.delta.types import nullable
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.jvm.failures import describe_error
from backfill_spark.jvm.gateway import java
from backfill_spark.jvm.log_stores.kernel import kernel_settings
from backfill_spark.log_shipping.layout import carried_schema
from backfill_spark.sinks.delta.failures import explain_naming
from backfill_spark.sinks.delta.table import TargetTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from backfill_spark.delta.log import LoggedTable

ENGINE_INFO = "backfill"
"""Value of `engineInfo` in the job's commits."""

WITH_DEFAULTS = f"{FEATURE}{DEFAULTS}"
"""Property that enables column defaults in a new table."""

PLAIN = frozenset({f"{FEATURE}domainMetadata", VECTORS_ON, CHANGE_FEED, "delta.appendOnly"})
"""Properties with which Kernel and Spark create the same table. Other properties need Spark's layouts, mappings or checks."""


def create_table(
    spark: SparkSession,
    path: str,
    name: str | None,
    schema: StructType,
    *,
    partition_by: tuple[str, ...],
    cluster_by: tuple[str, ...],
    properties: Mapping[str, str],
    deletion_vectors: bool,
    source: LoggedTable | None = None,
) -> None:
    """Create an empty Delta table whose commits can hold a job's state; with `name`, it is also in the catalog.

    Delta Kernel creates it if the result is the same table, in a tenth of Spark's time. With a `source`, its columns keep the
    physical names and ids of the source.
    """
    from delta.tables import DeltaTable

    given = made_with(properties, deletion_vectors=deletion_vectors)
    columns = StructType([StructField(field.name, nullable(field.dataType)) for field in schema])
    if source is not None:
        carried, description = carried_schema(schema, source), source.description
        create_empty(spark, path, carried, partition_by=partition_by, properties=given, description=description)
        if name is not None:
            _name_table(spark, path, name)
        return
    plain = name is None and not (partition_by or cluster_by) and given.keys() <= PLAIN
    if plain and not gives_properties(spark):
        # If it fails, Spark tries again: its errors can be explained, and it accepts a table that exists by now.
        with suppress(*JAVA_ERRORS):
            create_empty(spark, path, columns.json(), partition_by=(), properties=given)
            return
    builder = DeltaTable.createIfNotExists(spark).location(path)
    if name is not None:
        builder = builder.tableName(_in_own_catalog(name))
    for field in columns:
        builder = builder.addColumn(field.name, field.dataType, nullable=True)
    if partition_by:
        builder = builder.partitionedBy(*partition_by)
    if cluster_by:
        builder = builder.clusterBy(*cluster_by)
    for key, value in given.items():
        builder = builder.property(key, value)
    builder.execute()


def create_empty(
    spark: SparkSession,
    path: str,
    schema: str,
    *,
    partition_by: tuple[str, ...],
    properties: Mapping[str, str],
    description: str | None = None,
) -> None:
    """Create an empty Delta table in one commit of Delta Kernel, without a Spark job and without a name in the catalog.

    Args:
        spark: The session.
        path: Folder of the table.
        schema: JSON in the format of the log; physical names and ids of columns are kept.
        partition_by: Names of the partition columns.
        properties: All properties of the table.
        description: Description of the table.

    Raises:
        JAVA_ERRORS: Kernel or the storage failed.
    """
    jvm = java(spark)
    kernel = jvm.io.delta.kernel
    engine = kernel.defaults.engine.DefaultEngine.create(kernel_settings(spark))
    columns, given = jvm.java.util.ArrayList(), jvm.java.util.HashMap()
    for name in partition_by:
        columns.add(kernel.expressions.Column(name))
    for name, value in properties.items():
        if name != WITH_DEFAULTS:
            given.put(name, value)
    layouts = kernel.transaction.DataLayoutSpec
    columns_of = kernel.internal.types.DataTypeJsonSerDe.deserializeStructType
    plain = columns_of(with_defaults(schema, {}))
    made = kernel.TableManager.buildCreateTableTransaction(path, plain, ENGINE_INFO)
    layout = layouts.partitioned(columns) if partition_by else layouts.noDataLayout()
    begun = made.withTableProperties(given).withDataLayoutSpec(layout).build(engine)
    defaults = defaults_of(schema) if WITH_DEFAULTS in properties else None
    if description is not None or defaults is not None:
        begun = _exchanged(spark, engine, path, begun, description, defaults)
    begun.commit(engine, kernel.utils.CloseableIterable.emptyIterable())


def _exchanged(
    spark: SparkSession,
    engine: Any,
    path: str,
    begun: Any,
    description: str | None,
    defaults: Mapping[str, str] | None,
) -> Any:
    """Return a Kernel transaction that creates the same table with a description and column defaults; each may be `None`.

    Kernel's builder has no description, and rejects defaults unless Iceberg can read the table, too (V3). The transaction
    accepts both.
    """
    jvm = java(spark)
    internal, optional = jvm.io.delta.kernel.internal, jvm.java.util.Optional
    state, row = begun.getTransactionState(engine), internal.data.TransactionStateRow
    types, vectors = internal.types.DataTypeJsonSerDe, internal.util.VectorUtils
    # Kernel's schema, not the requested one: Kernel has assigned missing column ids and physical names.
    schema = row.getLogicalSchema(state)
    protocol = begun.getProtocol()
    if defaults is not None:
        schema = types.deserializeStructType(with_defaults(str(types.serializeDataType(schema)), defaults))
        protocol = protocol.withFeature(internal.tablefeatures.TableFeatures.ALLOW_COLUMN_DEFAULTS_W_FEATURE)
    clock = jvm.io.delta.kernel.Table.forPath(engine, path).getClock()
    metadata = internal.actions.Metadata(
        str(uuid.uuid4()), optional.empty(), optional.ofNullable(description), internal.actions.Format(),
        types.serializeDataType(schema), schema,
        vectors.buildArrayValue(row.getPartitionColumnsList(state), jvm.io.delta.kernel.types.StringType.STRING),
        optional.of(clock.getTimeMillis()), vectors.stringStringMapValue(row.getConfiguration(state)),
    )  # fmt: skip
    nothing, operation = optional.empty(), jvm.io.delta.kernel.Operation.CREATE_TABLE
    return internal.TransactionImpl(
        True, begun.getDataPath(), nothing, ENGINE_INFO, operation, optional.of(protocol),
        optional.of(metadata), begun.getCommitter(), nothing, nothing, nothing, 0, clock,
    )  # fmt: skip


def with_columns(spark: SparkSession, engine: Any, path: str, txn: Any, columns: NewColumns) -> Any:
    """Return a Kernel transaction that also changes a table's columns; it replaces a transaction that has begun.

    Kernel's builders change columns only in tables with column mapping, but its transaction accepts any metadata. The checksum
    of the version and Kernel's next snapshot have the new columns. The caller decides which changes are allowed.

    Args:
        spark: The session.
        engine: Kernel's engine.
        path: The table's path.
        txn: A transaction without retries, because Kernel checks conflicts with the old columns; it must not be committed.
        columns: Columns of the table from this commit on.

    Raises:
        JAVA_ERRORS: Kernel or the storage failed.
    """
    if columns.schema is None:
        return txn
    jvm = java(spark)
    kernel, optional = jvm.io.delta.kernel, jvm.java.util.Optional
    table = kernel.Table.forPath(engine, path)
    snapshot = table.getSnapshotAsOfVersion(engine, txn.getReadTableVersion())
    schema = kernel.internal.types.DataTypeJsonSerDe.deserializeStructType(columns.schema)
    metadata = snapshot.getMetadata().withNewSchema(schema)
    if columns.last_id:
        given = jvm.java.util.HashMap()
        given.put(LAST_ID, str(columns.last_id))
        metadata = metadata.withMergedConfiguration(given)
    nothing = optional.empty()
    return kernel.internal.TransactionImpl(
        False, txn.getDataPath(), optional.of(snapshot), ENGINE_INFO, kernel.Operation.WRITE, nothing, optional.of(metadata),
        txn.getCommitter(), txn.getSetTxnOpt(), nothing, optional.of(0), 0, table.getClock(),
    )  # fmt: skip


def made_with(properties: Mapping[str, str], *, deletion_vectors: bool) -> dict[str, str]:
    """Return the properties of a new table; those of the spec override the defaults."""
    ours = {f"{FEATURE}domainMetadata": "supported"}
    if deletion_vectors:
        ours[VECTORS_ON] = "true"
    return {**ours, **properties}


def planned_table(
    path: str, schema: StructType, partition_by: tuple[str, ...], properties: Mapping[str, str]
) -> TargetTable:
    """Return the table that will be created with some properties, with the facts that concern its files."""
    features = {name[len(FEATURE) :] for name in properties if name.startswith(FEATURE)}
    if is_on(properties, VECTORS_ON):
        features.add(VECTORS)
    return TargetTable(path, schema, partition_by, properties, frozenset(features))


def check_known(spark: SparkSession, properties: Mapping[str, str]) -> None:
    """Reject table properties that Delta would reject, with Delta's own message; writes nothing.

    Raises:
        InvalidSpecError: names the property.
    """
    for name, value in properties.items():
        field = f'spec.target.delta.properties["{name}"]'
        if name.lower().startswith(FEATURE):
            if not is_feature(spark, name[len(FEATURE) :]):
                raise InvalidSpecError(f"{field}: this release of Delta has no such feature.", hint="Remove it.")
            if value.lower() != "supported":
                raise InvalidSpecError(f"{field}: {value!r} is not a valid state of a feature.", hint="Use supported.")
            continue
        try:
            check_properties(spark, {name: value})
        except JAVA_ERRORS as error:
            message = describe_error(error).partition("To disable this check")[0].strip()
            raise InvalidSpecError(
                f"{field}: Delta rejects {value!r}: {message}", hint="Correct or remove it."
            ) from error


def ensure_name(spark: SparkSession, path: str, name: str) -> None:
    """Give an existing table its name in the catalog if it has none.

    Raises:
        InvalidSpecError, PermissionDeniedError: the catalog rejects it.
        AwayError, TransientError: the metastore failed.
    """
    try:
        if not spark.catalog.tableExists(name):
            _name_table(spark, path, name)
    except JAVA_ERRORS as error:
        raise explain_naming(error, path=path, name=name) from error


def _name_table(spark: SparkSession, path: str, name: str) -> None:
    """Register an existing table in the catalog."""
    from delta.tables import DeltaTable

    DeltaTable.createIfNotExists(spark).tableName(_in_own_catalog(name)).location(path).execute()


def _in_own_catalog(name: str) -> str:
    """Return a name in Spark's own catalog without that catalog: Delta's builder takes two parts at most."""
    first, dot, rest = name.partition(".")
    return rest if dot and first.strip("`").lower() == SPARK_CATALOG else name
