"""A name in a file, changed by an executable, and writers that write to the table that the name points to."""

import stat
import threading
import time

from support.tables import other_engine
from support.tables.oracle import columns_of

SCRIPT = """#!/bin/sh
case "$1" in
show) cat {name} ;;
set) printf %s "$2" > {name}.new && mv {name}.new {name} ;;
esac
"""
DEADLINE_S = 60


def make_name(folder, path):
    """Make a name that points to a table; return the name's file and the flip for a spec."""
    name, script = folder / "orders.name", folder / "flip.sh"
    name.write_text(str(path))
    script.write_text(SCRIPT.format(name=name))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return name, {"type": "Command", "command": [str(script)]}


def ids_in(path):
    """Return the sorted ids of a table of orders."""
    return sorted(row[0] for row in columns_of(path, "id"))


class Writer:
    """Appends one order after the other with delta-rs, each until the table of the name has accepted it."""

    def __init__(self, name, first=1_000_000, *, pause_s=0.5, retry_s=0.1):
        self._name, self._first, self._pause_s, self._retry_s = name, first, pause_s, retry_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writer")
        self.accepted = []
        """Time and folder of each accepted order."""

        self.refused = 0
        self.last_error = None

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()

    @property
    def ids(self):
        """Return the ids of the accepted orders."""
        return list(range(self._first, self._first + len(self.accepted)))

    def until(self, more):
        """Wait until so many further orders were accepted."""
        wanted, pause, ends_s = len(self.accepted) + more, threading.Event(), time.monotonic() + DEADLINE_S
        while len(self.accepted) < wanted:
            assert time.monotonic() < ends_s, f"no order was accepted: {self.last_error}"
            pause.wait(0.01)

    def gaps(self):
        """Return the seconds between accepted orders of two tables."""
        pairs = zip(self.accepted, self.accepted[1:], strict=False)
        return [later - sooner for (sooner, before), (later, after) in pairs if before != after]

    def insert(self, path, order):
        """Append an order to a table."""
        other_engine.insert(path, f"SELECT * REPLACE (CAST({order} AS BIGINT) AS id) FROM now LIMIT 1")

    def _run(self):
        while not self._ended.is_set():
            path = self._name.read_text()
            order = self._first + len(self.accepted)
            try:
                self.insert(path, order)
            except Exception as error:
                self.refused, self.last_error = self.refused + 1, error
                self._ended.wait(self._retry_s)
            else:
                self.accepted.append((time.monotonic(), path))
                self._ended.wait(self._pause_s)
