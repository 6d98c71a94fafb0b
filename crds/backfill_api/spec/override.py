"""Pause, limit and width, as the spec and the annotation `backfill.dev/override` have them.

The annotation is an emergency brake that a GitOps tool does not undo.
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import StrictBool

from backfill_api.model import Model
from backfill_api.spec.bounds import ByteRate, ChunkRows, Executors, InFlight, Rate, SplitSeconds, Until
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


class Width(Model):
    """Size and number of the pieces of the snapshot that run at the same time, and of the executors; an absent value stays as it is."""

    max_in_flight: InFlight | None = None
    """Most pieces that run at the same time; those that run already may end."""

    split_target_seconds: SplitSeconds | None = None
    """Target duration of a split; it sizes the next one."""

    chunk_rows: ChunkRows | None = None
    """Rows of a chunk of strategy Arrangement, at most; 0: as many as take about four seconds. One below 50,000 and below the `chunkRows`
    with which the attempt began counts as the lower of these two."""

    executors: Executors | None = None
    """Number of executors. Tasks of an executor that is removed run again on another one."""

    @property
    def given(self) -> dict[str, int]:
        """The values that are not absent, by their names in Python."""
        return given_width(self)


WIDTH_FIELDS: Final = {name: str(field.alias) for name, field in Width.model_fields.items()}
"""Names of the values of a width in JSON, by their names in Python."""


def given_width(shown: object) -> dict[str, int]:
    """Return the values of a width that a progress, a status or a command contains, by their names in Python."""
    return {name: value for name in WIDTH_FIELDS if (value := getattr(shown, name)) is not None}


class Override(Width):
    """Fields that take precedence over the spec's; for an absent field the spec holds."""

    desired_state: Literal["Running", "Paused"] | None = None
    """As in the spec."""

    pause: PauseSpec | None = None
    """As in the spec."""

    throttle: ThrottleSpec | None = None
    """As in the spec, both limits together; `{"rowsPerSecond": null}` takes them away."""

    suspend: StrictBool | None = None
    """As in the spec."""
