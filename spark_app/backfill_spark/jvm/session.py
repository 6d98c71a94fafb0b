"""The only module that starts a Spark session; it checks Java and Delta's jars first."""

from __future__ import annotations

import atexit
import logging
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from backfill_api.spec import session_conf as meaning
from backfill_core.errors import AwayError, JavaMissingError
from backfill_spark.jvm import class_archive
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.jvm.event_log import refused_log
from backfill_spark.jvm.failures import Trouble, describe_error, trouble_of
from backfill_spark.jvm.gateway import java_context, know_packages
from backfill_spark.jvm.jars import OF_THE_CLONE, SHIPPED
from backfill_spark.jvm.java_process import signals_stay_ours, start_failure
from backfill_spark.jvm.log_stores.java_classes import LOCAL, LOG_STORES, bring_log_store, spark_setting
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.settings import DELTA_PACKAGE, default_jars_dir, file_names_in_utf8

JAVA_VERSIONS = (17, 21)
WAREHOUSE = "spark-warehouse"
LISTS = {"spark.driver.extraJavaOptions": " ", "spark.driver.extraClassPath": ":", "spark.sql.extensions": ","}
"""Settings that are lists, with their separators; a spec adds entries to ours."""

LEFT_TO_THE_CLUSTER = ("spark.master", "spark.driver.memory", "spark.driver.bindAddress", "spark.driver.host")
POOLS_FILE = Path(__file__).with_name("pools.xml")
LOG_FILE = Path(__file__).with_name("log4j2.properties")
POD_LOG_FILE = Path(__file__).with_name("log4j2-pod.properties")
"""The same loggers, as JSON lines."""

LOG_LEVEL = "spark.log.level"
QUIET_LEVEL = "backfill.log.quiet"
"""Java property: level of the loggers that are off by default."""

CIPHERS_SOON = " ".join(
    f"-XX:CompileCommand={command}"
    for command in (
        "quiet",
        "CompileThresholdScaling,com.sun.crypto.provider.*::*,0.1",
        "CompileThresholdScaling,sun.security.provider.*::*,0.1",
    )
)
"""Java's default thresholds for ciphers and digests, because only the second compiler uses the processor's instructions for them.
A TLS record has 16 KB. With tenfold thresholds, AES-GCM processed the first 460 MB at 65 MB per CPU second instead of 1,100."""

HOT_CODE_ONLY = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000 "
    + CIPHERS_SOON
)
"""Ten times Java's default thresholds: code that runs per row is still fully optimized, code that runs per split is not (ADR 0030)."""

ONE_ZONE = "-Duser.timezone=UTC"
"""Sets the JVM's time zone, because Java's older time classes parse and format strings in the machine's zone and ignore Spark's zone."""

NEVER_OTHERWISE = {
    # `${env:…}` in an expression would write the driver's environment into the target.
    "spark.sql.variable.substitute": "false",
    # A missing or damaged file is an error; it must not cause fewer rows.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    # By default, timestamps are written as INT96, which has no statistics in the footer.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Statistics in the log come from footers, which do not record the calendar of a date; readers assume the current one.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    # A write removes all files of its folder, including files of an earlier try.
    "spark.sql.sources.partitionOverwriteMode": "STATIC",
    # Delta returns a change feed as Java objects; Java's older classes shift the days from 1582-10-05 to 1582-10-14.
    "spark.sql.datetime.java8API.enabled": "true",
    # Delta refuses a table that maps its columns by id without the first two; the third reads a file without ids as nulls.
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.parquet.fieldId.write.enabled": "true",
    "spark.sql.parquet.fieldId.read.ignoreMissing": "false",
}
"""Settings that override those of a spec, an image and a cluster."""

