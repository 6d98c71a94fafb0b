"""Tables of orders for scenarios, made and changed by another engine."""

import random
import threading

from deltalake import DeltaTable
from support.tables.other_engine import append

ORDERS = """
    SELECT value AS order_id, concat('customer-', value * 7919 % 50000) AS customer,
        cast(value * 31 % 100000 / 100.0 - 5 AS decimal(10, 2)) AS amount,
        arrow_cast(1760000000000000 + value % 31536000 * 1000000, 'Timestamp(Microsecond, Some("UTC"))') AS ordered_at,
        CASE value % 4 WHEN 0 THEN 'new' WHEN 1 THEN 'paid' WHEN 2 THEN 'sent' ELSE 'returned' END AS status,
        md5(cast(value AS string)) AS note
    FROM generate_series({first}, {last})"""


def make_orders(folder, rows):
    """Make a table with this number of orders."""
    append(str(folder), ORDERS, 0, rows)


class Writer:
    """A table of orders that another engine makes and changes every second or two until `end`."""

    EVERY_S = 1.5
    FILES = 8

    def __init__(self, folder, rows, *, appends_only=False):
        self.folder, self.rows = str(folder), rows
        self.commits = 0
        self._kinds = 1 if appends_only else 4
        self.failure = None
        self._next_id = rows
        self._random = random.Random(7)
        for first in range(0, rows, rows // self.FILES):
            append(self.folder, ORDERS, first, rows // self.FILES)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self):
        try:
            while not self._over.wait(self.EVERY_S):
                self._commit()
                self.commits += 1
        except Exception as error:
            self.failure = error

    def _commit(self):
        table, low = DeltaTable(self.folder), self._random.randrange(max(1, self.rows - 2000))
        match self.commits % self._kinds:
            case 0:
                append(self.folder, ORDERS, self._next_id, 2000)
                self._next_id += 2000
            case 1:
                changed = {"amount": "cast(amount + 1 AS decimal(10, 2))", "status": "'sent'"}
                table.update(updates=changed, predicate=f"order_id >= {low} AND order_id < {low + 1500}")
            case 2:
                table.delete(f"order_id >= {low} AND order_id < {low + 400}")
            case _:
                changed = {"order_id": f"order_id + {self._next_id - low}"}
                table.update(updates=changed, predicate=f"order_id >= {low} AND order_id < {low + 300}")
                self._next_id += 300

    def end(self):
        """Stop after the current commit; it must not have failed."""
        self._over.set()
        self._thread.join(60)
        assert self.failure is None, self.failure
