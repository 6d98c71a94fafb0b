"""Proof that a source is gone: a catalog or a store that lacks it may be another one than that of the job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from backfill_api.spec.sources import delta
from backfill_core.errors import BackfillError, MissingBucketError
from backfill_spark.delta.location import SPARK_CATALOG, catalog_of
from backfill_spark.jvm.gateway import hadoop_conf, java_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA_CATALOG: Final = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
METASTORES: Final = ("hive.metastore.uris", "hive.metastore.client.factory.class", "javax.jdo.option.ConnectionURL")
"""Settings that name a metastore. Without them, Hive makes an empty one in the working directory."""

SHARED_STORES: Final = frozenset({"s3a", "gs"})
"""Schemes whose store has all buckets; in other schemes, the container and its account are one name."""

NAME_IT: Final = (
    "Set {setting} with --conf or in spec.spark.conf (docs/catalogs.md): this session's catalog keeps no tables of other sessions. "
    "If the source is gone for good, make an empty Delta table with this name in a session, and pass the session."
)
STORE_HINT: Final = (
    "Correct the address of the store (--conf, spec.spark.conf). If the source is gone for good, create the bucket or container, empty, "
    "and run the command again."
)


def doubt_of_absence(
    spark: SparkSession, params: delta.DeltaSource, error: BackfillError, *, target: str | None
) -> str:
    """Return the next step for users if a source that was not found may exist; empty if it is certainly gone.

    Args:
        spark: The session that did not find it.
        params: The source of the spec.
        error: Error of opening its log.
        target: Location of the job's target, if the session reads a table there.
    """
    if isinstance(error, MissingBucketError):
        known = params.path is not None and target is not None and _same_store(spark, params.path, target)
        return "" if known else STORE_HINT
    setting = "" if params.table is None else _missing_setting(spark, params.table)
    if not setting or spark.catalog.tableExists(str(params.table)):
        return ""  # a name that exists points to a folder without a table
    return NAME_IT.format(setting=setting)


def _missing_setting(spark: SparkSession, table: str) -> str:
    """Return the setting without which the catalog of a name is not a lasting one; empty if none is missing."""
    own = spark.conf.get(f"spark.sql.catalog.{SPARK_CATALOG}", None)
    if catalog_of(spark, table).lower() != SPARK_CATALOG or own not in (None, DELTA_CATALOG):
        return ""
    catalog: Any = java_session(spark).sharedState().externalCatalog().unwrapped()
    if str(catalog.getClass().getSimpleName()) == "InMemoryCatalog":
        return "spark.sql.catalogImplementation to hive, and spark.hadoop.hive.metastore.uris,"
    conf = hadoop_conf(spark)
    return "" if any(conf.get(name) for name in METASTORES) else "spark.hadoop.hive.metastore.uris"


def _same_store(spark: SparkSession, path: str, other: str) -> bool:
    """Return whether two paths are in one store, so that a table in it proves the store's address."""
    ours, theirs = urlsplit(path), urlsplit(other)
    if ours.scheme != theirs.scheme:
        return False
    if ours.scheme not in SHARED_STORES:
        return bool(ours.username) and ours.hostname == theirs.hostname
    conf = hadoop_conf(spark)
    return len({conf.get(f"fs.s3a.bucket.{side.netloc}.endpoint") for side in (ours, theirs)}) == 1
