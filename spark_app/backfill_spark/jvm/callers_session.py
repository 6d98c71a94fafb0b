"""A second session in the caller's Spark: it has the settings of a job, and the caller's session stays unchanged."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from py4j.clientserver import ClientServer
from pyspark.errors import AnalysisException

from backfill_api.spec import session_conf as meaning
from backfill_core.errors import SessionUnfitError
from backfill_spark.jvm.errors import JAVA_ERRORS, is_a
from backfill_spark.jvm.gateway import PINNED_THREADS, hadoop_conf, java, java_context, python_gateway
from backfill_spark.jvm.session import OF_A_SESSION, settled, tasks_for
from backfill_spark.jvm.session_scope import EMBEDDED
from backfill_spark.settings import DELTA_PACKAGE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
KERNEL = "io.delta.kernel.defaults.engine.DefaultEngine"
NEEDED = {"spark.sql.extensions": EXTENSION, "spark.sql.catalog.spark_catalog": CATALOG}
HADOOP = "spark.hadoop."
JAR_LINE = f'.config("spark.jars.packages", "{DELTA_PACKAGE}")'
DELTA_VERSION = DELTA_PACKAGE.rsplit(":", 1)[1]
LEFT_OUT = ("spark.databricks.delta.write.",)
"""Prefixes of settings that are not inherited, because they concern the caller's own writes."""


def separate_session(spark: SparkSession, spec_conf: Mapping[str, str]) -> SparkSession:
    """Return a new session of the caller's Spark, with the caller's settings; the job's settings override them.

    Args:
        spark: The caller's session, which stays unchanged.
        spec_conf: `spec.spark.conf`. Settings that need a new Spark (jars, memory) have no effect. Settings of Hadoop must already be
            in force.

    Raises:
        SessionUnfitError: the session is stopped, is a client of Spark Connect, or lacks Delta or a setting of Hadoop; the hint
            contains the lines to add.
    """
    _check(spark)
    _check_stores(spark, spec_conf)
    session = spark.newSession()
    inherited: Mapping[str, str] = session.conf.getAll
    for name in inherited:
        if name.startswith(meaning.PREFIXES) and session.conf.isModifiable(name):
            session.conf.unset(name)
    tasks = (
        {} if not spark.sparkContext.master.startswith("local") else tasks_for(spark.sparkContext.defaultParallelism)
    )
    ours = {name: value for name, value in tasks.items() if name not in inherited}
    ours |= {**OF_A_SESSION, **_set_by_the_caller(spark, inherited), **spec_conf}
    for name, value in settled(ours).items():
        with suppress(AnalysisException):  # the setting needs a new Spark
            session.conf.set(name, value)
    return session


def check_no_session() -> None:
    """Reject a start of an embedded session while a caller's session runs: the new one would reuse that session, and stop it.

    Raises:
        SessionUnfitError: a Spark session runs in this process.
    """
    pyspark: Any = sys.modules.get("pyspark")
    # An embedded session does not belong to a caller; the next job waits for its end.
    if not EMBEDDED.locked() and pyspark is not None and pyspark.SparkContext._active_spark_context is not None:  # noqa: SLF001 - pyspark has no public name for it
        raise SessionUnfitError(
            "a Spark session runs in this process, but the job did not get it.",
            hint="Pass the session: job.run(spark).",
        )


def _set_by_the_caller(spark: SparkSession, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return settings that the caller set only in this session, except those that change the meaning of an expression."""
    conf: Mapping[str, str] = spark.conf.getAll
    return {
        name: value
        for name, value in conf.items()
        if inherited.get(name) != value
        and name not in meaning.PINNED
        and not name.startswith((*meaning.PREFIXES, *LEFT_OUT))
    }


def _check(spark: SparkSession) -> None:
    if getattr(spark, "_jsparkSession", None) is None:
        raise SessionUnfitError(
            "the Spark session is a client of Spark Connect.", hint="Run the job in the process of Spark's driver."
        )
    if java_context(spark) is None:
        raise SessionUnfitError("the Spark session is stopped.", hint="Build a new session, and pass that one.")
    if not isinstance(python_gateway(spark), ClientServer):
        raise SessionUnfitError(
            "the Spark session shares Java threads between Python threads (PYSPARK_PIN_THREAD=false).",
            hint=PINNED_THREADS,
        )
    lines = [] if _has_delta(spark) else [JAR_LINE]
    conf = {name: str(spark.conf.get(name, "")) for name in NEEDED}
    # The list may contain other extensions too, and another catalog may wrap Delta's.
    if EXTENSION not in conf["spark.sql.extensions"]:
        lines.append(_line("spark.sql.extensions"))
    if not conf["spark.sql.catalog.spark_catalog"]:
        lines.append(_line("spark.sql.catalog.spark_catalog"))
    if lines:
        lacks = "the jars of Delta" if lines[0] == JAR_LINE else "the settings of Delta"
        raise SessionUnfitError(
            f"the Spark session lacks {lacks}.",
            hint="Add these lines to its builder, and build the session again:\n    " + "\n    ".join(lines),
        )


def _check_stores(spark: SparkSession, spec_conf: Mapping[str, str]) -> None:
    """Reject settings of Hadoop that are not in force: each store is opened once per process, with the settings of that time."""
    hadoop = hadoop_conf(spark)
    lacks = {
        name: value
        for name, value in sorted(spec_conf.items())
        if name.startswith(HADOOP) and hadoop.getRaw(name.removeprefix(HADOOP)) != value
    }
    if lacks:
        lines = (f'.config("{name}", "{value}")' for name, value in lacks.items())
        raise SessionUnfitError(
            f"the Spark session lacks {', '.join(lacks)} of spec.spark.conf.",
            hint="Add these lines to its builder, and build the session again:\n    " + "\n    ".join(lines),
        )


def _line(name: str) -> str:
    return f'.config("{name}", "{NEEDED[name]}")'


def _has_delta(spark: SparkSession) -> bool:
    """Return True if Delta and its Kernel are on the class path.

    Raises:
        SessionUnfitError: the version differs from the one that this release was tested with.
    """
    jvm = java(spark)
    try:
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        loader.loadClass(KERNEL)
        loader.loadClass(CATALOG)
    except JAVA_ERRORS as error:
        if is_a(error, "ClassNotFoundException"):
            return False
        raise
    version = str(jvm.io.delta.package.VERSION())
    if version != DELTA_VERSION:
        raise SessionUnfitError(
            f"the Spark session has Delta {version}; this release works with {DELTA_VERSION}.",
            hint=f"Build the session again with\n    {JAR_LINE}",
        )
    return True
