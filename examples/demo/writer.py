"""The writer of the demo: creates a table of orders, then keeps changing it until its standard input ends.

The writer is a separate process with a separate Spark, as in real use. It prints each commit as a line of JSON:
`{"version": …, "what": …}`. With `--reads COPY` it also reads the copy, and looks for the rows that it changed. Once they are equal in
source and copy, the lines contain `{"seen": {"version": …, "rows": …, "seconds": …}}`. With `--fills COLUMN=EXPRESSION` it fills
that column of the orders that it inserts once the table has the column, and the table has no change feed. A transaction that fails
because another writer changed the same files is repeated, and `conflicts` counts it.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from backfill import Settings, open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMIT_EVERY_S = 2.0
FILES = 16
CORES = 2
OPTIMIZE_AT_COMMIT = 7
SMALL_FILE_BYTES = 1_000_000
"""OPTIMIZE compacts only smaller files, which the commits made: it does not rewrite the whole table."""

CONFLICTS = ("DELTA_CONCURRENT", "DELTA_METADATA_CHANGED")
"""Conditions of transactions that pass when they are repeated."""

FIRST_SHARE = 0.1
"""Share of the table that the copy has before the demo looks for changes."""

COLUMNS = (
    "{id} AS order_id",
    "concat('customer-', pmod(hash({id}), 50000)) AS customer",
    "cast(pmod(hash({id}, 1), 100000) / 100 - 5 AS decimal(10, 2)) AS amount",
    "timestamp_seconds(1760000000 + {id} % 31536000) AS ordered_at",
    "element_at(array('new', 'paid', 'sent', 'returned'), cast(pmod(hash({id}, 2), 4) AS int) + 1) AS status",
    "md5(cast({id} AS string)) AS note",
)


@dataclass(frozen=True)
class Changed:
    """1,500 orders from `low` on that a version changed, with its time."""

    low: int
    version: int
    at_s: float


class Writer:
    """Changes the table: inserts, updates, deletes, changes keys, and compacts once."""

    def __init__(
        self, spark: SparkSession, path: Path, rows: int, copy: Path | None = None, fills: str | None = None
    ) -> None:
        """Store the path; `create` creates the table."""
        self._spark = spark
        self._fills = fills
        self.conflicts = 0
        self._path = path
        self._copy = copy
        self._looked_for: Changed | None = None
        self._table = f"delta.`{path}`"
        self._rows = rows
        self._next_id = rows
        self._random = random.Random(7)

    def create(self) -> str:
        """Create the table; with a change feed, unless another job fills its column: that job writes none."""
        frame = self._spark.range(0, self._rows, 1, FILES).selectExpr(*(column.format(id="id") for column in COLUMNS))
        frame.write.format("delta").option("delta.enableChangeDataFeed", str(self._fills is None)).option(
            "delta.enableDeletionVectors", "true"
        ).save(str(self._path))
        return f"made {self._rows:,} orders"

    def commit(self, number: int) -> str:
        """Commit one change, and return its description; repeat it after a conflict."""
        while True:
            try:
                return self._commit(number)
            except (Py4JJavaError, PySparkException) as error:
                if not any(condition in str(error) for condition in CONFLICTS):
                    raise
                self.conflicts += 1

    def _commit(self, number: int) -> str:
        if number == OPTIMIZE_AT_COMMIT:
            self._spark.sql(f"OPTIMIZE {self._table}")
            return "compacted small files (OPTIMIZE)"
        match number % 4:
            case 0:
                return self._insert(2_000)
            case 1:
                # With a reader, change the first orders: they are the first ones in the copy.
                low = self.place(1_500, within=1.0 if self._copy is None else FIRST_SHARE)
                self._spark.sql(
                    f"UPDATE {self._table} SET status = 'sent', amount = amount + 1 "
                    f"WHERE order_id >= {low} AND order_id < {low + 1_500}"
                )
                self._looked_for = self._looked_for or Changed(low, self.version(), time.monotonic())
                return "updated 1,500 orders"
            case 2:
                low = self.place(400)
                self._spark.sql(f"DELETE FROM {self._table} WHERE order_id >= {low} AND order_id < {low + 400}")
                return "deleted up to 400 orders"
            case _:
                low = self.place(300)
                shift = self._next_id - low
                self._next_id += 300
                self._spark.sql(
                    f"UPDATE {self._table} SET order_id = order_id + {shift} "
                    f"WHERE order_id >= {low} AND order_id < {low + 300}"
                )
                return "gave up to 300 orders new keys"

    def _insert(self, count: int) -> str:
        first, self._next_id = self._next_id, self._next_id + count
        new = self._spark.range(first, first + count, 1, 1).selectExpr(*(column.format(id="id") for column in COLUMNS))
        column, _, value = (self._fills or "").partition("=")
        if column in self._spark.read.format("delta").load(str(self._path)).columns:
            new = new.selectExpr("*", f"{value} AS {column}")
        new.write.format("delta").mode("append").save(str(self._path))
        return f"inserted {count:,} orders"

    def place(self, width: int, *, within: float = 1.0) -> int:
        """Choose a start of `width` existing rows in the first part of the table."""
        return self._random.randrange(0, int(self._rows * within) - width)

    def look(self) -> dict[str, Any] | None:
        """Return the last update as a reader sees it in the copy; `None` while it differs from the source, or without an update."""
        sought, copy = self._looked_for, self._copy
        if sought is None or copy is None or not (copy / "_delta_log").is_dir():
            return None
        rows = "SELECT order_id, amount FROM {table} WHERE order_id >= {low} AND order_id < {stop} AND amount > 0"
        source, target = (
            rows.format(table=table, low=sought.low, stop=sought.low + 1_500)
            for table in (self._table, f"delta.`{copy}`")
        )
        both, either = (
            self._spark.sql(f"({source}) {operator} ({target})").count() for operator in ("INTERSECT", "UNION")
        )
        if not both or both < either:
            return None
        self._looked_for = None
        return {"version": sought.version, "rows": both, "seconds": round(time.monotonic() - sought.at_s, 1)}

    def version(self) -> int:
        """Return the newest version of the table."""
        return max(int(file.stem) for file in (self._path / "_delta_log").glob("*.json") if file.stem.isdigit())


def _set_at_end_of_input(over: threading.Event) -> None:
    sys.stdin.read()
    over.set()


def main() -> None:
    """Write until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--reads", type=Path)
    parser.add_argument("--fills")
    given = parser.parse_args()
    over = threading.Event()
    threading.Thread(target=_set_at_end_of_input, args=(over,), daemon=True).start()
    spark = open_session(
        Settings.from_environ().model_copy(update={"cores": CORES, "memory": "1g"}),
        app_name="demo writer",
        conf={
            "spark.databricks.delta.optimize.minFileSize": str(SMALL_FILE_BYTES),
            "spark.sql.shuffle.partitions": "2",
        },
    )
    writer = Writer(spark, given.path, given.rows, given.reads, given.fills)
    line: dict[str, Any] = {"what": writer.create()}
    number = 0
    while True:
        print(json.dumps({"version": writer.version(), **line}), flush=True)
        if over.wait(COMMIT_EVERY_S):
            break
        line["what"] = writer.commit(number)
        seen = writer.look()
        line |= {} if seen is None else {"seen": seen}
        line["conflicts"] = writer.conflicts
        number += 1
    spark.stop()


if __name__ == "__main__":
    main()
