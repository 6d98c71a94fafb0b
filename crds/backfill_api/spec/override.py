"""What the annotation `backfill.dev/override` may say: an emergency brake that a GitOps tool does not undo."""

from __future__ import annotations

from typing import Literal

from pydantic import StrictBool

from backfill_api.model import Model
from backfill_api.spec.spec import PauseSpec, ThrottleSpec


class Override(Model):
    """Fields that are honoured above the spec's; absent ones leave the spec in force."""

    desired_state: Literal["Running", "Paused"] | None = None
    """As in the spec."""

    pause: PauseSpec | None = None
    """As in the spec."""

    throttle: ThrottleSpec | None = None
    """As in the spec; `{"rowsPerSecond": null}` takes a limit away."""

    suspend: StrictBool | None = None
    """As in the spec."""
