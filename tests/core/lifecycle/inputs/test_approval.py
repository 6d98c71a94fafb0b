"""`approval: Manual`: no driver runs before a user approves a plan, and an edit of the planned spec makes a new plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.cluster.kstatus import kstatus
from support.operators.approval_story import ONE, OTHER, Story, awaiting
from support.operators.lifecycle_space import PLAN, STATUSES
from support.operators.observations import (
    checked,
    ended,
    observed,
    reason,
    report,
    resource,
    running,
    spec,
)

from backfill_api.names import RESTART_ANNOTATION
from backfill_api.status.ending import Ending
from backfill_core.lifecycle.actions import LaunchDriver, PersistIntent
from backfill_core.lifecycle.inputs.launched_of import launched_of
from backfill_core.lifecycle.naming import driver_name


class TestApproval:
    """The job writes nothing to the target before a user approves the plan."""

    def test_the_first_attempt_is_a_plan(self) -> None:
        """The plan runs in a separate pod, and the pod's termination message is the plan."""
        story = Story()
        first = story.decide()
        story.rest()
        story.plan()
        waiting = story.seen
        story.edit(approved=True)
        story.rest()

        assert first.actions == (PersistIntent(), LaunchDriver(1, "Plan"))
        assert waiting.status.phase == "AwaitingApproval"
        assert waiting.status.plan == PLAN
        assert kstatus(resource(waiting, waiting.status)) == "InProgress"
        assert [kind for kind, _ in story.launched] == ["Plan", "Run"]

    def test_approval_in_advance_needs_no_plan(self) -> None:
        """The job has nothing to wait for."""
        decision = checked(observed(spec=spec(approval="Manual", approved=True)))

        assert LaunchDriver(1, "Run") in decision.actions

    def test_approval_in_advance_holds_for_the_spec_at_the_launch(self) -> None:
        """A user who approves in advance has seen no plan that could be outdated."""
        story = Story(**ONE, approved=True, suspend=True)
        story.rest()
        story.edit(**OTHER, suspend=False)
        story.rest()

        assert story.launched == [("Run", "localhost/other:1")]

    def test_approval_during_planning_runs_the_job_afterwards(self) -> None:
        """The approved spec is the planned one."""
        story = Story(**ONE)
        story.rest()
        story.edit(approved=True)
        story.rest()
        story.plan()

        assert story.launched == [("Plan", "localhost/one:1"), ("Run", "localhost/one:1")]

    def test_a_plan_without_a_message_is_made_again(self) -> None:
        """Without a message there is no plan to approve."""
        manual = observed(spec=spec(approval="Manual"), status=STATUSES["planning"], pods=(ended(0, kind="Plan"),))

        assert checked(manual).status.phase == "Retrying"

    def test_no_approval_is_needed_once_a_driver_has_run(self) -> None:
        """An edit applies to the next attempt; a user who wants to check first suspends the job."""
        story = awaiting()
        story.edit(approved=True)
        story.rest()
        driver = running(2, launched_of=story.made_of)
        story.seen = replace(story.seen, pods=(driver,), report=report(2))
        story.rest()
        story.edit(**OTHER)
        story.seen = replace(story.seen, annotations={RESTART_ANNOTATION: "now"})
        story.rest()
        story.seen = replace(story.seen, pods=(ended(10, 2, launched_of=story.made_of),), report=None)
        story.rest()

        assert story.launched[-1] == ("Run", "localhost/other:1")
        assert len(story.launched) == 3


