"""Phase and conditions of a Backfill, derived from one value so that they cannot contradict each other.

The rules of kstatus hold by construction. `Reconciling` and `Stalled` are present only when True, and never together.
`Ready` is always present. A transition time changes only with its status.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple

from backfill_api.status.conditions import CONDITION_TYPES, Condition, Phase

MESSAGE_CHARACTERS_MAX = 1024


class Fact(NamedTuple):
    """One condition, without its bookkeeping."""

    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str = ""


State = Literal["Ready", "Reconciling", "Waiting", "Stalled", "Complete", "Failed"]

_PRESENT: Final[dict[State, tuple[str, ...]]] = {
    "Ready": (), "Reconciling": ("Reconciling",), "Waiting": (), "Stalled": ("Stalled",),
    "Complete": ("Complete", "Finished"), "Failed": ("Stalled", "Failed", "Finished"),
}  # fmt: skip
"""Conditions in addition to `Ready` that each state shows as True."""


@dataclass(frozen=True, slots=True)
class ConditionSet:
    """Phase and conditions of a Backfill, before they get their times; created only by the named constructors."""

    phase: Phase
    state: State
    reason: str
    message: str = ""
    details: dict[str, Fact] = field(default_factory=dict)

    @classmethod
    def ready(cls, phase: Phase, reason: str, message: str = "") -> ConditionSet:
        """Return the set of a desired state that is reached."""
        return cls(phase, "Ready", reason, message)

    @classmethod
    def reconciling(cls, phase: Phase, reason: str, message: str = "") -> ConditionSet:
        """Return the set of a desired state that the operator works towards."""
        return cls(phase, "Reconciling", reason, message)

    @classmethod
    def waiting(cls, phase: Phase, reason: str, message: str = "") -> ConditionSet:
        """Return the set of a desired state that waits for a user's decision; it is no error."""
        return cls(phase, "Waiting", reason, message)

    @classmethod
    def stalled(cls, phase: Phase, reason: str, message: str = "") -> ConditionSet:
        """Return the set of a desired state that needs a user's action."""
        return cls(phase, "Stalled", reason, message)

    @classmethod
    def complete(cls, message: str = "") -> ConditionSet:
        """Return the set of a successful job."""
        return cls("Succeeded", "Complete", "Complete", message)

    @classmethod
    def failed(cls, reason: str, message: str = "") -> ConditionSet:
        """Return the set of a failed job."""
        return cls("Failed", "Failed", reason, message)

    @property
    def finished(self) -> bool:
        """True if the job is over."""
        return self.state in ("Complete", "Failed")

    @property
    def needs_a_person(self) -> bool:
        """True if `Stalled` is shown."""
        return self.state in ("Stalled", "Failed")

    def with_details(self, details: dict[str, Fact]) -> ConditionSet:
        """Return the set with these conditions added; existing ones have precedence."""
        return replace(self, details=details | self.details) if details else self

    def facts(self) -> dict[str, Fact]:
        """Return all conditions to show."""
        shown = Fact("True", self.reason, self.message)
        ready = shown._replace(status="True" if self.state in ("Ready", "Complete") else "False")
        return self.details | {"Ready": ready} | dict.fromkeys(_PRESENT[self.state], shown)


def conditions_of(
    conditions: ConditionSet, before: tuple[Condition, ...], *, generation: int, timestamp: str
) -> tuple[Condition, ...]:
    """Return the conditions in a fixed order; a transition time is kept while the status is unchanged."""
    existing = {condition.type: condition for condition in before}
    facts = conditions.facts()
    shown = []
    for type_ in CONDITION_TYPES:
        if type_ not in facts:
            continue
        (status, reason, message), old = facts[type_], existing.get(type_)
        message = message[:MESSAGE_CHARACTERS_MAX]
        since = old.last_transition_time if old and old.status == status else timestamp
        if old and (old.status, old.reason, old.message, old.observed_generation) == (
            status,
            reason,
            message,
            generation,
        ):
            shown.append(old)
            continue
        shown.append(
            Condition(
                type=type_,
                status=status,
                reason=reason,
                message=message,
                last_transition_time=since,
                observed_generation=generation,
            )
        )
    return tuple(shown)
