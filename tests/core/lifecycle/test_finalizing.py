"""Suspended, deleted, over: how a Backfill lets go of its pods, and how it takes them up again."""

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
from backfill_core.lifecycle.observation import LaunchFailed

HELD = ("backfill.dev/drain",)
UP = observed(status=STATUSES["running"], pods=(running(),), report=report(), finalizers=HELD)


class TestSuspension:
    """The pods go, the state stays in the target."""

    def test_stops_at_a_barrier_first(self) -> None:
        """By a command; `Suspended` is shown when the pods are gone, and the attempt is no failure."""
        wish = replace(UP, spec=spec(suspend=True), generation=2)
        asked = checked(wish)
        over = checked(after(wish, asked, pods=(ended(10),), report=None))

        assert isinstance(asked.actions[0], PersistIntent)
        assert [one.request.command.type for one in asked.actions if isinstance(one, SendCommand)] == ["Stop"]
        assert asked.status.phase == "Suspending"
        assert (over.status.phase, over.status.failures) == ("Suspended", 0)
        assert conditions(over.status)["Suspended"] == conditions(over.status)["Ready"] == "True"
        assert RemoveFinalizer() in over.actions

    def test_a_driver_that_does_not_stop_is_deleted(self) -> None:
        """After the time that the spec gives it."""
        wish = replace(UP, spec=spec(suspend=True, drainTimeoutSeconds=20))
        asked = checked(wish)
        waiting = checked(after(wish, asked), T0 + 19_000)
        late = checked(after(wish, asked), T0 + 20_000)

        assert not any(isinstance(one, DeletePod) for one in waiting.actions)
        assert DeletePod("orders-1-driver", "pod-1", 5) in late.actions

    def test_one_that_cannot_be_commanded_gets_sigterm(self) -> None:
        """SIGTERM stops at a barrier too, with the same time to do it."""
        wish = replace(UP, spec=spec(suspend=True), report=None)

        assert DeletePod("orders-1-driver", "pod-1", 60) in checked(wish).actions

    def test_resuming_is_another_attempt_at_once(self) -> None:
        """From the target's own state, and with a deadline of its own."""
        resumed = observed(status=STATUSES["suspended"], live=True)
        decision = checked(resumed)

        assert decision.actions == (PersistIntent(), LaunchDriver(2, "Run"))
        assert decision.status.start_time == "2027-01-15T08:00:00Z"

    def test_a_change_of_mind_waits_for_the_drain(self) -> None:
        """Half a stop cannot be taken back; the next attempt follows it."""
        wish = replace(UP, spec=spec(suspend=True))
        back = checked(after(wish, checked(wish), spec=spec()))

        assert back.status.phase == "Suspending"


