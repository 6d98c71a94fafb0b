"""Figures and labels of a Backfill for its metrics, from the cached object; total, because users can edit any field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, get_args

from backfill_api.spec.bounds import COUNT_MAX
from backfill_api.spec.strategies import Strategy
from backfill_api.status.conditions import REASONS, Phase
from backfill_api.status.progress import WarningCode
from backfill_api.timestamps import ms_of
from backfill_core.lifecycle.inputs.termination import NODE_TOOK_IT
from backfill_core.pacing.executor_losses import POD_REASONS

OTHER: Final = "Other"
"""Label value for every name that this version does not define, so that the number of series is bounded."""

NO_PHASE: Final = "New"
DEFAULT_STRATEGY: Final[str] = Strategy().type
STRATEGIES: Final = {name: name for name in Strategy.VARIANTS}
PHASES: Final[dict[str, str]] = {name: name for name in (*get_args(Phase), NO_PHASE)}
STEPS: Final = {name: name for name in ("Start", "Copy", "KeyProof", "CatchUp", "Receipt")}
WARNING_CODES: Final[dict[str, str]] = {name: name for name in get_args(WarningCode)}
REASON_LABELS: Final = {name: name for name in REASONS}
LOSS_REASONS: Final = {name: name for name in (
    "OOMKilled", "JavaOutOfMemory", "Killed", "Deleted", "Unresponsive", "Disconnected", "Decommissioned", "Ended", "Unknown", *POD_REASONS, *NODE_TOOK_IT,
    "PreemptionByScheduler", "EvictionByEvictionAPI", "DeletionByTaintManager", "DeletionByPodGC", "TerminationByKubelet",
)}  # fmt: skip
"""Reasons of lost pods: of Spark, of a kubelet, and of the condition `DisruptionTarget`."""

STATE_CONDITIONS: Final = ("Stalled", "Reconciling", "Ready")
"""Conditions whose reason explains the state of a Backfill, the most important one first."""

NOT_FAILED: Final = frozenset({
    "Complete", "UpToDate", "Planned", "Stopped", "Suspended", "Paused", "Restarted", "Deleted", "SpecChanged", "PodRejected",
})  # fmt: skip
"""Reasons of attempts that did not fail."""

LOSSES_MAX: Final = 16
HISTORY_MAX: Final = 5

MEASURED: Final = {
    "progress": (
        "step", "percent", "rowsTotal", "rowsDone", "rowsPerSecond", "lagVersions", "lagRecords", "lagSeconds", "eta",
        "etaSeconds", "etaSecondsLow", "etaSecondsHigh", "lastCommitTime", "warningCodes", "maxInFlight",
        "executors",
    ),
    "attempt": ("number", "procedure", "readyTime"),
    "control": ("rowsPerSecond", "bytesPerSecond", "pendingSince"),
}  # fmt: skip
"""Parts of a status with the fields that `figures_of` reads; `measured` adds lists and conditions."""


class JobFigures(NamedTuple):
    """Figures of one unfinished Backfill; `None` if unknown, or if the figure does not apply now."""

    step: str
    percent: int | None
    rows: int | None
    rows_done: int | None
    rows_per_second: int | None
    lag_seconds: int | None
    lag_versions: int | None
    lag_records: int | None
    eta_seconds: int | None
    eta_seconds_low: int | None
    eta_seconds_high: int | None
    throttled: int
    max_in_flight: int | None
    executors: int | None
    paused: int
    attempt: int
    commit_age_seconds: int | None
    """Seconds without a commit: since the newest one, or since the driver was ready or resumed, if that is later."""

    command_pending_seconds: int | None
    warnings: Mapping[str, int]
    failed_attempts: Mapping[str, int]
    drivers_lost: Mapping[str, int]
    executors_lost: Mapping[str, int]


def figures_of(status: Mapping[str, Any], *, active: bool, now_ms: int) -> JobFigures:
    """Return the figures of a status.

    Args:
        status: The stored status, or the part of it that `measured` returns.
        active: True if an attempt has not ended. Without one, rate, lag and ages are those of the past; also during a procedure,
            whose driver reports only its step.
        now_ms: Wall time.
    """
    progress, control = _mapping(status.get("progress")), _mapping(status.get("control"))
    attempt, conditions = _mapping(status.get("attempt")), _conditions(status)
    ready_ms = _ms(attempt, "readyTime") if active else None
    commits = active and not _text(attempt, "procedure")
    running = commits and bool(progress)
    resumed_ms = _ms(conditions.get("Paused", {}), "lastTransitionTime")
    limits = (_count(control, "rowsPerSecond"), _count(control, "bytesPerSecond"))
    records = _count(progress, "lagRecords")
    eta_s, low_s, high_s = _eta_s(progress, now_ms) if running else (None, None, None)
    return JobFigures(
        step=STEPS.get(step, OTHER) if (step := _text(progress, "step")) else "",
        percent=_count(progress, "percent", 0) if progress else None,
        rows=_count(progress, "rowsTotal") or None,
        rows_done=_count(progress, "rowsDone", 0) if progress else None,
        rows_per_second=_count(progress, "rowsPerSecond", 0) if running else None,
        lag_seconds=_count(progress, "lagSeconds", 0) if running else None,
        lag_versions=_count(progress, "lagVersions", 0) if running and records is None else None,
        lag_records=records if running else None,
        eta_seconds=eta_s,
        eta_seconds_low=low_s,
        eta_seconds_high=high_s,
        throttled=int(_is_true(conditions, "Throttled")),
        max_in_flight=_count(progress, "maxInFlight") if running else None,
        executors=_count(progress, "executors") if running else None,
        paused=int(_is_true(conditions, "Paused") or 0 in limits),
        attempt=_count(attempt, "number") or 0,
        commit_age_seconds=_age_s(now_ms, ready_ms, _ms(progress, "lastCommitTime"), resumed_ms) if commits else None,
        command_pending_seconds=_pending_s(control, ready_ms, now_ms),
        warnings=_warnings(progress, conditions) if running else {},
        failed_attempts=_failed_attempts(status),
        drivers_lost=_losses(status, "lostDrivers"),
        executors_lost=_losses(status, "lostExecutors"),
    )


def measured(status: object) -> dict[str, Any]:
    """Return the part of a status that `figures_of` reads, bounded in size; empty without a status."""
    given = _mapping(status)
    kept: dict[str, Any] = {}
    for name, fields in MEASURED.items():
        part = _mapping(given.get(name))
        kept[name] = {field: _bounded(part[field]) for field in fields if field in part}
    kept["conditions"] = [
        {field: _bounded(condition.get(field)) for field in ("type", "status", "lastTransitionTime")}
        for type_, condition in _conditions(given).items()
        if type_ in ("Paused", "Throttled", "NonConvergent")
    ]
    kept["history"] = [{"reason": _text(past, "reason")} for past in _mappings(given.get("history"))[-HISTORY_MAX:]]
    for name in ("lostDrivers", "lostExecutors"):
        losses = _mappings(given.get(name))[:LOSSES_MAX]
        kept[name] = [{"reason": _text(loss, "reason"), "count": _count(loss, "count")} for loss in losses]
    return {name: part for name, part in kept.items() if part}


def strategy_of(spec: object) -> str:
    """Return the strategy of a spec as a label; `Other` if this version has none of that name."""
    strategy = _mapping(_mapping(spec).get("strategy"))
    return STRATEGIES.get(_text(strategy, "type") or DEFAULT_STRATEGY, OTHER)


def phase_label(phase: str) -> str:
    """Return a phase as a label; an object without a status is new."""
    return PHASES.get(phase or NO_PHASE, OTHER)


def reason_of(status: Mapping[str, Any]) -> str:
    """Return the reason of a Backfill's state as a label: of `Stalled`, else of `Reconciling`, else of `Ready`."""
    conditions = _conditions(status)
    shown = next((conditions[type_] for type_ in STATE_CONDITIONS if type_ in conditions), {})
    return REASON_LABELS.get(reason, OTHER) if (reason := _text(shown, "reason")) else ""


