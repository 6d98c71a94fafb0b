"""How much of a source is newer than a position."""

import pytest

from backfill_core.protocol.events import Head


class TestNewer:
    """After the end of a job a user must see what came since (fault U1)."""

    @pytest.mark.parametrize(
        ("head", "position", "behind"),
        [
            (5, 5, 0),
            (6, 5, 1),
            (4, 5, 0),
            ({"0": 7, "1": 3}, {"0": 5, "1": 3}, 2),
            ({"0": 7, "1": 3}, {"0": 7}, 3),
            ({}, {"0": 7}, 0),
        ],
    )
    def test_counts_versions_or_offsets(self, head: object, position: object, behind: int) -> None:
        """A partition that the position does not know begins at 0; none counts below zero."""
        assert Head(head, 0).newer_than(position) == behind
