"""Figures of a run on a real node, with their bars. A missed bar is reported and fails nothing: the speed of a machine is no promise.

A figure many times its bar means a broken product, not a slow machine: it fails the scenario that measured it.
"""

import json
from dataclasses import dataclass

BROKEN = 10
"""Multiple of its bar at which a figure is broken. Next to other work with five times as many processes as cores, an intact
product reached 4.7 times a bar."""


@dataclass(frozen=True)
class Bar:
    """The largest expected value of a figure, in its unit, and why it may be larger all the same."""

    most: float
    excuse: str = ""


EXECUTORS = "two executors start on the same cores, so it may be"
BARS = {
    "helm install -> operator ready s": Bar(15),
    "driver pod created -> first rows committed s": Bar(20),
    "driver pod created -> first rows committed, two executors s": Bar(20, EXECUTORS),
    "command acknowledged p99 s": Bar(2),
    "driver's process killed -> rows of the next attempt s": Bar(25),
    "driver killed -> rows of the next attempt, two executors s": Bar(25, EXECUTORS),
}


class Figures:
    """Figures by name, in the order in which they were measured."""

    def __init__(self, slow):
        """Take the factor by which this machine is slower."""
        self._slow = slow
        self._found = {}
        self._judged = set()

    def __setitem__(self, name, value):
        self._found[name] = value

    def broken(self):
        """Return messages about figures that are large enough to be broken, each once."""
        new = [name for name in BARS if name in self._found and name not in self._judged]
        self._judged.update(new)
        most = {name: BROKEN * self._slow * BARS[name].most for name in new}
        return [f"{name}: {self._found[name]}, at most {most[name]}" for name in new if self._found[name] > most[name]]

    def lines(self):
        """Return a table of all figures, those with a bar first."""
        rows = [(name, self._found.get(name, "-"), f"{bar.most:g}", self._verdict(name)) for name, bar in BARS.items()]
        rows += [(name, value, "", "") for name, value in self._found.items() if name not in BARS]
        width = max(len(row[0]) for row in rows)
        return [f"{name:{width}}  {value!s:>8}  {bar:>5}  {verdict}".rstrip() for name, value, bar, verdict in rows]

    def _verdict(self, name):
        if name not in self._found:
            return "not measured"
        bar = BARS[name]
        if self._found[name] <= bar.most:
            return "met"
        return f"missed: {bar.excuse}" if bar.excuse else "MISSED"

    def write(self, file):
        """Write them as JSON, each with its bar where it has one."""
        bars = {name: bar.most for name, bar in BARS.items() if name in self._found}
        file.write_text(json.dumps({"figures": self._found, "bars": bars}, indent=2, ensure_ascii=False) + "\n")


def nearest_rank(values, percent):
    """Return the value that this percentage of all does not exceed: of fewer than a hundred, the 99th is the largest."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]
