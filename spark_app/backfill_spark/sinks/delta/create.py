"""How a target is made when it is missing, and how one gets other columns in the commit of files that have them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructField, StructType

from backfill_core.errors import InvalidSpecError
from backfill_core.log_shipping.columns import DEFAULTS, defaults_of, with_defaults
from backfill_core.protocol.new_words import SAME_WORDS
from backfill_core.protocol.work import NewColumns
from backfill_spark.delta.location import SPARK_CATALOG
from backfill_spark.delta.properties import CHANGE_FEED, FEATURE, VECTORS, VECTORS_ON, is_on
from backfill_spark.delta.spark_internals import check_properties, gives_properties, is_feature
from backfill_spark.delta.table_facts import LAST_ID
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.jvm.failures import in_words
from backfill_spark.jvm.gateway import java
from backfill_spark.jvm.log_stores.kernel import kernel_settings
from backfill_spark.rows.columns import nullable
from backfill_spark.shipping.layout import carried_schema
from backfill_spark.sinks.delta.table import TargetTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from backfill_spark.delta.log import LoggedTable

ENGINE_INFO = "backfill"
"""What our commits name as their engine."""

WITH_DEFAULTS = f"{FEATURE}{DEFAULTS}"
"""The property that makes a table that may have defaults of columns."""

PLAIN = frozenset({f"{FEATURE}domainMetadata", VECTORS_ON, CHANGE_FEED, "delta.appendOnly"})
"""Properties of a table that Kernel makes as Spark does. Others ask for layouts, mappings or checks that are Spark's."""


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
    """Create an empty Delta table that can hold a job's state in the same commit as its rows; with a name in the catalog.

    Delta Kernel makes it where that is the same table, in a tenth of the time. With a `source` its columns have the
    names and ids in files that they have there.
    """
    from delta.tables import DeltaTable

    given = made_with(properties, deletion_vectors=deletion_vectors)
    wanted = StructType([StructField(field.name, nullable(field.dataType)) for field in schema])
    if source is not None:
        columns, words = carried_schema(schema, source), source.description
        create_empty(spark, path, columns, partition_by=partition_by, properties=given, description=words)
        if name is not None:
            name_table(spark, path, name)
        return
    plain = name is None and not (partition_by or cluster_by) and given.keys() <= PLAIN
    if plain and not gives_properties(spark):
        # Where it fails Spark says why, in words that we explain, or finds the table that is there by now.
        with suppress(*JAVA_ERRORS):
            create_empty(spark, path, wanted.json(), partition_by=(), properties=given)
            return
    builder = DeltaTable.createIfNotExists(spark).location(path)
    if name is not None:
        builder = builder.tableName(_in_own_catalog(name))
    for field in wanted:
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
        path: Where it is to be.
        schema: As JSON, as a log has it; names and ids of columns in files are kept.
        partition_by: Names of the partition columns.
        properties: All of them.
        description: What the table says that it is.

    Raises:
        Whatever Kernel or the storage say (`JAVA_ERRORS`).
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
    """Return a transaction of Kernel that makes the same table with a description and defaults of columns; None: it has none.

    Kernel's builder takes no description, and refuses defaults unless Iceberg can read the table, too (V3). The transaction takes both.
    """
    jvm = java(spark)
    internal, optional = jvm.io.delta.kernel.internal, jvm.java.util.Optional
    state, row = begun.getTransactionState(engine), internal.data.TransactionStateRow
    types, vectors = internal.types.DataTypeJsonSerDe, internal.util.VectorUtils
    # Kernel's, and not what was asked for: it has given an id and a name in files to each column that had none.
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
    """Return a transaction of Kernel that also gives a table other columns and words; it stands in for one that was begun.

    Kernel's builders change the columns of a table with column mapping alone. Its transaction takes any metadata, and what
    follows from it: its checksum of the version and its own next look have the new columns. What may change is the caller's to know.

    Args:
        spark: The session.
        engine: Kernel's.
        path: The table's.
        txn: Begun, and not committed afterwards; without retries, because a conflict is judged by the old columns.
        columns: Of the table, from this commit on.

    Raises:
        Whatever Kernel or the storage say (`JAVA_ERRORS`).
    """
    words = columns.words
    if columns.schema is None and words == SAME_WORDS:
        return txn
    jvm = java(spark)
    kernel, optional = jvm.io.delta.kernel, jvm.java.util.Optional
    table = kernel.Table.forPath(engine, path)
    snapshot = table.getSnapshotAsOfVersion(engine, txn.getReadTableVersion())
    metadata = snapshot.getMetadata()
    if columns.schema is not None:
        schema = kernel.internal.types.DataTypeJsonSerDe.deserializeStructType(columns.schema)
        metadata = metadata.withNewSchema(schema)
    given, gone = jvm.java.util.HashMap(), jvm.java.util.HashSet()
    if columns.last_id:
        given.put(LAST_ID, str(columns.last_id))
    for name, text in words.properties:
        if text is None:
            gone.add(name)
        else:
            given.put(name, text)
    metadata = metadata.withMergedConfiguration(given).withConfigurationKeysUnset(gone)
    if words.description is not None:
        metadata = kernel.internal.actions.Metadata(
            metadata.getId(), metadata.getName(), optional.ofNullable(words.description.text), metadata.getFormat(),
            metadata.getSchemaString(), metadata.getSchema(), metadata.getPartitionColumns(), metadata.getCreatedTime(),
            metadata.getConfigurationMapValue(),
        )  # fmt: skip
    nothing = optional.empty()
    return kernel.internal.TransactionImpl(
        False, txn.getDataPath(), optional.of(snapshot), ENGINE_INFO, kernel.Operation.WRITE, nothing, optional.of(metadata),
        txn.getCommitter(), txn.getSetTxnOpt(), nothing, optional.of(0), 0, table.getClock(),
    )  # fmt: skip