OF_A_SESSION = {
    "spark.sql.parquet.compression.codec": "zstd",
    # Measured on 20 M rows: an eighth less work than with the default level 3, for files that are 7 % larger.
    "parquet.compression.codec.zstd.level": "1",
    # The parts of a split are folders; by default, each task would sort its rows by folder. A second's worth of rows has fewer parts
    # than this, and so has the largest file that is read whole. With more parts (a partitioned target), a task sorts the rest.
    "spark.sql.maxConcurrentOutputFileWriters": "32",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # Staged files are invisible until they are sealed, so the committer need not rename them.
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
}
"""Settings for writing files; a session passes those without the prefix `spark.` to Hadoop."""

CREDENTIALS = (
    "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider,org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider,"
    "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider,"
    "software.amazon.awssdk.auth.credentials.WebIdentityTokenFileCredentialsProvider,"
    "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider"
)
"""Providers of S3 credentials, in order; a spec contains no credentials."""

OF_STORES = {
    "fs.s3a.create.conditional.enabled": "true",
    "fs.s3a.aws.credentials.provider": CREDENTIALS,
    # The implementation of Hadoop's default is in a separate jar.
    "fs.s3a.input.stream.type": "classic",
    # Otherwise, Hadoop would read from any server that a string in a row names.
    **{f"fs.{scheme}.impl": "switched.off.by.backfill" for scheme in ("http", "https", "ftp", "sftp")},
}
"""Hadoop settings that apply when a store is opened for the first time; a caller's session keeps the caller's settings."""

XML_ALONE = "-Djavax.xml.accessExternalDTD= -Djavax.xml.accessExternalSchema= -Djavax.xml.accessExternalStylesheet="
"""Forbids files and URLs in XML: otherwise, a document in a row could make Java send a local file to any server."""

AVRO_SIZES = (
    "-Dorg.apache.avro.limits.bytes.maxLength=104857600 -Dorg.apache.avro.limits.string.maxLength=104857600 "
    "-Dorg.apache.avro.limits.collectionItems.maxLength=25000000"
)
"""Limits for one value: Avro reserves the memory that a length asks for before it reads on, so ten bad bytes could end Java."""

JVM_OPTIONS = (
    f"-Dlog4j2.configurationFile=file:{LOG_FILE} -XX:+UseParallelGC {ONE_ZONE} {XML_ALONE} {AVRO_SIZES} {HOT_CODE_ONLY}"
)
ON_A_CLUSTER = {
    "spark.executor.defaultJavaOptions": f"{ONE_ZONE} {XML_ALONE} {AVRO_SIZES} {HOT_CODE_ONLY}",
    # By default, Spark stops after it has lost twice the number of its executors during the whole job. Each pod that a full quota
    # rejects counts as lost, once a second. A job that follows for weeks would stop, and a job that meets a quota within seconds.
    "spark.executor.maxNumFailures": "900",
    "spark.executor.failuresValidityInterval": "30m",
}
if sys.platform == "linux":
    # Hadoop runs `chmod` for each file and folder that it creates on a local disk; with VFORK that takes 12 ms a file instead of 22.
    JVM_OPTIONS += " -Djdk.lang.Process.launchMechanism=VFORK"


def find_java(java_home: str | None = None) -> int:
    """Return the major version of the Java that Spark will use.

    Raises:
        JavaMissingError: there is no Java, or its version is neither 17 nor 21.
    """
    hint = (
        "Install Java 17 or 21 (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; "
        "macOS: brew install openjdk@17), or set JAVA_HOME to its folder."
    )
    java = f"{java_home}/bin/java" if java_home else shutil.which("java")
    if java is None or not Path(java).exists():
        where = f"JAVA_HOME is {java_home}, which contains no Java" if java_home else "no Java was found"
        raise JavaMissingError(f"{where}.", hint=hint)
    # In a separate process session: Ctrl-C in a terminal is meant for the driver, and would end Java without a message.
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, start_new_session=True)
    output = "\n".join(line for line in done.stderr.splitlines() if not line.startswith("Picked up "))
    match = re.search(r'version "(\d+)', output)
    if match is None or int(match[1]) not in JAVA_VERSIONS:
        reason = f"is {output.splitlines()[0]}" if output else "does not print its version"
        raise JavaMissingError(f"{java} {reason}.", hint=hint)
    return int(match[1])


