"""The writer of `make demo-switch`: adds orders to the table that a name points to, until its standard input ends.

It looks the name up before each commit, and tries the same orders again until a table accepts them. Each commit and each refusal is
a line of JSON: `{"written": …, "table": …, "version": …}`, with `"refused"` and `"error"` once a table has refused a commit.
`hold` on standard input makes it wait after a refusal, and `go` makes it continue.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path[:0] = [str(Path(__file__).parents[1])]

from backfill import Settings, open_session
from demo.writer import COLUMNS, FILES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMIT_EVERY_S = 1.0
ROWS_EACH = 500
ERROR_CHARACTERS_MAX = 160


class Orders:
    """Adds orders, each exactly once, to the table of the name."""

    def __init__(self, spark: SparkSession, name: Path) -> None:
        """Store the file that contains the folder of the table."""
        self._spark, self._name = spark, name
        self.written = 0

    @property
    def table(self) -> Path:
        """Folder that the name points to now."""
        return Path(self._name.read_text().strip())

    def add(self, rows: int, files: int = 1) -> Path:
        """Add the next orders, and return the folder of their table; a refused commit adds none."""
        table, first = self.table, self.written
        frame = self._spark.range(first, first + rows, 1, files).selectExpr(
            *(column.format(id="id") for column in COLUMNS)
        )
        frame.write.format("delta").mode("append").option("delta.enableChangeDataFeed", "true").save(str(table))
        self.written += rows
        return table

    def counted(self) -> dict[str, int]:
        """Return the number of orders in the table of the name, and of different ones."""
        frame = self._spark.read.format("delta").load(str(self.table)).select("order_id")
        return {"found": frame.count(), "distinct": frame.distinct().count()}


def reason_of(message: str) -> str:
    """Return the line of an error that has its class in brackets, as `[DELTA_…] …`; without one, the first line."""
    return message[max(message.find("[DELTA_"), 0) :].split("\n", maxsplit=1)[0][:ERROR_CHARACTERS_MAX]


class Hold:
    """Lines of standard input: `hold`, `go`, and the end."""

    def __init__(self) -> None:
        """Start to read in a thread."""
        self._changed = threading.Condition()
        self._holds, self._over = False, False
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            with self._changed:
                self._holds = line.strip() == "hold"
                self._changed.notify_all()
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def ends_within(self, seconds: float) -> bool:
        """Wait, and return true if standard input has ended."""
        with self._changed:
            return self._changed.wait_for(lambda: self._over, timeout=seconds)

    def after_refusal(self) -> None:
        """Wait for `go` if `hold` came before."""
        with self._changed:
            self._changed.wait_for(lambda: self._over or not self._holds)


def main() -> None:
    """Write until standard input ends, then report how many orders the table of the name has."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", type=Path)
    parser.add_argument("--rows", type=int, required=True)
    given = parser.parse_args()
    settings = Settings.from_environ().model_copy(update={"cores": 1, "memory": "1g"})
    spark = open_session(settings, app_name="demo writer", conf={"spark.sql.shuffle.partitions": "2"})
    orders, hold = Orders(spark, given.name), Hold()
    line: dict[str, Any] = {"table": str(orders.add(given.rows, FILES))}
    while True:
        print(json.dumps({"written": orders.written, **line}), flush=True)
        if hold.ends_within(COMMIT_EVERY_S):
            break
        try:
            line["table"] = str(orders.add(ROWS_EACH))
        except Exception as error:  # noqa: BLE001 - a writer of a user's own tries again after each error
            line |= {"refused": line.get("refused", 0) + 1, "error": reason_of(str(error))}
            print(json.dumps({"written": orders.written, **line}), flush=True)
            hold.after_refusal()
    print(json.dumps({"written": orders.written, **line, **orders.counted()}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