def made_with(properties: Mapping[str, str], *, deletion_vectors: bool) -> dict[str, str]:
    """Return the properties of a table that is made: those asked for win over ours."""
    ours = {f"{FEATURE}domainMetadata": "supported"}
    if deletion_vectors:
        ours[VECTORS_ON] = "true"
    return {**ours, **properties}


def planned_table(
    path: str, schema: StructType, partition_by: tuple[str, ...], properties: Mapping[str, str]
) -> TargetTable:
    """Return a table as it will be made with some properties, as far as its files are concerned."""
    features = {name[len(FEATURE) :] for name in properties if name.startswith(FEATURE)}
    if is_on(properties, VECTORS_ON):
        features.add(VECTORS)
    return TargetTable(path, schema, partition_by, properties, frozenset(features))


def check_known(spark: SparkSession, properties: Mapping[str, str]) -> None:
    """Refuse table properties that Delta would refuse, with Delta's own words; nothing is written.

    Raises:
        InvalidSpecError: names the property.
    """
    for name, value in properties.items():
        field = f'spec.target.delta.properties["{name}"]'
        if name.lower().startswith(FEATURE):
            if not is_feature(spark, name[len(FEATURE) :]):
                raise InvalidSpecError(f"{field}: this release of Delta has no such feature.", hint="Remove it.")
            if value.lower() != "supported":
                raise InvalidSpecError(f"{field}: {value!r} is no state of a feature.", hint="Write supported.")
            continue
        try:
            check_properties(spark, {name: value})
        except JAVA_ERRORS as error:
            words = in_words(error).partition("To disable this check")[0].strip()
            raise InvalidSpecError(f"{field}: {value!r} is refused: {words}", hint="Correct or remove it.") from error


def name_table(spark: SparkSession, path: str, name: str) -> None:
    """Give a table that exists a name in the catalog."""
    from delta.tables import DeltaTable

    DeltaTable.createIfNotExists(spark).tableName(_in_own_catalog(name)).location(path).execute()


def _in_own_catalog(name: str) -> str:
    """Return a name in Spark's own catalog without that catalog: Delta's builder takes two parts at most."""
    first, dot, rest = name.partition(".")
    return rest if dot and first.strip("`").lower() == SPARK_CATALOG else name
