"""An approval applies to the plan that existed when it was given, and to no later plan."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from support.operators.approval_story import ONE, OTHER, PLANNED, Story, awaiting
from support.operators.lifecycle_space import SPECS, STATUSES
from support.operators.observations import T0, after, checked, ended, observed, spec

from backfill_core.lifecycle.actions import LaunchDriver
from backfill_core.lifecycle.inputs.approval import planned_of
from backfill_core.lifecycle.observation import LaunchFailed


class TestAnOldApproval:
    """An old approval was given for another spec."""

    def test_an_approval_together_with_an_edit_does_not_count(self) -> None:
        """The author of a manifest with both has only read the previous plan."""
        story = awaiting()
        story.edit(**OTHER, approved=True)
        story.rest()
        story.plan()

        assert [kind for kind, _ in story.launched] == ["Plan", "Plan"]
        assert story.phase == "AwaitingApproval"
        assert story.of in story.asks
        assert "changed" in story.asks

    def test_an_approval_while_the_new_plan_is_made_does_not_count(self) -> None:
        """The user can only have read the old plan."""
        story = awaiting()
        story.edit(**OTHER)
        story.rest()
        story.edit(approved=True)
        story.rest()
        story.plan()

        assert story.phase == "AwaitingApproval"

    def test_an_approval_that_outlives_an_edit_does_not_count(self) -> None:
        """The approved driver had to wait for a free slot."""
        story = awaiting()
        story.seen = replace(story.seen, no_room="10 of 10 drivers run")
        story.edit(approved=True)
        story.rest()
        story.edit(**OTHER)
        story.rest()
        story.seen = replace(story.seen, no_room="")
        story.rest()
        story.plan()

        assert [kind for kind, _ in story.launched] == ["Plan", "Plan"]
        assert story.phase == "AwaitingApproval"

    def test_an_approval_that_is_withdrawn_and_repeated_counts(self) -> None:
        """The second approval comes from a user who read the new plan."""
        story = awaiting()
        story.edit(**OTHER, approved=True)
        story.rest()
        story.plan()
        story.edit(approved=False)
        story.rest()
        story.edit(approved=True)
        story.rest()

        assert story.launched[-1] == ("Run", "localhost/other:1")

    def test_an_approval_by_plan_name_follows_an_ignored_one(self) -> None:
        """One edit suffices: a busy operator sees only the last of two edits."""
        story = awaiting()
        story.edit(**OTHER, approved=True)
        story.rest()
        story.plan()
        story.edit(approvedPlan=story.of)
        story.rest()

        assert story.launched[-1] == ("Run", "localhost/other:1")

    def test_an_old_approval_does_not_launch_a_recorded_attempt(self) -> None:
        """The API server rejected the attempt's objects for hours; the spec at the launch is the one that counts."""
        story = awaiting()
        story.edit(approved=True)
        launched = checked(replace(story.seen, live=True))
        assert LaunchDriver(2, "Run") in launched.actions
        refused = LaunchFailed(2, T0, 403, "Forbidden", "exceeded quota: pods")
        story.seen = after(story.seen, launched, pods=(), launch_failed=refused)
        story.edit(**OTHER)
        story.rest()

        assert story.launched == [("Plan", "localhost/one:1"), ("Plan", "localhost/other:1")]
        assert [past.reason for past in story.seen.status.history] == ["Planned", "SpecChanged"]
        assert story.seen.status.failures == 0

    def test_an_old_approval_does_not_launch_after_a_driver_that_never_ran(self) -> None:
        """The job has written nothing yet, and a corrected image makes a different job than the planned one."""
        story = awaiting()
        story.edit(approved=True)
        story.rest()
        story.edit(**OTHER)
        story.decide()
        story.seen = replace(story.seen, pods=())
        story.rest()

        assert story.launched[1:] == [("Run", "localhost/one:1"), ("Plan", "localhost/other:1")]

    def test_an_old_approval_does_not_launch_after_a_failure_before_the_process_began(self) -> None:
        """A node also gives an exit code to a command that is missing in the image."""
        story = awaiting()
        story.edit(approved=True)
        story.rest()
        story.seen = replace(story.seen, pods=(ended(128, 2, launched_of=story.made_of, reason="StartError"),))
        story.rest()
        assert story.phase == "Failed"
        story.edit(**OTHER)
        story.rest()

        assert story.launched[-1] == ("Plan", "localhost/other:1")

    def test_an_approval_stays_valid_after_a_driver_that_ran_and_died(self) -> None:
        """The driver may have written rows: no plan is made, and the edit applies to the next attempt."""
        story = awaiting(backoff={"initialSeconds": 1, "maxSeconds": 1})
        story.edit(approved=True)
        story.rest()
        story.seen = replace(story.seen, pods=(ended(137, 2, launched_of=story.made_of),))
        story.decide()
        story.edit(**OTHER)
        later = checked(replace(story.seen, live=True), T0 + 10_000)

        assert LaunchDriver(3, "Run") in later.actions


