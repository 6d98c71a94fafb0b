"""The classified observation: owners of pods, the current attempt, and its driver's report."""

from __future__ import annotations

from dataclasses import dataclass, replace

from backfill_api.names import REFRESH_ANNOTATION, RESTART_ANNOTATION
from backfill_api.status.progress import Progress
from backfill_api.status.status import Attempt, BackfillStatus, Condition
from backfill_api.timestamps import ms_of, rfc3339
from backfill_core.lifecycle.inputs.all_jobs import with_switch
from backfill_core.lifecycle.inputs.approval import approved, driver_ran, plan_counts, with_approval
from backfill_core.lifecycle.inputs.desired import Desired, desired_of
from backfill_core.lifecycle.inputs.policy import Policy
from backfill_core.lifecycle.inputs.termination import Termination
from backfill_core.lifecycle.naming import driver_name, number_of
from backfill_core.lifecycle.observation import DriverPod, DriverReport, Observation

TOKEN_CHARACTERS_MAX = 256

ADOPTED_AHEAD_MAX = 1000
"""A pod whose attempt is more than this ahead of the record is not adopted: that many records are never lost, and numbers are finite."""

UNREACHABLE_MS = 15_000
"""Time that a control server may be silent before the status reports it: a garbage collection takes some seconds."""


@dataclass(frozen=True, slots=True)
class Context:
    """The complete input of the steps of `decide`."""

    observation: Observation
    now_ms: int
    policy: Policy
    desired: Desired
    status: BackfillStatus
    """The stored status, with two corrections: an attempt with a pod that is newer than the record is the current one, and approvals are added."""

    pod: DriverPod | None
    """The pod of the current attempt; `None` if it was not seen."""

    orphan_pods: tuple[DriverPod, ...]
    """Pods that must end, by name: those of this Backfill outside the attempt in flight that are not over, and restored ones that block it."""

    foreign_pods: tuple[DriverPod, ...]
    """Pods of another owner with a driver's name that block an attempt."""

    our_pods: tuple[DriverPod, ...]
    """All driver pods of this Backfill, each with the attempt number in its name."""

    report: DriverReport | None
    """Report of the current attempt's driver; reports of other drivers are left out."""

    termination: Termination | None = None
    """End of the attempt, once a step of this decision found it."""

    @property
    def attempt(self) -> Attempt | None:
        """The attempt in flight; `None` without one, or if it is over."""
        attempt = self.status.attempt
        return None if attempt is None or attempt.state == "Ended" else attempt

    @property
    def plan_first(self) -> bool:
        """True if a plan must be made and approved before the next attempt. Once a driver has run, the spec was approved."""
        return not driver_ran(self.status) and not approved(self.status, self.observation.spec)

    @property
    def plan_counts(self) -> bool:
        """True if a plan of the current spec exists."""
        return plan_counts(self.status, self.observation.spec)

    @property
    def pod_name(self) -> str:
        """Name of the current attempt's pod, which may not exist."""
        number = self.status.attempt.number if self.status.attempt else 1
        return driver_name(self.observation.name, number)

    @property
    def timestamp(self) -> str:
        """Current time in the format of the status."""
        return rfc3339(self.now_ms)

    @property
    def progress(self) -> Progress | None:
        """The newest progress in the driver's report."""
        return self.report.progress if self.report else None

    @property
    def step(self) -> str:
        """Step that the driver reports; empty without a report."""
        return "" if self.progress is None else self.progress.reason

    @property
    def reachable(self) -> bool:
        """True if the driver answers, or answered recently."""
        if self.report is None:
            return False
        since_ms = self.report.unreachable_since_ms
        return since_ms is None or self.now_ms - since_ms < UNREACHABLE_MS

    @property
    def answers(self) -> bool:
        """True if the driver's control server has answered, and still does."""
        return self.reachable and self.report is not None and self.report.heard_ms is not None

    @property
    def unreachable_in_ms(self) -> int | None:
        """Milliseconds until a silent driver counts as unreachable; `None` if it answers, or already counts so."""
        if self.report is None or self.report.unreachable_since_ms is None or not self.reachable:
            return None
        return min(self.report.unreachable_since_ms + UNREACHABLE_MS - self.now_ms, UNREACHABLE_MS)

    @property
    def unreachable(self) -> bool:
        """True if the driver has been silent for too long; one that never answered may not have started yet."""
        return self.report is not None and not self.reachable

    @property
    def finished(self) -> Condition | None:
        """The condition of a finished job: `Complete` or `Failed`."""
        over = (end for end in self.status.conditions if end.type in ("Complete", "Failed") and end.status == "True")
        return next(over, None)

    @property
    def restart_token(self) -> str:
        """Value of the annotation that requests a restart; empty without one."""
        return self.observation.annotations.get(RESTART_ANNOTATION, "")[:TOKEN_CHARACTERS_MAX]

    @property
    def restart_requested(self) -> bool:
        """True if the annotation requests a restart that no attempt has performed yet."""
        done = self.status.control.restart_token if self.status.control else ""
        return self.restart_token not in ("", done)

    @property
    def refresh_requested(self) -> str:
        """Value of the annotation that requests a refresh; empty without one, and if it caused a refresh already."""
        token = self.observation.annotations.get(REFRESH_ANNOTATION, "")[:TOKEN_CHARACTERS_MAX]
        return "" if self.status.control and token == self.status.control.refresh_token else token

    @property
    def refreshing(self) -> bool:
        """True if attempts must continue a finished job: a refresh was requested, and did not end well yet."""
        return self.status.refresh is not None and not self.status.refresh.done

    def condition(self, type_: str) -> Condition | None:
        """Return a stored condition; `None` if it does not exist."""
        return next((condition for condition in self.status.conditions if condition.type == type_), None)

    def left_ms(self, since: str | None, limit_ms: int) -> int:
        """Return the rest of a limit; an unreadable or future time counts as now."""
        since_ms = ms_of(since)
        return limit_ms - max(0, self.now_ms - (self.now_ms if since_ms is None else since_ms))


