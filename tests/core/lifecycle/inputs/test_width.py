"""The width of a running job: an edit of one of its values is sent as a command, and needs no other attempt."""

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

from backfill_api.spec.change_claim import PauseAll
from backfill_api.spec.override import Width
from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.status import Control
from backfill_api.width import width_of
from backfill_api.wire import RescaleCommand
from backfill_core.lifecycle.inputs.desired import desired_of
from backfill_core.lifecycle.inputs.launched_of import (
    edited_fields,
    executors_of,
    is_executors_of,
    is_launched_of,
    launched_fields,
    launched_of,
)
from backfill_core.lifecycle.observation import Observation, SpecRefused, WaitingExecutors

UP = observed(status=STATUSES["running"], pods=(running(),), report=report(), finalizers=("backfill.dev/drain",))


WIDTH: dict[str, int | None] = {"max_in_flight": 2, "split_target_seconds": 4, "executors": 1}
"""The width of a spec that sets none of its values."""


def wide(width: int, **fields: object) -> BackfillSpec:
    """Return a spec with this `maxInFlight`; other fields of the strategy by their names."""
    params = {name: fields.pop(name) for name in ("splitTargetSeconds",) if name in fields}
    return spec(strategy={"type": "Snapshot", "snapshot": {"maxInFlight": width} | params}, **fields)


def launched_with(width: int | None) -> Observation:
    """Return a running job whose driver was launched with this width, by an operator that knew no other value."""
    status = STATUSES["running"]
    given = (status.control or Control()).model_copy(update={"max_in_flight": width, "attempt": 1})
    return replace(UP, status=status.model_copy(update={"control": given}))


def launched_as(**width: int | None) -> Observation:
    """Return a running job that was launched with these values, and reports them."""
    status = STATUSES["running"]
    given = (status.control or Control()).model_copy(update={**width, "attempt": 1})
    return replace(UP, status=status.model_copy(update={"control": given}), report=report(**width))


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
        assert desired_of(wide(3), annotations, 0).launch["width"] == Width(max_in_flight=8)
        assert desired_of(wide(3), {}, 0).launch["width"] == Width()

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

    def test_only_the_fixed_values_of_an_override_are_ignored(self) -> None:
        """An edit of the spec may fix a value that an override has. That value must not prevent a pause."""
        annotations = {"backfill.dev/override": '{"desiredState":"Paused","maxInFlight":8,"chunkRows":5,"executors":3}'}
        up = launched_as(max_in_flight=2, split_target_seconds=4)
        decision = checked(replace(up, spec=wide(2, executor={"instances": 0}), annotations=annotations))

        (event,) = [event for event in decision.events if event.reason == "OverrideIgnored"]
        assert (
            "chunkRows cannot change: strategy Snapshot has no chunkRows; executors cannot change: executor.instances is 0"
            in event.message
        )
        assert "maxInFlight cannot" not in event.message
        assert [pending.command.rescale for pending in control(decision).pending] == [
            None, RescaleCommand(max_in_flight=8),
        ]  # fmt: skip
        assert control(decision).paused == "History"


