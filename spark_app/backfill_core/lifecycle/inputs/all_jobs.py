"""The switch that pauses all jobs at once: its stored form, and its effect on the controls of one job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import from_json

from backfill_api.model import known
from backfill_api.names import ALL_JOBS_CONFIG_MAP, ALL_JOBS_KEY
from backfill_api.plain_text import printable
from backfill_api.spec.bounds import NOTE_MAX
from backfill_api.spec.change_claim import ChangeClaim, PauseAll
from backfill_api.spec.override import WIDTH_FIELDS, Width
from backfill_api.status.status import Control
from backfill_api.timestamps import ms_of
from backfill_core.lifecycle.inputs.desired import Desired
from backfill_core.lifecycle.observation import Observation, SpecRefused

ALL_JOBS_PAUSED: Final = "AllJobsPaused"
"""Reason of a job that the switch pauses, or whose launch it holds."""

EXAMPLE: Final = '{"enabled": true, "note": "incident 4711", "by": "anna"}'
TEXT_CHARACTERS_MAX: Final = 4096


def read_switch(data: object) -> PauseAll:
    """Return the switch from the `data` of its ConfigMap; `None` stands for no ConfigMap, or no data.

    Raises:
        ValueError: The content is invalid, so the previous state must stay in force. The message names key, error and remedy.
    """
    text = data.get(ALL_JOBS_KEY, "") if isinstance(data, dict) else "" if data is None else data
    try:
        if not isinstance(text, str) or len(text) > TEXT_CHARACTERS_MAX:
            raise ValueError(f"it is not a text of at most {TEXT_CHARACTERS_MAX:,} characters")
        return _parsed(text) if text.strip() else PauseAll(enabled=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join((ALL_JOBS_KEY, *(str(part) for part in first["loc"])))
        reason = f"{path}: {first['msg']}"
    except ValueError as error:
        reason = f"{ALL_JOBS_KEY}: {error}"
    raise ValueError(f"ConfigMap {ALL_JOBS_CONFIG_MAP}, {reason}; the previous state stays. Write it as in {EXAMPLE}")


def _parsed(text: str) -> PauseAll:
    document = from_json(text, allow_inf_nan=False)
    if isinstance(document, dict) and isinstance(document.get("note"), str):
        document["note"] = document["note"][:NOTE_MAX]  # a long reason must not prevent a pause in an emergency
    # A plug-in of a later version may write more fields.
    switch = PauseAll.model_validate(known(PauseAll, document))
    return switch.model_copy(update={"by": printable(switch.by), "note": printable(switch.note)})


def with_switch(own: Desired, observation: Observation) -> Desired:
    """Return the controls of a job while the switch is set; its own ones while it is not.

    A state that is not known yet is the stored one: a restart of the operator neither pauses nor resumes a job. A driver whose spec
    is unreadable pauses too, and keeps its limits.
    """
    switch, status = observation.pause_all, observation.status
    pause = status.all_jobs_pause if switch is None else switch.pause
    if pause is None:
        return own
    limits: dict[str, Any] = {}
    if isinstance(observation.spec, SpecRefused):
        control = status.control or Control()
        limits = {
            "rows_per_second": control.rows_per_second, "bytes_per_second": control.bytes_per_second,
            "until_ms": ms_of(control.until), "then": control.then,
            "width": _width_of(control),
        }  # fmt: skip
    return replace(own, paused="All", all_jobs_pause=pause, **limits)


def _width_of(control: Control) -> Width:
    """Return the width that a driver was last asked for, without values that a user edited beyond their bounds."""
    values = {name: getattr(control, name) for name in WIDTH_FIELDS}
    try:
        return Width(**values)
    except ValidationError as error:
        beyond = {part for detail in error.errors() for part in detail["loc"]}
        return Width(**{name: value for name, value in values.items() if beyond.isdisjoint({name, WIDTH_FIELDS[name]})})


def describe_pause(pause: ChangeClaim) -> str:
    """Return author and reason of the pause, for people."""
    by = f" by {pause.by} (claimed)" if pause.by else ""
    return f"all jobs are paused{by}" + (f": {pause.note}" if pause.note else "")


def switch_claim(observation: Observation, type_: str) -> ChangeClaim | None:
    """Return the claim of the switch if it causes a command of this type; `None` if another change causes it."""
    switch, before = observation.pause_all, observation.status.all_jobs_pause
    if switch is None or type_ not in ("Pause", "Resume") or not (switch.enabled or before is not None):
        return None
    return switch
