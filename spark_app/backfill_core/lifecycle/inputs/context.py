"""The observation, classified: whose pod is whose, which attempt is the current one, what the driver reports."""

from __future__ import annotations

from dataclasses import dataclass, replace

from backfill_api.names import RESTART_ANNOTATION
from backfill_api.status.progress import Progress
from backfill_api.status.status import Attempt, BackfillStatus, Condition
from backfill_core.lifecycle.inputs.approval import approved, driver_ran, plan_counts, with_approval
from backfill_core.lifecycle.inputs.desired import Desired, desired_of
from backfill_core.lifecycle.inputs.policy import Policy
from backfill_core.lifecycle.inputs.termination import Termination
from backfill_core.lifecycle.inputs.timestamps import ms_of, rfc3339
from backfill_core.lifecycle.naming import driver_name, number_of
from backfill_core.lifecycle.observation import DriverPod, DriverReport, Observation

TOKEN_CHARACTERS_MAX = 256

ADOPTED_AHEAD_MAX = 1000
"""A pod whose attempt is more than this ahead of the record is not adopted: so many are never lost, and numbers are finite."""

UNREACHABLE_MS = 15_000
"""A control server may be silent for this long before the status says so: a garbage collection takes some seconds."""


@dataclass(frozen=True, slots=True)
class Context:
    """What the steps of `decide` read, and nothing else."""

    observation: Observation
    now_ms: int
    policy: Policy
    desired: Desired
    status: BackfillStatus
    """As stored; but an attempt that is newer than the record and has a pod is the current one, and it says what was approved."""

    pod: DriverPod | None
    """The pod of the current attempt; None: not seen."""

    orphan_pods: tuple[DriverPod, ...]
    """Pods that must go, by name: ours that are neither of the current attempt nor over, and restored ones that are in the way."""

    foreign_pods: tuple[DriverPod, ...]
    """Pods with a driver's name that another owner has, and that are in the way."""

    our_pods: tuple[DriverPod, ...]
    """All driver pods of this Backfill, each with the attempt that its name says."""

    report: DriverReport | None
    """Of the current attempt's driver; another one's is left out."""

    termination: Termination | None = None
    """How the attempt ended, once a step of this decision found that it did."""

    @property
    def attempt(self) -> Attempt | None:
        """The attempt in flight; None when there is none, or when it is over."""
        one = self.status.attempt
        return None if one is None or one.state == "Ended" else one

    @property
    def plan_first(self) -> bool:
        """Must a plan be made and approved before the next attempt? Once a driver has run, it was approved."""
        return not driver_ran(self.status) and not approved(self.status, self.observation.spec)

    @property
    def plan_counts(self) -> bool:
        """Is there a plan of the spec as it stands now?"""
        return plan_counts(self.status, self.observation.spec)

    @property
    def pod_name(self) -> str:
        """The name that the current attempt's pod has, or would have."""
        number = self.status.attempt.number if self.status.attempt else 1
        return driver_name(self.observation.name, number)

    @property
    def timestamp(self) -> str:
        """Now, as the status has it."""
        return rfc3339(self.now_ms)

    @property
    def progress(self) -> Progress | None:
        """The newest progress that the driver reported."""
        return self.report.progress if self.report else None

    @property
    def reachable(self) -> bool:
        """Does the driver answer, or did it a moment ago?"""
        if self.report is None:
            return False
        since_ms = self.report.unreachable_since_ms
        return since_ms is None or self.now_ms - since_ms < UNREACHABLE_MS

    @property
    def answers(self) -> bool:
        """Has the driver's control server answered, and does it still?"""
        return self.reachable and self.report is not None and self.report.heard_ms is not None

    @property
    def unreachable_in_ms(self) -> int | None:
        """Return when a silent driver will be called unreachable; None: it answers, or is called so already."""
        if self.report is None or self.report.unreachable_since_ms is None or not self.reachable:
            return None
        return min(self.report.unreachable_since_ms + UNREACHABLE_MS - self.now_ms, UNREACHABLE_MS)

    @property
    def unreachable(self) -> bool:
        """Has the driver been silent for too long? One that never answered may not be up yet."""
        return self.report is not None and not self.reachable

    @property
    def finished(self) -> Condition | None:
        """The condition that says that the job is over: `Complete` or `Failed`."""
        over = (one for one in self.status.conditions if one.type in ("Complete", "Failed") and one.status == "True")
        return next(over, None)

    @property
    def restart_token(self) -> str:
        """The text of the annotation that asks for a restart; empty: there is none."""
        return self.observation.annotations.get(RESTART_ANNOTATION, "")[:TOKEN_CHARACTERS_MAX]

    @property
    def restart_requested(self) -> bool:
        """Does the annotation ask for a restart that no attempt has done yet?"""
        done = self.status.control.restart_token if self.status.control else ""
        return self.restart_token not in ("", done)

    def condition(self, type_: str) -> Condition | None:
        """Return a condition as it is stored."""
        return next((one for one in self.status.conditions if one.type == type_), None)

    def left_ms(self, since: str | None, limit_ms: int) -> int:
        """Return how much of a limit is left; a time that cannot be read, or is in the future, counts as now."""
        since_ms = ms_of(since)
        return limit_ms - max(0, self.now_ms - (self.now_ms if since_ms is None else since_ms))