class TestTheValuesOfAWidth:
    """Each value is compared for itself, and one command has those that differ."""

    FORCE = WIDTH | {"chunk_rows": None}

    def test_one_command_has_the_values_that_differ_and_no_other(self) -> None:
        """An older driver would refuse a value that it does not know."""
        edited = wide(5, splitTargetSeconds=4, executor={"instances": 3})
        (pending,) = control(checked(replace(launched_as(**self.FORCE), spec=edited))).pending

        assert pending.command.rescale == RescaleCommand(max_in_flight=5, executors=3)

    def test_an_edit_of_another_value_keeps_the_waiting_one(self) -> None:
        """The newer command replaces the waiting one, which the driver may never have received."""
        first = replace(launched_as(**self.FORCE), spec=wide(5))
        second = checked(after(first, checked(first), spec=wide(5, executor={"instances": 3})))
        (pending,) = control(second).pending

        assert (pending.revision, pending.command.rescale) == (2, RescaleCommand(max_in_flight=5, executors=3))

    def test_a_waiting_value_that_is_taken_back_is_sent_again(self) -> None:
        """The driver may have applied it already."""
        first = replace(launched_as(**self.FORCE), spec=wide(5))
        second = checked(after(first, checked(first), spec=wide(2)))
        (pending,) = control(second).pending

        assert (pending.revision, pending.command.rescale) == (2, RescaleCommand(max_in_flight=2))

    def test_values_of_another_sender_are_reverted(self) -> None:
        """The spec counts, for each value."""
        reported = report(**(self.FORCE | {"split_target_seconds": 60, "executors": 7}), revision=4)
        (pending,) = control(checked(replace(launched_as(**self.FORCE), report=reported))).pending

        assert pending.command.rescale == RescaleCommand(split_target_seconds=4, executors=1)

    def test_rows_of_chunks_that_follow_the_time_again_are_sent_as_zero(self) -> None:
        """The spec has no number then."""
        arranged = spec(strategy={"type": "Arrangement"})
        force = {"max_in_flight": 2, "chunk_rows": 900, "executors": 1}
        decision = checked(replace(launched_as(**force), spec=arranged))
        (pending,) = control(decision).pending

        assert pending.command.rescale == RescaleCommand(chunk_rows=0)
        assert control(decision).chunk_rows == 0

    def test_a_driver_gets_no_value_that_it_does_not_report(self) -> None:
        """It is of an earlier version, or its session fixes the value. It would refuse the command, and later ones with that value."""
        upgraded = replace(launched_with(2), report=report(max_in_flight=2))
        before = checked(upgraded)
        edited = checked(after(upgraded, before, spec=wide(2, executor={"instances": 3})))
        wider = checked(after(upgraded, edited, spec=wide(5, executor={"instances": 3})))
        (pending,) = control(wider).pending

        assert sent(before) == sent(edited) == []
        assert pending.command.rescale == RescaleCommand(max_in_flight=5)
        assert control(wider).executors is None

    def test_an_edit_of_a_value_that_the_driver_does_not_report_is_pending(self) -> None:
        """So is one from before an upgrade of the operator."""
        launched = launched_fields(wide(2, splitTargetSeconds=9, executor={"instances": 2}))
        edited = wide(5, splitTargetSeconds=20, executor={"instances": 4})

        assert edited_fields(launched, edited, {"max_in_flight"}) == (
            "executor.instances", "strategy.snapshot.splitTargetSeconds",
        )  # fmt: skip
        assert edited_fields(launched, edited) == ()

    def test_values_beyond_their_bounds_in_a_status_are_left_out(self) -> None:
        """A user edited it. While all jobs are paused and the spec is invalid, the status has the width of the job."""
        paused = PauseAll(enabled=True, note="incident", by="anna")
        seen = replace(launched_as(**self.FORCE), spec=SpecRefused(("spark: 5",)), pause_all=paused)
        broken = control(checked(seen)).model_copy(update={"max_in_flight": 0, "executors": 4})
        decision = checked(replace(seen, status=seen.status.model_copy(update={"control": broken})))
        commands = [pending.command.rescale for pending in control(decision).pending if pending.command.rescale]

        assert commands == [RescaleCommand(executors=4)]


class TestANumberOfExecutorsThatIsFixed:
    """An edit between a fixed number and one that a command changes counts from the next attempt, and the status says so."""

    @pytest.mark.parametrize(
        ("launched", "edited", "named"),
        [
            ({"executor": {"instances": 0}}, {"executor": {"instances": 3}}, "spec.executor.instances was"),
            ({"executor": {"instances": 3}}, {"executor": {"instances": 0}}, "spec.executor.instances was"),
            ({"executor": {"dynamic": {}}}, {"executor": {"instances": 3}}, "spec.executor.dynamic and spec.executor.instances were"),
            ({"executor": {"instances": 3}}, {"executor": {"dynamic": {}}}, "spec.executor.dynamic and spec.executor.instances were"),
            ({"executor": {"instances": 3}}, {"executor": {"instances": 3}, "queue": "team"}, "spec.queue was"),
            ({"executor": {"instances": 3}, "queue": "team"}, {"executor": {"instances": 5}}, "spec.executor.instances and spec.queue were"),
            ({"executor": {"instances": 3}, "queue": "team"}, {"executor": {"instances": 5}, "queue": "team"}, "spec.executor.instances was"),
        ],
    )  # fmt: skip
    def test_an_edit_waits_for_the_next_attempt(
        self, launched: dict[str, Any], edited: dict[str, Any], named: str
    ) -> None:
        """No command is sent, also if the number is edited again."""
        can_change = width_of(spec(**launched)).executors
        seen = launched_as(max_in_flight=2, split_target_seconds=4, executors=can_change)
        seen = replace(seen, pods=(running(launched_fields=launched_fields(spec(**launched))),), spec=spec(**edited))
        first = checked(seen)
        again = (
            {"executor": {"instances": 4}}
            if "instances" in edited["executor"] and edited["executor"]["instances"]
            else {}
        )
        second = checked(after(seen, first, spec=spec(**(edited | again))))

        (pending,) = [shown.message for shown in first.status.conditions if shown.type == "EditPending"]
        assert pending.startswith(f"{named} edited")
        assert (sent(first), sent(second)) == ([], [])
        assert conditions(second.status)["ControlSynced"] == "True"

    def test_an_override_that_was_in_force_holds_no_fixed_number(self) -> None:
        """The last valid override stays, and the edited spec leaves the number to the load."""
        annotations = {"backfill.dev/override": '{"executors":3}'}
        held = desired_of(spec(), annotations, 0)
        edited = desired_of(spec(executor={"dynamic": {}}), annotations, 0, held.override)

        assert held.width.executors == 3
        assert (edited.override, edited.width.executors) == (held.override, None)
        assert edited.launch["width"] == Width()


