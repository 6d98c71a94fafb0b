"""A writer of a table whose column a job fills: it fills the column of its own rows, and repeats a transaction that the job made fail."""

import hashlib
from dataclasses import dataclass, replace
from decimal import Decimal

from deltalake import DeltaTable, QueryBuilder, write_deltalake
from deltalake.exceptions import CommitFailedError
from support.node.writer import ORDERS, Writer
from support.tables.oracle import columns_of

COLUMN, VALUE = "status_norm", "upper(status)"
APPENDED, CHANGED, DELETED, RENUMBERED = 500, 800, 200, 150


@dataclass(frozen=True)
class Order:
    """An order as the writer left it."""

    made_as: int
    """Its number when it was made."""

    added: int = 0

    @property
    def stored(self):
        """Return its note and its amount."""
        amount = Decimal(self.made_as * 31 % 100_000) / 100 - 5 + self.added
        return hashlib.md5(str(self.made_as).encode(), usedforsecurity=False).hexdigest(), amount


class FillingWriter(Writer):
    """A `Writer` that knows each row of its table. `conflicts` counts its failed transactions."""

    def __init__(self, folder, rows):
        self.conflicts = 0
        self.orders = {number: Order(number) for number in range(rows)}
        # Without a change feed, in which the job could not write the filled values.
        empty = QueryBuilder().execute(f"{ORDERS.format(first=0, last=0)} WHERE false").read_all()
        write_deltalake(str(folder), empty)
        super().__init__(folder, rows)

    def _commit(self):
        while True:
            try:
                self._commit_once()
            except CommitFailedError:
                self.conflicts += 1
            else:
                return

    def _commit_once(self):
        table, low = DeltaTable(self.folder), self._random.randrange(max(1, self.rows - 2000))
        match self.commits % 4:
            case 0:
                self._append(table)
            case 1:
                self._update(table, low, CHANGED, amount="cast(amount + 1 AS decimal(10, 2))")
                self._change(low, CHANGED, lambda number, order: {number: replace(order, added=order.added + 1)})
            case 2:
                table.delete(f"order_id >= {low} AND order_id < {low + DELETED}")
                self._change(low, DELETED, lambda *_: {})
            case _:
                shift = self._next_id - low
                self._update(table, low, RENUMBERED, order_id=f"order_id + {shift}")
                self._change(low, RENUMBERED, lambda number, order: {number + shift: order})
                self._next_id += RENUMBERED

    def _append(self, table):
        filled = any(field.name == COLUMN for field in table.schema().fields)
        query = ORDERS.format(first=self._next_id, last=self._next_id + APPENDED - 1)
        query = f"SELECT *, {VALUE} AS {COLUMN} FROM ({query})" if filled else query
        write_deltalake(table, QueryBuilder().execute(query).read_all(), mode="append")
        self.orders |= {number: Order(number) for number in range(self._next_id, self._next_id + APPENDED)}
        self._next_id += APPENDED

    def _update(self, table, low, width, **updates):
        table.update(updates=updates, predicate=f"order_id >= {low} AND order_id < {low + width}")

    def _change(self, low, width, changed):
        for number in range(low, low + width):
            if number in self.orders:
                self.orders |= changed(number, self.orders.pop(number))

    def wrong(self):
        """Return the errors of the table as another engine reads it: rows that are lost, doubled, wrong or not filled."""
        rows = columns_of(self.folder, "order_id", "note", "amount", "status", COLUMN)
        seen = {number: (note, amount) for number, note, amount, _, _ in rows}
        problems = [] if len(seen) == len(rows) else [f"{len(rows)} rows, {len(seen)} numbers"]
        if seen.keys() != self.orders.keys():
            problems.append(
                f"{len(self.orders.keys() - seen.keys())} lost, {len(seen.keys() - self.orders.keys())} added"
            )
        wrong = [number for number, order in self.orders.items() if seen.get(number, order.stored) != order.stored]
        left = [number for number, _, _, status, filled in rows if filled != status.upper()]
        problems += [f"{len(wrong)} wrong, such as {wrong[0]}"] if wrong else []
        return problems + ([f"{len(left)} not filled, such as {left[0]}"] if left else [])
