"""The width of a job: which of its values a command changes while the job runs, and why the others are fixed."""

from __future__ import annotations

from collections.abc import Mapping

from backfill_api.spec.override import WIDTH_FIELDS, Width
from backfill_api.spec.spec import BackfillSpec

EXECUTORS_DEFAULT = 1
"""Executors of a job whose spec names no number."""

BY_TIME = 0
"""Value of `chunkRows` of a job whose chunks take about four seconds, however many rows that is."""


def fixed_width(spec: BackfillSpec) -> Mapping[str, str]:
    """Return why values of the width cannot change, for users, by the name of a field of `Width`; fields that can change are left out."""
    strategy, params = spec.strategy.type, spec.strategy.params
    reasons = {"executors": _fixed_executors(spec)}
    by_mode = params.FIXED_WIDTH.get(spec.write_mode, "")
    if by_mode:
        reasons |= dict.fromkeys(("max_in_flight", "split_target_seconds"), f"strategy {strategy} {by_mode}")
    for name in ("split_target_seconds", "chunk_rows"):
        if name not in type(params).model_fields:
            reasons[name] = f"strategy {strategy} has no {WIDTH_FIELDS[name]}"
    return {name: reason for name, reason in reasons.items() if reason}


def _fixed_executors(spec: BackfillSpec) -> str:
    if spec.executor.dynamic is not None:
        return "their number follows the load, between executor.dynamic.min and max"
    if spec.executor.instances == 0:
        return "executor.instances is 0, so the driver reads all rows itself"
    if spec.queue is not None:
        return "the queue admitted the driver and this number of executors together"
    return ""


def spec_path(name: str, member: str) -> tuple[str, ...]:
    """Return the path of a value of the width in the document of a spec.

    Args:
        name: The name of the value in Python.
        member: The member of the spec's strategy.
    """
    return ("executor", "instances") if name == "executors" else ("strategy", member, WIDTH_FIELDS[name])


def width_of(spec: BackfillSpec) -> Width:
    """Return the values of the width that a command can change, as the spec gives them; the others are `None`."""
    params, fixed = spec.strategy.params, fixed_width(spec)
    given = {
        "max_in_flight": params.in_flight_max,
        "split_target_seconds": getattr(params, "split_target_seconds", None),
        "chunk_rows": getattr(params, "chunk_rows", None) or BY_TIME,
        "executors": EXECUTORS_DEFAULT if spec.executor.instances is None else spec.executor.instances,
    }
    return Width(**{name: value for name, value in given.items() if name not in fixed})
