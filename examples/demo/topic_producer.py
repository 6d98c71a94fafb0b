"""The producer of `make demo-kafka`: it fills a topic with orders, then keeps writing until its standard input ends.

It is a separate process, as in real life. It writes some records in transactions, and aborts some of these. With
`--reads TABLE` it also reads the table, with an implementation of Delta that shares no code with the driver. Each second
it prints a line of JSON: `{"written": …, "seen_s": …}`. `seen_s` is the age of the newest record in the table, and is
missing until the table has a record from after the first fill.
"""

import argparse
import itertools
import json
import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from deltalake import DeltaTable
from support.kafka.topics import Topics, producing, transacting

TURN_S = 0.1
EACH_TURN = 20
TURNS_A_LINE = 10
TURNS_A_TRANSACTION = 25


class Producer:
    """Writes orders to the partitions in turn."""

    def __init__(self, address: str, topic: str) -> None:
        """Take the topic without writing to it."""
        self._address, self._topic = address, topic
        self._partitions = len(Topics(address).watermarks(topic))
        self._random = random.Random(7)
        self.written = 0

    def fill(self, rows: int) -> None:
        """Write this number of orders as fast as possible."""
        with producing(self._address) as send:
            self._send(send, rows)

    def go_on(self, over: threading.Event, say: Callable[[], None]) -> None:
        """Write until the event `over` is set."""
        with producing(self._address) as send, transacting(self._address) as transaction:
            for turn in itertools.count(1):
                if over.wait(TURN_S):
                    return
                self._send(send, EACH_TURN)
                if turn % TURNS_A_TRANSACTION == 0:
                    with transaction(abort=turn % (2 * TURNS_A_TRANSACTION) == 0) as send_together:
                        self._send(send_together, EACH_TURN)
                if turn % TURNS_A_LINE == 0:
                    say()

    def _send(self, send: Callable[..., None], rows: int) -> None:
        for _ in range(rows):
            number = self.written = self.written + 1
            customer, amount = self._random.randrange(50_000), self._random.randrange(1, 50_000) / 100
            value = f'{{"customer": "customer-{customer}", "amount": {amount}}}'
            send(self._topic, value.encode(), b"%d" % number, partition=number % self._partitions)


class Reader:
    """Finds the newest record of the table in its log."""

    def __init__(self, path: str) -> None:
        """Take the path; the table may be created later."""
        self._path = path
        self._table: DeltaTable | None = None
        self._since_s = time.time()

    def age_s(self) -> float | None:
        """Return the age of the table's newest record; `None` if no record is newer than this reader."""
        if self._table is None:
            if not DeltaTable.is_deltatable(self._path):
                return None
            self._table = DeltaTable(self._path)
        self._table.update_incremental()
        newest = self._table.get_add_actions(flatten=True).column("max.timestamp").to_pylist()
        newest_s = max((timestamp.timestamp() for timestamp in newest if timestamp is not None), default=0.0)
        return time.time() - newest_s if newest_s > self._since_s else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("topic")
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--reads", required=True)
    given = parser.parse_args()
    over = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    producer = Producer(given.address, given.topic)
    producer.fill(given.rows)
    reader = Reader(given.reads)

    def say() -> None:
        age_s = reader.age_s()
        seen = {} if age_s is None else {"seen_s": round(age_s, 1)}
        print(json.dumps({"written": producer.written, **seen}), flush=True)

    say()
    producer.go_on(over, say)


if __name__ == "__main__":
    main()
