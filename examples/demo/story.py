"""Captions and settings of the demo, one story for each strategy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

RECEIPT = "then the receipt: every row of source and target is hashed and compared"
UPSERTS: Mapping[str, Mapping[str, Any]] = {
    "source": {"key": ["order_id"]},
    "target": {"writeMode": "Upsert"},
    "transform": {
        "select": ["order_id", "customer", "amount", "ordered_at", "upper(status) AS status"],
        "where": "amount > 0",
    },
}
AS_IT_IS: Mapping[str, Mapping[str, Any]] = {"source": {}, "target": {}, "transform": {}}
COLUMN, VALUE = "buyer", "upper(customer)"
COMPARED = "then the receipt: each filled file is compared with the file that it replaced, in all columns"


@dataclass(frozen=True)
class Story:
    """Captions and settings of one strategy."""

    strategy: str
    begins: str
    paused: str
    again: str
    catches_up: str
    shows_changes: bool
    """True if the copy gets changes while rows are still to be read."""

    history_s: int
    """Seconds of the copy under the file's limit. Without it, a fast machine would end before you see anything."""

    spec: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: UPSERTS)
    """Settings of source, target and transform in the file, in addition to the paths."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """The strategy in the file, in addition to its type."""

    target: str = "orders_copy"
    """Folder of the target beside the source, which is `orders`."""

    writer: tuple[str, ...] = ()
    """Options of the writer."""

    receipt: str = RECEIPT
    last: tuple[str, str] = ("release", "remove its state from the copy, so that any writer may use it")
    """The last command to try, with its purpose."""


SNAPSHOT = Story(
    strategy="Snapshot",
    begins="the driver fills a copy of it; the file limits the snapshot so that you can watch",
    paused="pauses the snapshot; changes are still applied",
    again="again: the target itself is the checkpoint",
    catches_up="then the changes since the start, until the copy has caught up",
    shows_changes=False,
    history_s=12,
)
ARRANGEMENT = Story(
    strategy="Arrangement",
    begins="the driver reads it in the order of its key; a limit lets you watch",
    paused="pauses further orders; copied orders still get changes",
    again="again: the target itself is the checkpoint",
    catches_up="then the last changes, until the copy has caught up",
    shows_changes=True,
    history_s=30,
)
REPLICA = Story(
    strategy="Replica",
    begins="the driver copies its files unchanged; the file limits the copy so that you can watch",
    paused="pauses further files of history",
    again="again: the target itself is the checkpoint",
    catches_up="then the source's log: files that were added and removed since the start",
    shows_changes=False,
    history_s=12,
    spec=AS_IT_IS,
)
IN_PLACE = Story(
    strategy="InPlace",
    begins=f"the driver fills a new column of it, {COLUMN} = {VALUE}, file by file; a limit lets you watch",
    paused="pauses further files; those that are computed are committed first",
    again="again: the tags of filled files are the checkpoint",
    catches_up="",
    shows_changes=False,
    history_s=30,
    spec={"source": {}, "target": {}, "transform": {"set": {COLUMN: VALUE}}},
    # The writer makes two transactions in five seconds, so the default of 2 percent would take minutes. It tries again.
    settings={"inPlace": {"maxWriterConflicts": 100}},
    target="orders",
    writer=("--fills", f"{COLUMN}={VALUE}"),
    receipt=COMPARED,
    last=("history", "the commits of the job"),
)
STORIES = {story.strategy: story for story in (SNAPSHOT, ARRANGEMENT, REPLICA, IN_PLACE)}
"""Stories without RearrangedChain, which may never catch up with a writer that commits every two seconds."""


def is_newer(line: dict[str, Any], version: int) -> bool:
    """Return true if the reader saw a change of a later version in the copy."""
    return "seen" in line and line["seen"]["version"] > version


def describe_change(line: dict[str, Any], rows_left: int) -> str:
    """Describe the change that the reader saw, and the number of rows still to be read."""
    seen = line["seen"]
    left = f"{rows_left:,} rows are still to be read" if rows_left else "all rows are read"
    return (
        f"{seen['rows']:,} orders, changed in version {seen['version']}, are in the copy at most {seen['seconds']:.1f} s later; "
        f"{left}"
    )
