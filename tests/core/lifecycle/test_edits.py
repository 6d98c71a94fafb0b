"""Edits of a spec while its driver's pod waits: the pod is replaced if its driver never ran, and kept otherwise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.operators.lifecycle_space import SPECS, STATUSES
from support.operators.observations import T0, after, checked, ended, observed, pod, reason, running, spec
from support.operators.world import World

from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.receipt import ReceiptSummary
from backfill_core.lifecycle.actions import (
    Decision,
    DeleteAttemptObjects,
    DeletePod,
    EnsureObjects,
    EventNote,
    LaunchDriver,
    PersistIntent,
    RefetchPods,
)
from backfill_core.lifecycle.inputs.launched_of import READ_BY_THE_OPERATOR, launched_fields, launched_of
from backfill_core.lifecycle.observation import DriverPod, Observation

OLD = launched_of(spec(spark={"image": "localhost/missing:1"}))
WAITING = pod(launched_of=OLD, waiting="ImagePullBackOff", waiting_message="no such image", scheduled=True)


CHAIN = {"strategy": {"type": "RearrangedChain"}}
BIG = {"resources": {"limits": {"memory": "4Gi"}}}
NEXT_ATTEMPT = [
    ({}, {"driver": BIG}, "spec.driver.resources"),
    ({"driver": BIG}, {}, "spec.driver.resources"),
    ({}, {"driver": {"template": {"spec": {"nodeSelector": {"disk": "fast"}}}}}, "spec.driver.template"),
    ({}, {"executor": {"dynamic": {"max": 5}}}, "spec.executor.dynamic.max"),
    ({}, {"spark": {"image": "localhost/spark:2"}}, "spec.spark.image"),
    ({"spark": {"conf": {"a": "1"}}}, {"spark": {"conf": {"a": "2"}}}, "spec.spark.conf"),
    ({}, {"barrier": {"intervalMs": 500}}, "spec.barrier.intervalMs"),
    ({}, {"after": "Follow"}, "spec.after"),
    ({}, {"verify": "Final"}, "spec.verify"),
    (
        {},
        {"strategy": {"type": "Snapshot", "snapshot": {"changeBatchSeconds": 3}}},
        "spec.strategy.snapshot.changeBatchSeconds",
    ),
    ({}, {"drainTimeoutSeconds": 90}, "spec.drainTimeoutSeconds"),
]
"""The spec of the pods, the current spec, and the field that differs."""


def made_of(**fields: Any) -> DriverPod:
    """Return a running driver pod that was made from a spec with these fields."""
    return running(launched_of=launched_of(spec(**fields)), launched_fields=launched_fields(spec(**fields)))


def pending_edit(decision: Decision) -> str:
    """Return the message of the condition about edits for the next attempt; empty if there is none."""
    return next((condition.message for condition in decision.status.conditions if condition.type == "EditPending"), "")


def starting(*pods: DriverPod, **fields: Any) -> Observation:
    """Return a Backfill whose pod is recorded and was not ready yet."""
    return observed(status=STATUSES["starting"], pods=pods, live=True, generation=2, **fields)


def stops(decision: Decision) -> str:
    """Return the reason why the attempt is asked to stop, or an empty string."""
    attempt = decision.status.attempt
    return attempt.stop.reason if attempt and attempt.stop else ""


class TestAPodThatWaits:
    """A waiting pod would continue to wait after the user's fix, so an edit replaces it."""

    @pytest.mark.parametrize(
        "waits",
        [
            WAITING,
            pod(launched_of=OLD, unscheduled="0/3 nodes are available: 3 Insufficient memory"),
            pod(launched_of=OLD, scheduled=True),
        ],
    )
    def test_a_waiting_pod_is_replaced_by_one_of_the_new_spec(self, waits: DriverPod) -> None:
        """The pod is deleted, its end is recorded without a failure or delay, and the next attempt is launched."""
        edited = starting(waits)
        replaced = checked(edited)
        over = checked(after(edited, replaced, pods=(), live=True))
        again = checked(after(edited, over, pods=(), live=True))

        assert replaced.actions[:2] == (PersistIntent(), DeletePod(waits.name, waits.uid, 60))
        assert not any(isinstance(action, EnsureObjects) for action in replaced.actions)
        assert over.actions == (DeleteAttemptObjects(1),)
        assert [past.reason for past in over.status.history] == ["SpecChanged"]
        assert over.status.failures == 0
        assert (over.status.phase, over.requeue_after_s) == ("Launching", 0), "no failure, and no back-off"
        assert again.actions[:2] == (PersistIntent(), LaunchDriver(2, "Run"))

    def test_a_replacement_causes_one_event(self) -> None:
        """Otherwise a user sees a pod replaced without a reason."""
        edited = starting(WAITING)
        first = checked(edited)
        second = checked(after(edited, first, live=True))

        [event] = first.events
        assert (event.kind, event.reason) == ("Normal", "SpecChanged")
        assert WAITING.name in event.message, "the same message is sent once in ten minutes, and a user may edit twice"
        assert reason(first.status) == reason(first.status, "Reconciling") == "SpecChanged"
        assert second.events == ()

    def test_a_waiting_pod_is_read_from_the_api_server_before_its_replacement(self) -> None:
        """The cache may not yet show that its driver runs."""
        cached = observed(status=STATUSES["starting"], pods=(WAITING,), generation=2)

        assert checked(cached).actions == (RefetchPods("orders-1-driver"),)

    def test_an_edit_replaces_a_pod_whose_start_timeout_has_passed(self) -> None:
        """An edit counts as no failure, even at the last second."""
        late = checked(starting(WAITING), T0 + 3_600_000)

        assert stops(late) == "SpecChanged"

    def test_a_pod_of_an_equivalent_spec_continues_to_wait(self) -> None:
        """A user who reverts an edit, or edits a field that only the operator reads, needs no other pod."""
        same = starting(pod(launched_of=launched_of(spec())), spec=spec(suspend=False, backoffLimit=9))

        assert stops(checked(same)) == ""

    def test_a_pod_of_an_earlier_version_continues_to_wait(self) -> None:
        """Its spec is not recorded."""
        assert stops(checked(starting(pod()))) == ""

    def test_a_waiting_pod_is_kept_while_the_edited_spec_is_refused(self) -> None:
        """No valid spec exists for another pod."""
        refused = checked(starting(WAITING, spec=SPECS["refused"]))

        assert stops(refused) == ""
        assert reason(refused.status) == "SpecRefused"

    @pytest.mark.parametrize(("wish", "why"), [({"suspend": True}, "Suspended"), ({}, "Deleted")])
    def test_a_suspension_or_deletion_takes_precedence_over_an_edit(self, wish: dict[str, Any], why: str) -> None:
        """The operator does not launch a suspended or deleted job again."""
        deleted = {"deletion_ms": T0, "finalizers": ("backfill.dev/drain",)} if why == "Deleted" else {}

        assert stops(checked(starting(WAITING, spec=spec(**wish), **deleted))) == why