def _jars(jars_dir: Path | None, conf: Mapping[str, str]) -> Path | None:
    """Return the folder whose jars go onto the class path; `None` if Spark already has Delta or fetches it."""
    if jars_dir is not None and any(jars_dir.glob("*.jar")):
        return jars_dir
    if any(class_archive.SPARK_JARS.glob("*delta-spark*.jar")) or DELTA_PACKAGE in conf.values():
        return None
    if not SHIPPED.missing(OF_THE_CLONE):
        return OF_THE_CLONE
    folder = default_jars_dir()
    SHIPPED.fill(folder)
    return folder


def resolve_packages(cache: str, packages: Sequence[str]) -> None:
    """Let Spark's package resolver put jars into a cache folder; packages are `group:name:version`, without their dependencies."""
    # With Spark's own jars only: otherwise the session would first fetch the jars that it is about to fetch.
    conf = {"spark.jars.ivy": cache}
    spark = open_session(app_name="fetch", cores=1, memory="512m", jars_dir=class_archive.SPARK_JARS, conf=conf)
    try:
        for package in packages:
            # Not `spark.jars.packages`, which also fetches dependencies; pyspark contains most of them.
            java_context(spark).addJar(f"ivy://{package}?transitive=false")
    finally:
        spark.stop()


def tasks_for(cores: int) -> dict[str, str]:
    """Return settings for the number of tasks of a query on a local Spark.

    Delta's default of 50 to rebuild a table's state, and Spark's default of 200 for a shuffle, cost seconds on two cores.
    """
    return {
        "spark.databricks.delta.snapshotPartitions": str(cores),
        "spark.sql.shuffle.partitions": str(max(4, 2 * cores)),
    }


