"""The width of a running job: an edit of `maxInFlight` is sent as a command, and needs no other attempt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.crd.crd_specs import of_a_topic
from support.operators.lifecycle_space import STATUSES
from support.operators.observations import (
    acked,
    after,
    checked,
    conditions,
    control,
    observed,
    report,
    running,
    sent,
    spec,
)

from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.status import Control
from backfill_core.lifecycle.inputs.desired import desired_of
from backfill_core.lifecycle.inputs.launched_of import edited_fields, launched_fields, launched_of
from backfill_core.lifecycle.observation import Observation

UP = observed(status=STATUSES["running"], pods=(running(),), report=report(), finalizers=("backfill.dev/drain",))


def wide(width: int, **fields: object) -> BackfillSpec:
    """Return a spec with this `maxInFlight`."""
    return spec(strategy={"type": "Snapshot", "snapshot": {"maxInFlight": width}}, **fields)


def launched_with(width: int | None) -> Observation:
    """Return a running job whose driver was launched with this width."""
    status = STATUSES["running"]
    given = (status.control or Control()).model_copy(update={"max_in_flight": width, "attempt": 1})
    return replace(UP, status=status.model_copy(update={"control": given}))


class TestTheWidth:
    """An edit of `maxInFlight` reaches the running driver as a command, like a limit."""

    def test_an_edited_width_is_sent_acknowledged_and_in_force(self) -> None:
        """The attempt stays, and the status has the width that the driver reports."""
        wish = replace(launched_with(2), spec=wide(5), report=report(max_in_flight=2))
        requested = checked(wish)
        (pending,) = control(requested).pending
        done = checked(acked(wish, requested, max_in_flight=5))

        assert pending.command.rescale is not None
        assert pending.command.rescale.max_in_flight == 5
        assert conditions(requested.status)["ControlSynced"] == "False"
        assert (sent(requested), sent(done)) == ([(1, "Rescale")], [])
        assert conditions(done.status)["ControlSynced"] == "True"
        assert control(done).max_in_flight == 5
        assert done.status.progress is not None
        assert done.status.progress.max_in_flight == 5
        assert done.status.attempts == requested.status.attempts

    def test_a_width_of_another_sender_is_reverted(self) -> None:
        """The spec counts, as for a limit."""
        decision = checked(replace(launched_with(2), report=report(max_in_flight=9, revision=4)))

        assert sent(decision) == [(5, "Rescale")]

    def test_a_pause_a_limit_and_a_width_at_once_are_three_revisions(self) -> None:
        """None of them replaces another."""
        both = wide(5, desiredState="Paused", throttle={"rowsPerSecond": 7})
        decision = checked(replace(launched_with(2), spec=both, report=report(max_in_flight=2)))

        assert sent(decision) == [(1, "Pause"), (2, "Throttle"), (3, "Rescale")]

    def test_a_newer_width_replaces_a_pending_one(self) -> None:
        """The last one counts."""
        wish = replace(launched_with(2), spec=wide(5), report=report(max_in_flight=2))
        newer = checked(after(replace(wish, spec=wide(7)), checked(wish)))

        assert [pending.revision for pending in control(newer).pending] == [2]

    @pytest.mark.parametrize("width", [None, 2])
    def test_a_driver_that_reports_no_width_gets_no_command_without_an_edit(self, width: int | None) -> None:
        """It is one of an earlier version."""
        assert sent(checked(replace(launched_with(width), report=report()))) == []

    def test_an_override_takes_precedence_and_starts_the_next_attempt(self) -> None:
        """A GitOps tool does not undo it."""
        annotations = {"backfill.dev/override": '{"maxInFlight":8}'}
        wish = replace(launched_with(2), annotations=annotations, report=report(max_in_flight=2))
        decision = checked(wish)
        (pending,) = control(decision).pending

        assert pending.command.rescale is not None
        assert pending.command.rescale.max_in_flight == 8
        assert desired_of(wide(3), annotations, 0).launch["max_in_flight"] == 8
        assert desired_of(wide(3), {}, 0).launch["max_in_flight"] is None

    def test_an_override_of_a_fixed_width_is_ignored_with_the_reason(self) -> None:
        """The driver would refuse it again and again."""
        topic = of_a_topic() | {
            "target": {"type": "Delta", "delta": {"path": "/b", "writeMode": "Upsert", "key": ["id"]}}
        }
        annotations = {"backfill.dev/override": '{"maxInFlight":8}'}
        decision = checked(replace(UP, spec=BackfillSpec.model_validate(topic), annotations=annotations))

        (event,) = [event for event in decision.events if event.reason == "OverrideIgnored"]
        assert "maxInFlight cannot change: strategy SourceSplits merges one batch" in event.message
        assert sent(decision) == []


class TestAnEditOfTheWidth:
    """It replaces no pod, and no attempt."""

    @pytest.mark.parametrize("width", [{"maxInFlight": 5}, {"maxInFlight": 5, "splitTargetSeconds": 9}])
    def test_a_width_is_no_pending_edit_and_other_fields_of_the_strategy_are(self, width: dict[str, Any]) -> None:
        """The operator sends the width as a command."""
        edited = spec(strategy={"type": "Snapshot", "snapshot": width})
        others = tuple(f"strategy.snapshot.{name}" for name in width if name != "maxInFlight")

        assert edited_fields(launched_fields(spec()), edited) == others
        assert edited_fields(launched_fields(edited), spec()) == others

    def test_a_pod_of_an_earlier_operator_has_no_pending_width(self) -> None:
        """That operator recorded the width as a field of the pod."""
        launched = launched_fields(spec()).replace(launched_of(spec()), "0" * 16) + ",strategy.snapshot.maxInFlight=abc"

        assert edited_fields(launched, spec()) == ()

    def test_a_plan_covers_the_width(self) -> None:
        """It estimates the duration with it."""
        edited = spec(strategy={"type": "Snapshot", "snapshot": {"maxInFlight": 5}})

        assert launched_of(edited, "Plan") != launched_of(spec(), "Plan")

    def test_a_width_that_cannot_change_stays_a_part_of_the_pod(self) -> None:
        """No command would be sent for it."""
        topic = of_a_topic()
        merged = topic | {"target": {"type": "Delta", "delta": {"path": "/b", "writeMode": "Upsert", "key": ["id"]}}}
        before, after_ = (
            BackfillSpec.model_validate(merged | {"strategy": {"type": "SourceSplits", "sourceSplits": params}})
            for params in ({}, {"maxInFlight": 5})
        )

        assert edited_fields(launched_fields(before), after_) == ("strategy.sourceSplits.maxInFlight",)
