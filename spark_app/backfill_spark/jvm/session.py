"""The one place that makes a Spark session; it checks Java and Delta's jars first."""

from __future__ import annotations

import atexit
import logging
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
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
from backfill_spark.jvm.failures import Trouble, in_words, trouble_of
from backfill_spark.jvm.gateway import java_context, know_packages
from backfill_spark.jvm.jars import DELTA_PACKAGE, OF_THE_CLONE, SHIPPED
from backfill_spark.jvm.java_process import signals_stay_ours, start_failure
from backfill_spark.jvm.log_stores import s3
from backfill_spark.settings import default_jars_dir
from backfill_spark.stop_signal import StopSignal

JAVA_VERSIONS = (17, 21)
WAREHOUSE = "spark-warehouse"
LISTS = {"spark.driver.extraJavaOptions": " ", "spark.driver.extraClassPath": ":", "spark.sql.extensions": ","}
"""Settings that are lists, by what stands between two entries: a spec adds to ours."""

LEFT_TO_THE_CLUSTER = ("spark.master", "spark.driver.memory", "spark.driver.bindAddress", "spark.driver.host")
POOLS_FILE = Path(__file__).with_name("pools.xml")
LOG_FILE = Path(__file__).with_name("log4j2.properties")
POD_LOG_FILE = Path(__file__).with_name("log4j2-pod.properties")
"""The same loggers, as JSON lines."""

CIPHERS_SOON = " ".join(
    f"-XX:CompileCommand={command}"
    for command in (
        "quiet",
        "CompileThresholdScaling,com.sun.crypto.provider.*::*,0.1",
        "CompileThresholdScaling,sun.security.provider.*::*,0.1",
    )
)
"""Java's own numbers for ciphers and digests: only the second compiler knows the processor's instructions for them. A record of
TLS has 16 KB, so with ten times the numbers the first 460 MB went through AES-GCM at 65 MB per CPU second instead of 1,100."""

HOT_CODE_ONLY = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000 "
    + CIPHERS_SOON
)
"""Ten times Java's own numbers: what a job does per row is compiled to the utmost as ever, what it does per split is not
(ADR 0030)."""

ONE_ZONE = "-Duser.timezone=UTC"
"""Java's older classes of time read and write texts in the zone of the machine, whatever Spark's own zone is."""

NEVER_OTHERWISE = {
    # `${env:…}` in an expression would write the driver's environment into the target.
    "spark.sql.variable.substitute": "false",
    # A file that is gone or broken is an error, not fewer rows.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    # Without this timestamps are written as INT96, which has no statistics in the footer.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Statistics in the log are taken from footers, which say the days of any calendar as if they were today's.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    # A write removes all files of its folder: those that an earlier try left, too.
    "spark.sql.sources.partitionOverwriteMode": "STATIC",
    # Delta hands a change feed over as values of Java's classes; the older ones move the days from 1582-10-05 to 14.
    "spark.sql.datetime.java8API.enabled": "true",
    # Delta refuses a table that maps its columns by id without the first two; the third reads a file without ids as nulls.
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.parquet.fieldId.write.enabled": "true",
    "spark.sql.parquet.fieldId.read.ignoreMissing": "false",
}
"""These override a spec, an image and a cluster."""

OF_A_SESSION = {
    "spark.sql.parquet.compression.codec": "zstd",
    # Measured on 20 M rows: an eighth less work than the default level 3 for files 7 % larger.
    "parquet.compression.codec.zstd.level": "1",
    # The parts of a split are folders; without this each task would sort its rows by them. One second's parts, and
    # those of the largest file that is read whole, are fewer; with more (a partitioned target) a task sorts the rest.
    "spark.sql.maxConcurrentOutputFileWriters": "32",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # Staged files are invisible until sealed, so the committer need not rename them into place.
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
}
"""How files are written; a session hands on to Hadoop what is not Spark's."""

CREDENTIALS = (
    "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider,org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider,"
    "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider,"
    "software.amazon.awssdk.auth.credentials.WebIdentityTokenFileCredentialsProvider,"
    "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider"
)
"""Where keys of S3 are looked for, in this order; a spec has none."""

OF_STORES = {
    "fs.s3a.create.conditional.enabled": "true",
    "fs.s3a.aws.credentials.provider": CREDENTIALS,
    # Hadoop's default is in a jar of its own.
    "fs.s3a.input.stream.type": "classic",
    # Hadoop would read from any server that a text names.
    **{f"fs.{scheme}.impl": "switched.off.by.backfill" for scheme in ("http", "https", "ftp", "sftp")},
}
"""Of Hadoop, when a store is opened for the first time: a caller's session has its own."""

