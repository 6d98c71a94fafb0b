"""Other columns of a table, in the commit of files that have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backfill_core.protocol.work import NewColumns
from backfill_spark.delta.table_facts import LAST_ID
from backfill_spark.jvm.gateway import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


ENGINE_INFO = "backfill"


def with_columns(spark: SparkSession, engine: Any, path: str, txn: Any, columns: NewColumns) -> Any:
    """Return a transaction of Kernel that also gives a table other columns; it stands in for one that was begun.

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
