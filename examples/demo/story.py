"""What the demo says of a strategy, and what it shows of it alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

RECEIPT = "then the receipt: every row of both sides is hashed and compared"
UPSERTS: Mapping[str, Mapping[str, Any]] = {
    "source": {"key": ["order_id"]},
    "target": {"writeMode": "Upsert"},
    "transform": {
        "select": ["order_id", "customer", "amount", "ordered_at", "upper(status) AS status"],
        "where": "amount > 0",
    },
}
AS_IT_IS: Mapping[str, Mapping[str, Any]] = {"source": {}, "target": {}, "transform": {}}


@dataclass(frozen=True)
class Story:
    """The words of one strategy."""

    strategy: str
    begins: str
    paused: str
    again: str
    catches_up: str
    shows_changes: bool
    """Are changes in the copy while rows are still to be read?"""

    history_s: int
    """The file limits the copy so that it takes about this long: else a fast machine has nothing to show."""

    spec: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: UPSERTS)
    """What the file says of both tables and between them, besides their places."""


SNAPSHOT = Story(
    strategy="Snapshot",
    begins="the driver fills a copy of it; the file limits the snapshot so that you can watch",
    paused="nothing more of the snapshot; changes go on",
    again="again: the target itself is the checkpoint",
    catches_up="then the changes since the start, until the copy has caught up",
    shows_changes=False,
    history_s=12,
)
ARRANGEMENT = Story(
    strategy="Arrangement",
    begins="the driver reads it in the order of its key; a limit lets you watch",
    paused="no further orders; those that are in the copy stay fresh",
    again="again: the target itself is the checkpoint",
    catches_up="then the last changes, until the copy has caught up",
    shows_changes=True,
    history_s=30,
)
REPLICA = Story(
    strategy="Replica",
    begins="the driver copies its files as they are; the file limits the copy so that you can watch",
    paused="no further files of history",
    again="again: the target itself is the checkpoint",
    catches_up="then the source's log: files that came and went since the start",
    shows_changes=False,
    history_s=12,
    spec=AS_IT_IS,
)
STORIES = {one.strategy: one for one in (SNAPSHOT, ARRANGEMENT, REPLICA)}
"""RearrangedChain is not among them: a writer that commits every two seconds is one that it may never catch up with."""


def is_newer(said: dict[str, Any], version: int) -> bool:
    """Has a reader found a change of a later version in the copy?"""
    return "seen" in said and said["seen"]["version"] > version


def seen_words(said: dict[str, Any], rows_left: int) -> str:
    """Return what the reader found, and whether rows were still to be read."""
    seen = said["seen"]
    left = f"{rows_left:,} rows are still to be read" if rows_left else "by now all rows are read"
    return (
        f"{seen['rows']:,} orders, changed in version {seen['version']}, are so in the copy {seen['seconds']:.1f} s later "
        f"at most; {left}"
    )
