"""A switch-over in a world where commands die at any step, effects fail, answers are lost, and writers never stop."""

import contextlib
import random

import pytest
from support.source_fence.switch_world import SOURCE, TARGET, KilledError, World

from backfill_core.source_fence.table_protocol import SWITCH
from backfill_core.switch_over.mark import mark_of
from backfill_core.switch_over.steps import End, Goal, Step

SEEDS = 400
EFFECTS_MAX = 20
GOALS = (Goal.SWITCH, Goal.SWITCH, Goal.UNDO, Goal.COMPLETE)


def doubled(world):
    """Return the rows that a table has twice."""
    return [path for path, table in world.tables.items() if len(table.rows) != len(set(table.rows))]


def killed_once(world, goal, chance, *, released):
    """Run a command that may die or meet failures."""
    with contextlib.suppress(KilledError):
        world.run(goal, dies_after=chance.randint(1, EFFECTS_MAX), fails=chance.choice([0, 0, 0.2]), released=released)


class TestAnyCrash:
    """The log of the source alone decides where the next run continues."""

    @pytest.mark.parametrize("seed", range(SEEDS))
    def test_loses_no_acknowledged_write_and_leaves_one_writable_table(self, seed):
        """Users run a killed command again, or change their mind and undo it."""
        chance = random.Random(seed)
        world, released = World(chance, follows=chance.random() < 0.4), chance.random() < 0.2
        world.write()
        world.follow()

        for _ in range(chance.randint(1, 5)):
            killed_once(world, chance.choice(GOALS), chance, released=released)
            assert not world.accepts_a_new_copy()
        undoing = (mark := mark_of(world.tables[SOURCE].log.head())) is not None and mark.stage == "Undoing"
        end = world.run(Goal.UNDO if undoing else Goal.SWITCH, released=released)
        for _ in range(10):
            world.disturb()

        mark = mark_of(world.tables[SOURCE].log.head())
        assert world.lost() == []
        assert doubled(world) == []
        assert not world.source_was_open
        assert not world.rows_were_hidden
        assert end is not End.INTERRUPTED
        assert world.tables[TARGET].writable
        assert world.name == TARGET or (world.tables[SOURCE].writable and world.state is not None)
        assert mark is None or (world.name == TARGET and mark.stage == "Switched" and not world.tables[SOURCE].writable)

    def test_reaches_each_end(self):
        """A world in which nothing can go wrong would prove nothing."""
        ends = set()
        for seed in range(SEEDS):
            chance = random.Random(seed)
            world = World(chance)
            for _ in range(4):
                ends.add(world.run(chance.choice(GOALS), fails=0.1))

        assert ends == set(End)


class TestOneFailure:
    """Of any step of a switch-over."""

    @pytest.mark.parametrize("step", list(Step)[: list(Step).index(Step.GIVE_UP)])
    def test_opens_no_source_whose_job_has_lost_its_state(self, step):
        """Its writes would never reach the target, to which the name may point already."""
        for seed in range(20):
            world = World(random.Random(seed))
            world.write()
            world.follow()
            world.run(Goal.SWITCH, fails_at=step)

            assert not world.tables[SOURCE].writable or (world.name == SOURCE and world.state is not None)


class TestAFenceOfAUser:
    """`backfill fence` has set it before, so a switch-over that gives up leaves it."""

    def test_stays_after_any_run_that_does_not_switch(self):
        """Users rely on a source that stands still."""
        ends = set()
        for seed in range(200):
            chance = random.Random(seed)
            world = World(chance)
            world.fence_by_hand()
            killed_once(world, Goal.SWITCH, chance, released=False)
            end = world.run(chance.choice([Goal.SWITCH, Goal.UNDO]), fails=0.3)
            ends.add(end)
            head = world.tables[SOURCE].log.head()
            if end in (End.FOLLOWING, End.REFUSED) and world.name == SOURCE and mark_of(head) is None:
                assert head.protocol.is_fenced
                assert SWITCH not in head.properties

        assert {End.FOLLOWING, End.REFUSED, End.SWITCHED} <= ends


class TestARefusal:
    """A refused command has changed nothing, so the table in use accepts writes, and no other command is needed."""

    def test_leaves_nothing_unfinished_after_any_killed_commands(self):
        """An undo that went forward again and died is no finished switch-over."""
        refusals = 0
        for seed in range(200):
            chance = random.Random(seed)
            world = World(chance, follows=chance.random() < 0.4)
            while world.run(Goal.SWITCH) is not End.SWITCHED:
                pass
            for _ in range(chance.randint(1, 3)):
                killed_once(world, Goal.UNDO, chance, released=False)
            end = world.run(Goal.UNDO)

            refusals += end is End.REFUSED
            assert end in (End.REFUSED, End.NOTHING, End.SWITCHED, End.UNDONE)
            assert world.tables[world.name].writable
            assert world.lost() == []

        assert refusals > 10


class TestTwoCommands:
    """One stands still between two steps, as a frozen process does, while another one reaches its end."""

    @pytest.mark.parametrize("follows", [False, True], ids=["fenced", "following"])
    def test_agree_on_one_table_whatever_the_order_of_their_steps(self, follows):
        """The slow one finds out that the mark is not its own before it changes anything outside of the source's log."""
        for seed in range(8):
            for slow, fast in ((Goal.SWITCH, Goal.UNDO), (Goal.UNDO, Goal.UNDO), (Goal.UNDO, Goal.COMPLETE)):
                for at in Step:
                    world = World(random.Random(seed), follows=follows)
                    world.write()
                    world.follow()
                    if slow is Goal.UNDO:
                        while world.run(Goal.SWITCH) is not End.SWITCHED:
                            pass
                    world.run(slow, meanwhile={at: fast})
                    world.settle()

                    story = (seed, slow, fast, at)
                    assert world.lost() == [], story
                    assert doubled(world) == [], story
                    assert not world.source_was_open, story
                    assert world.name == TARGET or world.state is not None, story


class TestAnUndo:
    """The source lacks every write that the target accepted."""

    def test_is_refused_once_others_wrote_to_the_target(self):
        """Nothing was changed, so the target stays in use."""
        world = World(random.Random(1))
        while world.run(Goal.SWITCH) is not End.SWITCHED:
            pass
        world.write()

        assert world.run(Goal.UNDO) is End.REFUSED
        assert (world.name, world.lost(), world.tables[TARGET].writable) == (TARGET, [], True)

    def test_of_a_source_that_follows_keeps_the_writes(self):
        """The source got them while the target was read-only."""
        ends = set()
        for seed in range(50):
            world = World(random.Random(seed), follows=True)
            while world.run(Goal.SWITCH) is not End.SWITCHED:
                pass
            world.write()
            ends.add(end := world.run(Goal.UNDO))

            assert world.lost() == []
            assert end is End.SWITCHED or (world.name == SOURCE and world.tables[SOURCE].writable)

        assert End.UNDONE in ends

    def test_that_meets_a_write_after_its_first_check_goes_forward_again(self):
        """The write was acknowledged, and readers of the name must keep it."""
        for seed in range(200):
            world = World(random.Random(seed))
            while world.run(Goal.SWITCH) is not End.SWITCHED:
                pass
            foreign = world.tables[TARGET].foreign
            end = world.run(Goal.UNDO)
            if not foreign and end is End.SWITCHED:
                break

        assert (end, world.name, world.lost()) == (End.SWITCHED, TARGET, [])
        assert mark_of(world.tables[SOURCE].log.head()).stage == "Switched"