def classify(observation: Observation, now_ms: int) -> Context:
    """Return the observation as the steps read it."""
    drivers = [
        replace(pod, attempt=number)
        for pod in observation.pods
        if (number := number_of(observation.name, pod.name)) is not None
    ]
    our_pods = [pod for pod in drivers if _is_ours(pod, observation)]
    desired = desired_of(observation.spec, observation.annotations, observation.status.override)
    status = with_approval(_with_newest_attempt(observation.status, our_pods), observation.spec)
    if status.override != desired.override:
        status = status.model_copy(update={"override": desired.override})
    current = status.attempt
    mine = [pod for pod in our_pods if current is not None and _is_of(pod, current)]
    # The pod on record comes first, then one that is not over; by name last, so that the order of a list does not matter.
    mine.sort(key=lambda pod: (pod.uid != (current.pod_uid if current else None), pod.over, pod.name, pod.uid))
    pod = mine[0] if mine else None
    ended = current is None or current.state == "Ended"
    orphan_pods = [one for one in our_pods if not one.over and (ended or one is not pod)]
    others = [one for one in drivers if not _is_ours(one, observation) and _in_the_way(one, observation, status)]
    orphan_pods += [one for one in others if is_restored(one, observation)]
    report = observation.report
    if report is not None and (ended or current is None or report.attempt != current.number):
        report = None
    return Context(
        observation=observation,
        now_ms=now_ms,
        policy=Policy.of(observation.spec),
        desired=desired,
        status=status,
        pod=pod,
        orphan_pods=tuple(sorted(orphan_pods, key=lambda one: (one.name, one.uid))),
        foreign_pods=tuple(one for one in others if not is_restored(one, observation)),
        our_pods=tuple(our_pods),
        report=report,
    )


def _is_ours(pod: DriverPod, observation: Observation) -> bool:
    """Was it made for this very Backfill? Only pods with the name of a driver come here."""
    return pod.owner_uid == observation.uid or (pod.owner_uid is None and pod.backfill_uid == observation.uid)


def is_restored(pod: DriverPod, observation: Observation) -> bool:
    """Is it of an earlier Backfill of this name that left it without an owner, as a restore from a backup does?"""
    return pod.owner_uid is None and pod.backfill_uid not in ("", observation.uid)


def _with_newest_attempt(status: BackfillStatus, pods: list[DriverPod]) -> BackfillStatus:
    """Adopt the newest attempt that has a pod if the status has an older one: its record was lost, or overwritten."""
    newest = max(pods, key=lambda pod: (pod.attempt or 0, not pod.over, pod.uid), default=None)
    known = max(status.attempts, status.attempt.number if status.attempt else 0)
    if newest is None or newest.attempt is None or not known < newest.attempt <= known + ADOPTED_AHEAD_MAX:
        return status
    attempt = Attempt(number=newest.attempt, kind=newest.kind, state="Planned", pod_name=newest.name[:253])
    return status.model_copy(update={"attempt": attempt, "attempts": newest.attempt})


def _is_of(pod: DriverPod, attempt: Attempt) -> bool:
    """Is it the attempt's pod, by the UID on record, else by its name? People edit labels, so these do not count."""
    return pod.uid == attempt.pod_uid if attempt.pod_uid else pod.attempt == attempt.number


def _in_the_way(pod: DriverPod, observation: Observation, status: BackfillStatus) -> bool:
    """Has another owner's pod the name that ours needs, or may it work on the same target?"""
    number = status.attempt.number if status.attempt else 1
    return not pod.over or pod.name == driver_name(observation.name, number)
