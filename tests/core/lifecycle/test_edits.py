"""A spec that is edited while its driver's pod waits: the pod is replaced if its driver never ran, and else left alone."""

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
    ({}, {"strategy": {"type": "Snapshot", "snapshot": {"maxInFlight": 3}}}, "spec.strategy.snapshot.maxInFlight"),
    ({}, {"drainTimeoutSeconds": 90}, "spec.drainTimeoutSeconds"),
]
"""The spec of the pods, the spec of now, and the field that differs."""


def made_of(**fields: Any) -> DriverPod:
    """Return a driver pod that is up, and was made of a spec with these fields."""
    return running(launched_of=launched_of(spec(**fields)), launched_fields=launched_fields(spec(**fields)))


def pending_edit(decision: Decision) -> str:
    """Return the message of the condition about edits for the next attempt; empty if there is none."""
    return next((one.message for one in decision.status.conditions if one.type == "EditPending"), "")


def starting(*pods: DriverPod, **fields: Any) -> Observation:
    """Return a Backfill whose pod is on record, and was not ready yet."""
    return observed(status=STATUSES["starting"], pods=pods, live=True, generation=2, **fields)


def stops(decision: Decision) -> str:
    """Return why the attempt is asked to end; empty: it is not."""
    attempt = decision.status.attempt
    return attempt.stop.reason if attempt and attempt.stop else ""


class TestAPodThatWaits:
    """It would go on waiting for what the user has put right."""

    @pytest.mark.parametrize(
        "waits",
        [
            WAITING,
            pod(launched_of=OLD, unscheduled="0/3 nodes are available: 3 Insufficient memory"),
            pod(launched_of=OLD, scheduled=True),
        ],
    )
    def test_is_replaced_by_one_of_the_new_spec(self, waits: DriverPod) -> None:
        """Deleted, its end on record without a failure and without a wait, and the next one launched."""
        edited = starting(waits)
        replaced = checked(edited)
        over = checked(after(edited, replaced, pods=(), live=True))
        again = checked(after(edited, over, pods=(), live=True))

        assert replaced.actions[:2] == (PersistIntent(), DeletePod(waits.name, waits.uid, 60))
        assert not any(isinstance(one, EnsureObjects) for one in replaced.actions)
        assert over.actions == (DeleteAttemptObjects(1),)
        assert [one.reason for one in over.status.history] == ["SpecChanged"]
        assert over.status.failures == 0
        assert (over.status.phase, over.requeue_after_s) == ("Launching", 0), "no failure, and no back-off"
        assert again.actions[:2] == (PersistIntent(), LaunchDriver(2, "Run"))

    def test_says_so_in_one_event(self) -> None:
        """Else a user sees a pod go and another one come, and does not know why."""
        edited = starting(WAITING)
        first = checked(edited)
        second = checked(after(edited, first, live=True))

        [event] = first.events
        assert (event.kind, event.reason) == ("Normal", "SpecChanged")
        assert WAITING.name in event.message, "the same words are told once in ten minutes, and a user may edit twice"
        assert reason(first.status) == reason(first.status, "Reconciling") == "SpecChanged"
        assert second.events == ()

    def test_is_looked_at_itself_before(self) -> None:
        """The cache may not show yet that its driver runs."""
        cached = observed(status=STATUSES["starting"], pods=(WAITING,), generation=2)

        assert checked(cached).actions == (RefetchPods("orders-1-driver"),)

    def test_goes_before_its_time_to_start_is_over(self) -> None:
        """An edit counts as no failure, even when it comes at the last moment."""
        late = checked(starting(WAITING), T0 + 3_600_000)

        assert stops(late) == "SpecChanged"

    def test_of_a_spec_that_is_as_before_goes_on_waiting(self) -> None:
        """A user who takes an edit back, or edits what the operator reads itself, wants no other pod."""
        same = starting(pod(launched_of=launched_of(spec())), spec=spec(suspend=False, backoffLimit=9))

        assert stops(checked(same)) == ""

    def test_of_an_earlier_version_goes_on_waiting(self) -> None:
        """What it was made of is not known."""
        assert stops(checked(starting(pod()))) == ""

    def test_is_kept_while_the_edited_spec_is_refused(self) -> None:
        """There is nothing to make another one of."""
        refused = checked(starting(WAITING, spec=SPECS["refused"]))

        assert stops(refused) == ""
        assert reason(refused.status) == "SpecRefused"

    @pytest.mark.parametrize(("wish", "why"), [({"suspend": True}, "Suspended"), ({}, "Deleted")])
    def test_goes_for_the_stronger_reason(self, wish: dict[str, Any], why: str) -> None:
        """What is suspended or deleted is not launched again."""
        deleted = {"deletion_ms": T0, "finalizers": ("backfill.dev/drain",)} if why == "Deleted" else {}

        assert stops(checked(starting(WAITING, spec=spec(**wish), **deleted))) == why


