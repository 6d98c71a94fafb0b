"""Objects that a backup restored: they have the labels of an earlier Backfill of the same name and no owner reference."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.operators.lifecycle_space import SPECS, STATUSES
from support.operators.observations import (
    T0,
    after,
    checked,
    conditions,
    ended,
    observed,
    reason,
    report,
    running,
    spec,
)
from support.operators.switched_world import EQUAL, commands, follows, launches, stopped

from backfill_api.names import COMPLETE_SWITCH_ANNOTATION, SWITCH_ANNOTATION, UNDO_SWITCH_ANNOTATION
from backfill_core.lifecycle.actions import DeleteAttemptObjects, DeletePod, LaunchDriver, RemoveFinalizer
from backfill_core.lifecycle.observation import DriverPod

HELD = ("backfill.dev/drain",)


def restored(attempt: int = 1) -> DriverPod:
    """Return a running driver pod that was restored from a backup."""
    return running(attempt, uid=f"restored-{attempt}", owner_uid=None, backfill_uid="uid-before")


class TestARestoredRequest:
    """A restored Backfill has the annotations of requests that were answered long ago, and no record of the answers."""

    @pytest.mark.parametrize("annotation", [SWITCH_ANNOTATION, UNDO_SWITCH_ANNOTATION, COMPLETE_SWITCH_ANNOTATION])
    @pytest.mark.parametrize("given", [{}, {"suspend": True}])
    def test_a_new_backfill_with_a_switch_over_waits_for_a_user(
        self, annotation: str, given: dict[str, object]
    ) -> None:
        """A switch-over takes the job's state out of the target: with existingRows: Keep, a driver would copy over rows of writers."""
        seen = observed(spec=spec(**given), annotations={annotation: "friday"})
        held = checked(seen)
        still = checked(after(seen, held), T0 + 10**9)
        removed = checked(after(seen, still, annotations={}, spec=spec()))

        for decision in (held, still):
            assert reason(decision.status, "Stalled") == "SwitchUnrecorded"
            assert not any(isinstance(action, LaunchDriver) for action in decision.actions)
        assert "Stalled" not in conditions(removed.status)
        assert removed.status.phase == "Launching"

    def test_a_request_before_the_first_attempt_is_no_restore(self) -> None:
        """A user may request the switch-over while the job waits for its turn."""
        seen = observed(spec=spec(suspend=True))
        waits = checked(seen)
        begun = checked(after(seen, waits, annotations={SWITCH_ANNOTATION: "friday"}, spec=spec()))

        assert begun.status.phase == "Launching"

    @pytest.mark.parametrize("later", [UNDO_SWITCH_ANNOTATION, COMPLETE_SWITCH_ANNOTATION])
    def test_an_undone_switch_over_is_not_performed_again(self, later: str) -> None:
        """Its undo was refused for lack of a record, and then writers were moved to the target again."""
        wish = follows(annotations={SWITCH_ANNOTATION: "friday", later: "monday"})
        first = checked(wish)
        second = checked(after(wish, first))

        assert (commands(first), commands(second)) == ([], [])
        assert first.status.control is not None
        assert first.status.control.switch_token == "friday"
        assert reason(second.status, "Switched") == "SwitchBlocked"

    def test_a_new_request_is_performed(self) -> None:
        """Only the values of the backup are answered."""
        wish = follows(annotations={SWITCH_ANNOTATION: "friday", UNDO_SWITCH_ANNOTATION: "monday"})
        annotations = {SWITCH_ANNOTATION: "sunday", UNDO_SWITCH_ANNOTATION: "monday"}
        _, begun = stopped(after(wish, checked(wish), annotations=annotations))

        assert launches(begun) == [(2, "Switch")]

    def test_an_undone_automatic_switch_over_does_not_begin_again(self) -> None:
        """`when: WhenVerified` begins after an equal receipt, but never after an undo."""
        wish = follows(
            spec=spec(after="Follow", switch={"when": "WhenVerified"}), annotations={UNDO_SWITCH_ANNOTATION: "monday"}
        )
        seen = after(wish, checked(wish))
        newer = EQUAL.model_copy(update={"verified_at": "2027-01-15T07:59:30Z"})
        decision = checked(replace(seen, status=seen.status.model_copy(update={"receipt": newer})))

        assert commands(decision) == []


