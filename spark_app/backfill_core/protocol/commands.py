"""Commands to a running job."""

from __future__ import annotations

from dataclasses import dataclass

from backfill_api.spec.override import Width


@dataclass(frozen=True, slots=True)
class Pause:
    """Start no history; with `everything`, no change batches either. `force` cancels running work."""

    everything: bool = False
    force: bool = False


@dataclass(frozen=True, slots=True)
class Resume:
    """Undo every pause."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Limit of history; `Limit()` is none."""

    rows_per_s: int | None = None
    bytes_per_s: int | None = None
    until_ms: int | None = None
    """End of the limit in milliseconds since 1970; `None` if it has no end."""


@dataclass(frozen=True, slots=True)
class Throttle:
    """Limit history to `rows_per_s` (`None`: unlimited, 0: paused): permanently, for `for_s` seconds, or until `until_ms`.

    The lower of two limits applies.
    """

    rows_per_s: int | None
    for_s: float | None = None
    bytes_per_s: int | None = None
    """Bytes of the source's files, compressed."""

    until_ms: int | None = None
    """End of the limit in milliseconds since 1970; `then` follows."""

    then: Limit | None = None
    """Limit after `until_ms`; `None` if none follows. Without `until_ms` the earlier limit returns after `for_s`."""


@dataclass(frozen=True, slots=True)
class Rescale:
    """Change values of the width: number and size of the pieces of history that run at the same time, and the executors."""

    width: Width
    """The new values; absent ones stay."""


@dataclass(frozen=True, slots=True)
class VerifyNow:
    """Take a receipt at the next sealed barrier."""


@dataclass(frozen=True, slots=True)
class Stop:
    """End at the next barrier; the job can resume. `force` cancels running work instead of waiting for it."""

    force: bool = False


Command = Pause | Resume | Throttle | Rescale | VerifyNow | Stop
