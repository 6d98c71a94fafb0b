"""The desired state: the spec, and above it the override annotation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError

from backfill_api.names import OVERRIDE_ANNOTATION
from backfill_api.spec.combinations import NO_BYTES, knows_bytes
from backfill_api.spec.override import Override
from backfill_api.spec.spec import BackfillSpec, PauseSpec, ThrottleSpec
from backfill_core.lifecycle.observation import SpecRefused

Scope = Literal["History", "All"]


@dataclass(frozen=True, slots=True)
class Desired:
    """Controls that must be in force; the defaults are those of an empty spec."""

    paused: Scope | None = None
    rows_per_second: int | None = None
    bytes_per_second: int | None = None
    suspend: bool = False
    pause_overridden: bool = False
    throttle_overridden: bool = False
    suspend_overridden: bool = False
    override_error: str = ""
    """Why the annotation is ignored; empty: it is not."""

    @property
    def controls(self) -> dict[str, Any]:
        """The pause and the limits, by the names that a status and a launch have for them."""
        limits = {"rows_per_second": self.rows_per_second, "bytes_per_second": self.bytes_per_second}
        return {"paused": self.paused, **limits}


def desired_of(spec: BackfillSpec | SpecRefused, annotations: Mapping[str, str]) -> Desired:
    """Return the spec's controls with the override's above them; an override with one error is ignored as a whole.

    Half an emergency brake is worse than one that visibly does not work.
    """
    override, error = _override(annotations.get(OVERRIDE_ANNOTATION, ""))
    state = pause = None
    throttle, suspend = ThrottleSpec(), False
    if isinstance(spec, BackfillSpec):
        state, pause, throttle, suspend = spec.desired_state, spec.pause, spec.throttle, spec.suspend
        if override.throttle and override.throttle.bytes_per_second is not None and not knows_bytes(spec.source):
            error = f"{OVERRIDE_ANNOTATION}: throttle.bytesPerSecond {NO_BYTES}"
            override = Override()
    state = override.desired_state or state
    pause = override.pause or pause or PauseSpec()
    throttle = override.throttle or throttle
    return Desired(
        paused=pause.scope if state == "Paused" else None,
        rows_per_second=throttle.rows_per_second,
        bytes_per_second=throttle.bytes_per_second,
        suspend=suspend if override.suspend is None else override.suspend,
        pause_overridden=override.desired_state is not None or override.pause is not None,
        throttle_overridden=override.throttle is not None,
        suspend_overridden=override.suspend is not None,
        override_error=error,
    )


def _override(text: str) -> tuple[Override, str]:
    if not text.strip():
        return Override(), ""
    try:
        return Override.model_validate_json(text, by_alias=True, by_name=False), ""
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(str(part) for part in first["loc"]) or "annotation"
        return Override(), f"{OVERRIDE_ANNOTATION}: {path}: {first['msg']}"[:512]
