"""What people and tools see: phase and conditions, made from one value so that they cannot contradict each other.

The rules of kstatus hold by construction: `Reconciling` and `Stalled` are present only when True and never together,
`Ready` is always there, and a transition time moves with the status and with nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from backfill_api.status.conditions import CONDITION_TYPES, Condition, Phase

MESSAGE_CHARACTERS_MAX = 1024


class Fact(NamedTuple):
    """One condition, without its bookkeeping."""

    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Face:
    """How a Backfill looks; made by the named constructors only."""

    phase: Phase
    ready: Fact
    moving: Fact | None = None
    """`Reconciling`."""

    stalled: Fact | None = None
    over: Literal["Complete", "Failed"] | None = None
    details: dict[str, Fact] = field(default_factory=dict)

    @classmethod
    def holds(cls, phase: Phase, reason: str, message: str = "") -> Face:
        """What was asked for is so."""
        return cls(phase, Fact("True", reason, message))

    @classmethod
    def moves(cls, phase: Phase, reason: str, message: str = "") -> Face:
        """It is not so yet, and the operator is at it."""
        return cls(phase, Fact("False", reason, message), moving=Fact("True", reason, message))

    @classmethod
    def waits(cls, phase: Phase, reason: str, message: str = "") -> Face:
        """It is not so yet, and nothing is wrong: a person decides."""
        return cls(phase, Fact("False", reason, message))

    @classmethod
    def stands_still(cls, phase: Phase, reason: str, message: str = "") -> Face:
        """It will not be so unless a person does something."""
        return cls(phase, Fact("False", reason, message), stalled=Fact("True", reason, message))

    @classmethod
    def complete(cls, message: str = "") -> Face:
        """Over, and well."""
        return cls("Succeeded", Fact("True", "Complete", message), over="Complete")

    @classmethod
    def failed(cls, reason: str, message: str = "") -> Face:
        """Over, and badly."""
        no = Fact("True", reason, message)
        return cls("Failed", no._replace(status="False"), stalled=no, over="Failed")

    def showing(self, details: dict[str, Fact]) -> Face:
        """Return the face with these details too."""
        return replace(self, details=details | self.details)

    def facts(self) -> dict[str, Fact]:
        """Return every condition that is to be shown."""
        made = self.details | {"Ready": self.ready}
        if self.moving is not None:
            made["Reconciling"] = self.moving
        if self.stalled is not None:
            made["Stalled"] = self.stalled
        if self.over is not None:
            over = self.stalled or self.ready
            made |= {self.over: over, "Finished": over}
        return made


def conditions_of(face: Face, before: tuple[Condition, ...], *, generation: int, moment: str) -> tuple[Condition, ...]:
    """Write a face down, in one order; a time of transition stays while the status does."""
    known = {one.type: one for one in before}
    facts = face.facts()
    made = []
    for type_ in CONDITION_TYPES:
        if type_ not in facts:
            continue
        fact, old = facts[type_], known.get(type_)
        made.append(
            Condition(
                type=type_,
                status=fact.status,
                reason=fact.reason,
                message=fact.message[:MESSAGE_CHARACTERS_MAX],
                last_transition_time=old.last_transition_time if old and old.status == fact.status else moment,
                observed_generation=generation,
            )
        )
    return tuple(made)
