"""A cluster whose Backfill is switched over, and back, by drivers that may die between any two steps.

The place of the name is outside of the operator: it is in the log of the source. An ordinary driver that starts while the name has left
the source would find a target without a state, so this is a violation. Below the world are observations for single decisions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from support.operators.lifecycle_space import STATUSES
from support.operators.observations import T0, after, checked, ended, observed, report, running, spec
from support.operators.world import World

from backfill_api.names import (
    COMPLETE_SWITCH_ANNOTATION,
    REPAIR_ANNOTATION,
    RESTART_ANNOTATION,
    SWITCH_ANNOTATION,
    UNDO_SWITCH_ANNOTATION,
)
from backfill_api.status.ending import Ending
from backfill_api.status.procedure import ProcedureEnd, ProcedureKind
from backfill_api.status.progress import Progress
from backfill_api.status.receipt import ReceiptSummary
from backfill_core.lifecycle.actions import Decision, LaunchDriver, SendCommand
from backfill_core.lifecycle.observation import DriverPod, DriverReport, Observation

FOLLOWS = spec(after="Follow")
COPIES_BACK = spec(after="Follow", strategy={"type": "Replica"}, switch={"keepSource": "Following"})
REQUESTS = (SWITCH_ANNOTATION, SWITCH_ANNOTATION, UNDO_SWITCH_ANNOTATION, COMPLETE_SWITCH_ANNOTATION, REPAIR_ANNOTATION)
BLOCKED, FLIP_FAILED = 34, 35


class SwitchedWorld(World):
    """A world with a source that can be fenced, and a name."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        assert self.cr is not None
        self.follows = seed % 2 == 1
        """True if the source follows the target after a switch-over."""

        self.cr = replace(self.cr, spec=COPIES_BACK if self.follows else FOLLOWS)
        self.work_wanted = 10**9
        self.stage = "Source"
        """`Source`, `Fenced`, `Flipping`, `Target`, `Undoing` or `Completed`, as the log of the source has it."""

        self.procedures: dict[str, ProcedureKind | None] = {}
        self.ends: list[str] = []
        """Ends of procedures."""

    def request(self) -> None:
        """Request a random procedure of a Backfill that the operator has seen: annotations of a new one count as restored."""
        annotation = self.chance.choice(REQUESTS)
        if self.cr is not None and self.cr.status.observed_generation >= 0:
            self.annotate(annotation, str(self.now_ms))

    def restart(self) -> None:
        """Request a restart, which also continues a failed job."""
        self.annotate(RESTART_ANNOTATION, f"again at {self.now_ms}")

    def _create(self, action: LaunchDriver) -> None:
        before = self.uids
        super()._create(action)
        if self.uids != before:
            self.procedures[f"pod-{self.uids}"] = action.procedure
            assert action.procedure is not None or self.stage == "Source", f"an ordinary attempt at {self.stage}"
            assert action.procedure != "FollowBack" or self.follows

    def _lived(self, pod: DriverPod) -> DriverPod:
        kind, stops = self.procedures.get(pod.uid), self.drivers[pod.uid].stopping or pod.deletion_ms is not None
        if kind is None or pod.over or not pod.ready or (self.faults and self.chance.random() < 0.1):
            return super()._lived(pod)
        if stops and kind == "Switch" and self.stage in ("Source", "Fenced"):
            self.stage = "Source"
            return self._performed(pod, kind, "Following", 10)
        return self._step(pod, kind)

    def _step(self, pod: DriverPod, kind: ProcedureKind) -> DriverPod:
        unlucky = self.faults and self.chance.random() < 0.15
        match kind, self.stage:
            case "FollowBack", "Target" if not (self.drivers[pod.uid].stopping or pod.deletion_ms is not None):
                return pod
            case "FollowBack", "Target":
                return self._performed(pod, kind, "", 10)
            case "FollowBack", _:
                return self._performed(pod, kind, "Ended", 0)
            case "Repair", _:
                return self._performed(pod, kind, "Repaired", 0)
            case "Switch", "Source":
                self.stage = "Fenced"
                return pod
            case "Switch", "Fenced" if unlucky:
                self.stage = "Source"
                return self._performed(pod, kind, "Following", BLOCKED)
            case "Switch", "Fenced":
                self.stage = "Flipping"
                return pod
            case ("Switch", "Flipping") | ("UndoSwitch", "Undoing") if unlucky:
                return self._performed(pod, kind, "Interrupted", FLIP_FAILED)
            case "Switch", "Flipping" | "Target":
                self.stage = "Target"
                return self._performed(pod, kind, "Switched", 0)
            case "UndoSwitch", "Target" | "Flipping" if unlucky:
                return self._performed(pod, kind, "Refused", BLOCKED)
            case "UndoSwitch", "Flipping" | "Target":
                self.stage = "Undoing"
                return pod
            case "UndoSwitch", "Fenced" | "Undoing":
                self.stage = "Source"
                return self._performed(pod, kind, "Undone", 0)
            case "CompleteSwitch", "Target":
                self.stage = "Completed"
                return self._performed(pod, kind, "Completed", 0)
        nothing = kind != "Switch" and self.stage in ("Source", "Completed")
        return self._performed(pod, kind, "Nothing" if nothing else "Refused", BLOCKED)

    def _performed(self, pod: DriverPod, kind: ProcedureKind, end: str, code: int) -> DriverPod:
        self.ends.append(end)
        if self.faults and self.chance.random() < 0.1:
            return self._ends(pod, None, disrupted=True)  # it died before it could report
        stopped = code == 10 or end == "Repaired"
        ending = Ending(
            outcome="Stopped" if stopped else "Failed" if code else "Complete", reason="SwitchBlocked" if code else end,
            procedure=self._end(kind, end) if end else None,
        )  # fmt: skip
        return replace(self._ends(pod, code), ending=ending)

    def _end(self, kind: ProcedureKind, end: str) -> ProcedureEnd:
        has_state = self.stage == "Source" if end == "Nothing" else None
        copies_back = self.follows and end == "Switched"
        return ProcedureEnd(kind=kind, end=end, version=1, copies_back=copies_back, has_state=has_state)

    def _report(self) -> DriverReport | None:
        plain = super()._report()
        ready = next((pod for pod in self.pods.values() if pod.ready), None)
        if plain is None or ready is None or plain.progress is None:
            return None
        if self.procedures.get(ready.uid) is not None:
            return replace(plain, progress=Progress(reason="Draining"))
        receipt = ReceiptSummary(target_version=1, rows=1, verified_at="2027-01-15T07:59:00Z")
        return replace(plain, progress=plain.progress.model_copy(update={"caught_up": True}), receipt=receipt)


