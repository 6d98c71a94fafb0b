"""Clock of the core: the time of an event is an argument."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Now:
    """Time at which an event is handled."""

    mono_s: float
    """Monotonic seconds; for durations."""

    wall_ms: int
    """Milliseconds since 1970 UTC; for display and for expiries."""