class TestTheNameOfAPlan:
    """`spec.approvedPlan` is an approval for one plan only."""

    def test_the_plan_name_is_shown_in_the_condition_and_the_status(self) -> None:
        """Users need the name to approve the plan."""
        story = awaiting()

        assert story.seen.status.plan_of == story.of
        assert story.of in story.asks

    def test_the_name_of_the_plan_approves_that_plan(self) -> None:
        """The field works without `approved`."""
        story = awaiting()
        story.edit(approvedPlan=story.of)
        story.rest()

        assert story.launched[-1] == ("Run", "localhost/one:1")

    def test_the_name_of_another_plan_approves_nothing(self) -> None:
        """`approved: true` does not change that: the user named a specific plan."""
        story = awaiting()
        story.edit(approvedPlan="0" * 16, approved=True)
        story.rest()

        assert story.phase == "AwaitingApproval"
        assert story.of in story.asks
        assert [kind for kind, _ in story.launched] == ["Plan"]

    def test_the_plan_name_depends_only_on_the_spec(self) -> None:
        """The same spec has the same name; the approval fields do not change it."""
        assert planned_of(spec(approvedPlan="0" * 16, approved=True, approval="Manual")) == planned_of(spec())


class TestAStatusOfAnEarlierVersion:
    """A status of an earlier version has a plan but no record of its spec."""

    def test_an_unnamed_plan_stays_until_the_next_edit(self) -> None:
        """An upgrade of the operator does not repeat the plan."""
        story = Story(**ONE)
        story.seen = replace(story.seen, status=STATUSES["planned, unapproved"].model_copy(update={"plan_of": None}))
        story.rest()
        assert (story.phase, story.launched) == ("AwaitingApproval", [])
        story.edit(**OTHER)
        story.rest()

        assert story.launched == [("Plan", "localhost/other:1")]

    def test_an_unnamed_plan_is_unchanged_while_the_spec_is_refused(self) -> None:
        """There is no valid spec that the plan could belong to."""
        seen = observed(spec=SPECS["refused"], status=STATUSES["planned, unapproved"])

        assert checked(seen).status.plan_of == STATUSES["planned, unapproved"].plan_of

    @pytest.mark.parametrize("label", ["", "of before", "A" * 16])
    def test_a_plan_pod_without_a_valid_label_belongs_to_the_current_spec(self, label: str) -> None:
        """Users edit labels, and the operator must not plan endlessly."""
        story = Story(**ONE)
        story.rest()
        pods = (ended(0, kind="Plan", launched_of=label, ending=PLANNED),)
        story.seen = replace(story.seen, pods=pods)
        story.rest()

        assert (story.phase, story.seen.status.plan_of) == ("AwaitingApproval", story.of)


class TestWhateverUsersDo:
    """Users edit, approve and withdraw in any order, and the operator sees some of these changes only together."""

    @pytest.mark.parametrize("seed", range(40))
    def test_no_driver_runs_a_spec_that_was_not_approved(self, seed: int) -> None:
        """An approval counts for the plan that the status showed at that time; without a plan it counts in advance."""
        chance, story = random.Random(seed), Story(**ONE)
        approved: set[str] = set()
        """Plans that the status showed when they were approved."""

        unseen = False
        for _ in range(2000):
            match chance.randrange(6):
                case 0:
                    story.edit(spark={"image": f"localhost/spark:{chance.randrange(3)}"})
                case 1:
                    shown = story.seen.status
                    unseen = unseen or shown.plan is None
                    approved.add(shown.plan_of or "")
                    story.edit(approved=True)
                case 2:
                    approved, unseen = set(), False
                    story.edit(approved=False)
                case 3 if story.seen.pods and story.seen.pods[0].kind == "Plan" and not story.seen.pods[0].over:
                    planner = story.seen.pods[0]
                    pods = (
                        ended(0, planner.attempt or 0, kind="Plan", launched_of=planner.launched_of, ending=PLANNED),
                    )
                    story.seen = replace(story.seen, pods=pods)
                case _:
                    self.decide(story)
            if any(kind == "Run" for kind, _ in story.launched):
                break
        status = story.seen.status
        assert story.launched[-1][0] == "Run"
        assert story.made_of in approved or (unseen and status.plan_of in (None, story.made_of))

    @staticmethod
    def decide(story: Story) -> None:
        """Decide, and remove a pod that is to be replaced."""
        decision = story.decide()
        if decision.status.attempt is not None and decision.status.attempt.stop is not None:
            story.seen = replace(story.seen, pods=())
