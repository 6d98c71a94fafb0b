"""A real broker for tests: one process that is broker and controller, on one address, with free ports; up in seconds.

Its jars are fetched by checksum for the first test that needs one. In addition to the plain listener it has one with a password
and one with TLS. So the same broker serves the tests of rejected clients.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from support.cluster.certificates import certificate
from support.unused_ports import unused_ports

from backfill_spark.jvm.class_archive import SPARK_JARS
from backfill_spark.jvm.jars import JarList

ROOT = Path(__file__).parent.parent.parent.parent
JARS = JarList("the jars of a Kafka broker", Path(__file__).with_name("broker.sha256"))
FOLDER = ROOT / ".cache" / "kafka-broker"
UP_S = 90
HOST = "127.0.0.1"
USER, PASSWORD = "reader", "the password of a reader"
MESSAGE_MAX = 16 * 1024 * 1024
JAVA = ("java", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAIN",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAIN:PLAINTEXT,PASSWORD:SASL_PLAINTEXT,TLS:SSL",
    "auto.create.topics.enable": "false",
    "message.max.bytes": MESSAGE_MAX,
    "replica.fetch.max.bytes": MESSAGE_MAX,
    # A cluster of one broker.
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # An old record stays, unless a topic configures retention.
    "log.retention.ms": "-1",
    # Compaction and retention within a test's timeout.
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.cleaner.io.buffer.size": "524288",
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "500",
    "log.segment.delete.delay.ms": "100",
    "log.index.size.max.bytes": "65536",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.password.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'user_{USER}="{PASSWORD}";'
    ),
    "ssl.keystore.type": "PEM",
}  # fmt: skip


class Broker:
    """One broker with one folder; it can be stopped and started, on the same ports, with the same data."""

    def __init__(self, folder: Path, host: str = HOST) -> None:
        """Prepare the folder of a new broker, at an address of this machine; starts nothing."""
        JARS.fill(FOLDER)
        self.folder, self._host = folder, host
        self.certificate, key = certificate(folder, "broker")
        self._ports = dict(zip(("PLAIN", "PASSWORD", "TLS", "CONTROLLER"), unused_ports(host, 4), strict=True))
        self._process: subprocess.Popen[bytes] | None = None
        self._settings = folder / "server.properties"
        places = {name: f"{name}://{host}:{port}" for name, port in self._ports.items()}
        properties = {
            **SETTINGS,
            "log.dirs": folder / "log",
            "listeners": ",".join(places.values()),
            "advertised.listeners": ",".join(text for name, text in places.items() if name != "CONTROLLER"),
            "controller.quorum.voters": f"1@{host}:{self._ports['CONTROLLER']}",
            "ssl.keystore.key": _one_line(key.read_text()),
            "ssl.keystore.certificate.chain": _one_line(self.certificate.read_text()),
        }
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        done = self._java("kafka.tools.StorageTool", "format", "-t", "ZmlyLWEtYnJva2VyLW9mLQ", "-c", self._settings)
        output, _ = done.communicate(timeout=UP_S)
        assert done.returncode == 0, output.decode()

    @property
    def address(self) -> str:
        """Address for a plain client."""
        return f"{self._host}:{self._ports['PLAIN']}"

    @property
    def password_address(self) -> str:
        """Address for a client with the name `USER` and the `PASSWORD`, by SASL/PLAIN."""
        return f"{self._host}:{self._ports['PASSWORD']}"

    @property
    def tls_address(self) -> str:
        """Address for a client that trusts `certificate`, which is valid only for the loopback address."""
        return f"{self._host}:{self._ports['TLS']}"

    @property
    def misnamed_tls_address(self) -> str:
        """The same listener, by a name that the certificate does not contain."""
        return f"localhost:{self._ports['TLS']}"

    @property
    def pid(self) -> int:
        """The process, while it runs."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, and return when it answers for each of its partitions."""
        self._process = self._java("kafka.Kafka", self._settings)
        deadline = time.monotonic() + UP_S
        admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        while True:
            assert self._process.poll() is None, self._said()
            try:
                topics = admin.list_topics(timeout=1).topics.values()
                # A broker names itself their leader before it is.
                parts = [TopicPartition(topic.topic, partition) for topic in topics for partition in topic.partitions]
                for future in (
                    admin.list_offsets({partition: OffsetSpec.latest() for partition in parts}).values()
                    if parts
                    else ()
                ):
                    future.result(UP_S)
                return
            except KafkaException:
                assert time.monotonic() < deadline, self._said()

    def stop(self) -> None:
        """End it in order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a power cut does."""
        self._end(signal.SIGKILL)

    @contextmanager
    def stopped(self):
        """Stop the broker for the duration of the context."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(timeout=UP_S)
            self._process = None

    def _java(self, *arguments: object) -> subprocess.Popen[bytes]:
        # Spark's resolver fetches no Scala library: Spark brings it.
        jars = [*sorted(FOLDER.glob("*.jar")), *SPARK_JARS.glob("scala-library-*.jar")]
        classes = ":".join(map(str, jars))
        kept = {name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"}
        log = (self.folder / "said.log").open("ab")
        return subprocess.Popen(
            [*JAVA, "-cp", classes, *map(str, arguments)],
            stdout=log, stderr=subprocess.STDOUT, env=kept, start_new_session=True,
        )  # fmt: skip

    def _said(self) -> str:
        return (self.folder / "said.log").read_text()[-4000:]


@contextmanager
def running_broker(folder: Path, host: str = HOST):
    """Yield a running broker; it is killed afterwards."""
    broker = Broker(folder, host)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


def _one_line(pem: str) -> str:
    """Return a PEM string as a properties file contains it."""
    return pem.strip().replace("\n", "\\n")
