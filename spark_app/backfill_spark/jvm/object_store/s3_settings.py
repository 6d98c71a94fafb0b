"""Settings by which Hadoop's S3 client reaches the bucket of a folder."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from backfill_core.file_copies.movers import S3, StoreFacts
from backfill_spark.jvm.gateway import hadoop_conf, java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECRETS = ("access.key", "secret.key", "session.token")
"""Settings that a bucket may have in a file of credentials, too."""

PROVIDERS = ("aws.credentials.provider", "aws.credentials.provider.mapping", "security.credential.provider.path")
PROVIDER_PREFIXES = ("assumed.role.", "delegation.token.")


def store_facts(spark: SparkSession, folder: str) -> StoreFacts:
    """Return the settings for a folder; no request is sent, and no credential is kept.

    Raises:
        JAVA_ERRORS: a file of credentials cannot be read.
    """
    jvm, conf = java(spark), hadoop_conf(spark)
    path = jvm.org.apache.hadoop.fs.Path(folder)
    scheme = str(path.toUri().getScheme() or path.getFileSystem(conf).getUri().getScheme())
    if scheme != S3:
        return StoreFacts(scheme)
    bucket = str(path.toUri().getHost())
    s3a = jvm.org.apache.hadoop.fs.s3a.S3AUtils
    of_bucket = s3a.propagateBucketOptions(conf, bucket)

    def setting(name: str) -> str:
        return str(of_bucket.getTrimmed(f"fs.s3a.{name}", ""))

    encryption = setting("encryption.algorithm") or setting("server-side-encryption-algorithm")
    return StoreFacts(
        scheme,
        endpoint=setting("endpoint"),
        region=setting("endpoint.region"),
        encryption=encryption,
        credentials=_fingerprint(s3a, of_bucket, bucket, [setting(name) for name in PROVIDERS]),
    )


def pays_for_requests(spark: SparkSession, folder: str) -> bool:
    """Return true if the reader of a folder's bucket pays for its requests."""
    jvm, conf = java(spark), hadoop_conf(spark)
    bucket = str(jvm.org.apache.hadoop.fs.Path(folder).toUri().getHost())
    of_bucket = jvm.org.apache.hadoop.fs.s3a.S3AUtils.propagateBucketOptions(conf, bucket)
    return bool(of_bucket.getBoolean("fs.s3a.requester.pays.enabled", False))


def _fingerprint(s3a: Any, conf: Any, bucket: str, providers: list[str]) -> str:
    secrets = [str(s3a.lookupPassword(bucket, conf, f"fs.s3a.{name}")) for name in SECRETS]
    prefixed = [str(conf.getPropsWithPrefix(f"fs.s3a.{prefix}").toString()) for prefix in PROVIDER_PREFIXES]
    return hashlib.sha256("\0".join([*secrets, *providers, *prefixed]).encode()).hexdigest()
