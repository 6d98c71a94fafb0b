"""The Spark settings that a spec may have on a cluster: settings for speed, memory and stores.

Settings that load code, run commands, create pods or choose identities are refused. Every other setting is refused until
an administrator allows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from backfill_api.crd.explain import shown
from backfill_core.cluster_rules.finding import Finding
from backfill_core.cluster_rules.limits import named, permission

ALLOWED: Final = (
    "spark.sql.*", "spark.databricks.delta.*", "spark.hadoop.fs.*", "spark.hadoop.parquet.*", "spark.memory.*", "spark.shuffle.*",
    "spark.reducer.*", "spark.storage.*", "spark.broadcast.*", "spark.locality.wait*", "spark.speculation*", "spark.scheduler.*",
    "spark.excludeOnFailure.*", "spark.cleaner.*", "spark.default.parallelism", "spark.task.cpus", "spark.task.maxFailures",
    "spark.task.reaper.*", "spark.io.compression.*", "spark.rdd.compress", "spark.checkpoint.compress", "spark.serializer.objectStreamReset",
    "spark.kryoserializer.buffer*", "spark.network.timeout*", "spark.network.maxRemoteBlockSizeFetchToMem", "spark.rpc.askTimeout",
    "spark.rpc.lookupTimeout", "spark.rpc.message.maxSize", "spark.rpc.io.*", "spark.rpc.numRetries", "spark.rpc.retry.wait",
    "spark.files.maxPartitionBytes", "spark.files.openCostInBytes",
    "spark.driver.cores", "spark.driver.maxResultSize", "spark.driver.memory", "spark.driver.memoryOverhead*",
    "spark.executor.cores", "spark.executor.heartbeat*", "spark.executor.memory", "spark.executor.memoryOverhead*",
    "spark.dynamicAllocation.executorIdleTimeout", "spark.dynamicAllocation.cachedExecutorIdleTimeout",
    "spark.dynamicAllocation.schedulerBacklogTimeout", "spark.dynamicAllocation.sustainedSchedulerBacklogTimeout",
    "spark.dynamicAllocation.shuffleTracking.timeout", "spark.dynamicAllocation.executorAllocationRatio",
    "spark.kubernetes.allocation.batch.*", "spark.kubernetes.executor.request.cores", "spark.kubernetes.executor.limit.cores",
)  # fmt: skip
"""Settings that a spec may have, except those of `EXCEPT` and `CODE`."""

EXCEPT: Final = (
    "spark.sql.catalog.*", "spark.sql.catalogImplementation", "spark.sql.defaultCatalog", "spark.sql.extensions*", "spark.sql.hive.*",
    "spark.sql.artifact.*", "spark.sql.warehouse.*", "spark.sql.streaming.*", "spark.sql.redaction.*", "spark.sql.event.*",
    "spark.sql.globalTempDatabase", "spark.sql.defaultPath", "spark.sql.path.*", "spark.sql.ui.*", "spark.sql.legacy.*",
    "spark.sql.execution.arrow.*", "spark.sql.thriftServer.*", "spark.sql.connect.*", "spark.sql.session.localRelation*",
    "spark.sql.variable.*", "spark.sql.scripting.*", "spark.sql.files.ignore*", "spark.sql.test*", "spark.sql.debug*",
    "spark.shuffle.manager", "spark.shuffle.service.*", "spark.shuffle.push.*", "spark.shuffle.sort.io.*",
    "spark.storage.decommission.*", "spark.storage.replication.*", "spark.scheduler.allocation.*", "spark.io.compression.codec", "spark.shuffle.mapStatus.compression.codec",
    "spark.hadoop.fs.defaultFS", "spark.hadoop.fs.default.name", "spark.hadoop.fs.AbstractFileSystem.*", "spark.hadoop.fs.permissions.*", "spark.hadoop.fs.file.*",
    "spark.hadoop.fs.azure.account.oauth2.*", "spark.hadoop.fs.azure.identity.*", "spark.hadoop.fs.gs.auth.*", "spark.hadoop.fs.gs.token.*",
    "spark.hadoop.fs.s3a.assumed.role.sts.*", "spark.hadoop.fs.gs.storage.root.url", "spark.hadoop.fs.adl.oauth2.*",
    "spark.databricks.delta.coordinatedCommits.*", "spark.databricks.delta.enableTableRedirectFeature", "spark.databricks.delta.testOnly.*",
    "spark.databricks.delta.properties.defaults.coordinatedCommits.*", "spark.databricks.delta.properties.defaults.redirect*",
)  # fmt: skip
"""Settings that would load code, change the data, reach the machine, or send the token in a file to an address."""

CODE: Final = frozenset({
    "binding", "bindings", "class", "classes", "classpath", "command", "commands", "extensions", "factory", "impl", "interceptors",
    "jar", "jars", "listener", "listeners", "manager", "plugin", "plugins", "provider", "providers", "pandas", "pyspark", "python", "script", "serializer",
    "evaluator", "signers",
})  # fmt: skip
"""Name parts of settings whose values are classes, commands or interpreters, such as committers and listeners."""

CODE_ENDS: Final = ("class", "classname", "factory", "provider")
"""The same for names of Hadoop without capitals between their parts, such as `keyprovider` and `classname`."""

_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def conf_findings(conf: Mapping[str, str], allowed: tuple[str, ...]) -> Iterator[Finding]:
    """Yield each setting that is not allowed, with the administrator's setting that would allow it.

    Args:
        conf: The spec's settings.
        allowed: Further names and prefixes that the administrator allows.
    """
    for name, value in conf.items():
        path = f'spec.spark.conf["{name[:200]}"]'
        if not (harmless(name) or named(name, allowed)):
            setting = permission("ALLOWED_CONF", "its name")
            yield Finding(path, "is a setting that is not allowed", "remove it", shown(value), setting)
        if "${" in value:
            # Spark and Hadoop substitute a variable of the process, which may be a credential.
            yield Finding(path, "refers to a variable with ${", "write the value itself")


def harmless(name: str) -> bool:
    """Return whether every user may set it."""
    if not named(name, ALLOWED) or named(name, EXCEPT):
        return False
    words = [word.lower() for word in _WORDS.findall(name)]
    return CODE.isdisjoint(words) and not any(word.endswith(CODE_ENDS) for word in words)