XML_ALONE = "-Djavax.xml.accessExternalDTD= -Djavax.xml.accessExternalSchema= -Djavax.xml.accessExternalStylesheet="
"""XML names no file and no URL: a document of a row could else have Java send a local file to any server."""

JVM_OPTIONS = f"-Dlog4j2.configurationFile=file:{LOG_FILE} -XX:+UseParallelGC {ONE_ZONE} {XML_ALONE} {HOT_CODE_ONLY}"
ON_A_CLUSTER = {
    "spark.executor.defaultJavaOptions": f"{ONE_ZONE} {XML_ALONE} {HOT_CODE_ONLY}",
    # Spark stops for good after twice as many lost executors as there are, counted over the whole job, and counts each refusal of
    # a pod by a full quota, once a second. So a job that follows for weeks would end, and one that meets a quota within seconds.
    "spark.executor.maxNumFailures": "900",
    "spark.executor.failuresValidityInterval": "30m",
}
if sys.platform == "linux":
    # Hadoop runs `chmod` for each file and folder it makes on a local disk: 12 ms a file instead of 22.
    JVM_OPTIONS += " -Djdk.lang.Process.launchMechanism=VFORK"


def find_java(java_home: str | None = None) -> int:
    """Return the major version of the Java that Spark will use.

    Raises:
        JavaMissingError: there is none, or it is neither 17 nor 21.
    """
    hint = (
        "Install Java 17 or 21 (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; "
        "macOS: brew install openjdk@17), or point JAVA_HOME at one."
    )
    java = f"{java_home}/bin/java" if java_home else shutil.which("java")
    if java is None or not Path(java).exists():
        where = f"JAVA_HOME is {java_home}, where no Java is" if java_home else "no Java was found"
        raise JavaMissingError(f"{where}.", hint=hint)
    # In a session of its own: Ctrl-C in a terminal is for us, and would end it without a word.
    asked = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, start_new_session=True)
    said = "\n".join(line for line in asked.stderr.splitlines() if not line.startswith("Picked up "))
    match = re.search(r'version "(\d+)', said)
    if match is None or int(match[1]) not in JAVA_VERSIONS:
        raise JavaMissingError(f"{java} is {said.splitlines()[0] if said else 'silent about its version'}.", hint=hint)
    return int(match[1])


def _jars(jars_dir: Path | None, conf: Mapping[str, str]) -> Path | None:
    """Return the folder whose jars go onto the class path; None: Spark has Delta already, or fetches it."""
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
    """Let Spark's package resolver put jars into a cache folder; packages are `group:name:version`, without what they need."""
    # With Spark's own jars: it would fetch ours in order to fetch them.
    conf = {"spark.jars.ivy": cache}
    spark = open_session(app_name="fetch", cores=1, memory="512m", jars_dir=class_archive.SPARK_JARS, conf=conf)
    try:
        for one in packages:
            # Not `spark.jars.packages`: it fetches what a package needs too, most of which pyspark ships.
            java_context(spark).addJar(f"ivy://{one}?transitive=false")
    finally:
        spark.stop()


def tasks_for(cores: int) -> dict[str, str]:
    """Return how many tasks a query has on a local Spark.

    Delta's default of 50 to rebuild a table's state, and Spark's of 200 for a shuffle, cost seconds on two cores.
    """
    return {
        "spark.databricks.delta.snapshotPartitions": str(cores),
        "spark.sql.shuffle.partitions": str(max(4, 2 * cores)),
    }


