"""Table properties with which one commit cannot remove the rows of a target, or replace them.

property                               a commit that only adds   only removes   adds and removes
------------------------------------   -----------------------   ------------   ----------------
delta.appendOnly = true                yes                       no             no
delta.enableChangeDataFeed = true      yes                       yes            no: Delta Kernel records no row changes
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

APPEND_ONLY: Final = "delta.appendOnly"
CHANGE_FEED: Final = "delta.enableChangeDataFeed"

FEED_HINT: Final = (
    f"Disable the change feed: ALTER TABLE … SET TBLPROPERTIES ('{CHANGE_FEED}' = 'false'). Run the command again, and set the property "
    "to 'true' afterwards. The feed then lacks the versions in between, so its readers must start after them."
)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A property of a table that forbids a commit."""

    name: str
    reason: str
    """What the property forbids, to follow the name and value in a message."""

    hint: str


def find_obstacle(properties: Mapping[str, str], *, removed: int, added: int) -> Obstacle | None:
    """Return the property that forbids a commit; `None` if there is none.

    Args:
        properties: Table properties, as stored: names in any case.
        removed: Number of rows or files that the commit removes.
        added: Number of rows or files that it adds.
    """
    on = {name.lower() for name, value in properties.items() if value.strip().lower() == "true"}
    if removed and APPEND_ONLY.lower() in on:
        hint = f"Unset it: ALTER TABLE … UNSET TBLPROPERTIES ('{APPEND_ONLY}')."
        return Obstacle(APPEND_ONLY, "which forbids the removal of rows", hint)
    if removed and added and CHANGE_FEED.lower() in on:
        reason = "for which Delta Kernel cannot add and remove files in one commit"
        return Obstacle(CHANGE_FEED, reason, FEED_HINT)
    return None
