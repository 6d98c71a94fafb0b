"""The other side of `make demo-kafka`: fills a topic with orders, then goes on writing until its standard input ends.

A process of its own, as in real life. Some records are written in transactions, and some of these are aborted. With `--reads TABLE`
it is a reader of the table too, by an implementation of Delta that shares no code with the driver. Each second it says a line of JSON:
`{"written": …, "seen_s": …}`, the last being the age of the newest record that the table has, once that one was written after the first fill.
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
    """Writes orders, round and round the partitions."""

    def __init__(self, address: str, topic: str) -> None:
        """Take the topic; nothing is written yet."""
        self._address, self._topic = address, topic
        self._partitions = len(Topics(address).watermarks(topic))
        self._random = random.Random(7)
        self.written = 0

    def fill(self, rows: int) -> None:
        """Write so many orders as fast as it goes."""
        with producing(self._address) as send:
            self._send(send, rows)

    def go_on(self, over: threading.Event, say: Callable[[], None]) -> None:
        """Write until it is over."""
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
    """Looks into the log of the table for its newest record."""

    def __init__(self, path: str) -> None:
        """Take the place; the table may come later."""
        self._path = path
        self._table: DeltaTable | None = None
        self._since_s = time.time()

    def age_s(self) -> float | None:
        """Return how old the newest record of the table is; None: there is none that was written since this reader began."""
        if self._table is None:
            if not DeltaTable.is_deltatable(self._path):
                return None
            self._table = DeltaTable(self._path)
        self._table.update_incremental()
        newest = self._table.get_add_actions(flatten=True).column("max.timestamp").to_pylist()
        newest_s = max((one.timestamp() for one in newest if one is not None), default=0.0)
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
