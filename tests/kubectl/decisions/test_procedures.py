"""A switch-over or a repair counts as done only when its driver has reported the end."""

import pytest
from support.plugin.objects import TIME, condition, running, stored

from backfill_kubectl.decisions.acknowledgement import InForce, Recorded, Rejected, Waiting, acknowledgement
from backfill_kubectl.decisions.changes import RepairTarget, SwitchOver
from backfill_kubectl.decisions.refusals import refusal

NOW_MS = 1_795_000_000_000
READ = {"switchToken": "t", "switchUndoToken": "t", "switchCompleteToken": "t", "repairToken": "t"}


def answer(change, status):
    """Return the answer of an object with this status."""
    return acknowledgement(change, "t", stored(), stored(status=status), NOW_MS)


def switch(state, goal="Switch", **fields):
    """Return a status with a switch-over."""
    return running(READ, switch={"goal": goal, "state": state, "start": TIME, **fields})


class TestASwitchOver:
    @pytest.mark.parametrize(
        ("goal", "state", "result"),
        [
            (
                "Switch",
                "Switched",
                "switched: readers and writers use the target, the source stands still at version 7",
            ),
            ("Undo", "Undone", "undone: readers and writers use the source"),
            ("Complete", "Completed", "completed: the source accepts writes again"),
        ],
    )
    def test_is_done_at_its_end(self, goal, state, result):
        """Each goal has a token of its own."""
        done = answer(SwitchOver(goal), switch(state, goal, version=7))

        assert isinstance(done, InForce)
        assert done.state.startswith(result)

    @pytest.mark.parametrize("state", ["Refused", "Interrupted"])
    def test_with_a_reason_is_an_error(self, state):
        """The message of the driver has the remedy."""
        refused = answer(SwitchOver(), switch(state, reason="SwitchBlocked", message="too late. Try."))

        assert isinstance(refused, Rejected)
        assert refused.why == "SwitchBlocked: too late. Try."

    def test_that_runs_or_was_not_read_is_awaited(self):
        """Its driver may take minutes to start."""
        waits = condition("Switched", "False", "WaitingForCatchUp", "it begins later")

        assert isinstance(answer(SwitchOver(), switch("Running")), Waiting)
        assert isinstance(answer(SwitchOver(), running({"switchToken": "old"})), Waiting)
        assert answer(SwitchOver(), running({}, [waits])) == Waiting("it begins later")

    def test_of_a_suspended_job_is_recorded(self):
        """Nothing happens until the suspension ends."""
        status = {"phase": "Suspended", "conditions": [condition("Suspended")]}

        assert isinstance(answer(SwitchOver(), status), Recorded)

    def test_may_be_requested_of_an_ended_job(self):
        """An undo is requested of a complete one, and a repair of a failed one."""
        assert refusal(stored(status={"phase": "Succeeded"}), SwitchOver("Undo")) is None
        assert refusal(stored(status={"phase": "Failed"}), RepairTarget()) is None


class TestARepair:
    @pytest.mark.parametrize(
        ("state", "result"),
        [
            (
                "Repaired",
                "repaired in version 9: rows: 0 inserted, 0 updated, 2 deleted; 3 files of the target replaced",
            ),
            ("Equal", "source and target are equal: nothing to repair"),
        ],
    )
    def test_reports_its_numbers(self, state, result):
        """They tell how large the damage was."""
        repair = {"state": state, "start": TIME, "version": 9, "rowsDeleted": 2, "filesRemoved": 3}

        assert answer(RepairTarget(), running(READ, repair=repair)) == InForce(result)
