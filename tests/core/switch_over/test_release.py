"""A job leaves the target with one entry, and returns to it with one: neither table accepts writes meanwhile."""

from dataclasses import replace

from support.source_fence.memory_log import after_entry, table_head
from support.source_fence.switch_world import REQUEST

from backfill_core.source_fence.fence import Open, fence_step
from backfill_core.source_fence.table_protocol import FENCED, SWITCHED_FROM, TableProtocol
from backfill_core.switch_over.release import leave_step, return_step
from backfill_core.switch_over.source_name import Pointing
from backfill_core.switch_over.state_feature import STATE_FEATURE

SOURCE = "/lake/orders"
TARGET = replace(table_head(TableProtocol(1, 7, None, ("appendOnly", "invariants", STATE_FEATURE))), path="/lake/v2")
LEFT = after_entry(TARGET, leave_step(TARGET, REQUEST, SOURCE, ()))


class TestLeaving:
    def test_stores_the_folder_and_removes_the_feature_in_one_entry(self):
        """Two entries would keep writers waiting twice."""
        assert LEFT.properties == {**TARGET.properties, SWITCHED_FROM: SOURCE}
        assert LEFT.protocol == TableProtocol(1, 2)
        assert leave_step(LEFT, REQUEST, SOURCE, ()) == Pointing(SOURCE)

    def test_stores_the_folder_beside_a_feature_that_stays(self):
        """Another job has a state in the same table."""
        left = after_entry(TARGET, leave_step(TARGET, REQUEST, SOURCE, ("backfill.other",)))

        assert (left.properties[SWITCHED_FROM], left.protocol) == (SOURCE, TARGET.protocol)
        assert leave_step(left, REQUEST, SOURCE, ("backfill.other",)) == Pointing(SOURCE)

    def test_removes_the_feature_of_a_target_that_stores_the_folder(self):
        """An earlier release stored the folder first, and its command may have died then."""
        pointing = replace(LEFT, protocol=TARGET.protocol)
        left = after_entry(pointing, leave_step(pointing, REQUEST, SOURCE, ()))

        assert (left.properties, left.protocol) == (LEFT.properties, LEFT.protocol)


class TestReturning:
    def test_lifts_the_fence_and_removes_the_folder_in_one_entry(self):
        """The target is a copy again."""
        fenced = after_entry(LEFT, fence_step(LEFT, REQUEST))
        returned = after_entry(fenced, return_step(fenced, REQUEST))

        assert not {FENCED, SWITCHED_FROM} & returned.properties.keys()
        assert (returned.properties, returned.protocol) == (TARGET.properties, LEFT.protocol)
        assert return_step(returned, REQUEST) == Open(returned.version)

    def test_removes_the_folder_of_a_target_without_a_fence(self):
        """An undo of an unfinished flip had no reason to fence it."""
        returned = after_entry(LEFT, return_step(LEFT, REQUEST))

        assert (returned.properties, returned.protocol) == (TARGET.properties, LEFT.protocol)
