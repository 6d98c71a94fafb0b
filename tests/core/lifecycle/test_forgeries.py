"""Pods and Secrets that pretend to be the operator's, and Backfills that interfere with each other."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.operators.lifecycle_space import STATUSES
from support.operators.observations import T0, after, checked, conditions, ended, observed, pod, reason, report, running

from backfill_api.status.ending import Ending
from backfill_api.status.status import TOKEN_HASHES_MAX
from backfill_core.lifecycle.actions import (
    DeleteAttemptObjects,
    DeletePod,
    LaunchDriver,
    PersistIntent,
    RefetchPods,
    RemoveFinalizer,
)
from backfill_core.lifecycle.inputs.token_hash import hash_of
from backfill_core.lifecycle.naming import BASE_CHARACTERS_MAX, driver_name, number_of

RUNNING = STATUSES["running"]
OURS, THEIRS = "0f" * 16, "1e" * 16


class TestAForgedPod:
    """A user with permission to create pods may give them our owner reference and labels."""

    def test_a_pod_with_another_name_is_ignored(self) -> None:
        """Such a pod once exited with 0, and the job would have ended while its driver ran."""
        forged = ended(0, 2, name="helper")

        decision = checked(observed(status=RUNNING, pods=(running(), forged), report=report(), live=True))

        assert decision.status.attempt is not None
        assert decision.status.attempt.number == 1
        assert "Complete" not in conditions(decision.status)

    @pytest.mark.parametrize("code", [0, 2, 20])
    @pytest.mark.parametrize("message", [None, Ending(outcome="Complete"), Ending(outcome="Complete", token="guessed")])
    def test_a_forged_pod_with_the_next_name_ends_no_job(self, code: int, message: Ending | None) -> None:
        """The forged end counts as neither success nor failure: the author of a pod also writes its termination message
        (fault S7)."""
        forged = replace(ended(code, 2), ending=message)

        for pods in ((running(), forged), (forged,)):
            decision = checked(observed(status=RUNNING, pods=pods, report=report(), live=True))

            assert {"Complete", "Failed"}.isdisjoint(conditions(decision.status))

    @pytest.mark.parametrize(("token", "complete"), [("of-the-secret", True), ("guessed", False), ("", False)])
    def test_a_token_distinguishes_a_real_driver_from_a_forged_pod(self, token: str, complete: bool) -> None:
        """An operator that was down sees a short job only at its end. The hash was recorded before any Secret had the
        token."""
        assert RUNNING.attempt is not None
        planned = {"state": "Planned", "number": 2, "pod_uid": None, "pod_name": driver_name("orders", 2)}
        attempt = RUNNING.attempt.model_copy(update=planned | {"token_hashes": (hash_of("of-the-secret"),)})
        status = RUNNING.model_copy(update={"attempt": attempt, "attempts": 2})
        over = replace(ended(0, 2), ending=Ending(outcome="Complete", token=token))

        decision = checked(observed(status=status, pods=(over,), live=True))

        assert ("Complete" in conditions(decision.status)) is complete

    def test_a_pod_without_a_token_is_accepted_for_an_earlier_operator_s_attempt(self) -> None:
        """Such drivers started before tokens existed."""
        assert RUNNING.attempt is not None
        planned = {"state": "Planned", "pod_uid": None, "token_hashes": None}
        status = RUNNING.model_copy(update={"attempt": RUNNING.attempt.model_copy(update=planned)})

        decision = checked(
            observed(status=status, pods=(replace(ended(0), ending=Ending(outcome="Complete")),), live=True)
        )

        assert conditions(decision.status)["Complete"] == "True"

    def test_a_pod_with_the_recorded_name_and_another_uid_is_not_trusted(self) -> None:
        """The pod must be deleted, and it does not end the job."""
        forged = ended(0, 1, uid="pod-9")

        decision = checked(observed(status=RUNNING, pods=(forged,), live=True))

        assert "Complete" not in conditions(decision.status)

    def test_a_pod_with_a_huge_attempt_number_uses_up_no_numbers(self) -> None:
        """A name has room for at most 999,999,999 attempts."""
        far = running(999_999_999)

        decision = checked(observed(status=RUNNING, pods=(running(), far), report=report(), live=True))

        assert decision.status.attempts == 1
        assert any(isinstance(action, DeletePod) and action.name == far.name for action in decision.actions)

    @pytest.mark.parametrize("name", ["orders", "Orders.2", "a" * 80, "9lives"])
    def test_the_name_of_a_driver_determines_its_attempt(self, name: str) -> None:
        """Each attempt has one name, and each name has one attempt."""
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
    """`kubectl delete --cascade=orphan` removes the owner references, and then the Backfill."""

    def test_an_orphaned_driver_is_drained(self) -> None:
        """Otherwise the driver would continue, and no operator could command it."""
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

    def test_a_driver_of_another_backfill_is_not_touched(self) -> None:
        """Only a pod without any owner can be an orphan or a restored pod."""
        other = running(owner_uid="uid-2", backfill_uid="uid-2")
        leaving = observed(status=RUNNING, pods=(other,), live=True, deletion_ms=T0, finalizers=("backfill.dev/drain",))

        assert RemoveFinalizer() in checked(leaving).actions


class TestADriverOnALostNode:
    """The cluster never removes a pod with unlimited tolerations."""

    @pytest.mark.parametrize("phase", ["Unknown", "Running"])
    def test_a_driver_on_a_lost_node_is_deleted_after_ten_minutes(self, phase: str) -> None:
        """The next attempt once never started."""
        lost = running(phase=phase, ready=False)
        first = observed(status=RUNNING, pods=(lost,), live=True)
        decision = checked(first)
        later = after(first, decision, pods=(lost,), live=True)

        patient = checked(later, T0 + 9 * 60_000)
        tired = checked(later, T0 + 11 * 60_000)

        assert not any(isinstance(action, DeletePod) for action in patient.actions)
        assert patient.requeue_after_s is not None
        assert patient.requeue_after_s <= 60
        assert any(isinstance(action, DeletePod) for action in tired.actions)

    def test_a_driver_that_still_reports_is_kept(self) -> None:
        """A driver that reports without being ready still does its work."""
        silent = running(ready=False)
        first = observed(status=RUNNING, pods=(silent,), live=True, report=report())
        decision = checked(first)
        later = checked(after(first, decision, pods=(silent,), report=report()), T0 + 3_600_000)

        assert not any(isinstance(action, DeletePod) for action in later.actions)


class TestATargetOfTwo:
    """Each status names the other job, and one event reports it."""

    def test_a_shared_target_is_a_condition_and_an_event(self) -> None:
        """The target rejects the second driver; users should know before they pay for its pod."""
        first = observed(shared_with=("shop/b", "shop/c", "shop/d", "shop/e"))
        decision = checked(first)

        assert conditions(decision.status)["SharedTarget"] == "True"
        assert [event.reason for event in decision.events].count("SharedTarget") == 1
        assert "shop/b, shop/c, shop/d and 1 more write" in decision.events[0].message
        again = checked(after(first, decision))
        assert [event.reason for event in again.events].count("SharedTarget") == 0
        unshared = checked(replace(after(first, decision), shared_with=()))
        assert "SharedTarget" not in conditions(unshared.status)

    def test_a_finished_job_shares_no_target(self) -> None:
        """A finished job writes no more."""
        assert "SharedTarget" not in conditions(
            checked(observed(status=STATUSES["complete"], shared_with=("shop/b",))).status
        )


class TestNoRoomForADriver:
    """The operator already runs its maximum number of drivers."""

    def test_a_job_waits_while_the_driver_limit_is_reached(self) -> None:
        """The operator launches nothing, and nothing fails."""
        full = observed(no_room="10 of 10 drivers run")
        decision = checked(full)

        assert (decision.actions, reason(decision.status, "Reconciling")) == ((), "DriversLimited")
        assert decision.status.attempts == 0
        assert LaunchDriver(1, "Run") in checked(replace(full, no_room="")).actions

    def test_the_driver_limit_does_not_hold_a_recorded_attempt(self) -> None:
        """A recorded attempt continues."""
        planned = checked(observed()).status

        assert LaunchDriver(1, "Run") in checked(observed(status=planned, no_room="full", pods=())).actions
        kept = checked(observed(status=RUNNING, pods=(running(),), report=report(), no_room="full"))
        assert kept.status.phase == "Running"
        assert pod().attempt == 1


class TestTheTokenOfAnAttempt:
    """The hash of a token is recorded before any Secret contains it, so a forged Secret is recognized."""

    def test_the_token_hash_is_recorded_with_the_attempt(self) -> None:
        """Both are in one write."""
        decision = checked(observed(token_hash=OURS))

        assert decision.actions == (PersistIntent(), LaunchDriver(1, "Run", token_hashes=(OURS,)))
        assert decision.status.attempt is not None
        assert decision.status.attempt.token_hashes == (OURS,)

    def test_the_token_hash_of_a_former_operator_stays_valid(self) -> None:
        """The former operator or its successor may have created the Secret."""
        first = observed(token_hash=OURS)
        second = checked(after(first, checked(first), token_hash=THEIRS))
        again = checked(after(first, second, token_hash=THEIRS))

        for decision in (second, again):
            assert decision.actions == (PersistIntent(), LaunchDriver(1, "Run", token_hashes=(OURS, THEIRS)))
            assert decision.status.attempt is not None
            assert decision.status.attempt.token_hashes == (OURS, THEIRS)

    def test_the_ninth_token_hash_replaces_the_others_and_the_secret(self) -> None:
        """Operators that die at each launch must not fill the status. Any of the hashes may be that of the existing Secret."""
        decision = checked(observed(token_hash=OURS))
        for number in range(1, TOKEN_HASHES_MAX):
            decision = checked(after(observed(), decision, token_hash=f"{number:032x}"))
        full = decision.status.attempt.token_hashes
        cached = checked(after(observed(), decision, token_hash=THEIRS))
        replaced = checked(after(observed(), decision, token_hash=THEIRS, live=True))
        launched = checked(after(observed(), replaced, token_hash=THEIRS))

        assert len(full) == TOKEN_HASHES_MAX
        assert cached.actions == (RefetchPods("orders-1-driver"),), "a pod that the cache lacks may use the Secret"
        assert replaced.actions == (DeleteAttemptObjects(1),)
        assert replaced.status.attempt.token_hashes == (THEIRS,)
        assert launched.actions == (PersistIntent(), LaunchDriver(1, "Run", token_hashes=(THEIRS,)))

    def test_an_attempt_of_an_earlier_version_has_no_token_hash(self) -> None:
        """The token of its Secret is not recorded, and the Secret must stay valid."""
        decision = checked(observed(status=STATUSES["planned"], token_hash=OURS))

        assert decision.actions == (PersistIntent(), LaunchDriver(1, "Run"))

    def test_the_next_attempt_has_another_token(self) -> None:
        """A token that leaked with one attempt must not work for the next."""
        failed = checked(observed(status=STATUSES["failed"], generation=2, live=True, token_hash=THEIRS))

        assert failed.actions == (PersistIntent(), LaunchDriver(2, "Run", token_hashes=(THEIRS,)))
