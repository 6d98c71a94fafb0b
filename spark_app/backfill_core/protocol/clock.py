"""The only clock that the core knows: the moment of an event, as an argument."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Now:
    """The moment an event is handled: the only clock the core knows."""

    mono_s: float
    """Monotonic seconds; for durations."""

    wall_ms: int
    """Milliseconds since 1970 UTC; for what people read and for expiries."""
