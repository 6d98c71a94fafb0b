"""An approval is of the plan that was there when it was given, and of no later one."""

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
    """It was given for another spec."""

    def test_that_comes_with_an_edit_does_not_count(self) -> None:
        """A manifest that holds both was approved by who read the plan of the one before."""
        story = awaiting()
        story.edit(**OTHER, approved=True)
        story.rest()
        story.plan()

        assert [kind for kind, _ in story.launched] == ["Plan", "Plan"]
        assert story.phase == "AwaitingApproval"
        assert story.of in story.asks
        assert "changed" in story.asks

    def test_that_comes_while_the_new_plan_is_made_does_not_count(self) -> None:
        """Its sender can have read the old one alone."""
        story = awaiting()
        story.edit(**OTHER)
        story.rest()
        story.edit(approved=True)
        story.rest()
        story.plan()

        assert story.phase == "AwaitingApproval"

    def test_that_stays_through_an_edit_does_not_count(self) -> None:
        """There was no room for its driver yet."""
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

    def test_that_is_taken_back_and_given_again_counts(self) -> None:
        """The second one is of who read the new plan."""
        story = awaiting()
        story.edit(**OTHER, approved=True)
        story.rest()
        story.plan()
        story.edit(approved=False)
        story.rest()
        story.edit(approved=True)
        story.rest()

        assert story.launched[-1] == ("Run", "localhost/other:1")

    def test_is_followed_by_one_that_names_the_plan(self) -> None:
        """One edit: an operator that is busy sees only the last of two."""
        story = awaiting()
        story.edit(**OTHER, approved=True)
        story.rest()
        story.plan()
        story.edit(approvedPlan=story.of)
        story.rest()

        assert story.launched[-1] == ("Run", "localhost/other:1")

    def test_does_not_launch_an_attempt_that_is_on_record(self) -> None:
        """Its objects were refused for hours; what is launched in the end is the spec of then."""
        story = awaiting()
        story.edit(approved=True)
        launched = checked(replace(story.seen, live=True))
        assert LaunchDriver(2, "Run") in launched.actions
        refused = LaunchFailed(2, T0, 403, "Forbidden", "exceeded quota: pods")
        story.seen = after(story.seen, launched, pods=(), launch_failed=refused)
        story.edit(**OTHER)
        story.rest()

        assert story.launched == [("Plan", "localhost/one:1"), ("Plan", "localhost/other:1")]
        assert [one.reason for one in story.seen.status.history] == ["Planned", "SpecChanged"]
        assert story.seen.status.failures == 0

    def test_does_not_launch_the_next_attempt_of_a_driver_that_never_ran(self) -> None:
        """Nothing was written yet: a corrected image is another job than the one that was planned."""
        story = awaiting()
        story.edit(approved=True)
        story.rest()
        story.edit(**OTHER)
        story.decide()
        story.seen = replace(story.seen, pods=())
        story.rest()

        assert story.launched[1:] == [("Run", "localhost/one:1"), ("Plan", "localhost/other:1")]

    def test_does_not_launch_a_job_that_failed_before_its_process_began(self) -> None:
        """A node gives an exit code to a command that an image does not have, too."""
        story = awaiting()
        story.edit(approved=True)
        story.rest()
        story.seen = replace(story.seen, pods=(ended(128, 2, launched_of=story.made_of, reason="StartError"),))
        story.rest()
        assert story.phase == "Failed"
        story.edit(**OTHER)
        story.rest()

        assert story.launched[-1] == ("Plan", "localhost/other:1")

    def test_is_told_from_that_of_a_driver_that_ran_and_died(self) -> None:
        """It may have written: no plan is made, and the edit is in force with the next attempt."""
        story = awaiting(backoff={"initialSeconds": 1, "maxSeconds": 1})
        story.edit(approved=True)
        story.rest()
        story.seen = replace(story.seen, pods=(ended(137, 2, launched_of=story.made_of),))
        story.decide()
        story.edit(**OTHER)
        later = checked(replace(story.seen, live=True), T0 + 10_000)

        assert LaunchDriver(3, "Run") in later.actions


class TestTheNameOfAPlan:
    """`spec.approvedPlan`: an approval that can be given for one plan only."""

    def test_is_shown_where_it_is_needed(self) -> None:
        """By the condition and in the status."""
        story = awaiting()

        assert story.seen.status.plan_of == story.of
        assert story.of in story.asks

    def test_approves_that_plan(self) -> None:
        """Without `approved`, too."""
        story = awaiting()
        story.edit(approvedPlan=story.of)
        story.rest()

        assert story.launched[-1] == ("Run", "localhost/one:1")

    def test_of_another_plan_approves_nothing(self) -> None:
        """Not even beside `approved: true`: who names a plan means that one."""
        story = awaiting()
        story.edit(approvedPlan="0" * 16, approved=True)
        story.rest()

        assert story.phase == "AwaitingApproval"
        assert story.of in story.asks
        assert [kind for kind, _ in story.launched] == ["Plan"]

    def test_is_of_the_spec_alone(self) -> None:
        """The same spec has the same one: what approves it does not change it."""
        assert planned_of(spec(approvedPlan="0" * 16, approved=True, approval="Manual")) == planned_of(spec())


class TestAStatusOfAnEarlierVersion:
    """It has a plan, and does not say what it is of."""

    def test_keeps_its_plan_until_the_next_edit(self) -> None:
        """An upgrade of the operator makes no plan anew."""
        story = Story(**ONE)
        story.seen = replace(story.seen, status=STATUSES["planned, unapproved"].model_copy(update={"plan_of": None}))
        story.rest()
        assert (story.phase, story.launched) == ("AwaitingApproval", [])
        story.edit(**OTHER)
        story.rest()

        assert story.launched == [("Plan", "localhost/other:1")]

    def test_is_left_alone_while_the_spec_is_refused(self) -> None:
        """There is nothing that the plan could be of."""
        seen = observed(spec=SPECS["refused"], status=STATUSES["planned, unapproved"])

        assert checked(seen).status.plan_of == STATUSES["planned, unapproved"].plan_of

    @pytest.mark.parametrize("label", ["", "of before", "A" * 16])
    def test_or_a_pod_without_the_label_has_a_plan_of_the_spec_of_then(self, label: str) -> None:
        """People edit labels: a plan is not made without end."""
        story = Story(**ONE)
        story.rest()
        pods = (ended(0, kind="Plan", launched_of=label, ending=PLANNED),)
        story.seen = replace(story.seen, pods=pods)
        story.rest()

        assert (story.phase, story.seen.status.plan_of) == ("AwaitingApproval", story.of)


class TestWhateverUsersDo:
    """Edits, approvals and withdrawals in any order, and an operator that sees some of them only together."""

    @pytest.mark.parametrize("seed", range(40))
    def test_no_driver_runs_a_spec_that_was_not_approved(self, seed: int) -> None:
        """An approval is of the plan that the status showed at that moment, or unseen if it showed none."""
        chance, story = random.Random(seed), Story(**ONE)
        approved: set[str] = set()
        """Plans that were shown when they were approved."""

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
                    one = story.seen.pods[0]
                    pods = (ended(0, one.attempt or 0, kind="Plan", launched_of=one.launched_of, ending=PLANNED),)
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
        """Decide, and let a pod that is to be replaced go."""
        decision = story.decide()
        if decision.status.attempt is not None and decision.status.attempt.stop is not None:
            story.seen = replace(story.seen, pods=())
