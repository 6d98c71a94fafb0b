"""External causes: the operator waits, reports the cause, continues, and counts no failure (faults C1, C7 and K4)."""

from __future__ import annotations

import pytest
from support.operators.lifecycle_space import STATUSES
from support.operators.observations import (
    T0,
    after,
    checked,
    conditions,
    ended,
    observed,
    pod,
    reason,
    report,
    running,
    spec,
)

from backfill_api.status.ending import Ending
from backfill_core.lifecycle.actions import DeletePod
from backfill_core.lifecycle.observation import DriverPod, Observation, WaitingExecutors

RUNNING = STATUSES["running"]
MINUTE_MS = 60_000
OR_NO_RIGHTS = "repository does not exist or may require authorization"
"""Message of containerd for each answer 401 of a registry with tokens, also if the image exists."""


def message(observation: Observation, type_: str, minutes: int = 0) -> str:
    """Return the message of a condition."""
    conditions_now = checked(observation, T0 + minutes * MINUTE_MS).status.conditions
    return next(condition.message for condition in conditions_now if condition.type == type_)


class TestADriverThatIsTakenAway:
    """A driver that the cluster removes counts as no failure of the job."""

    @pytest.mark.parametrize(
        "lost",
        [
            ended(None, reason="Evicted"), ended(None, reason="NodeLost"), ended(137, disrupted=True), ended(137, deletion_ms=T0),
            ended(69, disrupted=True), ended(143, reason="Terminated"),
        ],
        ids=["evicted", "node lost", "disrupted", "deleted", "failed while its node was drained", "node shut down"],
    )  # fmt: skip
    def test_a_lost_driver_counts_no_failure(self, lost: DriverPod) -> None:
        """Four lost drivers once failed the job permanently, although each had committed new rows."""
        decision = checked(observed(status=RUNNING.model_copy(update={"failures": 3}), pods=(lost,)))

        assert (decision.status.failures, decision.status.phase) == (3, "Retrying")

    def test_a_missing_pod_counts_no_failure(self) -> None:
        """`kubectl delete pod --force` removes a pod like this, and so does a node that goes away with it."""
        up = observed(status=RUNNING)
        waiting = checked(after(up, checked(up)), T0 + 3_000)
        gone = checked(after(up, waiting, live=True), T0 + 6_000)

        assert (gone.status.failures, gone.status.phase, reason(gone.status)) == (0, "Retrying", "BackingOff")

    def test_losses_in_a_row_wait_longer_each_time_and_never_give_up(self) -> None:
        """A Job with `podFailurePolicy` behaves like this."""
        now_ms, waits = T0, []
        observation = observed(spec=spec(backoffLimit=0, backoff={"initialSeconds": 10, "maxSeconds": 60}))
        for attempt in range(1, 8):
            launched = checked(observation, now_ms)
            decision = checked(
                after(observation, launched, pods=(ended(None, attempt, reason="Evicted", started=True),)), now_ms
            )
            assert decision.status.phase == "Retrying"
            assert decision.requeue_after_s is not None
            waits.append(decision.requeue_after_s)
            now_ms += round(waits[-1] * 1000)
            observation = after(observation, decision, live=True)

        limits = (10, 20, 40, 60, 60, 60, 60)
        assert all(0.8 * limit <= wait <= limit for wait, limit in zip(waits, limits, strict=True))

    @pytest.mark.parametrize("lost", [ended(137), ended(137, oom_killed=True), ended(None, reason="DeadlineExceeded")])
    def test_an_end_that_may_be_the_jobs_fault_counts(self, lost: DriverPod) -> None:
        """The cases are a kill without a cause, a kill for lack of memory, and a deadline in the template."""
        assert checked(observed(status=RUNNING, pods=(lost,))).status.failures == 1

    def test_a_commit_restarts_the_count(self) -> None:
        """Progress shows that the job can continue."""
        up = observed(status=RUNNING.model_copy(update={"failures": 3}), pods=(running(),), report=report(rows_done=5))
        began = after(up, checked(up), report=report(rows_done=5))
        moved = after(began, checked(began), report=report(rows_done=9))
        lost = after(moved, checked(moved), pods=(ended(137),), report=None)
        idle = after(began, checked(began), pods=(ended(137),), report=None)

        assert checked(lost).status.failures == 1
        assert checked(idle).status.phase == "Failed"