def classify(observation: Observation, now_ms: int) -> Context:
    """Return the context of a decision."""
    drivers = [
        pod if pod.attempt == number else replace(pod, attempt=number)
        for pod in observation.pods
        if (number := number_of(observation.name, pod.name)) is not None
    ]
    our_pods = [pod for pod in drivers if _is_ours(pod, observation)]
    own = desired_of(observation.spec, observation.annotations, now_ms, observation.status.override)
    desired = with_switch(own, observation)
    status = with_approval(_with_newest_attempt(observation.status, our_pods), observation.spec)
    if status.override != desired.override:
        status = status.model_copy(update={"override": desired.override})
    current = status.attempt
    current_pods = [pod for pod in our_pods if current is not None and _is_of(pod, current)]
    # The pod on record comes first, then one that is not over. The name is last, so that the order of a list does not matter.
    current_pods.sort(key=lambda pod: (pod.uid != (current.pod_uid if current else None), pod.over, pod.name, pod.uid))
    pod = current_pods[0] if current_pods else None
    ended = current is None or current.state == "Ended"
    orphan_pods = [driver for driver in our_pods if not driver.over and (ended or driver is not pod)]
    others = [
        other for other in drivers if not _is_ours(other, observation) and _in_the_way(other, observation, status)
    ]
    orphan_pods += [other for other in others if is_restored(other, observation)]
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
        orphan_pods=tuple(sorted(orphan_pods, key=lambda orphan: (orphan.name, orphan.uid))),
        foreign_pods=tuple(other for other in others if not is_restored(other, observation)),
        our_pods=tuple(our_pods),
        report=report,
    )


def _is_ours(pod: DriverPod, observation: Observation) -> bool:
    """Return whether a pod with a driver's name was created for this Backfill."""
    return pod.owner_uid == observation.uid or (pod.owner_uid is None and pod.backfill_uid == observation.uid)


def is_restored(pod: DriverPod, observation: Observation) -> bool:
    """Return whether a pod belongs to an earlier Backfill of this name and has no owner, as after a restore from a backup."""
    return pod.owner_uid is None and pod.backfill_uid not in ("", observation.uid)


def _with_newest_attempt(status: BackfillStatus, pods: list[DriverPod]) -> BackfillStatus:
    """Adopt the newest attempt with a pod if the status has an older one, because its record was lost or overwritten."""
    newest = max(pods, key=lambda pod: (pod.attempt or 0, not pod.over, pod.uid), default=None)
    recorded = max(status.attempts, status.attempt.number if status.attempt else 0)
    if newest is None or newest.attempt is None or not recorded < newest.attempt <= recorded + ADOPTED_AHEAD_MAX:
        return status
    attempt = Attempt(number=newest.attempt, kind=newest.kind, state="Planned", pod_name=newest.name[:253])
    return status.model_copy(update={"attempt": attempt, "attempts": newest.attempt})


def _is_of(pod: DriverPod, attempt: Attempt) -> bool:
    """Return whether a pod belongs to the attempt, by its recorded UID, or else by its name. Labels do not count, as users edit them."""
    return pod.uid == attempt.pod_uid if attempt.pod_uid else pod.attempt == attempt.number


def _in_the_way(pod: DriverPod, observation: Observation, status: BackfillStatus) -> bool:
    """Return whether a pod of another owner has the name that ours needs, or may work on the same target."""
    number = status.attempt.number if status.attempt else 1
    return not pod.over or pod.name == driver_name(observation.name, number)
