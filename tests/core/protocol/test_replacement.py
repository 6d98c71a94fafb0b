"""A table property forbids a commit before it is tried."""

import pytest

from backfill_core.protocol.replacement import APPEND_ONLY, CHANGE_FEED, find_obstacle


class TestAnObstacle:
    """The table of the module, row by row."""

    @pytest.mark.parametrize(
        ("name", "removed", "added", "forbidden"),
        [
            (APPEND_ONLY, 0, 1, False),
            (APPEND_ONLY, 1, 0, True),
            (APPEND_ONLY, 1, 1, True),
            (CHANGE_FEED, 0, 1, False),
            (CHANGE_FEED, 1, 0, False),
            (CHANGE_FEED, 1, 1, True),
            ("delta.enableRowTracking", 1, 1, False),
        ],
    )
    def test_each_property_forbids_its_commits(self, name, removed, added, forbidden):
        """Delta compares names and values without case; a property that is `false` forbids nothing."""
        on = find_obstacle({name.upper(): " TRUE"}, removed=removed, added=added)

        assert (on is not None and on.name == name) == forbidden
        assert find_obstacle({name: "false"}, removed=removed, added=added) is None
