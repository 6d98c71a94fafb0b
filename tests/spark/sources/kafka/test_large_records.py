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


def run_driver(topics, topic, folder, **more):
    """Run a driver of its own process; return its last line and its exit code."""
    spec = {
        "source": {"type": "Kafka", "kafka": {"bootstrapServers": topics.address, "topic": topic}},
        "target": {"type": "Delta", "delta": {"path": str(folder / "t")}},
        "strategy": {"type": "SourceSplits"},
        **more,
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
    """A fetch is bounded by compressed bytes alone, so Java ends."""

    def test_is_named_by_its_partition_and_its_offsets(self, topics, tmp_path):
        """The end has the topic, the offsets and what helps; it was "Spark has stopped"."""
        topic = topics.create()
        send_all(topics.address, topic, [b"small"] * 3)
        send_large(topics.address, topic)

        last, code = run_driver(topics, topic, tmp_path)

        assert_ending(last, "JavaDied", code)
        assert "out of memory" in last["message"]
        assert "while Spark read the offsets 0 to 4 of partition 0 of kafka://" in last["message"]
        assert f"/{topic}." in last["message"]
        assert "BACKFILL_MEMORY" in last["hint"]

    def test_is_named_where_it_ends_the_look_at_the_first_rows(self, topics, tmp_path):
        """A transform computes a few rows before the job begins."""
        topic = topics.create()
        send_large(topics.address, topic)

        last, code = run_driver(topics, topic, tmp_path, transform={"select": ["`offset`", "length(value) AS size"]})

        assert_ending(last, "JavaDied", code)
        assert "while Spark read the offsets 0 to 1 of partition 0 of kafka://" in last["message"]