class TestAnEndingWithACauseOutside:
    """The driver reports an external cause in its termination message."""

    AWAY = Ending(outcome="Failed", reason="Transient", message="Connection refused", outside=True)

    def test_a_commit_before_an_outage_restarts_the_count(self) -> None:
        """Progress shows that the job can continue."""
        up = observed(status=RUNNING.model_copy(update={"failures": 3}), pods=(running(),), report=report(rows_done=5))
        began = after(up, checked(up), report=report(rows_done=5))
        moved = after(began, checked(began), report=report(rows_done=9))

        assert (
            checked(after(moved, checked(moved), pods=(ended(61, ending=self.AWAY),), report=None)).status.failures == 0
        )
        assert (
            checked(after(began, checked(began), pods=(ended(61, ending=self.AWAY),), report=None)).status.failures == 3
        )

    @pytest.mark.parametrize("ending", [None, AWAY.model_copy(update={"outside": False})])
    def test_an_end_without_an_external_cause_counts(self, ending: Ending | None) -> None:
        """An unknown error, or an error of an earlier driver, may be the job's fault."""
        assert checked(observed(status=RUNNING, pods=(ended(61, ending=ending),))).status.failures == 1

    def test_a_final_error_is_final_despite_an_external_cause(self) -> None:
        """Another attempt could not succeed."""
        mismatch = self.AWAY.model_copy(update={"reason": "StateMismatch"})

        assert checked(observed(status=RUNNING, pods=(ended(40, ending=mismatch),))).status.phase == "Failed"


class TestAPodThatCannotStart:
    """A pod that cannot start has a cause, and the cause decides whether to wait."""

    def test_a_sidecar_without_an_image_is_not_waited_for(self) -> None:
        """Waiting does not create a missing image."""
        stuck = pod(held="sidecar proxy has not started", waiting="InvalidImageName", scheduled=True)
        starting = observed(status=STATUSES["starting"], pods=(stuck,))

        assert reason(checked(starting, T0 + 11 * MINUTE_MS).status) == "SubmissionFailed"

    def test_the_start_timeout_counts_from_the_end_of_the_sidecars(self) -> None:
        """The sidecars waited an hour for their control plane; `Initialized` shows when the driver's container could
        start."""
        held = pod(held="sidecar proxy has not started: it runs", scheduled=True, scheduled_ms=T0)
        waiting = checked(observed(status=STATUSES["starting"], pods=(held,)), T0 + 60 * MINUTE_MS)

        assert reason(waiting.status) == "Launching"
        assert (
            next(condition for condition in waiting.status.conditions if condition.type == "Ready").message == held.held
        )

    @pytest.mark.parametrize(
        "state",
        [
            {"unscheduled": "0/3 nodes"},
            {"unscheduled": "Scheduling is blocked due to non-empty scheduling gates"},
            {"unscheduled": '0/1 nodes are available: persistentvolumeclaim "lake" not found. not found'},
            {},
        ],
    )
    def test_a_pod_without_a_node_waits_and_the_status_shows_the_reason(self, state: dict[str, str]) -> None:
        """A node may become free at any time; Kueue holds pods by a scheduling gate."""
        starting = observed(status=STATUSES["starting"], pods=(pod(**state),))
        late = checked(starting, T0 + 600 * MINUTE_MS)

        assert (late.status.phase, reason(late.status), late.status.failures) == ("Launching", "Launching", 0)
        assert state.get("unscheduled", "no scheduler") in message(starting, "Ready", minutes=600)
        assert not any(isinstance(action, DeletePod) for action in late.actions)

    def test_a_claim_that_is_not_bound_is_shown_with_the_storage_class_of_the_spec(self) -> None:
        """The scheduler does not name a class that does not exist."""
        unbound = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims"
        scratch = spec(scratch={"size": "20Gi", "storageClassName": "fastt"})
        expected = f"{unbound}; spec.scratch.storageClassName 'fastt' must exist and provide volumes of 20Gi"

        for type_ in ("Ready", "DriverReady"):
            starting = observed(status=STATUSES["starting"], pods=(pod(unscheduled=unbound),), spec=scratch)
            assert message(starting, type_).startswith(expected)
        executors = running(executors=WaitingExecutors(message=unbound))
        working = observed(status=STATUSES["running"], pods=(executors,), report=report(), spec=scratch)
        assert message(working, "ExecutorsWaiting").startswith(f"executors wait: {expected}")

    def test_a_message_about_nodes_does_not_name_the_storage_class(self) -> None:
        """The class exists."""
        full = pod(unscheduled="0/3 nodes are available: 3 Insufficient memory")
        scratch = spec(scratch={"size": "20Gi", "storageClassName": "fast"})

        assert message(observed(status=STATUSES["starting"], pods=(full,), spec=scratch), "Ready") == full.unscheduled

    def test_the_start_timeout_counts_from_the_scheduling(self) -> None:
        """A pod that waited an hour for its node still gets its full start time."""
        late = pod(scheduled=True, scheduled_ms=T0 + 60 * MINUTE_MS)
        starting = observed(status=STATUSES["starting"], pods=(late,))

        assert reason(checked(starting, T0 + 69 * MINUTE_MS).status) == "Launching"
        assert reason(checked(starting, T0 + 71 * MINUTE_MS).status) == "StartupTimeout"

    @pytest.mark.parametrize(
        ("waiting", "text", "word", "phase"),
        [
            ("ImagePullBackOff", "Back-off pulling image", "ImageUnavailable", "Retrying"),
            ("ErrImagePull", "dial tcp: lookup registry: no route", "ImageUnavailable", "Retrying"),
            ("RegistryUnavailable", "503", "ImageUnavailable", "Retrying"),
            ("ErrImagePull", "unexpected status from HEAD request to http://r/v2/a/manifests/1: 401 Unauthorized", "ImageUnavailable", "Retrying"),
            ("ErrImagePull", "unexpected status from HEAD request to http://r/v2/a/manifests/1: 403 Forbidden", "ImageUnavailable", "Retrying"),
            ("ImagePullBackOff", f"pull access denied, {OR_NO_RIGHTS}: authorization failed: no basic auth credentials", "ImageUnavailable", "Retrying"),
            ("ImagePullBackOff", f"pull access denied, {OR_NO_RIGHTS}: insufficient_scope", "ImageUnavailable", "Retrying"),
            ("ErrImagePull", "manifest unknown", "SubmissionFailed", "Failed"),
            ("ErrImagePull", "failed to resolve reference: r/a:1: not found", "SubmissionFailed", "Failed"),
            ("ErrImagePull", "failed to resolve reference: r/authorization/denied:1: not found", "SubmissionFailed", "Failed"),
            ("InvalidImageName", "", "SubmissionFailed", "Failed"),
        ],
    )  # fmt: skip
    def test_a_registry_that_is_away_or_refuses_the_secret_is_waited_for(
        self, waiting: str, text: str, word: str, phase: str
    ) -> None:
        """A pull secret may be corrected at any time, and some expire every few hours. A missing image is final."""
        stuck = pod(waiting=waiting, waiting_message=text, scheduled=True)
        starting = observed(status=STATUSES["starting"], pods=(stuck,))
        stopping = checked(after(starting, checked(starting)), T0 + 11 * MINUTE_MS)
        over = checked(after(starting, stopping, pods=(), live=True), T0 + 12 * MINUTE_MS)

        assert (over.status.history[-1].reason, over.status.phase) == (word, phase)
        assert over.status.failures == (0 if phase == "Retrying" else 1)


