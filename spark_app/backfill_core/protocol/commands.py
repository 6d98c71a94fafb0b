"""Commands to a running job."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pause:
    """Start no history; with `everything`, no change batches either. `force` cancels running work."""

    everything: bool = False
    force: bool = False


@dataclass(frozen=True, slots=True)
class Resume:
    """Undo every pause."""


@dataclass(frozen=True, slots=True)
class Throttle:
    """Limit history to `rows_per_s` (`None`: unlimited, 0: paused) for `for_s` seconds or permanently. The lower limit applies."""

    rows_per_s: int | None
    for_s: float | None = None
    bytes_per_s: int | None = None
    """Bytes of the source's files, compressed."""


@dataclass(frozen=True, slots=True)
class VerifyNow:
    """Take a receipt at the next sealed barrier."""


@dataclass(frozen=True, slots=True)
class Stop:
    """End at the next barrier; the job can resume. `force` cancels running work instead of waiting for it."""

    force: bool = False


Command = Pause | Resume | Throttle | VerifyNow | Stop