def settled(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings, with those that must be the same in each attempt."""
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
    """Open a session with Delta, quiet on the terminal: embedded and local, or as `spark-defaults.conf` says.

    Args:
        app_name: Shown in Spark's own places.
        cores: Threads of the local master.
        memory: Heap of the JVM, as Java says it.
        jars_dir: Folder with the Delta jars; without it they are those of the image, or of the user's cache.
        java_home: Java to check; Spark itself goes by its environment.
        conf: Further settings; they win, except over `NEVER_OTHERWISE`.
        spec_conf: Those of a spec for a local session: they win too, and a list is added to ours.
        cluster: Leave master, memory, addresses and jars to `spark-defaults.conf` and the image.
        stop: Ends the start when it is asked.
        given_up: Called when a stop ended the start, and what had started is gone again.

    Raises:
        JavaMissingError: see `find_java`; or Java does not start.
        JarsMissingError: Delta's jars are not there and cannot be fetched.
        StoppedEarly: the attempt was asked to end meanwhile.
    """
    find_java(java_home)
    # pyspark repeats every JVM error as JSON on stderr; we raise it, once.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).disabled = True
    more, wanted = dict(conf or {}), dict(spec_conf or {})

    stop = stop or StopSignal()

    def start() -> dict[str, str]:
        jars = None if cluster else _jars(jars_dir, more)
        stop.check()
        found = _settings(app_name, cores, memory, jars, more, wanted, cluster=cluster)
        if not cluster:
            _leave_no_empty_warehouse(found)
        _start_context(found)
        return found

    # On the main thread pyspark would take Ctrl-C for itself: every job cancelled, and no commit.
    found = stop.run_aside(start, partial(_take_back, given_up))
    builder = SparkSession.builder
    for name, value in found.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    know_packages(spark)
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
    """Return all settings of a session: ours, then the cluster's or the spec's, then `conf`, then `NEVER_OTHERWISE`."""
    found: dict[str, str] = {
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
        s3.SPARK_SETTING: s3.LOG_STORE,
        **tasks_for(cores),
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": f"file:{POOLS_FILE}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    if cluster:
        for name in LEFT_TO_THE_CLUSTER:
            del found[name]
        found |= ON_A_CLUSTER
        found["spark.driver.extraJavaOptions"] = found["spark.driver.extraJavaOptions"].replace(
            f"file:{LOG_FILE}", f"file:{POD_LOG_FILE}"
        )
    elif jars is not None:
        # Not `spark.jars`, whose class loader a class archive does not serve.
        found["spark.driver.extraClassPath"] = ":".join(str(jar.resolve()) for jar in sorted(jars.glob("*.jar")))
    for name, value in spec_conf.items():
        ours = found.get(name) if name in LISTS else None
        found[name] = f"{ours}{LISTS[name]}{value}" if ours else value
    return settled({**found, **conf})


def executors_there(spark: SparkSession) -> int:
    """Return how many executors are registered now."""
    # The driver counts as one.
    return int(java_context(spark).sc().getExecutorMemoryStatus().size()) - 1


def executors_removed(spark: SparkSession, known: Collection[str]) -> dict[str, str]:
    """Return Spark's message for each removed executor that it still lists, by id; empty for one that is `known`.

    A question to Java for each executor: so the known ones are not asked for their message.
    """
    store = java_context(spark).sc().statusStore()
    listed = store.executorList(False)
    if listed.size() == store.executorList(True).size():
        return {}
    found: dict[str, str] = {}
    for place in range(listed.size()):
        executor = listed.apply(place)
        if not executor.isActive():
            name = str(executor.id())
            reason = executor.removeReason()
            found[name] = str(reason.get()) if name not in known and reason.isDefined() else ""
    return found


def _leave_no_empty_warehouse(settings: Mapping[str, str]) -> None:
    """Take the folder away in the end that Spark makes where we are, unless there was one or something is in it."""
    folder = Path(WAREHOUSE).absolute()

    def remove() -> None:
        with suppress(OSError):  # it is not there, or not empty
            folder.rmdir()

    if "spark.sql.warehouse.dir" not in settings and not folder.exists():
        atexit.register(remove)


def _start_context(settings: Mapping[str, str]) -> None:
    """Start Java and Spark's context, which the session then finds.

    Raises:
        JavaMissingError: Java does not start.
        JavaDiedError: it did not start, and does now.
        AwayError: the API server that Spark asks for executors does not answer.
    """
    conf = SparkConf()
    for name, value in settings.items():
        conf.set(name, value)
    with signals_stay_ours():
        try:
            SparkContext.getOrCreate(conf)
        except PySparkRuntimeError as error:
            if error.getCondition() != "JAVA_GATEWAY_EXITED":
                raise
            raise start_failure(conf.getAll()) from error
        except JAVA_ERRORS as error:
            if trouble_of(error) is not Trouble.AWAY:
                raise
            raise AwayError(f"Spark does not start: {in_words(error)}.", hint="Its master does not answer.") from error


def _take_back(then: Callable[[], None]) -> None:
    try:
        context = SparkContext._active_spark_context  # noqa: SLF001 - has no other name
        if context is not None:
            context.stop()
    finally:
        then()
