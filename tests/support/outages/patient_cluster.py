"""A cluster in virtual time with one Backfill and an outage: drivers run, are ended, and start again afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from support.operators.observations import NAME, T0, UID, checked, spec
from support.outages.causes import RUNNING, Outage, container, over, status, waits

from backfill_api.names import ATTEMPT_LABEL, KIND_LABEL, UID_LABEL
from backfill_api.status.progress import Progress
from backfill_api.status.status import BackfillStatus
from backfill_api.timestamps import rfc3339
from backfill_core.lifecycle.actions import Action, Decision, DeletePod, LaunchDriver, RefetchPods
from backfill_core.lifecycle.naming import driver_name
from backfill_core.lifecycle.observation import DriverReport, LaunchFailed, Observation
from backfill_operator.informer.parse import pod_of
from backfill_operator.kube.errors import error_of

BEGINS_S, LOOK_S = 60, 5
STARTS_S = 10
"""Seconds after a pod is made until it runs and its driver answers."""

WORK_S = 60
"""Seconds of a driver's work after the outage until the job is complete."""


@dataclass
class PatientCluster:
    """Pods of the API server, the stored status, and a clock."""

    outage: Outage
    lasts_s: int
    fields: dict[str, Any] = field(default_factory=dict)
    """Fields of the spec."""

    def __post_init__(self) -> None:
        self.now_ms = T0
        self.began_ms = T0 + (BEGINS_S * 1000 if self.outage.before else 0)
        self.over_ms = self.began_ms + self.lasts_s * 1000
        self.seen = Observation("shop", NAME, UID, 1, spec(**self.fields), BackfillStatus())
        self.pod: dict[str, Any] | None = None
        self.made_ms = 0
        self.hit = False
        """True if the outage ended the pod, or began before it."""

        self.refusal: LaunchFailed | None = None
        self.worked_s = 0
        self.rows = 0
        self.launches = 0
        self.phases: list[str] = []
        self.texts: set[str] = set()
        """Reasons and messages that the status contained during the outage."""

        self.replaced_ms: int | None = None
        """Milliseconds until the first pod was made after one had run in the outage."""

    @property
    def away(self) -> bool:
        return self.began_ms <= self.now_ms < self.over_ms

    def play(self, until_s: int) -> BackfillStatus:
        """Let time pass until the job ends, at most `until_s`; return the status."""
        while self.now_ms < T0 + until_s * 1000:
            self._live()
            decision = self._reconcile()
            if self.seen.status.phase in ("Succeeded", "Failed"):
                break
            wait_s = LOOK_S if decision.requeue_after_s is None else min(LOOK_S, max(1.0, decision.requeue_after_s))
            self.now_ms += round(wait_s * 1000)
        return self.seen.status

    # -------------------------------------------------------------- the kubelet
    def _live(self) -> None:
        if self.pod is None:
            return
        age_s = (self.now_ms - self.made_ms) / 1000
        outage = self.outage
        if self.away and not self.hit:
            struck = self.made_ms < self.began_ms or (outage.ends_in_s and age_s >= STARTS_S + outage.ends_in_s)
            if struck and outage.removed:
                self.pod = None
                return
            if struck and outage.taken is not None:
                self._become(outage.taken)
                self.hit = True
                return
            if outage.new is not None and self.made_ms >= self.began_ms:
                self._become(outage.new)
                return
        if self.pod["status"]["phase"] in ("Succeeded", "Failed"):
            return
        if age_s < STARTS_S:
            self._become(status("Pending", container(waits("ContainerCreating"))))
            return
        self._become(status("Running", RUNNING))
        self._work()

    def _work(self) -> None:
        """Let the driver commit, and end the job once it has worked long enough after the outage."""
        if self.away:
            return
        self.rows += 1
        self.worked_s += LOOK_S if self.now_ms >= self.over_ms else 0
        if self.worked_s >= WORK_S:
            self._become(over(0, "Completed"))

    def _become(self, new: dict[str, Any]) -> None:
        assert self.pod is not None
        has_node = not any(condition["type"] == "PodScheduled" for condition in new["conditions"]) and (
            new["containerStatuses"] or new["phase"] == "Failed"
        )
        scheduled = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": rfc3339(self.made_ms)}]
        self.pod["status"] = new | {"conditions": [*(scheduled if has_node else []), *new["conditions"]]}

    # -------------------------------------------------------------- the operator
    def _reconcile(self) -> Decision:
        pods = () if self.pod is None else (pod_of(self.pod),)
        report = self._report()
        seen = replace(self.seen, pods=pods, report=report, launch_failed=self.refusal, live=False)
        decision = checked(seen, self.now_ms)
        if any(isinstance(action, RefetchPods) for action in decision.actions):
            seen = replace(seen, live=True)
            decision = checked(seen, self.now_ms)
        self.seen = replace(self.seen, status=decision.status)
        for action in decision.actions:
            self._act(action)
        self.phases.append(decision.status.phase)
        if self.away:
            self.texts |= {
                text
                for condition in decision.status.conditions
                for text in (condition.reason, condition.message)
                if text
            }
        return decision

    def _report(self) -> DriverReport | None:
        attempt = self.seen.status.attempt
        if self.pod is None or attempt is None or not pod_of(self.pod).ready:
            return None
        warns = () if self.outage.warns is None or not self.away else (self.outage.warns,)
        progress = Progress(
            phase="Snapshot", percent=1, rows_done=self.rows, table_version=self.rows, warnings=tuple(text for _, text in warns),
            warning_codes=tuple(code for code, _ in warns),
        )  # fmt: skip
        return DriverReport(attempt.number, self.now_ms, progress)

    def _act(self, action: Action) -> None:
        match action:
            case LaunchDriver():
                self._launch(action)
            case DeletePod() if self.pod is not None and action.name == self.pod["metadata"]["name"]:
                # A driver that hangs ignores SIGTERM too.
                self.pod = None
            case _:
                pass

    def _launch(self, action: LaunchDriver) -> None:
        self.launches += 1
        if self.outage.refused is not None and self.away:
            error = error_of("POST", *self.outage.refused, None)
            self.refusal = LaunchFailed(
                action.attempt, self.now_ms, error.status, error.reason, error.message, error.causes
            )
            return
        self.refusal, self.hit, self.made_ms = None, False, self.now_ms
        if self.now_ms > self.began_ms and self.replaced_ms is None:
            self.replaced_ms = self.now_ms - self.began_ms
        owner = {
            "apiVersion": "backfill.dev/v1alpha1",
            "kind": "Backfill",
            "name": NAME,
            "uid": UID,
            "controller": True,
        }
        self.pod = {
            "metadata": {
                "name": driver_name(NAME, action.attempt), "uid": f"pod-{action.attempt}", "ownerReferences": [owner],
                "labels": {ATTEMPT_LABEL: str(action.attempt), KIND_LABEL: action.kind, UID_LABEL: UID},
                "creationTimestamp": rfc3339(self.now_ms),
            },
            "spec": {"containers": [{"name": "driver"}], **self.outage.spec},
            "status": {"phase": "Pending", "conditions": [], "containerStatuses": []},
        }  # fmt: skip