class TestDeletion:
    """`Drain`: the driver stops at a barrier before the object goes."""

    def test_the_finalizer_is_there_only_while_a_driver_is(self) -> None:
        """So that an operator that was uninstalled holds nothing up."""
        starting = observed(status=STATUSES["planned"], pods=(pod(),))

        assert AddFinalizer() in checked(starting).actions
        assert AddFinalizer() not in checked(replace(starting, spec=spec(deletionPolicy="Immediate"))).actions
        assert RemoveFinalizer() in checked(replace(UP, pods=(ended(0),), report=None)).actions

    @pytest.mark.parametrize("code", [137, 10, None])
    def test_waits_for_no_attempt_that_may_never_come(self, code: int | None) -> None:
        """A namespace that is deleted ends its pods first, and the next thing that goes is the right to remove a finalizer."""
        over = checked(replace(UP, pods=(ended(code),), report=None))
        later = checked(after(UP, over, pods=(), report=None))

        assert RemoveFinalizer() in over.actions
        assert RemoveFinalizer() in later.actions, "another writer was quicker"

    def test_waits_for_no_pod_that_is_refused(self) -> None:
        """In a namespace that is being deleted nothing is made any more."""
        words = 'pods "orders-1-driver" is forbidden: unable to create new content in namespace shop because it is being terminated'
        refused = LaunchFailed(1, T0, 403, "Forbidden", words)
        planned = observed(status=STATUSES["planned"], finalizers=HELD, launch_failed=refused)

        assert checked(planned).actions == (RemoveFinalizer(),)
        assert checked(replace(planned, finalizers=())).actions == ()

    def test_is_kept_between_two_attempts_that_follow_at_once(self) -> None:
        """A restart is two writes cheaper."""
        asked = replace(UP, annotations={"backfill.dev/restart-requested": "1"})
        over = checked(after(asked, checked(asked), pods=(ended(10),), report=None))

        assert reason(over.status) == "Restarted"
        assert RemoveFinalizer() not in over.actions

    def test_drains_and_lets_go(self) -> None:
        """Only after a refetch: a driver that the cache does not show would be killed without a barrier."""
        gone = replace(UP, deletion_ms=T0 - 1000, generation=2)
        stopping = checked(gone)
        unseen = checked(after(gone, stopping, pods=(), report=None))
        over = checked(after(gone, stopping, pods=(), report=None, live=True))

        assert stopping.status.phase == "Terminating"
        assert [one.request.command.type for one in stopping.actions if isinstance(one, SendCommand)] == ["Stop"]
        assert isinstance(unseen.actions[0], RefetchPods)
        assert over.actions == (RemoveFinalizer(),)

    @pytest.mark.parametrize(
        ("retain", "exit_code", "kept"), [("Never", 1, False), ("OnFailure", 1, True), ("Always", 0, True)]
    )
    def test_what_lost_its_owner_is_deleted_by_us(self, retain: str, exit_code: int, kept: bool) -> None:
        """After `--cascade=orphan` no garbage collector comes; a pod that the spec retains stays."""
        left = replace(ended(exit_code), owner_uid=None, backfill_uid=UP.uid)
        wanted = spec(retainDriver=retain)
        gone = replace(UP, spec=wanted, deletion_ms=T0 - 1000, pods=(left,), report=None)
        pods = () if kept else (DeletePod(left.name, left.uid, 0),)

        assert isinstance(checked(gone).actions[0], RefetchPods)
        assert checked(replace(gone, live=True)).actions == (DeleteAttemptObjects(1), *pods, RemoveFinalizer())
        assert checked(replace(gone, live=True, pods=(ended(exit_code),))).actions == (RemoveFinalizer(),)

    def test_an_immediate_end_takes_the_objects_of_an_orphan_too(self) -> None:
        """Its driver gets the short grace; nothing of it stays."""
        left = replace(running(), owner_uid=None, backfill_uid=UP.uid)
        gone = replace(UP, spec=spec(deletionPolicy="Immediate"), deletion_ms=T0, pods=(left,))

        assert checked(gone).actions == (DeletePod(left.name, left.uid, 5), DeleteAttemptObjects(1), RemoveFinalizer())

    @pytest.mark.parametrize("refused", [True, False])
    def test_during_a_launch_leaves_nothing(self, refused: bool) -> None:
        """The requested pod may still appear, so the pods are refetched."""
        given = {"spec": SPECS["refused"]} if refused else {}
        gone = observed(status=STATUSES["planned"], finalizers=HELD, deletion_ms=T0, **given)

        assert isinstance(checked(gone).actions[0], RefetchPods)
        assert checked(replace(gone, live=True)).actions == (RemoveFinalizer(),)

    def test_immediate_does_not_wait(self) -> None:
        """The pods go with the object."""
        gone = replace(UP, spec=spec(deletionPolicy="Immediate"), deletion_ms=T0)

        assert checked(gone).actions == (DeletePod("orders-1-driver", "pod-1", 5), RemoveFinalizer())

    def test_without_our_finalizer_nothing_is_done(self) -> None:
        """Others hold it, and the garbage collector does the rest; a launch would outlive the object."""
        assert checked(observed(deletion_ms=T0)).actions == ()


