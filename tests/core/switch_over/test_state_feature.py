"""The feature of job states leaves the target with the last state, unless something else needs it."""

import pytest
from support.source_fence.memory_log import after_entry, table_head
from support.source_fence.switch_world import REQUEST

from backfill_core.source_fence.fence import Open
from backfill_core.source_fence.table_protocol import TableProtocol
from backfill_core.switch_over.state_feature import STATE_FEATURE, unneeded_step


def target(*features, reader=1):
    """Return a target with features of writers."""
    read = None if reader < 3 else ()
    return table_head(TableProtocol(reader, 7, read, (*features, STATE_FEATURE)))


class TestTheFeature:
    @pytest.mark.parametrize(
        ("head", "protocol"),
        [
            (target("appendOnly", "invariants"), TableProtocol(1, 2)),
            (target("appendOnly", "inCommitTimestamp"), TableProtocol(1, 7, None, ("appendOnly", "inCommitTimestamp"))),
            (target("deletionVectors", reader=3), TableProtocol(3, 7, (), ("deletionVectors",))),
        ],
    )
    def test_leaves_the_protocol_and_nothing_else(self, head, protocol):
        """The versions are the lowest ones that imply the other features."""
        after = after_entry(head, unneeded_step(head, REQUEST, ()))

        assert (after.protocol, after.metadata) == (protocol, head.metadata)
        assert unneeded_step(after, REQUEST, ()) == Open(after.version)

    @pytest.mark.parametrize(
        ("head", "domains"),
        [
            (target("appendOnly"), ("backfill.other",)),
            (target("rowTracking"), ()),
            (target("clustering"), ()),
            (table_head(), ()),
        ],
    )
    def test_stays_if_something_needs_it(self, head, domains):
        """Delta rejects a table with a feature that lacks another one."""
        assert unneeded_step(head, REQUEST, domains) == Open(head.version)
