"""A list in memory, which is written in commits."""

from __future__ import annotations

from backfill_counter.contract import ListTarget
from backfill_spark.sinks import SinkPlugin


class ListSink:
    """The rows of one job; a commit adds all of its rows or none."""

    path = "list:"

    def __init__(self) -> None:
        """Begin with no rows and no state."""
        self.rows: list[tuple[int, int]] = []
        self.state: str | None = None

    def commit(self, rows: list[tuple[int, int]], state: str) -> None:
        """Add rows, and store the state that says which they are."""
        self.rows, self.state = [*self.rows, *rows], state


def _open(spark, backfill):
    assert isinstance(backfill.spec.target.params, ListTarget)
    return ListSink()


SINK = SinkPlugin(name="List", open=_open)