class TestADriverThatRan:
    """A driver that ran may hold hours of work, so an edit takes effect with the next attempt."""

    @pytest.mark.parametrize("status", ["starting", "running"])
    @pytest.mark.parametrize(
        "driver_pod",
        [
            running(launched_of=OLD),
            running(launched_of=OLD, ready=False),
            pod(launched_of=OLD, phase="Running"),
            pod(launched_of=OLD, started=True),
            pod(launched_of=OLD, phase="Unknown"),
        ],
    )
    def test_an_edit_does_not_touch_a_driver_that_ran(self, status: str, driver_pod: DriverPod) -> None:
        """The rule holds in each state that a pod with a started container can have."""
        edited = observed(status=STATUSES[status], pods=(driver_pod,), live=True, generation=2)
        decision = checked(edited)

        assert stops(decision) == ""
        assert not any(isinstance(action, DeletePod) for action in decision.actions)
        assert not any(isinstance(event, EventNote) and event.reason == "SpecChanged" for event in decision.events)

    def test_a_driver_that_ended_does_not_count_as_replaced(self) -> None:
        """The driver's own end counts."""
        over = checked(starting(ended(137, launched_of=OLD)))

        assert [past.reason for past in over.status.history] == ["Infrastructure"]

    @pytest.mark.parametrize("seed", range(20))
    def test_an_edit_never_touches_a_driver_that_ran(self, seed: int) -> None:
        """The world has a stale cache, lost responses and an operator that dies; `World` checks every pod that is
        replaced."""
        world = World(seed)
        world.work_wanted, world.starts = 10**9, 0.1
        for _ in range(120):
            world.tick(world.chance.choice([0.2, 1, 5]))
            if world.chance.random() < 0.3:
                world.edit(spark={"image": f"localhost/spark:{world.now_ms}"})
            world.reconcile()

        assert world.replaced
        assert world.alive_max <= 1


