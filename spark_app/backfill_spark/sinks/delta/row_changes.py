"""Commits of Spark to a target: MERGE of changes, and deletion of a job's rows if its strategy cannot resume."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill_core.errors import StateMovedError, TargetChangedError, UnsupportedTargetFeatureError
from backfill_spark.delta.properties import is_on
from backfill_spark.delta.types import quoted
from backfill_spark.jvm.errors import JAVA_ERRORS, first_line
from backfill_spark.jvm.failures import Trouble, trouble_of
from backfill_spark.jvm.gateway import java, java_column, java_frame, java_session
from backfill_spark.rows.changes import DELETE, of_keys, of_part
from backfill_spark.sinks.delta.failures import explain_target
from backfill_spark.sinks.delta.foreign_commits import foreign_commits_during

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from backfill_core.positions.change_parts import KeyPart
    from backfill_spark.sinks.delta.table import TargetTable

APPEND_ONLY = "delta.appendOnly"
WIDE_COLUMNS = 200
"""Largest number of columns for which a MERGE infers constraints; for 1,000 columns, this took almost a minute."""


def transaction_session(spark: SparkSession, app_id: str, txn_version: int) -> SparkSession:
    """Return a new session whose writes to Delta carry a transaction version; writes of other sessions do not."""
    from pyspark.sql import SparkSession as Session

    session = Session(spark.sparkContext, java_session(spark).cloneSession())
    session.conf.set("spark.databricks.delta.write.txnAppId", app_id)
    session.conf.set("spark.databricks.delta.write.txnVersion", str(txn_version))
    return session


def merge_rows(
    spark: SparkSession,
    table: TargetTable,
    net: DataFrame,
    *,
    key: tuple[str, ...],
    app_id: str,
    txn_version: int,
    part: KeyPart | None = None,
) -> None:
    """Replace rows by key; see `ports.sink.SupportsMerge`."""
    session = transaction_session(spark, app_id, txn_version)
    session.conf.set("spark.databricks.delta.merge.materializeSource", "none")
    if len(net.columns) > WIDE_COLUMNS:
        session.conf.set("spark.sql.constraintPropagation.enabled", "false")
    jvm = java(spark)
    target = jvm.io.delta.tables.DeltaTable.forPath(java_session(session), table.path).alias("t")
    same = (F.col(f"t.{quoted(column)}") == F.col(f"s.{quoted(column)}") for column in key)
    on = reduce(Column.__and__, same) & of_keys(net, key, alias="t")
    on = on if part is None else on & of_part(net, part, alias="t")
    existing = {name.lower() for name in net.columns}
    values = jvm.java.util.HashMap()
    for field in table.schema:
        if field.name.lower() in existing:
            values.put(quoted(field.name), f"s.{quoted(field.name)}")
    analyzed = java_frame(net).queryExecution().analyzed()
    rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(java_session(session), analyzed)
    source = DataFrame(rows, session)
    (
        target.merge(java_frame(source).alias("s"), java_column(on))
        .whenMatched(f"s.`{DELETE}`")
        .delete()
        .whenMatched()
        .updateExpr(values)
        .whenNotMatched(f"NOT s.`{DELETE}`")
        .insertExpr(values)
        .execute()
    )


def drop_rows(spark: SparkSession, table: TargetTable, *, app_id: str, txn_version: int) -> None:
    """Remove all rows of a table that only this job has filled, in one commit; see `ports.sink.SupportsStartOver`.

    Delta removes whole files and reads no row. The transaction version belongs to the sequence of the seals. So an older
    attempt that still runs cannot commit afterwards, and its concurrent commits conflict with this one.
    """
    path = table.path
    if is_on(table.properties, APPEND_ONLY):
        raise UnsupportedTargetFeatureError(
            f"{path} has {APPEND_ONLY}, but the strategy must delete the rows of the earlier attempt to start again.",
            hint="Unset it, use an empty target, or use a resumable strategy.",
        )
    others = foreign_commits_during(spark, path, app_id)
    if others:
        listed = ", ".join(map(str, others[:3]))
        raise TargetChangedError(
            f"the strategy starts again, but other writers wrote to {path} too: {listed}. Deleting the job's rows would delete theirs.",
            hint="Use an empty target.",
            commits=others,
        )
    try:
        transaction_session(spark, app_id, txn_version).sql(f"DELETE FROM delta.{quoted(path)}")
    except JAVA_ERRORS as error:
        if trouble_of(error) == Trouble.CONFLICT:
            raise StateMovedError(
                f"another commit to {path} came first: {first_line(error)}.",
                hint="Start the job again: it checks the target first.",
            ) from error
        raise explain_target(error, path=path, doing="deleting the rows of the earlier attempt") from error
