"""A source that is given by its name: the target stores the folder behind the name while a switch-over is under way."""

from dataclasses import replace

from support.source_fence.memory_log import after_entry, table_head
from support.source_fence.switch_world import REQUEST

from backfill_core.source_fence.fence import Open, fence_step
from backfill_core.source_fence.table_protocol import SWITCHED_FROM
from backfill_core.switch_over.mark import lift_step
from backfill_core.switch_over.source_name import Pointing, point_step, source_behind, unpoint_step

SOURCE, TARGET = "/lake/orders", "/lake/v2"
OPEN = replace(table_head(), path=TARGET)
POINTING = after_entry(OPEN, point_step(OPEN, REQUEST, SOURCE))


class TestTheFolderOfASource:
    def test_is_the_one_that_the_target_stores_once_the_name_points_there(self):
        """The mark is in that folder."""
        assert source_behind(POINTING, target=TARGET) == SOURCE

    def test_is_that_of_the_name_as_long_as_it_points_elsewhere(self):
        """A property that another table has from its own switch-over says nothing about this one."""
        assert source_behind(replace(POINTING, path="/lake/new"), target=TARGET) == "/lake/new"

    def test_is_that_of_the_name_if_the_target_stores_none(self):
        """The driver then reports that source and target are one table."""
        assert source_behind(OPEN, target=TARGET) == TARGET


class TestTheProperty:
    def test_is_written_once_and_removed_without_a_trace(self):
        """A killed command repeats each entry."""
        assert point_step(POINTING, REQUEST, SOURCE) == Pointing(SOURCE)
        removed = after_entry(POINTING, unpoint_step(POINTING, REQUEST))
        assert removed.metadata == OPEN.metadata
        assert removed.protocol == OPEN.protocol
        assert isinstance(unpoint_step(removed, REQUEST), Open)

    def test_of_an_earlier_switch_over_is_replaced(self):
        """A table may be moved again and again."""
        again = after_entry(POINTING, point_step(POINTING, REQUEST, "/lake/v1"))

        assert again.properties[SWITCHED_FROM] == "/lake/v1"

    def test_stays_while_an_undo_fences_the_target(self):
        """An undo that is killed before it restores the name finds the source again."""
        fenced = after_entry(POINTING, fence_step(POINTING, REQUEST))
        lifted = after_entry(fenced, lift_step(fenced, REQUEST, None))

        assert source_behind(fenced, target=TARGET) == source_behind(lifted, target=TARGET) == SOURCE