class TestADriverThatRan:
    """It may hold hours of work: an edit takes force with the next attempt."""

    @pytest.mark.parametrize("status", ["starting", "running"])
    @pytest.mark.parametrize(
        "one",
        [
            running(launched_of=OLD),
            running(launched_of=OLD, ready=False),
            pod(launched_of=OLD, phase="Running"),
            pod(launched_of=OLD, started=True),
            pod(launched_of=OLD, phase="Unknown"),
        ],
    )
    def test_is_not_touched(self, status: str, one: DriverPod) -> None:
        """In no state that a pod of a started container can have."""
        edited = observed(status=STATUSES[status], pods=(one,), live=True, generation=2)
        decision = checked(edited)

        assert stops(decision) == ""
        assert not any(isinstance(one, DeletePod) for one in decision.actions)
        assert not any(isinstance(one, EventNote) and one.reason == "SpecChanged" for one in decision.events)

    def test_is_not_called_replaced_when_it_ended(self) -> None:
        """Its own end counts."""
        over = checked(starting(ended(137, launched_of=OLD)))

        assert [one.reason for one in over.status.history] == ["Infrastructure"]

    @pytest.mark.parametrize("seed", range(20))
    def test_is_not_touched_whatever_happens(self, seed: int) -> None:
        """With a stale cache, lost answers and an operator that dies; `World` looks at every pod that is replaced."""
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
    """Its pods keep the old spec, and the status says so (fault K12)."""

    @pytest.mark.parametrize(("before", "now", "names"), NEXT_ATTEMPT)
    def test_is_shown_with_its_field(self, before: dict[str, Any], now: dict[str, Any], names: str) -> None:
        """Also a field that was set back to its default, and one that the pod has beside the operator."""
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
    def test_is_not_shown_if_it_is_in_force(self, edit: dict[str, Any]) -> None:
        """A command, a field that the operator reads at each decision, and a default that is written down."""
        decision = checked(observed(status=STATUSES["running"], pods=(made_of(),), spec=spec(**edit), generation=2))

        assert pending_edit(decision) == ""

    def test_is_told_by_one_event_for_each_edit(self) -> None:
        """The condition lasts until the next attempt, which has none."""
        before = observed(status=STATUSES["running"], pods=(made_of(),))
        edited = after(before, checked(before), spec=spec(executor={"instances": 2}), generation=2)
        first = checked(edited)
        second = checked(after(edited, first))
        third = checked(after(edited, second, spec=spec(executor={"instances": 2}, after="Follow"), generation=3))
        back = checked(after(edited, third, spec=spec(), generation=4))

        assert [(event.kind, event.reason) for event in first.events] == [("Normal", "EditPending")]
        assert second.events == ()
        assert "spec.after and spec.executor.instances were edited" in pending_edit(third)
        assert [event.reason for event in third.events] == ["EditPending"]
        assert (pending_edit(back), back.events) == ("", ())

    def test_names_five_fields_at_most(self) -> None:
        """The rest is a number."""
        many = spec(
            after="Follow", verify="Final", barrier={"intervalMs": 500, "commitEvery": 2}, executor={"instances": 2},
            driver={"serviceAccountName": "other"}, spark={"image": "localhost/spark:2"},
        )  # fmt: skip

        message = pending_edit(checked(observed(status=STATUSES["running"], pods=(made_of(),), spec=many)))

        assert message.startswith(
            "spec.after, spec.barrier.commitEvery, spec.barrier.intervalMs, spec.driver.serviceAccountName,"
            " spec.executor.instances and 2 more were edited"
        )

    def test_of_a_pod_of_an_earlier_version_is_shown_without_fields(self) -> None:
        """Its pod has one hash of all fields."""
        message = pending_edit(checked(observed(status=STATUSES["running"], pods=(running(launched_of=OLD),))))

        assert message.startswith("the spec was edited after attempt 1 was launched, whose pods have the old values;")

    @pytest.mark.parametrize("wish", [{"suspend": True}, {"spark": 5}])
    def test_is_not_shown_if_the_attempt_ends_or_no_spec_is_there(self, wish: dict[str, Any]) -> None:
        """The next attempt is on its way, or there is no spec that it could have."""
        wanted = SPECS["refused"] if "spark" in wish else spec(**wish)

        assert (
            pending_edit(checked(observed(status=STATUSES["running"], pods=(made_of(after="Follow"),), spec=wanted)))
            == ""
        )

    @pytest.mark.parametrize("fields", ["", "=", ",,=,", "after", "a=b=c", "x" * 5000, "after=\x00"])
    def test_of_a_forged_annotation_is_harmless(self, fields: str) -> None:
        """Users who edit pods may write anything there."""
        seen = observed(status=STATUSES["running"], pods=(running(launched_fields=fields),), generation=2)

        assert len(pending_edit(checked(seen))) <= 1024


