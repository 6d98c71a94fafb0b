"""The end of a deleted job: what each policy changes, for each state of the source."""

from dataclasses import replace

import pytest
from support.source_fence.memory_log import after_entry, table_head
from support.source_fence.switch_world import REQUEST

from backfill_core.source_fence.fence import SWITCHING, fence_step
from backfill_core.switch_over.deletion import finishing, plan_deletion, standing_of
from backfill_core.switch_over.mark import Mark, mark_of, record_step
from backfill_core.switch_over.steps import Goal

OPEN = table_head()
FENCED = after_entry(OPEN, fence_step(OPEN, replace(REQUEST, purpose="")))
SWITCHES = after_entry(OPEN, fence_step(OPEN, replace(REQUEST, purpose=SWITCHING)))


def marked(stage):
    """Return a source whose switch-over has a mark."""
    mark = Mark(stage, SWITCHES.version, "/lake/v2", 3, "{}", "{}", "", REQUEST.time)
    return after_entry(SWITCHES, record_step(SWITCHES, REQUEST, mark, before=None))


class TestTheState:
    """The source's log says whether the job holds a fence, and what for."""

    @pytest.mark.parametrize(
        ("head", "standing"),
        [
            (None, "Open"),
            (OPEN, "Open"),
            (FENCED, "Fenced"),
            (SWITCHES, "Switching"),
            (marked("Flipping"), "Between"),
            (marked("Undoing"), "Between"),
            (marked("Switched"), "Switched"),
        ],
    )
    def test_is_read_from_the_log(self, head, standing):
        """A topic and a source that is gone have no fence."""
        assert standing_of(head, REQUEST.job) == standing

    def test_of_another_job_is_not_touched(self):
        """Only the job that set a fence lifts it."""
        assert standing_of(FENCED, "another job") == "Open"


class TestAnUnfinishedFlip:
    """Its tables accept no writes until it is finished, and no other command may come once the object is gone."""

    @pytest.mark.parametrize(("stage", "goal"), [("Flipping", Goal.SWITCH), ("Undoing", Goal.UNDO)])
    def test_goes_on_in_the_direction_that_its_mark_has(self, stage, goal):
        """A deletion decides nothing new about the table in use."""
        assert finishing(mark_of(marked(stage))) is goal


class TestThePolicy:
    """The parts, in their order."""

    @pytest.mark.parametrize(
        ("policy", "standing", "parts"),
        [
            ("Retain", "Open", ["EndHold"]),
            ("Drain", "Open", ["EndHold"]),
            ("Retain", "Fenced", ["EndHold"]),
            ("Retain", "Switching", ["GiveUp", "EndHold"]),
            ("Retain", "Between", ["Finish"]),
            ("Release", "Between", ["Finish"]),
            ("Drop", "Between", ["Finish"]),
            ("Retain", "Stuck", ["EndHold"]),
            ("Retain", "Switched", ["EndHold"]),
            ("Release", "Open", ["EndHold", "Release"]),
            ("Release", "Switching", ["GiveUp", "EndHold", "Release"]),
            ("Release", "Fenced", ["EndHold", "Release", "Open"]),
            ("Release", "Switched", ["EndHold", "Release", "Open"]),
            ("Drop", "Open", ["EndHold", "Drop"]),
            ("Drop", "Switching", ["GiveUp", "EndHold", "Drop"]),
        ],
    )
    def test_has_its_parts(self, policy, standing, parts):
        """A fence before the decision of a switch-over has no use, and one of a user is lifted only by Release."""
        plan = plan_deletion(policy, standing)

        assert (list(plan.parts), plan.refused) == (parts, "")

    @pytest.mark.parametrize(
        ("policy", "standing"),
        [("Release", "Stuck"), ("Drop", "Stuck"), ("Drop", "Switched"), ("Drop", "Fenced")],
    )
    def test_refuses_what_may_be_in_use(self, policy, standing):
        """The retention of the source is given back all the same."""
        plan = plan_deletion(policy, standing)

        assert plan.parts == ("EndHold",)
        assert plan.refused