class TestAnEditBesideADriverThatRan:
    """The pods of a running driver keep the old spec, and the status shows it (fault K12)."""

    @pytest.mark.parametrize(("before", "now", "names"), NEXT_ATTEMPT)
    def test_a_pending_edit_is_shown_with_its_field(
        self, before: dict[str, Any], now: dict[str, Any], names: str
    ) -> None:
        """The cases include a field that was reset to its default, and a field that pod and operator both read."""
        seen = observed(status=STATUSES["running"], pods=(made_of(**before),), spec=spec(**now), generation=2)
        decision = checked(seen)

        assert pending_edit(decision) == (
            f"{names} was edited after attempt 1 was launched, whose pods have the old value; this takes effect with the next"
            " attempt: to start that now, set the annotation backfill.dev/restart-requested to a new value"
        )
        assert reason(decision.status) == "Running", "the job goes on, and a GitOps tool need not wait"

    @pytest.mark.parametrize(
        "edit", [{}, {"throttle": {"rowsPerSecond": 5}}, {"backoffLimit": 9, "suspend": False}, {"after": "Exit"}]
    )
    def test_an_edit_in_force_is_not_shown_as_pending(self, edit: dict[str, Any]) -> None:
        """The cases are a command, a field that the operator reads at each decision, and an explicit default."""
        decision = checked(observed(status=STATUSES["running"], pods=(made_of(),), spec=spec(**edit), generation=2))

        assert pending_edit(decision) == ""

    def test_an_edit_of_the_automatic_limit_takes_effect_with_the_next_attempt(self) -> None:
        """A driver reads it at its start; the manual limit beside it is a command."""
        auto = {"commitSeconds": 1, "floor": 5, "ceiling": 50}
        edited = spec(throttle={"rowsPerSecond": 5, "auto": auto})
        decision = checked(observed(status=STATUSES["running"], pods=(made_of(),), spec=edited, generation=2))

        assert "spec.throttle.auto.ceiling, spec.throttle.auto.commitSeconds" in pending_edit(decision)
        assert "rowsPerSecond" not in pending_edit(decision)

    def test_each_pending_edit_causes_one_event(self) -> None:
        """The condition lasts until the next attempt, which has no pending edit."""
        before = observed(status=STATUSES["running"], pods=(made_of(),))
        edited = after(before, checked(before), spec=spec(executor={"instances": 0}), generation=2)
        first = checked(edited)
        second = checked(after(edited, first))
        third = checked(after(edited, second, spec=spec(executor={"instances": 0}, after="Follow"), generation=3))
        back = checked(after(edited, third, spec=spec(), generation=4))

        assert [(event.kind, event.reason) for event in first.events] == [("Normal", "EditPending")]
        assert second.events == ()
        assert "spec.after and spec.executor.instances were edited" in pending_edit(third)
        assert [event.reason for event in third.events] == ["EditPending"]
        assert (pending_edit(back), back.events) == ("", ())

    def test_a_pending_edit_names_at_most_five_fields(self) -> None:
        """A number stands for the other fields."""
        many = spec(
            after="Follow", verify="Final", barrier={"intervalMs": 500, "commitEvery": 2}, executor={"instances": 0},
            driver={"serviceAccountName": "other"}, spark={"image": "localhost/spark:2"},
        )  # fmt: skip

        message = pending_edit(checked(observed(status=STATUSES["running"], pods=(made_of(),), spec=many)))

        assert message.startswith(
            "spec.after, spec.barrier.commitEvery, spec.barrier.intervalMs, spec.driver.serviceAccountName,"
            " spec.executor.instances and 2 more were edited"
        )

    def test_a_pod_of_an_earlier_version_shows_a_pending_edit_without_fields(self) -> None:
        """Its pod has one hash of all fields."""
        message = pending_edit(checked(observed(status=STATUSES["running"], pods=(running(launched_of=OLD),))))

        assert message.startswith("the spec was edited after attempt 1 was launched, whose pods have the old values;")

    @pytest.mark.parametrize("wish", [{"suspend": True}, {"spark": 5}])
    def test_a_pending_edit_is_not_shown_if_the_attempt_ends_or_the_spec_is_invalid(self, wish: dict[str, Any]) -> None:
        """The next attempt is about to start, or no spec for it exists."""
        current_spec = SPECS["refused"] if "spark" in wish else spec(**wish)

        assert (
            pending_edit(
                checked(observed(status=STATUSES["running"], pods=(made_of(after="Follow"),), spec=current_spec))
            )
            == ""
        )

    @pytest.mark.parametrize("fields", ["", "=", ",,=,", "after", "a=b=c", "x" * 5000, "after=\x00"])
    def test_a_forged_annotation_of_fields_is_harmless(self, fields: str) -> None:
        """Users who edit pods may write any value."""
        seen = observed(status=STATUSES["running"], pods=(running(launched_fields=fields),), generation=2)

        assert len(pending_edit(checked(seen))) <= 1024


