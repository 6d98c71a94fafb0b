"""Names of a target's files, which identify the source file of their rows, so that no list of them is stored.

`w-<tag>-<suffix>.parquet` contains the rows of the source file, each at the same position, so deletion vectors of the source file also
apply to it. `d-<tag>-<suffix>.parquet`, and every file in a folder `d-<tag>-<suffix>`, contains decoded rows. One source file may have
several of them.
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
    """Positions of the rows of a target's file, compared with its source file."""

    KEPT = "w"
    """The file contains all rows, each at the same position."""

    LOST = "d"
    """The file contains some of the rows, in any order."""


@dataclass(frozen=True, slots=True)
class SourceTag:
    """Source file and row order, parsed from the name of a target's file."""

    tag: str
    order: RowOrder


def tag_of(source_path: str) -> str:
    """Return the tag of a source file, from its path as written in the log."""
    return hashlib.sha256(source_path.encode()).hexdigest()[:TAG_DIGITS]


def name_of(source_path: str, order: RowOrder, suffix: str) -> str:
    """Return the name of a target's file; `suffix` distinguishes files of the same source file, and has no slash."""
    return f"{order.value}-{tag_of(source_path)}-{suffix}.parquet"


def folder_of(source_path: str, suffix: str) -> str:
    """Return the name of a folder for decoded rows of one source file; `suffix` distinguishes folders of the same file."""
    return f"{RowOrder.LOST.value}-{tag_of(source_path)}-{suffix}"


def source_of(target_path: str) -> SourceTag | None:
    """Parse the source file's tag from a target file path; `None` if the file was not made from a source file."""
    match = _NAME.fullmatch(target_path.rsplit("/", 1)[-1])
    if match is not None:
        return SourceTag(match[2], RowOrder(match[1]))
    folder = _FOLDER.search(target_path)
    return None if folder is None else SourceTag(folder[1], RowOrder.LOST)
