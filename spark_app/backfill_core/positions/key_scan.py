"""Positions at which the rows of a source may be cut into ranges of a key, and estimates of the rows between them."""

from __future__ import annotations

from dataclasses import dataclass

from backfill_core.positions.key_order import KeyPosition
from backfill_core.positions.vnode_positions import KeySpace


@dataclass(frozen=True, slots=True)
class KeyCut:
    """A position at which the rows of a source may be cut into ranges."""

    position: KeyPosition
    rows: int
    """Estimated rows after the previous cut, up to and including this position."""


@dataclass(frozen=True, slots=True)
class KeyScan:
    """The rows of a source in the order of a key, estimated from its metadata or a sample."""

    space: KeySpace
    cuts: tuple[KeyCut, ...]
    """Ascending in the order. Any cuts are correct; good ones do not divide files."""

    rows_after: int
    """Estimated rows after the last cut."""

    read_amplification: float = 1.0
    """Estimated number of reads of each source file on average, with chunks of about a million rows."""
