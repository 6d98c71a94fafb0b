"""Compare a topic into Delta with a plain batch read and Structured Streaming; measure the delay of new records, and 1,000 partitions.

Part of `run.py --only kafka`: `make bench-kafka`. All sides write the same eight columns of each record, including headers.
"""

import itertools
import json
import statistics
import threading
import time
from dataclasses import dataclass, field

from by_strategy import Arrivals
from confluent_kafka import Producer
from support.kafka.broker import running_broker
from support.kafka.topics import Topics, producing
from support.tables.oracle import seals

from backfill_api.load import load_backfill
from backfill_core.strategies import source_splits
from backfill_spark.driver.attempt import run_driver
from backfill_spark.sources.kafka.source import SCHEMA

PARTITIONS, MANY = 4, 1000
ROWS_OF_MANY = 2_000_000
"""Upper limit; a smaller benchmark uses its number of rows."""

WARM_ROUNDS = 2
NEW_EVERY_S = 0.01
BARS = {
    "kafka_vs_batch": ("ratio", 0.9, "higher"), "kafka_vs_stream": ("ratio", 1.5, "higher"),
    "kafka_live_p50": ("s", 3, "lower"), "kafka_live_p99": ("s", 6, "lower"),
    "kafka_seal_p99_1000_partitions": ("ms", 500, "lower"), "kafka_state_1000_partitions": ("KiB", 64, "lower"),
}  # fmt: skip


def kafka(bench):
    """Measure every figure with one broker."""
    (bench.scratch / "broker").mkdir()
    with running_broker(bench.scratch / "broker") as broker:
        topic = Topic(broker.address, "small", PARTITIONS, bench.rows)
        copies(bench, topic)
        live(bench, topic)
        streams(bench, topic)
        many_partitions(bench, broker.address)


@dataclass(frozen=True)
class Topic:
    """A topic that is filled with small records once."""

    address: str
    name: str
    partitions: int
    rows: int

    def __post_init__(self):
        Topics(self.address).create(self.name, self.partitions)
        with producing(self.address) as send:
            for number in range(self.rows):
                value = b'{"order": %d, "amount": %d}' % (number, number % 997)
                send(self.name, value, b"%d" % (number % 50_000), partition=number % self.partitions)

    def options(self):
        return {"kafka.bootstrap.servers": self.address, "subscribe": self.name, "includeHeaders": "true"}


def ours(bench, topic, target="ours", observe=None):
    """Copy a topic; return the outcome."""
    target = bench.fresh(target)
    backfill = load_backfill(
        {
            "apiVersion": "backfill.dev/v1alpha1",
            "kind": "Backfill",
            "metadata": {"name": "bench"},
            "spec": {
                "source": {"type": "Kafka", "kafka": {"bootstrapServers": topic.address, "topic": topic.name}},
                "target": {"type": "Delta", "delta": {"path": target, "writeMode": "Append"}},
                "strategy": {"type": "SourceSplits"},
            },
        }
    )
    outcome = run_driver(backfill, settings=bench.settings, observe=observe or (lambda _: None), spark=bench.spark)
    assert outcome.outcome == "Complete", outcome
    return outcome


def batch(bench, topic):
    """Read the topic once from the oldest record to the newest: the hand-written alternative."""
    records = bench.spark.read.format("kafka").options(**topic.options(), startingOffsets="earliest").load()
    records.select(*SCHEMA.names).write.format("delta").save(bench.fresh("batch"))


def stream(bench, topic, offsets):
    """Copy a topic in micro-batches of this many offsets."""
    options = topic.options() | {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(offsets)}
    records = bench.spark.readStream.format("kafka").options(**options).load().select(*SCHEMA.names)
    writer = records.writeStream.format("delta").option("checkpointLocation", bench.fresh("checkpoint"))
    writer.trigger(availableNow=True).start(bench.fresh("stream")).awaitTermination()


def copies(bench, topic):
    """Copy in turns, warm."""
    for _ in range(WARM_ROUNDS):
        batch(bench, topic)
        ours(bench, topic)
    for _ in range(bench.runs):
        bench.timed("kafka_batch", lambda: batch(bench, topic))
        progress = bench.timed("kafka", lambda: ours(bench, topic)).progress
        assert progress.rows_done == topic.rows
        bench.extra.setdefault("seal_ms_p99", []).append(progress.seal_ms_p99)
    bench.put("kafka_vs_batch", bench.middle()["kafka_batch"] / bench.middle()["kafka"])