# -------------------------------------------------------------- single decisions
EQUAL = ReceiptSummary(target_version=3, rows=100, verified_at="2027-01-15T07:59:00Z")
DIFFERS = EQUAL.model_copy(update={"mismatches": 2})


def follows(**fields: Any) -> Observation:
    """Return a Backfill whose driver has caught up."""
    number = fields.pop("attempt", 1)
    given: dict[str, Any] = {
        "spec": FOLLOWS,
        "status": STATUSES["running"].model_copy(update={"receipt": EQUAL}),
        "pods": (running(number),),
        "report": replace(report(number, caught_up=True), heard_ms=T0),
    }
    return observed(**(given | fields))


def launches(decision: Decision) -> list[tuple[int, str | None]]:
    """Return the launched attempts: number and procedure."""
    return [(action.attempt, action.procedure) for action in decision.actions if isinstance(action, LaunchDriver)]


def commands(decision: Decision) -> list[str]:
    """Return the types of the commands that are sent."""
    return [action.request.command.type for action in decision.actions if isinstance(action, SendCommand)]


def stopped(wish: Observation) -> tuple[Observation, Decision]:
    """Return the Backfill after its driver has stopped for a procedure, and the decision that launches the procedure."""
    asked = checked(wish)
    assert commands(asked) == ["Stop"]
    number = asked.status.attempts
    end = checked(after(wish, asked, pods=(ended(10, number),), report=None))
    at_rest = after(wish, end, pods=(), report=None, live=True)
    return at_rest, checked(at_rest)


def over(wish: Observation, begun: Decision, end: str | None, code: int, **fields: Any) -> tuple[Observation, Decision]:
    """Return the Backfill after the end of a procedure's attempt, and the decision about it."""
    attempt = begun.status.attempt
    assert attempt is not None
    kind = attempt.procedure
    assert kind is not None
    up = replace(running(attempt.number), ready=False)
    works = replace(report(attempt.number, table_version=None, reason="Draining"), heard_ms=T0)
    seen = checked(after(wish, begun, pods=(up,), report=works))
    details = {name: fields.pop(name) for name in ("copies_back", "has_state") if name in fields}
    detail = ProcedureEnd(kind=kind, end=end, version=412, unavailable_ms=2400, **details) if end else None
    outcome = fields.pop("outcome", "Complete" if code == 0 else "Stopped" if code == 10 else "Failed")
    ending = None if code == 137 else Ending(outcome=outcome, procedure=detail, **fields)
    past = replace(ended(code, attempt.number), ending=ending)
    gone = after(wish, seen, pods=(past,), report=None, live=True)
    return gone, checked(gone)


def copying_back() -> tuple[Observation, Decision]:
    """Return a Backfill whose source follows the target, with the decision that launched the copy back."""
    wish, begun = stopped(follows(annotations={SWITCH_ANNOTATION: "a"}, spec=COPIES_BACK))
    gone, done = over(wish, begun, "Switched", 0, copies_back=True)
    rests = after(gone, done, pods=(), live=True)
    return rests, checked(rests)


def switched() -> tuple[Observation, Decision]:
    """Return a Backfill whose switch-over has succeeded."""
    wish, begun = stopped(follows(annotations={SWITCH_ANNOTATION: "a"}))
    gone, done = over(wish, begun, "Switched", 0)
    return after(gone, done, pods=(), live=True), done
