"""Pause, limit and width, as the spec and the annotation `backfill.dev/override` have them.

The annotation is an emergency brake that a GitOps tool does not undo.
"""

from __future__ import annotations

from typing import Literal

from pydantic import StrictBool

from backfill_api.model import Model
from backfill_api.spec.bounds import ByteRate, InFlight, Rate, Until
from backfill_api.timestamps import ms_of


class ThrottleSpec(Model):
    """Limit of the snapshot's speed; changes are never limited."""

    rows_per_second: Rate | None = None
    """Rows a second; absent: unlimited, 0: the snapshot is not read."""

    bytes_per_second: ByteRate | None = None
    """Bytes of the source's files per second, compressed; not for a topic. The lower of this limit and `rowsPerSecond` applies."""

    until: Until | None = None
    """End of this limit, RFC 3339: an override's limit then gives way to the spec's, the spec's to none. A past time: not in force."""

    @property
    def limited(self) -> bool:
        """True if rows or bytes have a limit."""
        return (self.rows_per_second, self.bytes_per_second) != (None, None)

    @property
    def until_ms(self) -> int | None:
        """End of this limit in milliseconds since 1970, rounded down to seconds; `None` if it has no end."""
        ms = ms_of(self.until)
        return None if ms is None else ms // 1000 * 1000


class PauseSpec(Model):
    """Scope of `desiredState: Paused`."""

    scope: Literal["History", "All"] = "History"
    """`History`: the snapshot stands still, changes are applied. `All`: nothing is read or applied."""


class Override(Model):
    """Fields that take precedence over the spec's; for an absent field the spec holds."""

    desired_state: Literal["Running", "Paused"] | None = None
    """As in the spec."""

    pause: PauseSpec | None = None
    """As in the spec."""

    throttle: ThrottleSpec | None = None
    """As in the spec, both limits together; `{"rowsPerSecond": null}` takes them away."""

    max_in_flight: InFlight | None = None
    """As in the strategy of the spec."""

    suspend: StrictBool | None = None
    """As in the spec."""
