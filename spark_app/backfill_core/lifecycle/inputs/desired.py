"""The desired state: the spec, and the override annotation, which has precedence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import ValidationError

from backfill_api.names import OVERRIDE_ANNOTATION, STATE_ANNOTATION, SUSPEND_ANNOTATION
from backfill_api.spec.change_claim import ChangeClaim
from backfill_api.spec.combinations import NO_BYTES, knows_bytes
from backfill_api.spec.override import WIDTH_FIELDS, Override, PauseSpec, ThrottleSpec, Width
from backfill_api.spec.spec import BackfillSpec
from backfill_api.timestamps import rfc3339
from backfill_api.width import fixed_width, width_of
from backfill_core.lifecycle.observation import SpecRefused

Scope = Literal["History", "All"]

ERROR_CHARACTERS_MAX: Final = 512
PLAIN: Final[tuple[tuple[str, str, Mapping[str, object]], ...]] = (
    (STATE_ANNOTATION, "desired_state", {"Running": "Running", "Paused": "Paused"}),
    (SUSPEND_ANNOTATION, "suspend", {"true": True, "false": False}),
)
"""Annotations for one field of an override each, and their values."""

NO_OVERRIDE: Final = Override()
UNLIMITED: Final = ThrottleSpec()
DEFAULT_PAUSE: Final = PauseSpec()


@dataclass(frozen=True, slots=True)
class Desired:
    """Controls that must be in force; the defaults are those of an empty spec."""

    paused: Scope | None = None
    rows_per_second: int | None = None
    bytes_per_second: int | None = None
    until_ms: int | None = None
    """End of the limit in force, in milliseconds since 1970; `None` if it has no end."""

    then: ThrottleSpec | None = None
    """The limit that follows at `until_ms`; `None` if none follows."""

    ended: tuple[str, ...] = ()
    """Descriptions of limits that ended: the override's, the spec's."""

    width: Width = Width()  # noqa: RUF009 - it is frozen
    """Size and number of the pieces of history, and of the executors; a value that cannot change is `None`."""

    suspend: bool = False
    all_jobs_pause: ChangeClaim | None = None
    """Author and reason of the pause of all jobs, which takes precedence over spec and override; `None` if it is not in force."""

    pause_overridden: bool = False
    throttle_overridden: bool = False
    suspend_overridden: bool = False
    override: Override | None = None
    """The override in force, which the status stores; `None` without one."""

    override_error: str = ""
    """Reason why an annotation is ignored; empty if none is."""

    @property
    def controls(self) -> dict[str, Any]:
        """The pause, the limits and the width, by their names in a status and a launch."""
        return {
            "paused": self.paused,
            "rows_per_second": self.rows_per_second,
            "bytes_per_second": self.bytes_per_second,
            "until": None if self.until_ms is None else rfc3339(self.until_ms),
            **{name: getattr(self.width, name) for name in WIDTH_FIELDS},
        }

    @property
    def launch(self) -> dict[str, Any]:
        """The controls of a launch, by their names; its spec has the values of the width that no override sets."""
        overridden = Width() if self.override is None else self.override
        width = {name: value for name, value in self.width.given.items() if name in overridden.given}
        controls = {name: value for name, value in self.controls.items() if name not in WIDTH_FIELDS}
        return controls | {"width": Width(**width)}

    @property
    def limit(self) -> tuple[int | None, int | None, int | None]:
        """The limit in force: rows and bytes a second, and its end in milliseconds since 1970."""
        return self.rows_per_second, self.bytes_per_second, self.until_ms


def desired_of(
    spec: BackfillSpec | SpecRefused, annotations: Mapping[str, str], now_ms: int, held: Override | None = None
) -> Desired:
    """Return the spec's controls with the override applied.

    An override annotation with one error is ignored as a whole, and the previous override stays: a typo must not end a pause. Of a value
    of the width that an edit of the spec made impossible, only that value is ignored: an old number must not prevent a pause.

    Args:
        spec: The spec.
        annotations: Annotations of the object.
        now_ms: Current time; a limit past its `until` is not in force.
        held: The override that was in force.
    """
    override, errors = _override(spec, annotations, held or NO_OVERRIDE)
    state = pause = None
    width = Width(**override.given)
    throttle = UNLIMITED
    suspend = False
    if isinstance(spec, BackfillSpec):
        state, pause, throttle, suspend = spec.desired_state, spec.pause, spec.throttle, spec.suspend
        width = _width(spec, override)
    state = override.desired_state or state
    pause = override.pause or pause or DEFAULT_PAUSE
    limits = [("override", override.throttle), ("spec", throttle)]
    in_force = [(owner, limit) for owner, limit in limits if limit is not None and not _over(limit, now_ms)]
    owner, limit = in_force[0] if in_force else ("spec", UNLIMITED)
    return Desired(
        paused=pause.scope if state == "Paused" else None,
        rows_per_second=limit.rows_per_second,
        bytes_per_second=limit.bytes_per_second,
        until_ms=limit.until_ms,
        then=_after(limit, [later for _, later in in_force[1:]]),
        ended=tuple(
            f"{name}.throttle.until {over.until} is past" for name, over in limits if over and _over(over, now_ms)
        ),
        width=width,
        suspend=suspend if override.suspend is None else override.suspend,
        pause_overridden=override.desired_state is not None or override.pause is not None,
        throttle_overridden=owner == "override",
        suspend_overridden=override.suspend is not None,
        override=None if override == NO_OVERRIDE else override,
        override_error="; ".join(errors)[:ERROR_CHARACTERS_MAX],
    )


def _width(spec: BackfillSpec, override: Override) -> Width:
    """Return the width of a spec with the values of an override; one that was in force before an edit may have a value that is fixed now."""
    width = width_of(spec)
    if not override.given:
        return width
    fixed = fixed_width(spec)
    return width.model_copy(update={name: value for name, value in override.given.items() if name not in fixed})


def _over(limit: ThrottleSpec, now_ms: int) -> bool:
    return limit.until_ms is not None and limit.until_ms <= now_ms


def _after(limit: ThrottleSpec, later: list[ThrottleSpec]) -> ThrottleSpec | None:
    """Return the limit that holds at the end of `limit`, with its end in the form of a status; `None` if none does."""
    if limit.until_ms is None:
        return None
    holds = (spec for spec in later if spec.limited and not _over(spec, limit.until_ms))
    after = next(holds, None)
    if after is None:
        return None
    until = None if after.until_ms is None else rfc3339(after.until_ms)
    return ThrottleSpec(rows_per_second=after.rows_per_second, bytes_per_second=after.bytes_per_second, until=until)


def _override(
    spec: BackfillSpec | SpecRefused, annotations: Mapping[str, str], held: Override
) -> tuple[Override, list[str]]:
    """Return the override from all annotations, and their errors."""
    override, error = _of_json(spec, annotations.get(OVERRIDE_ANNOTATION, ""))
    errors = [error] if error else []
    override = override or held
    for name, field, values in PLAIN:
        text = annotations.get(name, "").strip()
        if text and text not in values:
            errors.append(f"{name}: {text[:64]!r} is neither {' nor '.join(values)}")
        if text:
            value = values.get(text, getattr(held, field))
            override = override.model_copy(update={field: value})
    return override, errors


def _of_json(spec: BackfillSpec | SpecRefused, text: str) -> tuple[Override | None, str]:
    """Return the override of the annotation, and the reason why it, or a value of its width, cannot be used; `None` if it cannot be used."""
    if not text.strip():
        return NO_OVERRIDE, ""
    try:
        override = Override.model_validate_json(text, by_alias=True, by_name=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(str(part) for part in first["loc"]) or "annotation"
        return None, f"{OVERRIDE_ANNOTATION}: {path}: {first['msg']}"
    limit = override.throttle.bytes_per_second if override.throttle else None
    if limit is not None and isinstance(spec, BackfillSpec) and not knows_bytes(spec.source):
        return None, f"{OVERRIDE_ANNOTATION}: throttle.bytesPerSecond {NO_BYTES}"
    fixed = fixed_width(spec) if override.given and isinstance(spec, BackfillSpec) else {}
    reasons = [f"{WIDTH_FIELDS[name]} cannot change: {fixed[name]}" for name in override.given if name in fixed]
    return override, f"{OVERRIDE_ANNOTATION}: {'; '.join(reasons)}" if reasons else ""
