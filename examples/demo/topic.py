"""`make demo-kafka` copies a topic of a real broker into a Delta table, in about two minutes.

It has four processes, as in real life: a broker, a producer that keeps writing, the driver (`backfill run`), and this
process, which types the commands of a user and shows their output. Every number comes from the product, or from the
reader in the producer's process, which uses another implementation of Delta.

python examples/demo/topic.py --rows 600000
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[2] / "tests"), str(Path(__file__).parents[1])]

from rich.console import Console
from support.kafka.broker import Broker, running_broker
from support.kafka.topics import Topics

from demo.stage import Child, DemoError, Stage
from demo.story import RECEIPT

PRODUCER = Path(__file__).with_name("topic_producer.py")
ROWS = 600_000
PARTITIONS = 4
TOPIC = "orders"
HISTORY_S = 20
"""The spec limits the history so that it takes about this long. On a fast machine, it would be too short to watch."""

SLOWER = 4
THROTTLE_SECONDS = 10
WRITTEN_BETWEEN_LOOKS = 800
"""Number of records that the producer writes in some seconds."""

STEPS_AFTER = (("CatchUp", "then the newest records, until the table has caught up"), ("Receipt", RECEIPT))


class KafkaDemo(Stage):
    """The script of a topic: its history, and records that are written meanwhile."""

    def __init__(self, folder: Path, rows: int, address: str, console: Console) -> None:
        """Take the scratch folder and a broker; `play` does the rest."""
        super().__init__(folder, "orders", console)
        self._rows, self._address = rows, address
        self._table = f"{folder}/lake/orders"

    def describe_writer(self, said: Mapping[str, Any]) -> str:
        """See `Stage`."""
        seen = f"; the newest one in the table was written {said['seen_s']:.1f} s before" if "seen_s" in said else ""
        return f"the producer: {said['written']:,} records{seen}"

    def document(self) -> dict[str, Any]:
        """See `Stage`."""
        event = "from_json(CAST(value AS STRING), 'customer STRING, amount DECIMAL(10, 2)') AS event"
        return {
            "apiVersion": "backfill.dev/v1alpha1",
            "kind": "Backfill",
            "metadata": {"name": "orders"},
            "spec": {
                "jobId": self.job,
                "source": {"type": "Kafka", "kafka": {"bootstrapServers": self._address, "topic": TOPIC}},
                "transform": {"select": ["partition", "offset", "timestamp", event]},
                "target": {"type": "Delta", "delta": {"path": self._table, "writeMode": "Append"}},
                "strategy": {"type": "SourceSplits"},
                "throttle": {"rowsPerSecond": self._rows // HISTORY_S},
                "after": "Exit",
                "verify": "Final",
            },
        }

    def script(self) -> dict[str, Any]:
        """See `Stage`."""
        self._write()
        self.start("its history into a table, limited so that you can watch")
        self.until("the first tenth is committed", lambda progress: progress.rows_done * 10 >= progress.rows_total > 0)
        self.show_new("new records do not wait for the history: a reader reads the table")
        slower = self._rows // HISTORY_S // SLOWER
        self.type("the history slower, for a while", "throttle", str(slower), "--for", f"{THROTTLE_SECONDS}s")
        self.show_new("the limit applies only to the history: the reader reads again")
        self.until("the limit ends by itself", lambda progress: progress.throttle_until is None)
        self.kill()
        self.start_again("again: the table contains the offsets with the records")
        return self.outcome(STEPS_AFTER)

    def _write(self) -> None:
        self.say(f"a topic of {self._rows:,} orders in {PARTITIONS} partitions, and a producer that keeps writing")
        command = [sys.executable, str(PRODUCER), self._address, TOPIC]
        self.writer = Child([*command, "--rows", str(self._rows), "--reads", self._table], self.folder / "producer.log")
        if not self.writer.wait_for(lambda report: report.get("written", 0) >= self._rows):
            raise DemoError(f"the producer wrote too little; its log is {self.folder}/producer.log")

    def show_new(self, why: str) -> None:
        """Show that the table contains new records while history is still being read."""
        assert self.writer is not None
        self.say(why)
        since = self.writer.newest["written"]
        if not self.writer.wait_for(
            lambda report: "seen_s" in report and report["written"] > since + WRITTEN_BETWEEN_LOOKS
        ):
            raise DemoError(f"the reader found no new record; its log is {self.folder}/producer.log")
        self.where()
        left = self.progress.rows_total - self.progress.rows_done
        age_s = self.writer.newest["seen_s"]
        self.note(f"its newest record was written {age_s:.1f} s before; {left:,} old ones are still to be read")

    def describe_end(self, said: Mapping[str, Any]) -> str:
        """See `Stage`."""
        return f"complete; the producer has written {said['written']:,} records, some in transactions"

    def next_commands(self) -> tuple[tuple[str, str], ...]:
        """See `Stage`; the broker has stopped by then."""
        return (
            (f"status -f {self.spec} --offline", "the job's state, from the table"),
            (f"release -f {self.spec}", "then any writer may use the table"),
        )


def play(folder: Path, rows: int, console: Console) -> int:
    """Start a broker, play the demo with it, and return the exit code."""
    (folder / "broker").mkdir(parents=True)
    console.print("[dim]starting a broker; its jars are fetched once[/]")
    with running_broker(folder / "broker") as broker:
        assert isinstance(broker, Broker)
        Topics(broker.address).create(TOPIC, PARTITIONS)
        return KafkaDemo(folder, rows, broker.address, console).play()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    given = parser.parse_args()
    # The folder stays, because the suggested next commands use it.
    return play(Path(tempfile.mkdtemp(prefix="backfill-demo-")), given.rows, Console(highlight=False))


if __name__ == "__main__":
    sys.exit(main())