def receipt_state(status: Mapping[str, Any]) -> str:
    """Return the state of the newest receipt: `Equal`, `Partial` or `Differs`; empty without one."""
    receipt = _mapping(status.get("receipt"))
    if not receipt:
        return ""
    if _count(receipt, "mismatches") or _count(receipt, "fileMismatches"):
        return "Differs"
    return "Partial" if receipt.get("complete") is False else "Equal"


def _pending_s(control: Mapping[str, Any], ready_ms: int | None, now_ms: int) -> int | None:
    """Return how long a command has waited for a driver that is ready; `None` if none waits."""
    pending_ms = _ms(control, "pendingSince")
    return None if pending_ms is None else _age_s(now_ms, ready_ms, pending_ms)


def _warnings(progress: Mapping[str, Any], conditions: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    codes = progress.get("warningCodes")
    given = [code for code in codes if isinstance(code, str)] if isinstance(codes, list) else []
    if _is_true(conditions, "NonConvergent"):
        given.append("NonConvergent")
    return {WARNING_CODES.get(code, OTHER): 1 for code in given}


def _failed_attempts(status: Mapping[str, Any]) -> Mapping[str, int]:
    reasons = [_text(past, "reason") for past in _mappings(status.get("history"))[-HISTORY_MAX:]]
    return Counter(REASON_LABELS.get(reason, OTHER) for reason in reasons if reason and reason not in NOT_FAILED)


def _losses(status: Mapping[str, Any], name: str) -> Mapping[str, int]:
    """Return lost pods by reason. A driver reports the reasons of executors, so only those of a fixed list are labels."""
    counts: Counter[str] = Counter()
    for loss in _mappings(status.get(name))[:LOSSES_MAX]:
        counts[LOSS_REASONS.get(_text(loss, "reason"), OTHER)] += _count(loss, "count") or 0
    return counts


def _age_s(now_ms: int, ready_ms: int | None, *times_ms: int | None) -> int | None:
    """Return the seconds since the latest of these times; `None` if the driver is not ready."""
    if ready_ms is None:
        return None
    latest_ms = max((time_ms for time_ms in times_ms if time_ms is not None), default=ready_ms)
    return max(0, now_ms - max(ready_ms, latest_ms)) // 1000


def _eta_s(progress: Mapping[str, Any], now_ms: int) -> tuple[int | None, int | None, int | None]:
    """Return the seconds left now, with their bounds, which were those of the time of the report."""
    eta_ms, reported_s = _ms(progress, "eta"), _count(progress, "etaSeconds")
    left_s = None if eta_ms is None else max(0, eta_ms - now_ms) // 1000
    passed_s = 0 if left_s is None or reported_s is None else reported_s - left_s
    bounds = (_count(progress, name) for name in ("etaSecondsLow", "etaSecondsHigh"))
    low_s, high_s = (None if bound_s is None else max(0, bound_s - passed_s) for bound_s in bounds)
    return left_s, low_s, high_s


def _ms(part: Mapping[str, Any], name: str) -> int | None:
    return ms_of(_text(part, name) or None)


def _count(part: Mapping[str, Any], name: str, default: int | None = None) -> int | None:
    """Return a number of the status; `default` if it is absent, `None` if it is no count."""
    value = part.get(name, default)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= COUNT_MAX else None


def _is_true(conditions: Mapping[str, Mapping[str, Any]], type_: str) -> bool:
    return conditions.get(type_, {}).get("status") == "True"


def _conditions(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {_text(condition, "type"): condition for condition in _mappings(status.get("conditions"))}


def _bounded(value: object) -> object:
    """Return a number or a short text unchanged, a list of short texts, and `None` for anything else."""
    if isinstance(value, list):
        return [_bounded(item) for item in value[:32] if isinstance(item, str)]
    return value[:64] if isinstance(value, str) else value if isinstance(value, int) else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(part: Mapping[str, Any], name: str) -> str:
    value = part.get(name)
    return value[:64] if isinstance(value, str) else ""
