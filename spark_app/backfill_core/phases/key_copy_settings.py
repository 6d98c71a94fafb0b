"""Settings of a copy in the order of a key."""

from __future__ import annotations

from dataclasses import dataclass, replace

from backfill_api.spec.override import Width


@dataclass(frozen=True, slots=True)
class KeyCopySettings:
    """Settings of a copy; they do not change its result."""

    in_flight_max: int
    chunk_target_s: float
    chunk_rows: int | None = None
    """Most rows of a chunk; `None` to use the target time."""

    rows_per_cut: int = 1
    """Rows between two places at which a chunk may end. Smaller chunks would each read up to such a place, one after the other."""

    proves_key: bool = False
    """True if each chunk checks that no two of its rows share a key."""

    proven_version: int | None = None
    """Source version in which the key was proven, so that its chunks need no check; `None` if there is none."""

    def under(self, width: Width) -> KeyCopySettings:
        """Return the settings with the values of a width that are present."""
        given = width.chunk_rows and max(width.chunk_rows, self.rows_per_cut)
        chunk_rows = self.chunk_rows if given is None else given or None
        return replace(self, in_flight_max=width.max_in_flight or self.in_flight_max, chunk_rows=chunk_rows)
