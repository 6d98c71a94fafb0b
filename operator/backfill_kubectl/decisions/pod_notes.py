"""Pods of an attempt as rows of the tree of a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from backfill_api.names import ATTEMPT_LABEL, ROLE_LABEL
from backfill_console.frame import Mark
from backfill_console.object_frames import PodNote


def pod_notes(pods: Iterable[Mapping[str, Any]], attempt: int | None, now: datetime) -> list[PodNote]:
    """Return the pods of an attempt, the driver first. Fields of a wrong type count as absent.

    Args:
        pods: Pods of the Backfill; executors have no label of their attempt, but their driver's name.
        attempt: Number of the attempt; `None` if there is none.
        now: Current time.
    """
    listed = [pod for pod in pods if _is_of(pod, attempt)]
    return [
        _note(pod, now)
        for pod in sorted(listed, key=lambda pod: (not _is_driver(pod), _age_s(pod, now) or 0.0, _name(pod)))
    ]


def _metadata(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    return _mapping(pod.get("metadata"))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _name(pod: Mapping[str, Any]) -> str:
    return str(_metadata(pod).get("name", "?"))


def _label(pod: Mapping[str, Any], name: str) -> str:
    return str(_mapping(_metadata(pod).get("labels")).get(name, ""))


def _is_driver(pod: Mapping[str, Any]) -> bool:
    return _label(pod, ROLE_LABEL) == "driver"


def _is_of(pod: Mapping[str, Any], attempt: int | None) -> bool:
    label = _label(pod, ATTEMPT_LABEL)
    return label in ("", str(attempt)) and attempt is not None


def _age_s(pod: Mapping[str, Any], now: datetime) -> float | None:
    try:
        return max(0.0, (now - datetime.fromisoformat(str(_metadata(pod).get("creationTimestamp")))).total_seconds())
    except (ValueError, TypeError):
        return None


def _note(pod: Mapping[str, Any], now: datetime) -> PodNote:
    status = _mapping(pod.get("status"))
    phase = str(status.get("phase") or "Unknown")
    containers = _mappings(status.get("containerStatuses"))
    ready = sum(each.get("ready") is True for each in containers)
    word, info = phase, str(_mapping(pod.get("spec")).get("nodeName") or "")
    mark: Mark = {"Running": "Running", "Succeeded": "Good", "Failed": "Bad"}.get(phase, "Waiting")  # type: ignore[assignment]
    for each in containers:
        state = _mapping(each.get("state"))
        waiting, ended = _mapping(state.get("waiting")), _mapping(state.get("terminated"))
        if waiting.get("reason"):
            word, info = str(waiting["reason"]), str(waiting.get("message") or "")
        elif ended.get("reason") and phase == "Failed":
            word, info = str(ended["reason"]), f"exit {ended.get('exitCode', '?')}"
    if word == "Running":
        word = f"Running {ready}/{len(containers)}"
        mark = "Running" if ready == len(containers) else "Waiting"
    unscheduled = [
        each
        for each in _mappings(status.get("conditions"))
        if each.get("type") == "PodScheduled" and each.get("status") == "False"
    ]
    if phase == "Pending" and unscheduled:
        info = str(unscheduled[0].get("message") or "")
    if "deletionTimestamp" in _metadata(pod):
        word, mark = "Terminating", "Waiting"
    return PodNote(_name(pod), word, mark, _age_s(pod, now), info)
