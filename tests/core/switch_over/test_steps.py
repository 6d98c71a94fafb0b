"""The table of steps: each step has an end, the time-out ends a switch-over before the flip, and marks decide the start."""

import pytest
from support.source_fence.memory_log import table_head
from support.source_fence.switch_world import BY_HAND, REQUEST

from backfill_core.errors import SourceFencedError, SwitchBlockedError
from backfill_core.source_fence.fence import Fenced, LogEntry, Open, fence_step, unfence_step
from backfill_core.source_fence.table_protocol import SWITCH
from backfill_core.switch_over import steps
from backfill_core.switch_over.mark import Mark, Recorded, give_up_step, lift_step, mark_of, record_step
from backfill_core.switch_over.steps import TRANSITIONS, Answer, End, Goal, Step, begin

from support.source_fence.memory_log import after_entry  # isort: skip

TIMEOUT_S = 10
THEIRS = REQUEST.__class__("shop/other", REQUEST.time, REQUEST.now_ms, "theirs")


def rows_of_the_table():
    """Return the transitions that the table in the module's text lists."""
    rows, step = set(), ""
    for line in steps.__doc__.splitlines():
        parts = [part.strip() for part in line.replace("others wrote", "others-wrote").split("  ") if part.strip()]
        if len(parts) >= 3 and parts[1] in ("done", "failed", "others-wrote"):
            step = parts[0]
            rows.add((step, parts[1], parts[2]))
        elif len(parts) >= 2 and parts[0] in ("done", "failed", "others-wrote"):
            rows.add((step, parts[0], parts[1]))
    return rows


def ran(machine, *answers):
    """Return a machine after answers that all come at second 1."""
    for answer in answers:
        machine = machine.on(answer, 1.0)
    return machine


def fenced():
    """Return a source with a fence of our job at version 5."""
    return after_entry(table_head(), fence_step(table_head(), REQUEST))


def mark(stage="Flipping", version=5):
    """Return a mark of that fence."""
    return Mark(stage, version, "/lake/v2", 7, "{}", "{}", "state", REQUEST.time)


def marked(stage="Flipping"):
    """Return the source with that mark."""
    return after_entry(fenced(), record_step(fenced(), REQUEST, mark(stage), before=None))


class TestTheTable:
    def test_of_the_text_is_that_of_the_code(self):
        """Readers of the page see the text."""
        in_code = set()
        for step, following in TRANSITIONS.items():
            in_code |= {(step.value, "done", following.done.value), (step.value, "failed", following.failed.value)}
            if following.others_wrote is not None:
                in_code.add((step.value, "others-wrote", following.others_wrote.value))

        assert rows_of_the_table() == in_code

    def test_has_a_row_for_each_step(self):
        """A step without a next one would end a command without an end."""
        assert set(TRANSITIONS) == set(Step)


class TestTheTimeOut:
    """The source accepts no writes from the fence on, so a switch-over that takes too long gives up."""

    @pytest.mark.parametrize("before", [(), (Answer.DONE,)])
    def test_ends_a_switch_over_before_the_flip(self, before):
        """It applies to the drain and to the comparison."""
        machine = ran(begin(Goal.SWITCH, None, fenced=False, timeout_s=TIMEOUT_S), *[Answer.DONE] * 3, *before)

        late = machine.on(Answer.DONE, 1.0 + TIMEOUT_S + 0.1)

        assert (late.at, late.timed_out, late.failed_at) == (Step.GIVE_UP, True, machine.at)
        assert late.on(Answer.DONE, 20).at is End.FOLLOWING

    def test_changes_nothing_once_the_decision_is_stored(self):
        """Writers may be at the target already."""
        machine = ran(begin(Goal.SWITCH, None, fenced=False, timeout_s=TIMEOUT_S), *[Answer.DONE] * 5)

        assert machine.at is Step.RECORD
        assert machine.on(Answer.DONE, 1000).at is Step.RELEASE