class TestTimeToLive:
    """Off by default: a GitOps tool would make the object again."""

    def test_deletes_a_finished_object_in_time(self) -> None:
        """Not a second before."""
        over = observed(status=STATUSES["complete"], spec=spec(ttlSecondsAfterFinished=60))

        assert checked(over).requeue_after_s == 55
        assert DeleteObject() not in checked(over, T0 + 54_000).actions
        assert DeleteObject() in checked(over, T0 + 55_000).actions
        assert checked(replace(over, spec=spec())).requeue_after_s is None


class TestASpecThatCannotBeRead:
    """Stalled, with the cause; what runs goes on under the spec that it was launched with."""

    def test_launches_nothing_half_valid(self) -> None:
        """A default in place of what was meant could write to the wrong table."""
        decision = checked(observed(spec=SPECS["refused"]))

        assert decision.actions == ()
        assert reason(decision.status, "Stalled") == "SpecRefused"
        assert "spec.source: is required" in decision.events[0].message

    def test_stops_no_driver(self) -> None:
        """A CRD that is newer than the operator must not stop the jobs of the night."""
        decision = checked(replace(UP, spec=SPECS["refused"]))

        assert decision.actions == ()
        assert decision.status.phase == "Running"
        assert kstatus(resource(UP, decision.status)) == "Failed"


class TestHealth:
    """What kubectl, Flux and Argo CD make of it."""

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
    def test_is_the_one_that_people_expect(self, observation: object, health: str) -> None:
        """One table for all tools."""
        assert kstatus(resource(observation, checked(observation).status)) == health

    def test_a_new_object_is_not_taken_for_a_healthy_one(self) -> None:
        """The schema's default of observedGeneration is for the moment before the first decision."""
        assert kstatus({"metadata": {"generation": 1}, "status": {"observedGeneration": -1}}) == "InProgress"


class TestASidecarThatRunsOn:
    """A retained pod of a failed job whose other container never ends is Running for ever, and keeps its quota (fault C10)."""

    LEFT = ended(1, lingering="proxy")

    @pytest.mark.parametrize("retain", ["OnFailure", "Always"])
    def test_ends_with_its_pod_after_ten_minutes(self, retain: str) -> None:
        """Before that its driver's log can be read; the end of the log is in the status."""
        seen = observed(spec=spec(retainDriver=retain, backoffLimit=0), status=STATUSES["running"], pods=(self.LEFT,))
        failed = after(seen, checked(seen))
        early = checked(failed, T0 + 599_000)
        late = checked(failed, T0 + 600_000)

        assert early.status.phase == "Failed"
        assert (early.actions, early.requeue_after_s) == ((), 1)
        assert late.actions == (DeletePod(self.LEFT.name, self.LEFT.uid, 60),)
        assert [(event.kind, event.reason) for event in late.events] == [("Normal", "SidecarEnded")]
        assert "proxy still runs" in late.events[0].message

    def test_is_deleted_once(self) -> None:
        """While it ends there is nothing to do, and nothing to tell."""
        seen = observed(spec=spec(backoffLimit=0), status=STATUSES["running"], pods=(self.LEFT,))
        failed = after(seen, checked(seen), pods=(replace(self.LEFT, deletion_ms=T0 + 660_000),))
        ending = checked(failed, T0 + 601_000)

        assert (ending.actions, ending.events) == ((), ())

    def test_is_all_that_ends_a_retained_pod(self) -> None:
        """One whose containers have all ended takes no room, and its log stays."""
        seen = observed(spec=spec(backoffLimit=0), status=STATUSES["running"], pods=(ended(1),))
        failed = after(seen, checked(seen))

        assert checked(failed, T0 + 3_600_000).actions == ()

    def test_ends_beside_the_next_attempt_too(self) -> None:
        """The pod of an earlier attempt keeps the room that the next one may need."""
        seen = observed(status=STATUSES["running"], pods=(self.LEFT,))
        failed = after(seen, checked(seen), live=True)
        again = checked(failed, T0 + 60_000)
        runs = checked(after(failed, again, pods=(self.LEFT, running(2))), T0 + 601_000)

        assert LaunchDriver(2, "Run") in again.actions
        assert DeletePod(self.LEFT.name, self.LEFT.uid, 60) in runs.actions