class TestWhatAPodIsMadeOf:
    """The launch hash covers all of the spec except the fields that the operator reads at each decision."""

    def test_excluded_fields_exist_in_the_spec(self) -> None:
        """A renamed field would become part of the hash again."""
        assert set(BackfillSpec.model_fields) > READ_BY_THE_OPERATOR

    @pytest.mark.parametrize(
        "edit",
        [
            {"desiredState": "Paused", "pause": {"scope": "All"}},
            {"throttle": {"rowsPerSecond": 5}},
            {"suspend": True},
            {"approval": "Manual", "approved": True},
            {"backoffLimit": 7, "backoff": {"initialSeconds": 3}},
            {"activeDeadlineSeconds": 60, "startupTimeoutSeconds": 60, "drainTimeoutSeconds": 90},
            {"ttlSecondsAfterFinished": 60, "deletionPolicy": "Immediate", "retainDriver": "Never"},
            {"verify": "None", "strategy": {"type": "Snapshot"}},
            {"strategy": {"type": "Snapshot", "snapshot": {"maxInFlight": 5, "splitTargetSeconds": 9}}},
            {"strategy": {"type": "Snapshot", "snapshot": {"maxInFlight": 2}}},
            {"executor": {"instances": 2}},
        ],
    )
    def test_the_launch_hash_ignores_fields_that_the_operator_reads(self, edit: dict[str, Any]) -> None:
        """An edit that only writes a default value changes nothing either."""
        assert launched_of(spec(**edit)) == launched_of(spec())

    @pytest.mark.parametrize(
        "edit",
        [
            {"spark": {"image": "localhost/spark:2"}},
            {"spark": {"conf": {"spark.sql.session.timeZone": "UTC"}}},
            {"driver": {"resources": {"limits": {"memory": "4Gi"}}}},
            {"driver": {"template": {"spec": {"nodeSelector": {"disk": "fast"}}}}},
            {"executor": {"instances": 0}},
            {"executor": {"dynamic": {}}},
            {"executor": {"resources": {"limits": {"memory": "4Gi"}}}},
            {"barrier": {"intervalMs": 500}},
            {"after": "Follow"},
            {"transform": {"where": "id > 5"}},
            {"target": {"type": "Delta", "delta": {"path": "/data/c"}}},
        ],
    )
    def test_the_launch_hash_changes_with_fields_that_the_driver_reads(self, edit: dict[str, Any]) -> None:
        """The hash covers the pod, its configuration, and the job itself."""
        assert launched_of(spec(**edit)) != launched_of(spec())

    def test_the_launch_hash_does_not_depend_on_the_order_of_fields(self) -> None:
        """An API server sorts the fields; a manifest does not."""
        first, other = (
            {"spark": {"conf": dict(pairs)}} for pairs in ((("a", "1"), ("b", "2")), (("b", "2"), ("a", "1")))
        )

        assert launched_of(spec(**first)) == launched_of(spec(**other))


