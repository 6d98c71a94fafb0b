"""Decides which jobs need a person, and summarizes each job in one line of a list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from backfill_api.amounts import counted
from backfill_api.names import CHANGED_BY_ANNOTATION
from backfill_api.shallow_json import loads
from backfill_api.status.conditions import Condition
from backfill_kubectl.decisions.stored import StoredBackfill

Group = Literal["needs a person", "runs", "paused", "waits", "done"]

GROUPS: Final[tuple[Group, ...]] = ("needs a person", "runs", "paused", "waits", "done")
GROUP_OF: Final[dict[str, Group]] = {
    "Running": "runs", "Pausing": "paused", "Paused": "paused", "Suspending": "paused", "Suspended": "paused",
    "Succeeded": "done",
}  # fmt: skip
"""Groups of the phases; all others wait."""

UNHEALTHY: Final = (
    ("Stalled", "True", ""), ("Failed", "True", ""), ("AwaitingApproval", "True", ""), ("Verified", "False", ""),
    ("OverrideIgnored", "True", ""), ("SharedTarget", "True", ""), ("NonConvergent", "True", ""),
    ("ControlSynced", "False", "CommandRefused"), ("ExecutorsWaiting", "True", ""), ("DriverReady", "False", "DriverUnreachable"),
)  # fmt: skip
"""Conditions that need a person: type, status, and reason (empty for any), the most important first."""


@dataclass(frozen=True, slots=True)
class JobLine:
    """One job in a list. An empty or absent value is unknown."""

    key: str
    phase: str
    group: Group
    why: str
    percent: int | None = None
    rows_done: int | None = None
    rows_total: int | None = None
    rows_per_second: int | None = None
    lag_s: int | None = None
    eta_s: int | None = None
    since_s: int | None = None
    """Seconds since a pause or suspension began."""

    strategy: str = ""
    attempt: int | None = None
    driver: str = ""
    age_s: int | None = None


def needs_a_person(backfill: StoredBackfill) -> Condition | None:
    """Return the most important condition that waits for an action of a person; `None` if none does."""
    for type_, status, reason in UNHEALTHY:
        condition = backfill.condition(type_)
        if condition is not None and condition.status == status and reason in ("", condition.reason):
            return condition
    return None


def job_line(backfill: StoredBackfill, now: datetime) -> JobLine:
    """Return the line of a job.

    Args:
        backfill: The stored object.
        now: Current time, with a time zone.
    """
    status, progress = backfill.status, backfill.status.progress
    phase = "Terminating" if backfill.deleting else status.phase or "Pending"
    needy = needs_a_person(backfill)
    group: Group = "needs a person" if needy is not None else GROUP_OF.get(phase, "waits")
    held = {"paused": "Paused", "needs a person": ""}.get(group, "")
    held = "Suspended" if phase == "Suspended" else held
    paused = backfill.condition(held) if held else None
    attempt = status.attempt
    return JobLine(
        key=backfill.key,
        phase=phase,
        group=group,
        why=_why(backfill, needy),
        percent=progress.percent if progress is not None else None,
        rows_done=progress.rows_done if progress is not None else None,
        rows_total=(progress.rows_total or None) if progress is not None else None,
        rows_per_second=progress.rows_per_second if progress is not None and group == "runs" else None,
        lag_s=progress.lag_seconds if progress is not None and backfill.driver_runs else None,
        eta_s=seconds_since(progress.eta, now, ahead=True) if progress is not None and group == "runs" else None,
        since_s=seconds_since(paused.last_transition_time, now)
        if paused is not None and paused.status == "True"
        else None,
        strategy=_text(backfill.spec.get("strategy"), "type"),
        attempt=attempt.number if attempt is not None else None,
        driver=(attempt.pod_name or "") if attempt is not None and attempt.state != "Ended" else "",
        age_s=seconds_since(backfill.created, now),
    )


def _text(value: object, name: str) -> str:
    return str(value.get(name, "")) if isinstance(value, dict) else ""


def seconds_since(moment: str | None, now: datetime, *, ahead: bool = False) -> int | None:
    """Return the seconds since a time, or until it; `None` if it is absent or unreadable."""
    try:
        difference_s = (now - datetime.fromisoformat(moment or "")).total_seconds()
    except (ValueError, TypeError):
        return None
    return max(0, round(-difference_s if ahead else difference_s))


def _why(backfill: StoredBackfill, needy: Condition | None) -> str:
    """Return the reason for the state of a job, in one line."""
    if backfill.unreadable:
        return f"cannot read {backfill.unreadable[0]}: another version wrote it"
    if needy is not None:
        return _needy(backfill, needy)
    for type_ in ("Suspended", "Paused"):
        condition = backfill.condition(type_)
        if condition is not None and condition.status == "True":
            origin = "override" if condition.reason == "Override" else "spec"
            return ", ".join(part for part in (origin, _quoted(claimed_note(backfill))) if part)
    ready, progress = backfill.condition("Ready"), backfill.progress
    if backfill.status.phase == "Running":
        return progress.reason
    if ready is None:
        return "no operator has seen it"
    return f"{ready.reason}: {ready.message}" if ready.message else ready.reason


def _needy(backfill: StoredBackfill, needy: Condition) -> str:
    """Return the reason of a job that needs a person. A failed job has the reason of its last attempt, and their number."""
    failed, history = backfill.condition("Failed"), backfill.status.history
    if failed is not None and failed.status == "True":
        last = history[-1].reason if failed.reason == "BackoffLimitExceeded" and history else failed.reason
        attempts = f" ({counted(backfill.status.attempts, 'attempt')})" if backfill.status.attempts else ""
        return f"{last}{attempts}: {failed.message}" if failed.message else f"{last}{attempts}"
    return f"{needy.reason}: {needy.message}" if needy.message else needy.reason


def claimed_note(backfill: StoredBackfill) -> str:
    """Return the note of the last change, as its author claims it; empty without one."""
    try:
        claim = loads(backfill.annotations.get(CHANGED_BY_ANNOTATION, ""))
    except ValueError:
        return ""
    note = claim.get("note", "") if isinstance(claim, dict) else ""
    return note if isinstance(note, str) else ""


def _quoted(text: str) -> str:
    return f'"{text}"' if text else ""


def in_order(lines: Iterable[JobLine]) -> list[JobLine]:
    """Return the lines sorted: jobs that need a person first, then by the time left, then by name."""
    return sorted(
        lines,
        key=lambda line: (
            line.group != "needs a person",
            line.eta_s is None,
            line.eta_s or 0,
            GROUPS.index(line.group),
            line.key,
        ),
    )


def summary(lines: Sequence[JobLine]) -> str:
    """Count the jobs by group: `4 jobs: 1 needs a person, 1 runs, 1 paused, 1 waits`."""
    counts = Counter(line.group for line in lines)
    verbs = {"needs a person": "need a person", "runs": "run", "waits": "wait"}
    parts = [
        f"{counts[group]:,} {group if counts[group] == 1 else verbs.get(group, group)}"
        for group in GROUPS
        if counts[group]
    ]
    return f"{counted(len(lines), 'job')}: {', '.join(parts)}" if parts else "no Backfills"
