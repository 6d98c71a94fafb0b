"""Distance between a source's head and a position."""

import pytest

from backfill_core.protocol.events import Head


class TestNewer:
    """After the end of a job, a user must see new versions or records (fault U1)."""

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
    def test_newer_versions_or_offsets_are_counted(self, head: object, position: object, behind: int) -> None:
        """A partition that is missing in the position begins at 0; no partition counts below zero."""
        assert Head(head, 0).newer_than(position) == behind