class TestACompleteBackfill:
    """A complete Backfill is never launched again, so an edit that needs a driver has no effect, and the status reports
    it (fault M2)."""

    @pytest.mark.parametrize("edit", [{"after": "Follow", **CHAIN}, {"verify": "Final"}])
    def test_a_complete_backfill_names_an_edit_without_effect(self, edit: dict[str, Any]) -> None:
        """The condition and an event report it: `Complete` on its own would imply that the whole spec is in force."""
        name = next(iter(edit))
        complete = observed(status=STATUSES["complete"])
        edited = replace(after(complete, checked(complete)), spec=spec(**edit), generation=2)
        decision = checked(edited)
        again = checked(after(edited, decision))

        assert decision.status.phase == "Succeeded"
        message = next(condition.message for condition in decision.status.conditions if condition.type == "Complete")
        assert f"spec.{name}: {edit[name]} has no effect" in message
        assert [(event.kind, event.reason) for event in decision.events] == [("Warning", "EditIgnored")]
        assert (again.events, again.status) == ((), decision.status)

    def test_a_complete_backfill_distinguishes_a_receipt_by_bytes_from_one_by_rows(self) -> None:
        """The driver rejects this edit, and the condition once did not report it."""
        receipt = ReceiptSummary(target_version=3, rows=100, files_by_bytes=2)
        status = STATUSES["complete"].model_copy(update={"receipt": receipt})
        decision = checked(observed(status=status, spec=spec(verify="FinalByRows"), generation=2))

        message = next(condition.message for condition in decision.status.conditions if condition.type == "Complete")
        assert "spec.verify: FinalByRows has no effect" in message

    def test_the_message_disappears_when_the_edit_is_reverted(self) -> None:
        """The message is about the current spec."""
        edited = observed(status=STATUSES["complete"], spec=spec(after="Follow", **CHAIN), generation=2)
        back = checked(replace(after(edited, checked(edited)), spec=spec(), generation=3))

        assert next(condition for condition in back.status.conditions if condition.type == "Complete").message == ""

    def test_an_edit_during_the_run_is_reported_at_the_end(self) -> None:
        """The driver had read the previous spec."""
        edited = spec(after="Follow", **CHAIN)
        over = observed(status=STATUSES["running"], pods=(ended(0),), spec=edited, live=True)

        decision = checked(over)

        assert decision.status.phase == "Succeeded"
        assert "spec.after: Follow has no effect" in next(
            condition.message for condition in decision.status.conditions if condition.type == "Complete"
        )
