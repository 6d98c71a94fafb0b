"""Suspension, deletion and completion: a Backfill releases its pods and takes them up again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.cluster.kstatus import kstatus
from support.operators.lifecycle_space import SPECS, STATUSES
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
    resource,
    running,
    spec,
)

from backfill_core.lifecycle.actions import (
    AddFinalizer,
    DeleteAttemptObjects,
    DeleteObject,
    DeletePod,
    LaunchDriver,
    PersistIntent,
    RefetchPods,
    RemoveFinalizer,
    SendCommand,
)
from backfill_core.lifecycle.observation import NAMESPACE_TERMINATING, LaunchFailed

HELD = ("backfill.dev/drain",)
UP = observed(status=STATUSES["running"], pods=(running(),), report=report(), finalizers=HELD)


class TestSuspension:
    """A suspension removes the pods, and the state stays in the target."""

    def test_a_suspension_stops_at_a_barrier_first(self) -> None:
        """The operator sends a command; `Suspended` is shown when the pods are gone, and the attempt is no failure."""
        wish = replace(UP, spec=spec(suspend=True), generation=2)
        requested = checked(wish)
        over = checked(after(wish, requested, pods=(ended(10),), report=None))

        assert isinstance(requested.actions[0], PersistIntent)
        assert [action.request.command.type for action in requested.actions if isinstance(action, SendCommand)] == [
            "Stop"
        ]
        assert requested.status.phase == "Suspending"
        assert (over.status.phase, over.status.failures) == ("Suspended", 0)
        assert conditions(over.status)["Suspended"] == conditions(over.status)["Ready"] == "True"
        assert RemoveFinalizer() in over.actions

    def test_a_driver_that_does_not_stop_is_deleted(self) -> None:
        """The spec sets the time limit."""
        wish = replace(UP, spec=spec(suspend=True, drainTimeoutSeconds=20))
        requested = checked(wish)
        waiting = checked(after(wish, requested), T0 + 19_000)
        late = checked(after(wish, requested), T0 + 20_000)

        assert not any(isinstance(action, DeletePod) for action in waiting.actions)
        assert DeletePod("orders-1-driver", "pod-1", 5) in late.actions

    def test_a_driver_without_a_control_connection_gets_sigterm(self) -> None:
        """SIGTERM also stops the driver at a barrier, within the same time limit."""
        wish = replace(UP, spec=spec(suspend=True), report=None)

        assert DeletePod("orders-1-driver", "pod-1", 60) in checked(wish).actions

    def test_a_resumed_job_starts_another_attempt_at_once(self) -> None:
        """The attempt starts from the state in the target and has a separate deadline."""
        resumed = observed(status=STATUSES["suspended"], live=True)
        decision = checked(resumed)

        assert decision.actions == (PersistIntent(), LaunchDriver(2, "Run"))
        assert decision.status.start_time == "2027-01-15T08:00:00Z"

    def test_a_reverted_suspension_waits_for_the_drain(self) -> None:
        """A stop in progress cannot be reverted; the next attempt follows it."""
        wish = replace(UP, spec=spec(suspend=True))
        back = checked(after(wish, checked(wish), spec=spec()))

        assert back.status.phase == "Suspending"


class TestDeletion:
    """The policy `Drain` stops the driver at a barrier before the object is deleted."""

    def test_the_finalizer_exists_only_while_a_driver_does(self) -> None:
        """An uninstalled operator must not block deletions."""
        starting = observed(status=STATUSES["planned"], pods=(pod(),))

        assert AddFinalizer() in checked(starting).actions
        assert AddFinalizer() not in checked(replace(starting, spec=spec(deletionPolicy="Immediate"))).actions
        assert RemoveFinalizer() in checked(replace(UP, pods=(ended(0),), report=None)).actions

    @pytest.mark.parametrize("code", [137, 10, None])
    def test_the_finalizer_does_not_wait_for_a_further_attempt(self, code: int | None) -> None:
        """The deletion of a namespace ends its pods first, and then the operator may lose the permission to remove a
        finalizer."""
        over = checked(replace(UP, pods=(ended(code),), report=None))
        later = checked(after(UP, over, pods=(), report=None))

        assert RemoveFinalizer() in over.actions
        assert RemoveFinalizer() in later.actions, "another writer was quicker"

    def test_the_finalizer_does_not_wait_for_a_refused_pod(self) -> None:
        """A namespace that is being deleted accepts no new objects."""
        refused = LaunchFailed(1, T0, 403, "Forbidden", 'pods "orders-1-driver" is forbidden', (NAMESPACE_TERMINATING,))
        planned = observed(status=STATUSES["planned"], finalizers=HELD, launch_failed=refused)

        assert checked(planned).actions == (RemoveFinalizer(),)
        assert checked(replace(planned, finalizers=())).actions == ()

    def test_the_finalizer_stays_between_two_attempts_that_follow_at_once(self) -> None:
        """This saves two writes per restart."""
        restarted = replace(UP, annotations={"backfill.dev/restart-requested": "1"})
        over = checked(after(restarted, checked(restarted), pods=(ended(10),), report=None))

        assert reason(over.status) == "Restarted"
        assert RemoveFinalizer() not in over.actions

    def test_a_deletion_drains_the_driver_and_removes_the_finalizer(self) -> None:
        """A refetch comes first: a driver that the cache does not show would be killed without a barrier."""
        gone = replace(UP, deletion_ms=T0 - 1000, generation=2)
        stopping = checked(gone)
        unseen = checked(after(gone, stopping, pods=(), report=None))
        over = checked(after(gone, stopping, pods=(), report=None, live=True))

        assert stopping.status.phase == "Terminating"
        assert [action.request.command.type for action in stopping.actions if isinstance(action, SendCommand)] == [
            "Stop"
        ]
        assert isinstance(unseen.actions[0], RefetchPods)
        assert over.actions == (RemoveFinalizer(),)

    @pytest.mark.parametrize(
        ("retain", "exit_code", "kept"), [("Never", 1, False), ("OnFailure", 1, True), ("Always", 0, True)]
    )
    def test_objects_without_an_owner_are_deleted_by_the_operator(
        self, retain: str, exit_code: int, kept: bool
    ) -> None:
        """After `--cascade=orphan` no garbage collector removes them; a pod that the spec retains stays."""
        left = replace(ended(exit_code), owner_uid=None, backfill_uid=UP.uid)
        current_spec = spec(retainDriver=retain)
        gone = replace(UP, spec=current_spec, deletion_ms=T0 - 1000, pods=(left,), report=None)
        pods = () if kept else (DeletePod(left.name, left.uid, 0),)

        assert isinstance(checked(gone).actions[0], RefetchPods)
        assert checked(replace(gone, live=True)).actions == (DeleteAttemptObjects(1), *pods, RemoveFinalizer())
        assert checked(replace(gone, live=True, pods=(ended(exit_code),))).actions == (RemoveFinalizer(),)

    def test_an_immediate_deletion_removes_the_objects_of_an_orphan(self) -> None:
        """Its driver gets the short grace period, and no object stays."""
        left = replace(running(), owner_uid=None, backfill_uid=UP.uid)
        gone = replace(UP, spec=spec(deletionPolicy="Immediate"), deletion_ms=T0, pods=(left,))

        assert checked(gone).actions == (DeletePod(left.name, left.uid, 5), DeleteAttemptObjects(1), RemoveFinalizer())

    @pytest.mark.parametrize("refused", [True, False])
    def test_a_deletion_during_a_launch_leaves_no_objects(self, refused: bool) -> None:
        """The requested pod may still appear, so the operator refetches the pods."""
        given = {"spec": SPECS["refused"]} if refused else {}
        gone = observed(status=STATUSES["planned"], finalizers=HELD, deletion_ms=T0, **given)

        assert isinstance(checked(gone).actions[0], RefetchPods)
        assert checked(replace(gone, live=True)).actions == (RemoveFinalizer(),)

    def test_an_immediate_deletion_does_not_wait(self) -> None:
        """The pods are deleted together with the object."""
        gone = replace(UP, spec=spec(deletionPolicy="Immediate"), deletion_ms=T0)

        assert checked(gone).actions == (DeletePod("orders-1-driver", "pod-1", 5), RemoveFinalizer())

    def test_a_deletion_without_our_finalizer_is_left_to_kubernetes(self) -> None:
        """Other finalizers hold the object, and the garbage collector removes the rest; a launched driver would outlive
        the object."""
        assert checked(observed(deletion_ms=T0)).actions == ()


class TestTimeToLive:
    """The time to live is off by default: a GitOps tool would create the object again."""

    def test_a_finished_object_is_deleted_after_its_time_to_live(self) -> None:
        """The operator does not delete it a second earlier."""
        over = observed(status=STATUSES["complete"], spec=spec(ttlSecondsAfterFinished=60))

        assert checked(over).requeue_after_s == 55
        assert DeleteObject() not in checked(over, T0 + 54_000).actions
        assert DeleteObject() in checked(over, T0 + 55_000).actions
        assert checked(replace(over, spec=spec())).requeue_after_s is None


class TestASpecThatCannotBeRead:
    """An unreadable spec is Stalled with the cause; a running driver continues with the spec of its launch."""

    def test_an_unreadable_spec_launches_no_driver(self) -> None:
        """A default instead of the intended value could write to the wrong table."""
        decision = checked(observed(spec=SPECS["refused"]))

        assert decision.actions == ()
        assert reason(decision.status, "Stalled") == "SpecRefused"
        assert "spec.source: is required" in decision.events[0].message

    def test_an_unreadable_spec_stops_no_driver(self) -> None:
        """A CRD that is newer than the operator must not stop jobs at night."""
        decision = checked(replace(UP, spec=SPECS["refused"]))

        assert decision.actions == ()
        assert decision.status.phase == "Running"
        assert kstatus(resource(UP, decision.status)) == "Failed"


class TestHealth:
    """kubectl, Flux and Argo CD derive the health from the status."""

    @pytest.mark.parametrize(
        ("observation", "health"),
        [
            (observed(), "InProgress"),
            (UP, "Current"),
            (replace(UP, spec=spec(desiredState="Paused")), "InProgress"),
            (replace(UP, pods=(ended(0),)), "Current"),
            (replace(UP, pods=(ended(40),)), "Failed"),
            (replace(UP, pods=(ended(60),)), "InProgress"),
            (observed(spec=spec(suspend=True)), "Current"),
            (replace(UP, deletion_ms=T0), "Terminating"),
        ],
    )
    def test_the_health_is_the_one_that_users_expect(self, observation: object, health: str) -> None:
        """All tools share one table."""
        assert kstatus(resource(observation, checked(observation).status)) == health

    def test_a_new_object_does_not_count_as_healthy(self) -> None:
        """The schema's default of observedGeneration applies until the first decision."""
        assert kstatus({"metadata": {"generation": 1}, "status": {"observedGeneration": -1}}) == "InProgress"