def streams(bench, topic):
    """Run the streams after the copies, as in `run.py`; a micro-batch has as many records as our job copies in a second."""
    offsets = int(topic.rows / bench.middle()["kafka"])
    bench.extra["stream_offsets_a_batch"] = offsets
    for _ in range(min(3, bench.runs)):
        bench.timed("kafka_stream", lambda: stream(bench, topic, offsets))
    bench.put("kafka_vs_stream", bench.middle()["kafka_stream"] / bench.middle()["kafka"])


# ---------------------------------------------------------------- new records
@dataclass
class NewRecords:
    """Records that are written one by one, to each partition in turn."""

    topic: Topic
    written_s: dict[tuple[int, int], float] = field(default_factory=dict)
    """Time at which each record was handed to the producer, by partition and offset."""

    ended: threading.Event = field(default_factory=threading.Event)

    def write(self):
        """Write records until `ended` is set."""
        producer = Producer({"bootstrap.servers": self.topic.address, "linger.ms": 2, "log_level": 0})
        for number in itertools.count():
            if self.ended.wait(NEW_EVERY_S):
                break
            now_s = time.monotonic()

            def note(_error, message, now_s=now_s):
                self.written_s[message.partition(), message.offset()] = now_s

            producer.produce(self.topic.name, b"new", partition=number % self.topic.partitions, on_delivery=note)
            producer.poll(0)
        assert producer.flush(30) == 0


class Commits(Arrivals):
    """Time at which each version was visible."""

    def take(self, version, lines, visible_s):
        self.seen_s[version] = visible_s


def live(bench, topic):
    """Write new records while history is read, and measure the time until a reader of the target sees each record."""
    latency_s = []
    for _ in range(bench.runs):
        bench.timed("kafka_live", lambda: latency_s.extend(one_live_run(bench, topic)))
    latencies = sorted(latency_s)
    bench.extra["live"] = {"records": len(latencies), "max_s": round(latencies[-1], 2)}
    bench.put("kafka_live_p50", statistics.median(latencies))
    bench.put("kafka_live_p99", latencies[len(latencies) * 99 // 100])


def one_live_run(bench, topic):
    """Return the seconds from written to visible, for each record written between the first and the last commit of history.

    If the run ended without a record, its time counts until the end of the run, which is a lower bound.
    """
    new, commits = NewRecords(topic), Commits(bench.fresh("live"))
    threads = [threading.Thread(target=new.write), threading.Thread(target=commits.watch)]

    def observe(progress):
        # Records after the history do not count here, and would be history of the next run.
        if progress.phase not in {"", "History"}:
            new.ended.set()

    for thread in threads:
        thread.start()
    try:
        ours(bench, topic, "live", observe)
    finally:
        new.ended.set()
        threads[0].join()
        commits.ended.set()
        threads[1].join()
    states = [
        (commits.seen_s[seal.version], source_splits.STRATEGY.decode(seal.progress)) for seal in seals(commits.path)
    ]
    of_history = [at for at, stored in states if stored.phase == "History"]
    first_s, last_s = of_history[0], of_history[-1]
    return [
        next((at for at, stored in states if stored.splits[str(partition)].live > offset), states[-1][0]) - written_s
        for (partition, offset), written_s in new.written_s.items()
        if first_s <= written_s <= last_s
    ]


# ---------------------------------------------------------------- a thousand partitions
def many_partitions(bench, address):
    """Measure the duration of a commit and the size of the state for a topic with a thousand partitions."""
    topic = Topic(address, "many", MANY, min(bench.rows, ROWS_OF_MANY))
    p99, state = [], []
    # One run only: it is no figure, and waits half a second for the end of each partition.
    bench.timed("kafka_batch_1000_partitions", lambda: batch(bench, topic))
    for _ in range(min(3, bench.runs)):
        progress = bench.timed("kafka_1000_partitions", lambda: ours(bench, topic, "many")).progress
        p99.append(progress.seal_ms_p99)
        state += [len(json.dumps(seal.state)) / 1024 for seal in seals(f"{bench.scratch}/many")]
    bench.put("kafka_seal_p99_1000_partitions", statistics.median(p99))
    bench.put("kafka_state_1000_partitions", max(state))
