"""A record that is larger than the memory of Java, in a batch that is small while it is compressed (fault D10)."""

import json
import os
import subprocess
import sys

import pytest
import yaml
from confluent_kafka import Producer
from deltalake import DeltaTable, QueryBuilder
from support.endings import assert_ending
from support.kafka.topics import send_all

LARGE_BYTES = 300 * 1024 * 1024
MEMORY = "512m"
SMALL = 2000
"""Records before the large one, more than a consumer decompresses ahead."""


def send_large(address, topic):
    """Send a record that takes less than a megabyte while it is compressed."""
    given = {"compression.type": "zstd", "message.max.bytes": 400 * 1024 * 1024, "queue.buffering.max.kbytes": 1 << 20}
    producer = Producer({"bootstrap.servers": address, "log_level": 0, **given})
    producer.produce(topic, bytes(LARGE_BYTES), partition=0)
    assert producer.flush(120) == 0


def run_driver(topics, topic, folder, **kafka):
    """Run a driver in a separate process; return its last line and its exit code."""
    spec = {
        "source": {"type": "Kafka", "kafka": {"bootstrapServers": topics.address, "topic": topic, **kafka}},
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


def offsets_of(path):
    """Return the offsets in a table as an independent reader sees them."""
    query = 'SELECT "offset" FROM t ORDER BY "offset"'
    return QueryBuilder().register("t", DeltaTable(str(path))).execute(query).read_all()["offset"].to_pylist()


@pytest.fixture
def topic(topics):
    """Return a topic with a large record after small ones, and small ones after it."""
    name = topics.create()
    send_all(topics.address, name, [b"small"] * SMALL)
    send_large(topics.address, name)
    send_all(topics.address, name, [b"small"] * 3)
    return name


@pytest.mark.rest
class TestARecordLargerThanTheMemory:
    """Only compressed bytes limit a fetch, so Java ends once. The next attempt finds the record without reading it."""

    def test_the_next_attempt_ends_with_the_place_of_the_record(self, topics, topic, tmp_path):
        """Before, each attempt ended with a message about memory."""
        first, died = run_driver(topics, topic, tmp_path)
        second, code = run_driver(topics, topic, tmp_path)

        assert_ending(first, "JavaDied", died)
        assert "out of memory" in first["message"]
        assert "BACKFILL_MEMORY" in first["hint"]
        assert_ending(second, "BadRecord", code)
        assert f"the record at offset {SMALL} of partition 0 " in second["message"]
        assert f"of the topic {topic} has 301 MiB" in second["message"]
        assert "BACKFILL_MEMORY" in second["message"]

    def test_the_next_attempt_sets_the_record_aside(self, topics, topic, tmp_path):
        """The job completes with all other records, and its receipt leaves out that one too."""
        quarantine = {"onBadRecord": "Quarantine", "quarantinePath": str(tmp_path / "bad")}

        run_driver(topics, topic, tmp_path, **quarantine)
        ended, code = run_driver(topics, topic, tmp_path, **quarantine)

        assert (ended["outcome"], code) == ("Complete", 0)
        assert offsets_of(tmp_path / "bad") == [SMALL]
        assert offsets_of(tmp_path / "t") == [offset for offset in range(SMALL + 4) if offset != SMALL]