class TestASidecarThatRunsOn:
    """A retained pod of a failed job stays Running if another container never ends, and uses quota (fault C10)."""

    LEFT = ended(1, lingering="proxy")

    @pytest.mark.parametrize("retain", ["OnFailure", "Always"])
    def test_a_sidecar_ends_with_its_pod_after_ten_minutes(self, retain: str) -> None:
        """Until then, users can read the driver's log; the status contains the end of the log."""
        seen = observed(spec=spec(retainDriver=retain, backoffLimit=0), status=STATUSES["running"], pods=(self.LEFT,))
        failed = after(seen, checked(seen))
        early = checked(failed, T0 + 599_000)
        late = checked(failed, T0 + 600_000)

        assert early.status.phase == "Failed"
        assert (early.actions, early.requeue_after_s) == ((), 1)
        assert late.actions == (DeletePod(self.LEFT.name, self.LEFT.uid, 60),)
        assert [(event.kind, event.reason) for event in late.events] == [("Normal", "SidecarEnded")]
        assert "proxy still runs" in late.events[0].message

    def test_a_pod_with_a_running_sidecar_is_deleted_once(self) -> None:
        """While the pod ends, the operator does nothing and reports nothing."""
        seen = observed(spec=spec(backoffLimit=0), status=STATUSES["running"], pods=(self.LEFT,))
        failed = after(seen, checked(seen), pods=(replace(self.LEFT, deletion_ms=T0 + 660_000),))
        ending = checked(failed, T0 + 601_000)

        assert (ending.actions, ending.events) == ((), ())

    def test_a_retained_pod_without_a_running_sidecar_stays(self) -> None:
        """A pod whose containers have all ended uses no resources, and its log stays."""
        seen = observed(spec=spec(backoffLimit=0), status=STATUSES["running"], pods=(ended(1),))
        failed = after(seen, checked(seen))

        assert checked(failed, T0 + 3_600_000).actions == ()

    def test_a_sidecar_of_an_earlier_attempt_ends_during_the_next(self) -> None:
        """The pod of an earlier attempt occupies resources that the next one may need."""
        seen = observed(status=STATUSES["running"], pods=(self.LEFT,))
        failed = after(seen, checked(seen), live=True)
        again = checked(failed, T0 + 60_000)
        runs = checked(after(failed, again, pods=(self.LEFT, running(2))), T0 + 601_000)

        assert LaunchDriver(2, "Run") in again.actions
        assert DeletePod(self.LEFT.name, self.LEFT.uid, 60) in runs.actions