class TestAnEdit:
    """An edit of a planned field invalidates the plan, because a different job would run."""

    @pytest.mark.parametrize(
        "edit",
        [
            OTHER,
            {"driver": {"resources": {"limits": {"memory": "4Gi"}}}},
            {"executor": {"instances": 3}},
            {"transform": {"where": "id > 5"}},
            {"strategy": {"type": "Snapshot", "snapshot": {"maxInFlight": 1}}},
            {"after": "Follow"},
            {"throttle": {"rowsPerSecond": 5}},
        ],
    )
    def test_an_edit_while_the_plan_awaits_approval_makes_a_new_plan(self, edit: dict[str, Any]) -> None:
        """A user once approved one spec, and another one ran."""
        story = awaiting()
        old = story.seen.status.plan_of
        story.edit(**edit)
        again = story.rest()
        planning = story.seen.status
        story.plan()

        assert [kind for kind, _ in story.launched] == ["Plan", "Plan"]
        assert (planning.phase, reason(planning), reason(planning, "Reconciling")) == (
            "Pending",
            "PlanOutdated",
            "PlanOutdated",
        )
        assert not any(condition.type == "AwaitingApproval" for condition in planning.conditions)
        assert again.events == ()
        assert story.said.count(("Normal", "PlanOutdated")) == 1
        assert story.phase == "AwaitingApproval"
        assert story.said.count(("Normal", "AwaitingApproval")) == 2
        assert story.seen.status.plan_of == story.of != old
        assert story.seen.status.failures == 0

    @pytest.mark.parametrize(
        "edit", [{"executor": {"instances": 200}}, {"strategy": {"type": "Snapshot", "snapshot": {"maxInFlight": 9}}}]
    )
    def test_an_edited_width_while_the_driver_waits_makes_a_new_plan(self, edit: dict[str, Any]) -> None:
        """A command could change it once the driver runs, and no user would have approved it."""
        story = awaiting()
        story.edit(approvedPlan=story.of)
        story.rest()
        story.seen = replace(
            story.seen, pods=(replace(story.seen.pods[0], launched_of=launched_of(spec(**story.fields))),)
        )
        story.rest()
        story.edit(**edit)
        story.rest()
        story.seen = replace(story.seen, pods=())  # the operator deleted it
        story.rest()

        assert ("Normal", "SpecChanged") in story.said
        assert [kind for kind, _ in story.launched] == ["Plan", "Run", "Plan"]

    @pytest.mark.parametrize("edit", [{"backoffLimit": 7}, {"desiredState": "Paused"}, {"drainTimeoutSeconds": 90}])
    def test_an_edit_of_operator_settings_keeps_the_plan(self, edit: dict[str, Any]) -> None:
        """The plan is the same as before."""
        story = awaiting()
        story.edit(**edit)
        story.rest()
        story.edit(approved=True)
        story.rest()

        assert [kind for kind, _ in story.launched] == ["Plan", "Run"]

    def test_an_edit_that_is_reverted_restores_the_plan(self) -> None:
        """The old plan was not replaced yet."""
        story = awaiting(suspend=False)
        story.edit(**OTHER, suspend=True)
        story.rest()
        story.edit(**ONE, suspend=False)
        story.rest()

        assert story.phase == "AwaitingApproval"
        assert len(story.launched) == 1

    def test_an_edit_during_planning_makes_a_second_plan(self) -> None:
        """The pod read the spec at its start."""
        story = Story(**ONE)
        story.rest()
        story.seen = replace(story.seen, pods=(replace(story.seen.pods[0], phase="Running", started=True),))
        story.edit(**OTHER)
        story.rest()
        story.plan()

        assert story.launched == [("Plan", "localhost/one:1"), ("Plan", "localhost/other:1")]

    def test_an_edit_of_the_limit_replaces_a_pod_that_waits_to_plan(self) -> None:
        """A plan estimates the duration under the limit, and a plan pod accepts no command."""
        story = Story(**ONE)
        story.rest()
        waits = story.seen.pods
        story.edit(throttle={"rowsPerSecond": 5})
        replaced = story.decide()

        assert replaced.status.attempt is not None
        assert replaced.status.attempt.stop is not None
        assert replaced.status.attempt.stop.reason == "SpecChanged"
        assert waits[0].name in story.asks

    def test_an_edit_after_a_failed_plan_makes_another_plan(self) -> None:
        """The old plan does not count."""
        story = awaiting()
        story.edit(**OTHER)
        story.rest()
        name, of = driver_name("orders", 2), story.seen.pods[0].launched_of
        failed = Ending(outcome="Failed", reason="SourceNotFound", message="none")
        story.seen = replace(
            story.seen, pods=(replace(ended(20, 2, kind="Plan", launched_of=of, ending=failed), name=name),)
        )
        story.rest()
        assert story.phase == "Failed"
        story.edit(spark={"image": "localhost/third:1"})
        story.rest()
        story.plan()

        assert story.phase == "AwaitingApproval"
        assert story.seen.status.plan_of == story.of
