"""Objects that a backup brought back: with the labels of an earlier Backfill of the name, without its owner reference."""

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

from backfill_core.lifecycle.actions import DeleteAttemptObjects, DeletePod, LaunchDriver, RemoveFinalizer
from backfill_core.lifecycle.observation import DriverPod

HELD = ("backfill.dev/drain",)


def restored(attempt: int = 1) -> DriverPod:
    """Return a driver pod that a restore made from a backup: it runs."""
    return running(attempt, uid=f"restored-{attempt}", owner_uid=None, backfill_uid="uid-before")


class TestARestoredDriver:
    """It writes the target, and no operator has its token's Secret on record (fault C5)."""

    @pytest.mark.parametrize("status", ["new", "planned", "failed once", "suspended", "complete", "failed"])
    @pytest.mark.parametrize("attempt", [1, 2, 7])
    def test_is_ended_at_a_barrier_before_anything_starts(self, status: str, attempt: int) -> None:
        """Whether the status was restored too or not, and whatever number the pod has."""
        decision = checked(observed(status=STATUSES[status], pods=(restored(attempt),), live=True))

        pod = restored(attempt)
        assert DeletePod(pod.name, pod.uid, 60) in decision.actions
        assert not any(isinstance(action, LaunchDriver) for action in decision.actions)
        assert "Stalled" not in conditions(decision.status) or status == "failed"

    def test_is_ended_once_the_driver_on_record_is_missing(self) -> None:
        """A status that was restored too has an attempt whose pod is gone."""
        seen = observed(status=STATUSES["running"], pods=(restored(),), live=True)
        decision = checked(seen)
        decision = checked(after(seen, decision, pods=(restored(),), live=True), T0 + 6_000)

        assert any(isinstance(action, DeletePod) for action in decision.actions)
        assert decision.status.failures == 0

    @pytest.mark.parametrize("given", [{"suspend": True}, {"desiredState": "Paused"}])
    def test_is_ended_when_nothing_may_run(self, given: dict[str, object]) -> None:
        """It cannot be paused, so it must not go on."""
        decision = checked(observed(spec=spec(**given), pods=(restored(),)))

        assert DeletePod("orders-1-driver", "restored-1", 60) in decision.actions

    def test_is_ended_beside_a_refused_spec(self) -> None:
        """A person corrects the spec some day, and it would write until then."""
        decision = checked(observed(spec=SPECS["refused"], pods=(restored(),)))

        assert any(isinstance(action, DeletePod) for action in decision.actions)

    def test_is_ended_beside_a_driver_of_ours(self) -> None:
        """A restore may come at any time; ours goes on."""
        pods = (running(), restored(3))

        decision = checked(observed(status=STATUSES["running"], pods=pods, report=report(), live=True))

        assert [action.name for action in decision.actions if isinstance(action, DeletePod)] == ["orders-3-driver"]
        assert decision.status.attempts == 1
        assert decision.status.phase == "Running"

    def test_is_waited_for(self) -> None:
        """Two drivers would work on one target."""
        decision = checked(observed(pods=(replace(restored(), deletion_ms=T0 + 1_000),)))

        assert reason(decision.status) == "DriverStopping"
        assert decision.actions == ()

    def test_is_removed_by_force_when_its_node_is_lost(self) -> None:
        """As any driver of ours that must go."""
        decision = checked(observed(pods=(replace(restored(), deletion_ms=T0 - 60_000),)))

        assert DeletePod("orders-1-driver", "restored-1", 0) in decision.actions

    @pytest.mark.parametrize("exit_code", [0, 2, 40])
    def test_ends_no_job_that_has_ended_itself(self, exit_code: int) -> None:
        """Its exit code is that of an earlier Backfill; its name is needed."""
        over = replace(ended(exit_code), owner_uid=None, backfill_uid="uid-before")

        for status in ("new", "planned"):
            decision = checked(observed(status=STATUSES[status], pods=(over,), live=True))

            assert {"Complete", "Failed", "Stalled"}.isdisjoint(conditions(decision.status))
            assert any(isinstance(action, DeletePod) for action in decision.actions)

    def test_holds_up_a_deletion_until_it_has_ended(self) -> None:
        """It would stay behind, and write, with no Backfill that shows it."""
        leaving = observed(status=STATUSES["suspended"], pods=(restored(),), live=True, deletion_ms=T0, finalizers=HELD)

        first, last = checked(leaving), checked(replace(leaving, pods=()))

        assert first.actions == (DeletePod("orders-1-driver", "restored-1", 60), DeleteAttemptObjects(1))
        assert last.actions == (RemoveFinalizer(),)

    def test_goes_at_once_with_an_immediate_deletion(self) -> None:
        """With what it was made of."""
        leaving = observed(spec=spec(deletionPolicy="Immediate"), pods=(restored(),), deletion_ms=T0, finalizers=HELD)

        assert checked(leaving).actions == (
            DeletePod("orders-1-driver", "restored-1", 5),
            DeleteAttemptObjects(1),
            RemoveFinalizer(),
        )


class TestAPodOfSomebodyElse:
    """Only our labels make a pod without an owner one of an earlier Backfill."""

    @pytest.mark.parametrize("marks", [{"backfill_uid": ""}, {"owner_uid": "else"}])
    def test_is_not_touched(self, marks: dict[str, str]) -> None:
        """A person decides."""
        decision = checked(observed(status=STATUSES["planned"], pods=(replace(restored(), **marks),), live=True))

        assert reason(decision.status, "Stalled") == "NameCollision"
        assert decision.actions == ()