class TestARestoredDriver:
    """A restored driver writes the target, and no operator has its token's Secret on record (fault C5)."""

    @pytest.mark.parametrize("status", ["new", "planned", "failed once", "suspended", "complete", "failed"])
    @pytest.mark.parametrize("attempt", [1, 2, 7])
    def test_a_restored_driver_is_stopped_at_a_barrier_before_anything_starts(self, status: str, attempt: int) -> None:
        """The rule holds with or without a restored status, and for any number of the pod."""
        decision = checked(observed(status=STATUSES[status], pods=(restored(attempt),), live=True))

        pod = restored(attempt)
        assert DeletePod(pod.name, pod.uid, 60) in decision.actions
        assert not any(isinstance(action, LaunchDriver) for action in decision.actions)
        assert "Stalled" not in conditions(decision.status) or status == "failed"

    def test_a_restored_driver_is_stopped_once_the_recorded_driver_is_missing(self) -> None:
        """A restored status has an attempt whose pod is gone."""
        seen = observed(status=STATUSES["running"], pods=(restored(),), live=True)
        decision = checked(seen)
        decision = checked(after(seen, decision, pods=(restored(),), live=True), T0 + 6_000)

        assert any(isinstance(action, DeletePod) for action in decision.actions)
        assert decision.status.failures == 0

    @pytest.mark.parametrize("given", [{"suspend": True}, {"desiredState": "Paused"}])
    def test_a_restored_driver_is_stopped_when_the_job_is_held(self, given: dict[str, object]) -> None:
        """The operator cannot pause it, so it must not continue."""
        decision = checked(observed(spec=spec(**given), pods=(restored(),)))

        assert DeletePod("orders-1-driver", "restored-1", 60) in decision.actions

    def test_a_restored_driver_is_stopped_while_the_spec_is_refused(self) -> None:
        """A user may correct the spec much later, and the driver would write until then."""
        decision = checked(observed(spec=SPECS["refused"], pods=(restored(),)))

        assert any(isinstance(action, DeletePod) for action in decision.actions)

    def test_a_restored_driver_is_stopped_while_our_driver_continues(self) -> None:
        """A restore may happen at any time."""
        pods = (running(), restored(3))

        decision = checked(observed(status=STATUSES["running"], pods=pods, report=report(), live=True))

        assert [action.name for action in decision.actions if isinstance(action, DeletePod)] == ["orders-3-driver"]
        assert decision.status.attempts == 1
        assert decision.status.phase == "Running"

    def test_a_launch_waits_until_a_restored_driver_has_ended(self) -> None:
        """Two drivers would work on one target."""
        decision = checked(observed(pods=(replace(restored(), deletion_ms=T0 + 1_000),)))

        assert reason(decision.status) == "DriverStopping"
        assert decision.actions == ()

    def test_a_restored_driver_on_a_lost_node_is_removed_by_force(self) -> None:
        """The same rule holds for any driver that must stop."""
        decision = checked(observed(pods=(replace(restored(), deletion_ms=T0 - 60_000),)))

        assert DeletePod("orders-1-driver", "restored-1", 0) in decision.actions

    @pytest.mark.parametrize("exit_code", [0, 2, 40])
    def test_a_restored_pod_that_has_ended_does_not_end_the_job(self, exit_code: int) -> None:
        """Its exit code belongs to an earlier Backfill, but its name is needed."""
        over = replace(ended(exit_code), owner_uid=None, backfill_uid="uid-before")

        for status in ("new", "planned"):
            decision = checked(observed(status=STATUSES[status], pods=(over,), live=True))

            assert {"Complete", "Failed", "Stalled"}.isdisjoint(conditions(decision.status))
            assert any(isinstance(action, DeletePod) for action in decision.actions)

    def test_a_deletion_waits_for_a_restored_driver(self) -> None:
        """Otherwise it would stay behind and write, without a Backfill that shows it."""
        leaving = observed(status=STATUSES["suspended"], pods=(restored(),), live=True, deletion_ms=T0, finalizers=HELD)

        first, last = checked(leaving), checked(replace(leaving, pods=()))

        assert first.actions == (DeletePod("orders-1-driver", "restored-1", 60), DeleteAttemptObjects(1))
        assert last.actions == (RemoveFinalizer(),)

    def test_an_immediate_deletion_removes_a_restored_driver_at_once(self) -> None:
        """The deletion includes the objects of its attempt."""
        leaving = observed(spec=spec(deletionPolicy="Immediate"), pods=(restored(),), deletion_ms=T0, finalizers=HELD)

        assert checked(leaving).actions == (
            DeletePod("orders-1-driver", "restored-1", 5),
            DeleteAttemptObjects(1),
            RemoveFinalizer(),
        )


class TestAPodOfSomebodyElse:
    """A pod without an owner belongs to an earlier Backfill only if it has our labels."""

    @pytest.mark.parametrize("marks", [{"backfill_uid": ""}, {"owner_uid": "else"}])
    def test_a_foreign_pod_is_not_touched(self, marks: dict[str, str]) -> None:
        """The user decides."""
        decision = checked(observed(status=STATUSES["planned"], pods=(replace(restored(), **marks),), live=True))

        assert reason(decision.status, "Stalled") == "NameCollision"
        assert decision.actions == ()