class TestTheStart:
    @pytest.mark.parametrize(
        ("goal", "stage", "held", "start"),
        [
            (Goal.SWITCH, None, False, Step.CHECK),
            (Goal.SWITCH, None, True, Step.CHECK),
            (Goal.SWITCH, "Flipping", True, Step.RELEASE),
            (Goal.SWITCH, "Switched", True, End.SWITCHED),
            (Goal.SWITCH, "Undoing", True, End.REFUSED),
            (Goal.UNDO, None, False, End.NOTHING),
            (Goal.UNDO, None, True, Step.GIVE_UP),
            (Goal.UNDO, "Flipping", True, Step.RECONSIDER),
            (Goal.UNDO, "Switched", True, Step.CHECK_TARGET),
            (Goal.UNDO, "Undoing", True, Step.HOLD),
            (Goal.COMPLETE, None, False, End.NOTHING),
            (Goal.COMPLETE, "Flipping", True, End.REFUSED),
            (Goal.COMPLETE, "Switched", True, Step.COMPLETE),
            (Goal.COMPLETE, "Undoing", True, End.REFUSED),
        ],
    )
    def test_is_where_the_mark_says(self, goal, stage, held, start):
        """A killed command left nothing else."""
        stored = None if stage is None else mark(stage)

        assert begin(goal, stored, fenced=held, timeout_s=TIMEOUT_S).at == start


class TestTheMark:
    """It belongs to one fence of one table."""

    def test_is_read_back_and_leaves_with_the_fence(self):
        """The last entry of an undo leaves the source as it was."""
        entry = lift_step(marked(), REQUEST, mark())

        assert mark_of(marked()) == mark()
        assert isinstance(record_step(marked(), REQUEST, mark(), before=None), Recorded)
        assert after_entry(marked(), entry).metadata == table_head().metadata

    def test_of_another_fence_is_none(self):
        """RESTORE and CLONE copy properties."""
        copied = table_head(properties={SWITCH: mark(version=2).encode()})

        assert mark_of(copied) is None
        assert SWITCH not in after_entry(copied, fence_step(copied, REQUEST)).properties

    def test_that_is_damaged_stops_every_command(self):
        """A guess could open the source although writers are at the target."""
        damaged = after_entry(fenced(), record_step(fenced(), REQUEST, mark(), before=None))
        damaged.metadata["configuration"][SWITCH] = "{}"

        with pytest.raises(SwitchBlockedError, match="not readable"):
            mark_of(damaged)

    def test_of_another_command_is_neither_replaced_nor_removed(self):
        """Two commands may run at once on two machines."""
        theirs = mark("Switched")

        with pytest.raises(SwitchBlockedError, match="another command"):
            record_step(marked("Switched"), REQUEST, mark(), before=None)
        with pytest.raises(SwitchBlockedError, match="stays read-only"):
            lift_step(marked("Switched"), REQUEST, mark())
        assert isinstance(lift_step(marked("Switched"), REQUEST, theirs), LogEntry)

    def test_is_written_only_under_the_fence_of_the_comparison(self):
        """A fence that was lifted meanwhile let other writes in."""
        with pytest.raises(SwitchBlockedError, match="another command"):
            record_step(fenced(), REQUEST, mark(version=4), before=None)
        with pytest.raises(SwitchBlockedError, match="another command"):
            record_step(table_head(), REQUEST, mark(), before=None)
        with pytest.raises(SourceFencedError):
            record_step(fenced(), THEIRS, mark(), before=None)

    def test_keeps_backfill_unfence_from_opening_the_source(self):
        """Both tables would accept writes."""
        with pytest.raises(SwitchBlockedError, match="fenced for a switch-over"):
            unfence_step(marked(), REQUEST, force=False)
        forced = after_entry(marked(), unfence_step(marked(), REQUEST, force=True))
        assert forced.metadata == table_head().metadata

    def test_leaves_a_fence_of_a_user_when_a_switch_over_gives_up(self):
        """It was set by `backfill fence`; only the mark leaves."""
        by_hand = after_entry(table_head(), fence_step(table_head(), BY_HAND))
        recorded = after_entry(by_hand, record_step(by_hand, REQUEST, mark(), before=None))

        given_up = after_entry(recorded, give_up_step(recorded, REQUEST, mark()))

        assert (given_up.protocol, given_up.metadata) == (by_hand.protocol, by_hand.metadata)
        assert give_up_step(given_up, REQUEST, mark()) == Fenced(by_hand.fence)
        assert after_entry(marked(), give_up_step(marked(), REQUEST, mark())).metadata == table_head().metadata

    def test_of_a_fence_of_another_job_is_left_alone(self):
        """A command that gives up lifts only a fence of its own job."""
        assert isinstance(lift_step(fenced(), THEIRS, None), Open)