class TestAnEditOfTheWidth:
    """It replaces no pod, and no attempt."""

    @pytest.mark.parametrize("others", [{}, {"vnodes": 9}])
    def test_a_width_is_no_pending_edit_and_other_fields_of_the_strategy_are(self, others: dict[str, Any]) -> None:
        """The operator sends the width as a command."""
        width = {"maxInFlight": 5, "splitTargetSeconds": 9}
        edited = spec(strategy={"type": "Snapshot", "snapshot": width | others}, executor={"instances": 3})
        paths = tuple(f"strategy.snapshot.{name}" for name in others)

        assert edited_fields(launched_fields(spec()), edited) == paths
        assert edited_fields(launched_fields(edited), spec()) == paths

    def test_the_rows_of_a_chunk_are_no_pending_edit(self) -> None:
        """They are a value of the width too."""
        edited = spec(strategy={"type": "Arrangement", "arrangement": {"chunkRows": 9}})

        assert edited_fields(launched_fields(spec(strategy={"type": "Arrangement"})), edited) == ()

    def test_a_pod_of_an_earlier_operator_has_no_pending_width(self) -> None:
        """That operator recorded the width as a field of the pod."""
        launched = launched_fields(spec()).replace(launched_of(spec()), "0" * 16)

        assert edited_fields(launched + ",strategy.snapshot.maxInFlight=abc,executor.instances=abc", spec()) == ()

    def test_pods_of_an_earlier_operator_are_not_replaced(self) -> None:
        """That operator hashed the width too. An upgrade is no edit."""
        nine = {"type": "Snapshot", "snapshot": {"splitTargetSeconds": 9}}
        launched, executors = "bd1b5011b74640ba", "216cdee1985395f0"
        given, edited = spec(executor={"instances": 4}, strategy=nine), spec(executor={"instances": 5}, strategy=nine)

        assert is_launched_of(launched, given)
        assert is_executors_of(executors, given)
        assert not is_launched_of(launched, edited)
        assert not is_executors_of(executors, edited)

    def test_an_edited_number_replaces_no_driver_whose_executors_wait(self) -> None:
        """The waiting executor is one of the next number, or Spark deletes its pod."""
        seen = replace(
            launched_as(max_in_flight=2, split_target_seconds=4, executors=4),
            pods=(
                running(
                    launched_fields=launched_fields(spec(executor={"instances": 4})),
                    executors_of=executors_of(spec(executor={"instances": 4})),
                    executors=WaitingExecutors("Unschedulable", "0/1 nodes are available", running=0),
                ),
            ),
            spec=spec(executor={"instances": 1}), live=True,
        )  # fmt: skip
        decision = checked(seen)

        assert decision.status.attempt is not None
        assert decision.status.attempt.stop is None
        assert sent(decision) == [(1, "Rescale")]

    @pytest.mark.parametrize(
        "edit",
        [
            {"strategy": {"type": "Snapshot", "snapshot": {"maxInFlight": 5}}},
            {"strategy": {"type": "Snapshot", "snapshot": {"splitTargetSeconds": 5}}},
            {"executor": {"instances": 5}},
        ],
    )
    def test_a_plan_covers_the_width(self, edit: dict[str, Any]) -> None:
        """It estimates the duration with it."""
        edited = spec(**edit)

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
