"""Pods that pretend to be drivers, and Backfills that get in each other's way."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.operators.lifecycle_space import STATUSES
from support.operators.observations import T0, after, checked, conditions, ended, observed, pod, reason, report, running

from backfill_api.status.ending import Ending
from backfill_core.lifecycle.actions import DeletePod, LaunchDriver, RemoveFinalizer
from backfill_core.lifecycle.inputs.token_hash import hash_of
from backfill_core.lifecycle.naming import BASE_CHARACTERS_MAX, driver_name, number_of

RUNNING = STATUSES["running"]


class TestAForgedPod:
    """A user who may make pods may give them our owner and our labels."""

    def test_of_another_name_is_none_of_ours(self) -> None:
        """Such a pod exited with 0, and the job would have ended while its driver ran."""
        forged = ended(0, 2, name="helper")

        decision = checked(observed(status=RUNNING, pods=(running(), forged), report=report(), live=True))

        assert decision.status.attempt is not None
        assert decision.status.attempt.number == 1
        assert "Complete" not in conditions(decision.status)

    @pytest.mark.parametrize("code", [0, 2, 20])
    @pytest.mark.parametrize("message", [None, Ending(outcome="Complete"), Ending(outcome="Complete", token="guessed")])
    def test_of_the_next_name_ends_no_job(self, code: int, message: Ending | None) -> None:
        """Neither well nor badly: who makes pods writes termination messages too (fault S7)."""
        forged = replace(ended(code, 2), ending=message)

        for pods in ((running(), forged), (forged,)):
            decision = checked(observed(status=RUNNING, pods=pods, report=report(), live=True))

            assert {"Complete", "Failed"}.isdisjoint(conditions(decision.status))

    @pytest.mark.parametrize(("token", "complete"), [("of-the-secret", True), ("guessed", False), ("", False)])
    def test_is_told_by_the_token_from_a_driver_that_ended_unseen(self, token: str, complete: bool) -> None:
        """An operator that was away sees a short job only at its end; its hash was on record before any Secret had the token."""
        assert RUNNING.attempt is not None
        planned = {"state": "Planned", "number": 2, "pod_uid": None, "pod_name": driver_name("orders", 2)}
        attempt = RUNNING.attempt.model_copy(update=planned | {"token_hashes": (hash_of("of-the-secret"),)})
        status = RUNNING.model_copy(update={"attempt": attempt, "attempts": 2})
        over = replace(ended(0, 2), ending=Ending(outcome="Complete", token=token))

        decision = checked(observed(status=status, pods=(over,), live=True))

        assert ("Complete" in conditions(decision.status)) is complete

    def test_without_a_token_is_believed_of_an_earlier_operator_s_attempt(self) -> None:
        """Its drivers were started before there was a proof."""
        assert RUNNING.attempt is not None
        planned = {"state": "Planned", "pod_uid": None, "token_hashes": None}
        status = RUNNING.model_copy(update={"attempt": RUNNING.attempt.model_copy(update=planned)})

        decision = checked(
            observed(status=status, pods=(replace(ended(0), ending=Ending(outcome="Complete")),), live=True)
        )

        assert conditions(decision.status)["Complete"] == "True"

    def test_that_has_the_place_of_the_one_on_record_is_not_believed(self) -> None:
        """Same name, another UID: it must go, and it ends nothing."""
        forged = ended(0, 1, uid="pod-9")

        decision = checked(observed(status=RUNNING, pods=(forged,), live=True))

        assert "Complete" not in conditions(decision.status)

    def test_of_a_number_far_away_uses_up_no_numbers(self) -> None:
        """999,999,999 attempts are all that a name has room for."""
        far = running(999_999_999)

        decision = checked(observed(status=RUNNING, pods=(running(), far), report=report(), live=True))

        assert decision.status.attempts == 1
        assert any(isinstance(one, DeletePod) and one.name == far.name for one in decision.actions)

    @pytest.mark.parametrize("name", ["orders", "Orders.2", "a" * 80, "9lives"])
    def test_is_told_by_its_name(self, name: str) -> None:
        """One name for each attempt, and one attempt for each name."""
        assert [number_of(name, driver_name(name, number)) for number in (1, 27, 999_999_999)] == [1, 27, 999_999_999]
        for other in (
            "x",
            "",
            f"{name}-0-driver",
            driver_name(name, 1) + "x",
            driver_name(f"{name}-1", 1),
            f"{name}-01-driver",
        ):
            assert number_of(name, other) is None
        assert len(driver_name(name, 999_999_999)) <= 63 >= BASE_CHARACTERS_MAX


class TestADriverWithoutItsOwner:
    """`kubectl delete --cascade=orphan` takes the owners away, and the Backfill after them."""

    def test_is_drained_all_the_same(self) -> None:
        """Otherwise it would go on, and no operator could command it."""
        orphan = running(owner_uid=None, backfill_uid="uid-1")
        leaving = observed(
            status=RUNNING,
            pods=(orphan,),
            report=report(),
            live=True,
            deletion_ms=T0,
            finalizers=("backfill.dev/drain",),
        )

        decision = checked(leaving)

        assert RemoveFinalizer() not in decision.actions
        assert decision.status.attempt is not None
        assert decision.status.attempt.stop is not None

    def test_of_another_backfill_is_not_touched(self) -> None:
        """Only a pod without any owner can be left behind, or restored from a backup."""
        other = running(owner_uid="uid-2", backfill_uid="uid-2")
        leaving = observed(status=RUNNING, pods=(other,), live=True, deletion_ms=T0, finalizers=("backfill.dev/drain",))

        assert RemoveFinalizer() in checked(leaving).actions


class TestADriverOnALostNode:
    """A pod that tolerates everything for ever is never taken away by the cluster."""

    @pytest.mark.parametrize("phase", ["Unknown", "Running"])
    def test_is_given_up_after_ten_minutes(self, phase: str) -> None:
        """Its successor never came."""
        lost = running(phase=phase, ready=False)
        first = observed(status=RUNNING, pods=(lost,), live=True)
        decision = checked(first)
        later = after(first, decision, pods=(lost,), live=True)

        patient = checked(later, T0 + 9 * 60_000)
        tired = checked(later, T0 + 11 * 60_000)

        assert not any(isinstance(one, DeletePod) for one in patient.actions)
        assert patient.requeue_after_s is not None
        assert patient.requeue_after_s <= 60
        assert any(isinstance(one, DeletePod) for one in tired.actions)

    def test_is_kept_while_it_answers(self) -> None:
        """A driver that is not ready but reports still does its work."""
        silent = running(ready=False)
        first = observed(status=RUNNING, pods=(silent,), live=True, report=report())
        decision = checked(first)
        later = checked(after(first, decision, pods=(silent,), report=report()), T0 + 3_600_000)

        assert not any(isinstance(one, DeletePod) for one in later.actions)


class TestATargetOfTwo:
    """Each status names the other, and one event tells it."""

    def test_is_a_condition_and_an_event(self) -> None:
        """The target refuses the second driver; users should know before they pay for its pod."""
        first = observed(beside=("shop/b", "shop/c", "shop/d", "shop/e"))
        decision = checked(first)

        assert conditions(decision.status)["SharedTarget"] == "True"
        assert [one.reason for one in decision.events].count("SharedTarget") == 1
        assert "shop/b, shop/c, shop/d and 1 more write" in decision.events[0].message
        again = checked(after(first, decision))
        assert [one.reason for one in again.events].count("SharedTarget") == 0
        alone = checked(replace(after(first, decision), beside=()))
        assert "SharedTarget" not in conditions(alone.status)

    def test_is_none_of_a_job_that_is_over(self) -> None:
        """It writes no more."""
        assert "SharedTarget" not in conditions(
            checked(observed(status=STATUSES["complete"], beside=("shop/b",))).status
        )


class TestNoRoomForADriver:
    """As many as the operator may make run already."""

    def test_is_shown_and_waited_for(self) -> None:
        """Nothing is launched, and nothing fails."""
        full = observed(no_room="10 of 10 drivers run")
        decision = checked(full)

        assert (decision.actions, reason(decision.status, "Reconciling")) == ((), "DriversLimited")
        assert decision.status.attempts == 0
        assert LaunchDriver(1, "Run") in checked(replace(full, no_room="")).actions

    def test_does_not_hold_one_that_has_a_place(self) -> None:
        """An attempt that is on record goes on."""
        planned = checked(observed()).status

        assert LaunchDriver(1, "Run") in checked(observed(status=planned, no_room="full", pods=())).actions
        kept = checked(observed(status=RUNNING, pods=(running(),), report=report(), no_room="full"))
        assert kept.status.phase == "Running"
        assert pod().attempt == 1