def settled(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings together with those that must be the same in each attempt."""
    return {**conf, **meaning.settings(conf), **NEVER_OTHERWISE}


def open_session(
    *,
    app_name: str,
    cores: int = 2,
    memory: str = "6g",
    jars_dir: Path | None = None,
    java_home: str | None = None,
    conf: Mapping[str, str] | None = None,
    spec_conf: Mapping[str, str] | None = None,
    cluster: bool = False,
    stop: StopSignal | None = None,
    given_up: Callable[[], None] = lambda: None,
) -> SparkSession:
    """Open a session with Delta, without output on the terminal: embedded and local, or as `spark-defaults.conf` configures it.

    Args:
        app_name: Name of the application in Spark.
        cores: Threads of the local master.
        memory: Heap of the JVM, in Java's notation.
        jars_dir: Folder with the Delta jars; by default, those of the image or of the user's cache.
        java_home: Java to check; Spark itself uses its environment.
        conf: Further settings; they take precedence, except over `NEVER_OTHERWISE`.
        spec_conf: Settings of a spec for a local session; they take precedence too, and lists are added to ours.
        cluster: Leave master, memory, addresses and jars to `spark-defaults.conf` and the image.
        stop: A requested stop ends the start.
        given_up: Called if a stop ended the start, after the partly started Spark has stopped.

    Raises:
        JavaMissingError: see `find_java`; or Java does not start.
        JarsMissingError: Delta's jars are missing and cannot be fetched.
        StoppedEarly: a stop was requested during the start.
    """
    find_java(java_home)
    # pyspark logs every JVM error as JSON on stderr; the driver raises it once instead.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).disabled = True
    further, of_spec = dict(conf or {}), dict(spec_conf or {})

    stop = stop or StopSignal()

    def start() -> dict[str, str]:
        jars = None if cluster else _jars(jars_dir, further)
        stop.check()
        settings = _settings(app_name, cores, memory, jars, further, of_spec, cluster=cluster)
        if not cluster:
            _leave_no_empty_warehouse(settings)
        _start_context(settings)
        return settings

    # On the main thread, pyspark would handle Ctrl-C itself: it would cancel every job, and the driver could not commit.
    settings = stop.run_aside(start, partial(_take_back, given_up))
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    know_packages(spark)
    bring_log_store(spark, LOCAL)
    return spark


def _settings(
    app_name: str,
    cores: int,
    memory: str,
    jars: Path | None,
    conf: Mapping[str, str],
    spec_conf: Mapping[str, str],
    *,
    cluster: bool,
) -> dict[str, str]:
    """Return all settings of a session; later ones override: ours, the cluster's or the spec's, `conf`, `NEVER_OTHERWISE`."""
    settings: dict[str, str] = {
        "spark.app.name": app_name,
        "spark.master": f"local[{cores}]",
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": f"{JVM_OPTIONS} {class_archive.java_option(jars)}".rstrip(),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        **{
            name if name.startswith("spark.") else f"spark.hadoop.{name}": value
            for name, value in {**OF_A_SESSION, **OF_STORES}.items()
        },
        **{spark_setting(scheme): store for scheme, store in LOG_STORES.items()},
        **tasks_for(cores),
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": f"file:{POOLS_FILE}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        LOG_LEVEL: "ERROR",
    }
    if cluster:
        for name in LEFT_TO_THE_CLUSTER:
            del settings[name]
        settings |= ON_A_CLUSTER
        settings["spark.driver.extraJavaOptions"] = settings["spark.driver.extraJavaOptions"].replace(
            f"file:{LOG_FILE}", f"file:{POD_LOG_FILE}"
        )
    elif jars is not None:
        # Not `spark.jars`: a class archive does not work with its class loader.
        settings["spark.driver.extraClassPath"] = ":".join(str(jar.resolve()) for jar in sorted(jars.glob("*.jar")))
    for name, value in spec_conf.items():
        ours = settings.get(name) if name in LISTS else None
        settings[name] = f"{ours}{LISTS[name]}{value}" if ours else value
    settings = settled({**settings, **conf})
    level = settings[LOG_LEVEL]
    if cluster and level != "ERROR" and level.isalpha():
        for name in ("spark.driver.extraJavaOptions", "spark.executor.defaultJavaOptions"):
            settings[name] += f" -D{QUIET_LEVEL}={level}"
    return settings


def _leave_no_empty_warehouse(settings: Mapping[str, str]) -> None:
    """Remove at exit the folder that Spark creates in the current folder, unless it existed before or is not empty."""
    folder = Path(WAREHOUSE).absolute()

    def remove() -> None:
        with suppress(OSError):  # the folder is missing or not empty
            folder.rmdir()

    if "spark.sql.warehouse.dir" not in settings and not folder.exists():
        atexit.register(remove)


def _start_context(settings: Mapping[str, str]) -> None:
    """Start Java and Spark's context; the session then uses that context.

    Raises:
        JavaMissingError: Java does not start.
        JavaDiedError: Java did not start at first, but a second start succeeds.
        AwayError: the API server that provides executors does not answer.
    """
    conf = SparkConf()
    for name, value in settings.items():
        conf.set(name, value)
    with signals_stay_ours(), file_names_in_utf8():
        try:
            for name, value in refused_log(settings, conf).items():
                conf.set(name, value)
            SparkContext.getOrCreate(conf)
        except PySparkRuntimeError as error:
            if error.getCondition() != "JAVA_GATEWAY_EXITED":
                raise
            raise start_failure(conf.getAll()) from error
        except JAVA_ERRORS as error:
            if trouble_of(error) is not Trouble.AWAY:
                raise
            raise AwayError(
                f"Spark does not start: {describe_error(error)}.", hint="Its master does not answer."
            ) from error


def _take_back(then: Callable[[], None]) -> None:
    try:
        context = SparkContext._active_spark_context  # noqa: SLF001 - pyspark has no public name for it
        if context is not None:
            context.stop()
    finally:
        then()