class TestWhatAPodIsMadeOf:
    """All of the spec, but what the operator reads at each decision."""

    def test_leaves_out_fields_that_exist(self) -> None:
        """A field that was renamed would be part of it again."""
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
        ],
    )
    def test_is_the_same_after_an_edit_of_another_part(self, edit: dict[str, Any]) -> None:
        """Or after one that writes a default down."""
        assert launched_of(spec(**edit)) == launched_of(spec())

    @pytest.mark.parametrize(
        "edit",
        [
            {"spark": {"image": "localhost/spark:2"}},
            {"spark": {"conf": {"spark.sql.session.timeZone": "UTC"}}},
            {"driver": {"resources": {"limits": {"memory": "4Gi"}}}},
            {"driver": {"template": {"spec": {"nodeSelector": {"disk": "fast"}}}}},
            {"executor": {"instances": 2}},
            {"barrier": {"intervalMs": 500}},
            {"after": "Follow"},
            {"transform": {"where": "id > 5"}},
            {"target": {"type": "Delta", "delta": {"path": "/data/c"}}},
        ],
    )
    def test_is_another_after_an_edit_of_what_the_driver_reads(self, edit: dict[str, Any]) -> None:
        """The pod, its configuration, and the job itself."""
        assert launched_of(spec(**edit)) != launched_of(spec())

    def test_does_not_depend_on_the_order_of_fields(self) -> None:
        """An API server sorts them, a manifest does not."""
        one, other = (
            {"spark": {"conf": dict(pairs)}} for pairs in ((("a", "1"), ("b", "2")), (("b", "2"), ("a", "1")))
        )

        assert launched_of(spec(**one)) == launched_of(spec(**other))


class TestACompleteBackfill:
    """It is never launched again, so an edit that needs a driver has no effect, and the status says so (fault M2)."""

    @pytest.mark.parametrize("edit", [{"after": "Follow"}, {"verify": "Final"}])
    def test_says_which_edit_has_no_effect(self, edit: dict[str, Any]) -> None:
        """In the condition and in an event: `Complete` alone says that all is as the spec has it."""
        (name,) = edit
        complete = observed(status=STATUSES["complete"])
        edited = replace(after(complete, checked(complete)), spec=spec(**edit), generation=2)
        decision = checked(edited)
        again = checked(after(edited, decision))

        assert decision.status.phase == "Succeeded"
        message = next(one.message for one in decision.status.conditions if one.type == "Complete")
        assert f"spec.{name}: {edit[name]} has no effect" in message
        assert [(event.kind, event.reason) for event in decision.events] == [("Warning", "EditIgnored")]
        assert (again.events, again.status) == ((), decision.status)

    def test_says_that_a_receipt_by_bytes_is_none_by_rows(self) -> None:
        """The driver refuses this edit, and the condition was silent about it."""
        receipt = ReceiptSummary(target_version=3, rows=100, files_by_bytes=2)
        status = STATUSES["complete"].model_copy(update={"receipt": receipt})
        decision = checked(observed(status=status, spec=spec(verify="FinalByRows"), generation=2))

        message = next(one.message for one in decision.status.conditions if one.type == "Complete")
        assert "spec.verify: FinalByRows has no effect" in message

    def test_forgets_it_when_the_edit_is_taken_back(self) -> None:
        """The message is about the spec of now."""
        edited = observed(status=STATUSES["complete"], spec=spec(after="Follow"), generation=2)
        back = checked(replace(after(edited, checked(edited)), spec=spec(), generation=3))

        assert next(one for one in back.status.conditions if one.type == "Complete").message == ""

    def test_that_was_edited_while_it_ran_says_so_at_its_end(self) -> None:
        """The driver had read the spec of before."""
        over = observed(status=STATUSES["running"], pods=(ended(0),), spec=spec(after="Follow"), live=True)

        decision = checked(over)

        assert decision.status.phase == "Succeeded"
        assert "spec.after: Follow has no effect" in next(
            one.message for one in decision.status.conditions if one.type == "Complete"
        )
