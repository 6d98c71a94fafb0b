"""Files of two tables keep their counterparts over any number of switch-overs and undos."""

import random

import pytest
from support.switch_over.copies import Side, shipped

SEEDS = 150
TURNS = 5


class TestTwoTables:
    """One of them has the writers; the other one follows it, and the roles change."""

    @pytest.mark.parametrize("seed", range(SEEDS))
    def test_are_equal_after_each_copy_in_either_direction(self, seed):
        """No row is copied twice or stays, whichever table a file came from."""
        chance = random.Random(seed)
        here, there = Side(), Side()
        for _ in range(3):
            here.write(chance)
        shipped(here, there, 0)

        for _ in range(TURNS):
            for _ in range(chance.randint(1, 4)):
                after = len(here.log)
                for _ in range(chance.randint(0, 4)):
                    here.write(chance)
                step = shipped(here, there, after) if len(here.log) > after else None
                assert step is None or step.missing == ()
                assert there.rows == here.rows
            here, there = there, here
            assert there.files().knowing_copies(here.live).foreign_files == ()

    def test_a_file_that_nothing_copied_stays_foreign(self):
        """Readers would see rows that the source lacks."""
        here, there = Side(), Side()
        here.commit(here.added(here.insert()))
        shipped(here, there, 0)
        path = there.insert()

        assert there.files().foreign_files == (path,)
        assert there.files().knowing_copies(here.live).foreign_files == (path,)
