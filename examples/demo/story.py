"""Messages and settings of the demo for each strategy."""

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
UNCHANGED: Mapping[str, Mapping[str, Any]] = {"source": {}, "target": {}, "transform": {}}


@dataclass(frozen=True)
class Story:
    """Messages and settings for one strategy."""

    strategy: str
    begins: str
    paused: str
    again: str
    catches_up: str
    shows_changes: bool
    """True if changes reach the copy while rows are still to be read."""

    history_s: int
    """Target duration of the copy in seconds. The file limits the rate, because a fast machine would have nothing to show."""

    spec: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: UPSERTS)
    """Fields of the spec for source, target and transform, except the paths."""


SNAPSHOT = Story(
    strategy="Snapshot",
    begins="the driver fills a copy of it, with a limit so that you can watch",
    paused="pause the snapshot; changes are still applied",
    again="start again; the target itself is the checkpoint",
    catches_up="then the changes since the start, until the copy has caught up",
    shows_changes=False,
    history_s=12,
)
ARRANGEMENT = Story(
    strategy="Arrangement",
    begins="the driver reads it in the order of its key, with a limit so that you can watch",
    paused="pause the copy of further orders; changes of copied orders are still applied",
    again="start again; the target itself is the checkpoint",
    catches_up="then the last changes, until the copy has caught up",
    shows_changes=True,
    history_s=30,
)
REPLICA = Story(
    strategy="Replica",
    begins="the driver copies its files unchanged, with a limit so that you can watch",
    paused="pause the copy of further files",
    again="start again; the target itself is the checkpoint",
    catches_up="then the source's log: files that were added and removed since the start",
    shows_changes=False,
    history_s=12,
    spec=UNCHANGED,
)
STORIES = {story.strategy: story for story in (SNAPSHOT, ARRANGEMENT, REPLICA)}
"""RearrangedChain is missing: it might never catch up with a writer that commits every two seconds."""


def is_newer(line: dict[str, Any], version: int) -> bool:
    """Return True if a reader has found a change of a later version in the copy."""
    return "seen" in line and line["seen"]["version"] > version


def seen_words(line: dict[str, Any], rows_left: int) -> str:
    """Describe the change that the reader found, and the rows that are still to be read."""
    seen = line["seen"]
    left = f"{rows_left:,} rows are still to be read" if rows_left else "all rows are read by now"
    return (
        f"{seen['rows']:,} orders, changed in version {seen['version']}, are changed in the copy {seen['seconds']:.1f} s later "
        f"at most; {left}"
    )
