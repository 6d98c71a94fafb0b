"""A real Hive metastore for tests: one process with Derby inside, on a free port of the loopback address, up in seconds.

Its jars are fetched by checksum for the first test that needs them; those that Spark has too are Spark's. The client's jars are
in the same folder: Spark's own client is one of Hive 2.3, which this metastore rejects (`Invalid method name: 'get_table'`).
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from support.unused_ports import unused_ports

from backfill_core.errors import JarsMissingError
from backfill_spark.jvm.class_archive import SPARK_JARS
from backfill_spark.jvm.jars import JarList

ROOT = Path(__file__).parent.parent.parent.parent
VERSION = "4.0.1"
JARS = JarList("the jars of a Hive metastore", Path(__file__).with_name("metastore.sha256"))
FOLDER = ROOT / ".cache" / "hive-metastore"
HOST = "127.0.0.1"
UP_S = 90
POLL_S = 0.1
JAVA = ("java", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
OF_SPARK = (
    "hadoop-client-api", "hadoop-client-runtime", "log4j-1.2-api", "log4j-api", "log4j-core", "log4j-slf4j2-impl", "slf4j-api",
    "jcl-over-slf4j", "commons-lang3", "commons-io", "libthrift", "libfb303", "gson", "httpclient", "httpcore", "javax.servlet-api",
    "jackson-core", "jackson-databind", "jackson-annotations", "jsr305",
)  # fmt: skip
"""Jars of Spark that the server uses."""

ONLY_OF_A_CLIENT = "hive-exec"
OF_A_CLIENT = ("hive-exec", "hive-common", "guava")
OF_A_CLIENT_AND_SPARK = ("commons-lang3", "commons-io", "antlr-runtime", "httpcore", "httpclient", "javax.servlet-api")
LOGGING = """
rootLogger.level=ERROR
rootLogger.appenderRef.console.ref=console
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%p %c: %m%n
"""


class Metastore:
    """One metastore with one folder for its database and its warehouse."""

    def __init__(self, folder: Path, host: str = HOST) -> None:
        """Prepare a new metastore on an address of this machine; starts nothing."""
        self.folder, self.host = folder, host
        [self.port] = unused_ports(host, 1)
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "log4j2.properties").write_text(LOGGING)

    @property
    def warehouse(self) -> str:
        """Folder of the tables whose location the catalog chooses."""
        return str(self.folder / "warehouse")

    def conf(self, client_jars: str | None = None) -> dict[str, str]:
        """Return the settings of a Spark session, or of a spec, that names its tables here; a pod has its client's jars elsewhere."""
        return {
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.hive.metastore.uris": f"thrift://{self.host}:{self.port}",
            "spark.sql.hive.metastore.version": VERSION,
            "spark.sql.hive.metastore.jars": "path",
            "spark.sql.hive.metastore.jars.path": client_jars or ",".join(map(str, of_client())),
            "spark.sql.warehouse.dir": f"file:{self.warehouse}",
        }

    def start(self) -> None:
        """Start it, and return when it accepts connections."""
        self._process = self._java()
        deadline = time.monotonic() + UP_S
        while not _accepts(self.host, self.port):
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=POLL_S)
                raise AssertionError(self._said())
            assert time.monotonic() < deadline, self._said()

    def stop(self) -> None:
        """End the process, which keeps its database."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(timeout=UP_S)
            self._process = None

    def _java(self) -> subprocess.Popen[bytes]:
        settings = {
            "log4j2.configurationFile": f"file:{self.folder}/log4j2.properties",
            "derby.system.home": self.folder,
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={self.folder}/database;create=true",
            "datanucleus.schema.autoCreateAll": "true",
            "metastore.schema.verification": "false",
            "metastore.thrift.bind.host": self.host,
            "metastore.warehouse.dir": f"file:{self.warehouse}",
        }
        options = [f"-D{name}={value}" for name, value in settings.items()]
        ours = [path for path in sorted(FOLDER.glob("*.jar")) if ONLY_OF_A_CLIENT not in path.name]
        classes = ":".join(map(str, [*ours, *_of_spark(OF_SPARK)]))
        kept = {name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"}
        with (self.folder / "said.log").open("ab") as log:
            return subprocess.Popen(
                [*JAVA, *options, "-cp", classes, "org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(self.port)],
                cwd=self.folder, stdout=log, stderr=subprocess.STDOUT, env=kept, start_new_session=True,
            )  # fmt: skip

    def _said(self) -> str:
        return (self.folder / "said.log").read_text()[-4000:]


@contextmanager
def running_metastore(folder: Path, host: str = HOST):
    """Yield a running metastore; skip the test if its jars cannot be fetched."""
    try:
        JARS.fill(FOLDER)
    except JarsMissingError as error:
        pytest.skip(f"{error.message} {error.hint}")
    metastore = Metastore(folder, host)
    try:
        metastore.start()
        yield metastore
    finally:
        metastore.stop()


def of_client() -> list[Path]:
    """Return the jars of the client that this metastore accepts."""
    ours = [path for name in OF_A_CLIENT for path in FOLDER.glob(f"*_{name}-[0-9]*.jar")]
    return [*ours, *_of_spark(OF_A_CLIENT_AND_SPARK)]


def _of_spark(names: tuple[str, ...]) -> list[Path]:
    return [path for name in names for path in SPARK_JARS.glob(f"{name}-[0-9]*.jar")]


def _accepts(host: str, port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((host, port)) == 0
