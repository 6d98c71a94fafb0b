"""The annotation `backfill.dev/override`: an emergency brake that a GitOps tool does not undo."""

from __future__ import annotations

from typing import Literal

from pydantic import StrictBool

from backfill_api.model import Model
from backfill_api.spec.spec import PauseSpec, ThrottleSpec


class Override(Model):
    """Fields that take precedence over the spec's; for an absent field the spec holds."""

    desired_state: Literal["Running", "Paused"] | None = None
    """As in the spec."""

    pause: PauseSpec | None = None
    """As in the spec."""

    throttle: ThrottleSpec | None = None
    """As in the spec, both limits together; `{"rowsPerSecond": null}` takes them away."""

    suspend: StrictBool | None = None
    """As in the spec."""
