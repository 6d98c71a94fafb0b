"""Jobs of a topic that die: producers write to it meanwhile, plain records and transactions, some of which abort or stay open.

Some records cannot be parsed. Another client library reads the committed records, another implementation of Delta reads the
tables. Each commit of the target is compared: it holds exactly the records at the offsets that its state names.
"""

import itertools
import json
import random
import threading
from collections import Counter
from contextlib import contextmanager

import yaml
from support.crashes.deaths import Death, MortalJob
from support.kafka.topics import Topics, producing, transacting
from support.tables.oracle import columns_of

PARTITIONS, HISTORY = 3, 12_000
RATE = 1_500
"""Slow enough that some drivers die during the history: eight seconds, split into attempts."""

BAD_EVERY, BAD = 97, b"no number"
KEYS, REMOVED_EVERY = 700, 11
"""Keys of a partition, and how often a record removes its key."""

MODES = ("Append", "Upsert")
"""Modes of the first two jobs, and of all others by turns."""

PRODUCE_EVERY_S = (0.2, 0.8)
OPEN_S = 3.0
"""Seconds for which one of the transactions is open: no record behind it is committed meanwhile."""


class Producers:
    """Writer to one topic, on a thread, until it is stopped."""

    def __init__(self, address, topic, seed, history):
        self._address, self._topic, self._random = address, topic, random.Random(f"producers/{seed}")
        self._history = history
        self._numbers = itertools.count(1)
        self._ended = threading.Event()
        self._failed = None
        self.aborted = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def history(self):
        """Write the history before the job: plain records, and transactions of which every third aborts."""
        with producing(self._address) as send:
            self._some(send, self._history // 2)
        with transacting(self._address) as transaction:
            for number in range(6):
                with transaction(abort=number % 3 == 2) as send:
                    self._some(send, self._history // 12)
                self.aborted += number % 3 == 2

    @contextmanager
    def writing(self):
        """Write meanwhile; all open transactions are committed or aborted afterwards."""
        self._thread.start()
        try:
            yield
        finally:
            self._ended.set()
            self._thread.join()
        if self._failed is not None:
            raise self._failed

    def _run(self):
        try:
            with producing(self._address) as send, transacting(self._address) as transaction:
                while not self._ended.wait(self._random.uniform(*PRODUCE_EVERY_S)):
                    self._turn(send, transaction)
        except Exception as error:
            self._failed = error

    def _turn(self, send, transaction):
        count = self._random.choice([1, 5, 40])
        match self._random.randrange(8):
            case 0:
                with transaction(abort=True) as held:
                    self._some(held, count)
                self.aborted += 1
            case 1:
                with transaction() as held:
                    self._some(held, count)
                    self._some(send, count)
                    self._ended.wait(OPEN_S)
            case 2 | 3:
                with transaction() as held:
                    self._some(held, count)
            case _:
                self._some(send, count)

    def _some(self, send, count):
        for _ in range(count):
            number = next(self._numbers)
            value = BAD if number % BAD_EVERY == 0 else json.dumps({"number": number}).encode()
            partition = self._random.randrange(PARTITIONS)
            key = f"{partition}-{self._random.randrange(KEYS)}".encode()
            send(self._topic, None if number % REMOVED_EVERY == 0 else value, key, partition=partition)


def held_by(progress):
    """Return the offsets `[start, stop)` that a stored state names, by partition, as rule R-SRC-44 writes it."""
    held = {}
    for name, split in progress["splits"].items():
        start, live = progress["starts"][name], progress["live"][name]
        end = start if split["target_offset"] is None else int(split["target_offset"]) + 1
        backfilling = isinstance(split["state"], dict) and "Backfilling" in split["state"]
        last = split["state"]["Backfilling"] if backfilling else None
        reached = (start if last is None else int(last) + 1) if backfilling else end
        held[int(name)] = ((start, reached), (end, live))
    return held


def folded(committed):
    """Return the places of the records that an upsert target holds: the last one of each key, if it has a value."""
    last = {}
    for place, record in sorted(committed.items()):
        if record.value != BAD:
            last[record.key] = None if record.value is None else place
    return {place for place in last.values() if place is not None}


def placed(path, version=None):
    """Return the number of rows of each record in a table, by partition and offset."""
    return Counter(columns_of(path, "partition", "offset", version=version))


class TopicJob(MortalJob):
    """One topic, one job, many deaths."""

    POINTS = (
        "after_fence:1", "after_finish:1", "before_seal:3", "after_seal_commit:3", "before_ack:1", "before_quarantine:1",
        "after_quarantine:2", "after_seal_commit:2", "before_orphan_removal:1", "after_orphan_removal:1",
        "before_finish:1", "before_quarantine:2",
    )  # fmt: skip
    """A driver that passes no second quarantine completes the job, so that point comes last."""

    OF_MERGES = (
        "before_merge:1", "after_merge:2", "before_quarantine:1", "after_quarantine:2", "after_merge:1", "before_seal:4",
        "before_merge:2",
    )  # fmt: skip
    """The same for a target with one row a key."""

    def __init__(self, spark, folder, strategy, seed, address, history=HISTORY, rate=RATE):
        super().__init__(spark, folder, strategy, seed, rate=rate)
        self.strategy, self.address, self.rate = strategy, address, rate
        self.mode = self.report.mode = MODES[seed % len(MODES)]
        self.bad = f"{folder}/bad"
        self.topics = Topics(address)
        self.topic = self.topics.create(partitions=PARTITIONS)
        self.producers = Producers(address, self.topic, seed, history)
        self.producers.history()

    def deaths(self):
        """Return every named point for the first job of each mode, random times for the others."""
        return [Death(point) for point in self.OF_MERGES] if self.seed == 1 else super().deaths()

    def write(self, *, limited):
        """Write a job that appends all records, or merges them by key; unparsable records go into a separate table."""
        source = {
            "bootstrapServers": self.address, "topic": self.topic, "onBadRecord": "Quarantine", "quarantinePath": self.bad,
        }  # fmt: skip
        number = "from_json(cast(value AS string), 'number BIGINT').number AS number"
        spec = {
            "source": {"type": "Kafka", "kafka": source},
            "target": {"type": "Delta", "delta": {"path": self.target, "writeMode": self.mode, "key": ["key"]}},
            "strategy": {"type": self.strategy},
            "transform": {"select": ["`partition`", "offset", "cast(key AS string) AS key", number]},
            "barrier": {"intervalMs": 200}, "verify": "Final",
            **({"throttle": {"rowsPerSecond": self.rate}} if limited else {}),
        }  # fmt: skip
        named = {"apiVersion": "backfill.dev/v1alpha1", "kind": "Backfill", "metadata": {"name": self.name}}
        self.file.write_text(yaml.safe_dump(named | {"spec": spec}))

    def changing(self):
        """Let the producers write until the last driver starts."""
        return self.producers.writing()

    def wrong(self, new):
        """Compare the target with the committed records, and the current table of bad records with the last seal."""
        committed = self.topics.committed(self.topic)
        unparsed = {place for place, record in committed.items() if record.value == BAD}
        for seal in new:
            held = held_by(seal.progress)
            expected = within(committed, held)
            rows = (
                folded({place: committed[place] for place in expected})
                if self.mode == "Upsert"
                else expected - unparsed
            )
            yield from different(f"commit {seal.version}", placed(self.target, seal.version), rows)
            # Bad records of a MERGE are in their table before its rows are in the target.
            aside = {int(name): ((0, stop),) for name, stop in seal.progress.get("aside", {}).items()}
            expected |= within(committed, aside)
            counted = seal.state.get("quarantine", {"rows": 0})["rows"]
            if counted != len(expected & unparsed):
                yield f"commit {seal.version}: {counted} bad records counted, {len(expected & unparsed)} are held"
        yield from self.wrong_bad(new[-1].state, expected & unparsed)

    def wrong_bad(self, state, expected):
        """Compare the table of bad records.

        After a death between the two commits the announced records may be missing, all of them; at the end none may.
        """
        actual = placed(self.bad)
        announced = (state.get("quarantine") or {}).get("announced")
        missing = sum((Counter(expected) - actual).values())
        if missing and (announced is None or state["finished"] or missing != announced["rows"]):
            yield f"{missing} bad records are missing, {announced} is announced"
        if surplus := actual - Counter(expected):
            yield f"bad records too often, or not held: {sorted(surplus)[:5]}"
        if state["finished"] and (not actual or not self.producers.aborted):
            yield "no record was bad, or no transaction aborted: this shows nothing"


def within(committed, held):
    """Return the places of the records at some offsets."""
    return {
        (partition, offset)
        for partition, offset in committed
        if any(start <= offset < stop for start, stop in held.get(partition, ()))
    }


def different(where, actual, expected):
    """Yield the missing and the surplus records."""
    missing, surplus = Counter(expected) - actual, actual - Counter(expected)
    if missing or surplus:
        yield f"{where}: missing {sorted(missing)[:5]} of {len(missing)}, surplus {sorted(surplus)[:5]} of {len(surplus)}"
