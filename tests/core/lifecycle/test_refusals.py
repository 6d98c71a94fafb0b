"""Obstacles to the launch of an attempt: names in use, quotas, rejections by the API server, and rejections by a node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.operators.lifecycle_space import STATUSES
from support.operators.observations import T0, after, checked, conditions, ended, observed, reason, running, spec

from backfill_api.names import RESTART_ANNOTATION
from backfill_core.lifecycle.actions import Decision, DeletePod, LaunchDriver
from backfill_core.lifecycle.observation import NAMESPACE_TERMINATING, NOT_BUILT, DriverPod, LaunchFailed, Observation


class TestWhatIsInTheWay:
    """The cases are a name in use, a full quota, and a rejection by the API server."""

    def test_a_pod_of_another_owner_stalls_the_job(self) -> None:
        """The operator does not touch the pod, and the message names it."""
        decision = checked(observed(status=STATUSES["planned"], pods=(running(owner_uid="else"),), live=True))

        assert reason(decision.status, "Stalled") == "NameCollision"
        assert "orders-1-driver" in decision.events[0].message
        assert decision.actions == ()

    @pytest.mark.parametrize("marks", [{"deletion_ms": T0 + 30_000}, {"backfill_uid": "earlier"}])
    def test_the_driver_of_a_deleted_namesake_is_waited_for(self, marks: dict[str, Any]) -> None:
        """The garbage collector deletes it within seconds; two drivers would work on one target."""
        old = running(3, owner_uid="earlier", **marks)

        decision = checked(observed(pods=(old,)))

        assert reason(decision.status) == "DriverStopping"
        assert decision.actions == ()

    @pytest.mark.parametrize(
        ("status", "message", "expected", "stalled"),
        [
            (403, "exceeded quota: compute", "QuotaExceeded", False),
            (403, 'error looking up service account shop/x: serviceaccount "x" not found', "LaunchRefused", True),
            (403, 'pods is forbidden: User "op" cannot create resource "pods" in API group ""', "LaunchRefused", True),
            (403, 'pods "orders-1-driver" is forbidden: violates PodSecurity "restricted:latest"', "SpecRefused", True),
            (
                403,
                'pods "x" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi',
                "SpecRefused",
                True,
            ),
            (403, 'admission webhook "policy.example.com" denied the request: no team label', "SpecRefused", True),
            (422, 'Pod "orders-1-driver" is invalid: spec.containers[0].image: Required value', "SpecRefused", True),
            (500, "etcdserver: leader changed", "LaunchRefused", False),
            (429, "too many requests", "LaunchRefused", False),
            (0, "", "LaunchRefused", False),
        ],
    )
    def test_a_refusal_is_shown_with_the_message_of_the_server(
        self, status: int, message: str, expected: str, stalled: bool
    ) -> None:
        """The job waits if waiting helps and stalls if the user must act; the operator retries in both cases."""
        refused = LaunchFailed(1, T0, status, "", message)
        planned = observed(status=STATUSES["planned"], launch_failed=refused)

        decision = checked(planned)
        later = checked(planned, T0 + 360_000)

        assert reason(decision.status) == expected
        assert ("Stalled" in conditions(decision.status)) is stalled
        assert message in decision.status.conditions[0].message
        assert decision.requeue_after_s is not None
        assert LaunchDriver(1, "Run") in later.actions

    def test_a_namespace_that_is_deleted_is_no_fault_of_the_spec(self) -> None:
        """Its cause tells that, in any language of the message."""
        refused = LaunchFailed(1, T0, 403, "Forbidden", "no new content in namespace shop", (NAMESPACE_TERMINATING,))

        decision = checked(observed(status=STATUSES["planned"], launch_failed=refused))

        assert reason(decision.status, "Stalled") == "LaunchRefused"

    @pytest.mark.parametrize(
        ("after_s", "wait_s"), [(0, 5), (24, 5), (31, 30)], ids=["at once", "while it is new", "later"]
    )
    def test_a_late_prerequisite_is_not_waited_for_long(self, after_s: int, wait_s: int) -> None:
        """One `kubectl apply` creates Role, account and Backfill in any order, and no watch shows the first two."""
        message = 'error looking up service account shop/x: serviceaccount "x" not found'
        now_ms = T0 + after_s * 1000
        status = checked(observed()).status
        refused = LaunchFailed(1, now_ms, 403, "", message)

        decision = checked(observed(status=status, launch_failed=refused), now_ms)

        assert (reason(decision.status, "Stalled"), decision.requeue_after_s) == ("LaunchRefused", wait_s)

    def test_an_object_that_is_still_being_deleted_is_waited_for(self) -> None:
        """A finalizer holds the object; immediate retries would be an endless load."""
        refused = LaunchFailed(1, T0, 409, "StillThere", "Service orders-1-driver is being deleted")

        decision = checked(observed(status=STATUSES["planned"], launch_failed=refused))

        assert (reason(decision.status), decision.requeue_after_s, decision.actions) == ("LaunchRefused", 5, ())

    def test_an_edit_is_launched_at_once(self) -> None:
        """A user who corrected the spec does not wait for the next try."""
        refused = LaunchFailed(1, T0, 422, "Invalid", "no")

        decision = checked(observed(status=STATUSES["planned"], launch_failed=refused, generation=2))

        assert LaunchDriver(1, "Run") in decision.actions


class TestASpecThatTheOperatorRefuses:
    """The operator itself cannot build the objects; only an edit or another setting of the operator changes that."""

    def test_refusal_is_not_tried_again_within_seconds(self) -> None:
        """A hundred such Backfills once caused a dozen requests a second for minutes, which slowed all others."""
        refused = LaunchFailed(1, T0, 422, NOT_BUILT, "spec.driver.template: must be a mapping; see the Pod reference")
        planned = observed(status=STATUSES["planned"], launch_failed=refused)

        decision = checked(planned, T0 + 60_000)
        later = checked(planned, T0 + 600_000)

        assert (reason(decision.status, "Stalled"), decision.actions) == ("SpecRefused", ())
        assert decision.requeue_after_s == 540
        assert LaunchDriver(1, "Run") in later.actions, "a queue may offer another place meanwhile"

    def test_edit_is_tried_at_once(self) -> None:
        """The user corrects the field that the message names."""
        refused = LaunchFailed(1, T0, 422, NOT_BUILT, "no")

        decision = checked(observed(status=STATUSES["planned"], launch_failed=refused, generation=2), T0 + 1_000)

        assert LaunchDriver(1, "Run") in decision.actions


class TestADenial:
    """A policy or a webhook rejects the pod; an administrator fixes it, and no watch shows the fix (fault C8)."""

    WORDS = 'admission webhook "policy.example.com" denied the request: no team label'

    def denied(self, decision: Decision, at_ms: int, status: int = 403) -> Observation:
        """Return the observation after a try that was denied at this time."""
        return after(observed(), decision, launch_failed=LaunchFailed(1, at_ms, status, "", self.WORDS), live=True)

    @pytest.mark.parametrize("status", [400, 403, 422])
    def test_a_denied_launch_is_retried_after_seconds_and_then_less_often(self, status: int) -> None:
        """The pods of a Job behave like this: retries are at most ten minutes apart, for any code of the policy."""
        now_ms, tries = T0, []
        decision = checked(observed(), T0)
        while now_ms < T0 + 6 * 3_600_000:
            decision = checked(self.denied(decision, now_ms, status), now_ms)
            assert decision.requeue_after_s is not None
            assert LaunchDriver(1, "Run") not in decision.actions
            now_ms += round(decision.requeue_after_s * 1000)
            decision = checked(self.denied(decision, tries[-1] if tries else T0, status), now_ms)
            assert LaunchDriver(1, "Run") in decision.actions
            tries.append(now_ms)

        waits_s = [(later - earlier) / 1000 for earlier, later in zip([T0, *tries], tries, strict=False)]
        assert waits_s[:6] == [5] * 6
        assert max(waits_s) <= 600
        assert waits_s[-1] >= 300
        assert len(tries) < 120, "it is tried the more rarely the longer it lasts"

    def test_a_denial_shows_the_next_try_and_how_to_retry_at_once(self) -> None:
        """The message is the same at each reconcile until then: a status that changes is a request."""
        denied = self.denied(checked(observed()), T0)
        first = checked(denied, T0)
        later = checked(replace(denied, status=first.status), T0 + 3_000)

        message = next(condition.message for condition in first.status.conditions if condition.type == "Stalled")
        assert message == (
            f"{self.WORDS}; the next try is at 2027-01-15T08:00:05Z, to try now set the annotation"
            " backfill.dev/restart-requested to a new value"
        )
        assert later.status == first.status
        assert later.requeue_after_s == 2

    def test_a_long_denial_still_shows_the_next_try(self) -> None:
        """A message has at most 1,024 characters, and the user needs the next try to act."""
        wordy = replace(self.denied(checked(observed()), T0), launch_failed=LaunchFailed(1, T0, 403, "", "x" * 5_000))

        message = next(
            condition.message for condition in checked(wordy).status.conditions if condition.type == "Stalled"
        )
        assert len(message) == 1024
        assert message.endswith("backfill.dev/restart-requested to a new value")

    def test_a_requested_restart_retries_a_denied_launch_at_once(self) -> None:
        """The request counts once: it does not stop the driver that it starts."""
        restart = replace(self.denied(checked(observed()), T0), annotations={RESTART_ANNOTATION: "now"})
        tried = checked(restart, T0 + 1_000)
        waits = checked(replace(restart, status=tried.status), T0 + 1_000)
        runs = checked(after(restart, tried, pods=(running(),), launch_failed=None), T0 + 2_000)

        assert LaunchDriver(1, "Run") in tried.actions
        assert LaunchDriver(1, "Run") not in waits.actions
        assert runs.status.attempt is not None
        assert runs.status.attempt.stop is None


class TestARejectedPod:
    """A kubelet rejected the pod before its driver ran, so no driver failed: the job waits until a node has room."""

    WORDS = "Pod was rejected: The node had condition: [DiskPressure]"

    def rejected(self, attempt: int, code: int | None = None, **fields: object) -> DriverPod:
        return ended(code, attempt, **({"reason": "Evicted", "message": self.WORDS} | fields))

    @pytest.mark.parametrize(
        "why", ["Evicted", "OutOfcpu", "OutOfnvidia.com/gpu", "NodePorts", "NodeShutdown", "UnexpectedAdmissionError"]
    )
    def test_a_rejected_pod_is_no_failure(self, why: str) -> None:
        """It is not even the one failure that the spec allows; the status has the kubelet's message."""
        observation = observed(spec=spec(backoffLimit=0), status=STATUSES["starting"])

        decision = checked(replace(observation, pods=(self.rejected(1, reason=why),)))

        assert decision.status.failures == 0
        assert (decision.status.phase, reason(decision.status)) == ("Pending", "PodRejected")
        message = next(condition.message for condition in decision.status.conditions if condition.type == "Reconciling")
        assert f"{why}: {self.WORDS}" in message

    def test_a_rejected_pod_is_replaced_without_a_limit(self) -> None:
        """The first delay is ten seconds, and later delays grow. One history entry covers all rejections, and earlier
        entries stay."""
        observation = observed(spec=spec(backoffLimit=1, backoff={"initialSeconds": 1, "maxSeconds": 1}))
        decision = checked(observation)
        decision = checked(after(observation, decision, pods=(ended(137),)))
        now_ms, waits = T0 + 1_000, []
        for attempt in range(2, 42):
            decision = checked(after(observation, decision, live=True), now_ms)
            assert LaunchDriver(attempt, "Run") in decision.actions
            decision = checked(after(observation, decision, pods=(self.rejected(attempt),)), now_ms)
            assert decision.requeue_after_s is not None
            waits.append(decision.requeue_after_s)
            early = checked(after(observation, decision), now_ms + 9_999)
            assert (early.status.phase, reason(early.status)) == ("Pending", "PodRejected")
            assert self.WORDS in next(
                condition.message for condition in early.status.conditions if condition.type == "Reconciling"
            )
            now_ms += round(waits[-1] * 2_000)

        assert waits[0] == 10
        assert 40 < waits[-1] <= 100
        assert [past.reason for past in decision.status.history] == ["Infrastructure", "PodRejected"]
        assert decision.status.failures == 1

    def test_an_edit_ends_the_wait_after_a_rejection(self) -> None:
        """The edit may select another node."""
        observation = observed(status=STATUSES["starting"])
        decision = checked(replace(observation, pods=(self.rejected(1),)))

        edited = checked(after(observation, decision, generation=2, live=True))

        assert LaunchDriver(2, "Run") in edited.actions

    def test_a_rejected_pod_is_not_retained(self) -> None:
        """The pod has no log, so `retainDriver: OnFailure` does not keep it."""
        observation = observed(status=STATUSES["starting"], spec=spec(retainDriver="OnFailure"))
        decision = checked(replace(observation, pods=(self.rejected(1),)))

        later = checked(after(observation, decision, pods=(self.rejected(1),)))

        assert DeletePod("orders-1-driver", "pod-1", 0) in later.actions

    @pytest.mark.parametrize(
        ("fields", "failures"), [({"reason": "SysctlForbidden"}, 1), ({"started": True}, 0), ({"code": 137}, 0)]
    )
    def test_a_rejection_is_distinguished_from_other_failures(self, fields: dict[str, Any], failures: int) -> None:
        """A pod that no node may run is a failure; a pod that ran was evicted and does not count."""
        observation = observed(status=STATUSES["starting"])

        decision = checked(replace(observation, pods=(self.rejected(1, **fields),)))

        assert decision.status.failures == failures
        assert reason(decision.status) == "BackingOff"

    def test_an_eviction_after_the_driver_was_ready_is_no_rejection(self) -> None:
        """Some kubelets lose the containers of a pod that they evict."""
        decision = checked(observed(status=STATUSES["running"], pods=(self.rejected(1),)))

        assert decision.status.history[-1].reason == "Infrastructure"
