"""A record that is larger than the memory of Java, in a batch that is small while it is compressed (fault D10)."""

import json
import os
import subprocess
import sys

import yaml
from confluent_kafka import Producer
from support.endings import assert_ending
from support.kafka.topics import send_all

LARGE_BYTES = 300 * 1024 * 1024
MEMORY = "512m"


def send_large(address, topic):
    """Send a record that takes less than a megabyte while it is compressed."""
    given = {"compression.type": "zstd", "message.max.bytes": 400 * 1024 * 1024, "queue.buffering.max.kbytes": 1 << 20}
    producer = Producer({"bootstrap.servers": address, "log_level": 0, **given})
    producer.produce(topic, bytes(LARGE_BYTES), partition=0)
    assert producer.flush(120) == 0


def run_driver(topics, topic, folder):
    """Run a driver in a separate process; return its last line and its exit code."""
    spec = {
        "source": {"type": "Kafka", "kafka": {"bootstrapServers": topics.address, "topic": topic}},
        "target": {"type": "Delta", "delta": {"path": str(folder / "t")}},
        "strategy": {"type": "SourceSplits"},
    }
    document = {"apiVersion": "backfill.dev/v1alpha1", "kind": "Backfill", "metadata": {"name": "job"}, "spec": spec}
    (folder / "job.yaml").write_text(yaml.safe_dump(document))
    settings = {"BACKFILL_CORES": "1", "BACKFILL_MEMORY": MEMORY, "BACKFILL_STATE_DIR": str(folder / "state")}
    done = subprocess.run(
        [sys.executable, "-m", "backfill_spark", "-f", str(folder / "job.yaml")],
        env=os.environ | settings, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1]), done.returncode


class TestARecordLargerThanTheMemory:
    """Only compressed bytes limit a fetch, so Java ends."""

    def test_the_job_ends_with_a_message_about_memory(self, topics, tmp_path):
        """Before, the reason was `Transient` with "Spark has stopped"."""
        topic = topics.create()
        send_all(topics.address, topic, [b"small"] * 3)
        send_large(topics.address, topic)

        last, code = run_driver(topics, topic, tmp_path)

        assert_ending(last, "JavaDied", code)
        assert "out of memory" in last["message"]
        assert "BACKFILL_MEMORY" in last["hint"]