class TestAnotherContainerOfThePod:
    """A webhook may add a container that ends or never becomes ready."""

    SHIPPER = "container shipper is not ready: exit code 1"

    def test_a_driver_that_responds_is_running(self) -> None:
        """Every attempt once ended by startupTimeoutSeconds, although the driver committed."""
        starting = observed(
            status=STATUSES["starting"], spec=spec(startupTimeoutSeconds=10), report=report(),
            pods=(running(ready=False, unready=self.SHIPPER),),
        )  # fmt: skip
        decision = checked(starting, T0 + 5 * MINUTE_MS)

        assert (decision.status.phase, conditions(decision.status)["DriverReady"]) == ("Running", "True")
        assert message(starting, "DriverReady") == self.SHIPPER

    @pytest.mark.parametrize("phase", ["Running", "Unknown", "Pending"])
    def test_a_driver_that_was_ready_is_never_launching(self, phase: str) -> None:
        """Its control server or its node does not respond."""
        quiet = running(ready=False, phase=phase, unready=self.SHIPPER)
        decision = checked(observed(status=RUNNING, pods=(quiet,)))

        assert reason(decision.status, "DriverReady") == "DriverUnreachable"
        assert self.SHIPPER in message(observed(status=RUNNING, pods=(quiet,)), "DriverReady")

    def test_a_failed_init_container_is_named_and_counted(self) -> None:
        """The message was once "the driver was killed", without a name, an exit code or a message."""
        failed = ended(None, init_failed="init container fetch failed: exit code 3: no such bucket", started=False)
        decision = checked(observed(status=STATUSES["starting"], pods=(failed,)))

        assert (decision.status.history[-1].reason, decision.status.failures) == ("InitContainerFailed", 1)
        assert "init container fetch failed: exit code 3" in decision.status.conditions[0].message

    def test_a_disruption_is_reported_with_the_message_of_the_cluster(self) -> None:
        """PodGC removes the pods of a node, and the condition reports it."""
        removed = ended(None, disrupted=True, disruption="DeletionByPodGC: PodGC: node not found")
        decision = checked(observed(status=RUNNING, pods=(removed,)))

        assert "DeletionByPodGC: PodGC: node not found" in decision.status.conditions[0].message
