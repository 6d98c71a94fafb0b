"""Places at which the rows of a source may be cut into ranges of a key, and estimates of the rows between them."""

from __future__ import annotations

from dataclasses import dataclass

from backfill_core.positions.key_order import KeyPosition
from backfill_core.positions.vnode_positions import KeySpace


@dataclass(frozen=True, slots=True)
class KeyCut:
    """A place at which the rows of a source may be cut into ranges."""

    position: KeyPosition
    rows: int
    """Estimate: rows after the cut before, up to and with this position."""


@dataclass(frozen=True, slots=True)
class KeyLine:
    """The rows of a source in the order of a key, as far as its metadata or a sample tells."""

    space: KeySpace
    cuts: tuple[KeyCut, ...]
    """Ascending in the order. Any cuts are right; good ones leave files whole."""

    rows_after: int
    """Estimate: rows behind the last cut."""

    read_amplification: float = 1.0
    """How often a file of the source is read in all, in the mean, where chunks have about a million rows."""
