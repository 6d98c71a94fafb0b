"""One look, sorted: whose pod is whose, which attempt is the current one, what the driver says."""

from __future__ import annotations

from dataclasses import dataclass, replace

from backfill_api.status.progress import Progress
from backfill_api.status.status import Attempt, BackfillStatus, Condition
from backfill_core.lifecycle.inputs.desired import Desired, desired_of
from backfill_core.lifecycle.inputs.policy import Policy
from backfill_core.lifecycle.inputs.timestamps import ms_of, rfc3339
from backfill_core.lifecycle.naming import driver_name, number_of
from backfill_core.lifecycle.observation import DriverLook, DriverPod, Observation

ADOPTED_AHEAD_MAX = 1000
"""So much newer than what is on record may a pod's attempt be: more have not been lost, and numbers are not to be used up."""

UNREACHABLE_MS = 15_000
"""So long a control server may be silent before it is said: a garbage collection is no news."""


@dataclass(frozen=True, slots=True)
class Context:
    """What the branches of `decide` go by."""

    observation: Observation
    now_ms: int
    policy: Policy
    desired: Desired
    status: BackfillStatus
    """As stored; but when a newer attempt's pod is there, that attempt is the current one."""

    pod: DriverPod | None
    """The current attempt's."""

    orphan_pods: tuple[DriverPod, ...]
    """Ours, still able to run, and not the current attempt's."""

    foreign_pods: tuple[DriverPod, ...]
    """Somebody else's under our label or name, still there."""

    ours: tuple[DriverPod, ...]
    """All drivers' pods of this Backfill, each with the attempt that its name says."""

    look: DriverLook | None
    """Of the current attempt; what another one says is left out."""

    @property
    def attempt(self) -> Attempt | None:
        """The attempt in flight; None when there is none, or when it is over."""
        one = self.status.attempt
        return None if one is None or one.state == "Ended" else one

    @property
    def plan_first(self) -> bool:
        """Must a plan be made and approved before the next attempt? Not once a driver has run: then it was approved."""
        last = self.status.attempt
        return self.policy.plan_first and (last is None or last.kind == "Plan")

    @property
    def pod_name(self) -> str:
        """The name that the current attempt's pod has, or would have."""
        number = self.status.attempt.number if self.status.attempt else 1
        return driver_name(self.observation.name, number)

    @property
    def timestamp(self) -> str:
        """Now, as it is written."""
        return rfc3339(self.now_ms)

    @property
    def progress(self) -> Progress | None:
        """The driver's newest progress."""
        return self.look.progress if self.look else None

    @property
    def reachable(self) -> bool:
        """Does the driver answer, or did it a moment ago?"""
        if self.look is None:
            return False
        since_ms = self.look.unreachable_since_ms
        return since_ms is None or self.now_ms - since_ms < UNREACHABLE_MS

    @property
    def patience_left_ms(self) -> int | None:
        """Return when a silent driver will have been silent for too long; None: it answers, or that moment is over."""
        if self.look is None or self.look.unreachable_since_ms is None or not self.reachable:
            return None
        return min(self.look.unreachable_since_ms + UNREACHABLE_MS - self.now_ms, UNREACHABLE_MS)

    @property
    def unreachable(self) -> bool:
        """Has the driver been silent for too long? One that was never heard of may not be up yet."""
        return self.look is not None and not self.reachable

    @property
    def finished(self) -> Condition | None:
        """The condition that says that the job is over: `Complete` or `Failed`."""
        return next((one for one in self.status.conditions if _says(one, "Complete") or _says(one, "Failed")), None)

    def condition(self, type_: str) -> Condition | None:
        """Return a condition as it is stored."""
        return next((one for one in self.status.conditions if one.type == type_), None)

    def left_ms(self, since: str | None, limit_ms: int) -> int:
        """Return how much of a limit is left; a moment that cannot be read, or that is still to come, counts as now."""
        since_ms = ms_of(since)
        return limit_ms - max(0, self.now_ms - (self.now_ms if since_ms is None else since_ms))


def classify(observation: Observation, now_ms: int) -> Context:
    """Sort what was seen."""
    drivers = [
        replace(pod, attempt=number)
        for pod in observation.pods
        if (number := number_of(observation.name, pod.name)) is not None
    ]
    ours = [pod for pod in drivers if _is_ours(pod, observation)]
    status = _with_newest_attempt(observation.status, ours)
    current = status.attempt
    mine = [pod for pod in ours if current is not None and _is_of(pod, current)]
    # The one that is on record first; else one that can still run. By name at the end, so that order does not matter.
    mine.sort(key=lambda pod: (pod.uid != (current.pod_uid if current else None), pod.over, pod.name, pod.uid))
    pod = mine[0] if mine else None
    ended = current is None or current.state == "Ended"
    orphan_pods = [one for one in ours if not one.over and (ended or one is not pod)]
    look = observation.look
    if look is not None and (ended or current is None or look.attempt != current.number):
        look = None
    return Context(
        observation=observation,
        now_ms=now_ms,
        policy=Policy.of(observation.spec),
        desired=desired_of(observation.spec, observation.annotations),
        status=status,
        pod=pod,
        orphan_pods=tuple(sorted(orphan_pods, key=lambda one: (one.name, one.uid))),
        foreign_pods=tuple(
            one for one in drivers if not _is_ours(one, observation) and _in_the_way(one, observation, status)
        ),
        ours=tuple(ours),
        look=look,
    )


def _is_ours(pod: DriverPod, observation: Observation) -> bool:
    """Was it made for this very Backfill? Only pods with a driver's name come here: another name is no driver's."""
    return pod.owner_uid == observation.uid or (pod.owner_uid is None and pod.backfill_uid == observation.uid)


def _with_newest_attempt(status: BackfillStatus, pods: list[DriverPod]) -> BackfillStatus:
    """Adopt the newest attempt that has a pod, when the status knows of none so new: it was lost, or written over."""
    newest = max(pods, key=lambda pod: (pod.attempt or 0, not pod.over, pod.uid), default=None)
    known = max(status.attempts, status.attempt.number if status.attempt else 0)
    if newest is None or newest.attempt is None or not known < newest.attempt <= known + ADOPTED_AHEAD_MAX:
        return status
    attempt = Attempt(number=newest.attempt, kind=newest.kind, state="Planned", pod_name=newest.name[:253])
    return status.model_copy(update={"attempt": attempt, "attempts": newest.attempt})


def _is_of(pod: DriverPod, attempt: Attempt) -> bool:
    """Is it the attempt's pod? By the UID that is on record, else by its name: labels are for people, and people edit them."""
    return pod.uid == attempt.pod_uid if attempt.pod_uid else pod.attempt == attempt.number


def _in_the_way(pod: DriverPod, observation: Observation, status: BackfillStatus) -> bool:
    """Does somebody else's pod keep ours from being made, or does it work on the same target?"""
    number = status.attempt.number if status.attempt else 1
    return not pod.over or pod.name == driver_name(observation.name, number)


def _says(condition: Condition, type_: str) -> bool:
    return condition.type == type_ and condition.status == "True"
