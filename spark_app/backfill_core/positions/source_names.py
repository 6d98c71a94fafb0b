"""The name of a target's file tells which file of the source it was made of; so no list of them is kept anywhere.

`w-<tag>-<suffix>.parquet` has the rows of the source's file, each in its place: what a deletion vector says of the one holds for the
other. `d-<tag>-<suffix>.parquet`, and whatever lies in a folder `d-<tag>-<suffix>`, has rows that were decoded; there may be several
of one source file.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import Enum

TAG_DIGITS = 32
_NAME = re.compile(rf"([wd])-([0-9a-f]{{{TAG_DIGITS}}})-.*\.parquet")
_FOLDER = re.compile(rf"(?:^|/)d-([0-9a-f]{{{TAG_DIGITS}}})-[^/]*/")


class RowOrder(Enum):
    """How the rows of a target's file stand to those of its source file."""

    KEPT = "w"
    """Each is in its place; the file has all of them."""

    LOST = "d"
    """The file has some of them, in any order."""


@dataclass(frozen=True, slots=True)
class SourceTag:
    """What the name of a target's file says."""

    tag: str
    order: RowOrder


def tag_of(source_path: str) -> str:
    """Return what names have of a source file, whose path is taken as the log spells it."""
    return hashlib.sha256(source_path.encode()).hexdigest()[:TAG_DIGITS]


def name_of(source_path: str, order: RowOrder, suffix: str) -> str:
    """Return the name of a target's file; `suffix` tells it from others of the same source file, and has no slash."""
    return f"{order.value}-{tag_of(source_path)}-{suffix}.parquet"


def folder_of(source_path: str, suffix: str) -> str:
    """Return the name of a folder for decoded rows of one source file; `suffix` tells it from others of the same file."""
    return f"{RowOrder.LOST.value}-{tag_of(source_path)}-{suffix}"


def source_of(target_path: str) -> SourceTag | None:
    """Return what the name of a target's file says, wherever it lies; None: it is made of no source file."""
    found = _NAME.fullmatch(target_path.rsplit("/", 1)[-1])
    if found is not None:
        return SourceTag(found[2], RowOrder(found[1]))
    folder = _FOLDER.search(target_path)
    return None if folder is None else SourceTag(folder[1], RowOrder.LOST)
