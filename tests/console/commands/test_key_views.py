"""A view shows the newest lines that fit, and always the answer to the last key."""

from dataclasses import replace

import pytest
from support.console.frames import CLUSTER

from backfill_api.status.progress import ProgressSummary
from backfill_console.commands.key_screen import KEYS, KeyScreen
from backfill_console.commands.key_views import driver_events, parts_lines, view_lines
from backfill_console.segments import line, width_of


def texts(lines):
    """Return the texts of lines."""
    return ["".join(segment.text for segment in shown.segments) for shown in lines]


class TestTheScreenOfAView:
    """Title, newest lines, answer, keys."""

    def test_oldest_lines_leave_first(self):
        """A person reads the end of a log, and sees the answer to a key."""
        screen = KeyScreen(view="logs", message="paused at 8 %")
        body = [line(f"line {number}") for number in range(100)]

        shown = texts(view_lines("shop/orders", screen, body, KEYS, 100, 6))

        assert shown == [
            "shop/orders  logs", "line 97", "line 98", "line 99", "paused at 8 %",
            "p pause  r resume  t throttle  v verify  l logs  e events  g grid  q quit",
        ]  # fmt: skip

    @pytest.mark.parametrize("room", [1, 2, 3])
    def test_small_terminal_is_not_exceeded(self, room):
        """A block that is larger than the terminal cannot be redrawn."""
        shown = view_lines(
            "shop/orders", KeyScreen(view="grid", message="long " * 30), [line("x" * 99)], KEYS, 20, room
        )

        assert len(shown) == room
        assert all(width_of(text) <= 20 for text in texts(shown))


class TestTheParts:
    """The grid is whole on any width, and partitions follow it."""

    @pytest.mark.parametrize(("columns", "rows"), [(100, 1), (64, 1), (60, 2), (20, 4)])
    def test_grid_takes_as_many_rows_as_it_needs(self, columns, rows):
        """No part is cut off."""
        progress = ProgressSummary(percent=50, grid=(100,) * 32 + (0,) * 32)

        title, *grid = texts(parts_lines(progress, columns))

        assert title == "50 %, the snapshot in 64 parts"
        assert (len(grid), sum(map(len, grid))) == (rows, 64)

    def test_job_without_parts_says_so(self):
        """A topic has none."""
        assert texts(parts_lines(ProgressSummary(), 80)) == ["no parts of a snapshot are reported"]


class TestTheEventsOfADriver:
    """Without a cluster they are warnings and commands."""

    def test_newest_command_stands_last(self):
        """The screen drops the first lines."""
        shown = texts(driver_events(CLUSTER, 100))

        assert shown[0].startswith("! source keeps what the job needs")
        assert "resume" in shown[-2]
        assert "throttle 100000" in shown[-1]

    def test_quiet_driver_says_so(self):
        """An empty screen would look like a fault."""
        quiet = replace(
            CLUSTER, commands=(), warnings=(), progress=CLUSTER.progress.model_copy(update={"warnings": ()})
        )

        assert texts(driver_events(quiet, 100)) == ["this driver has no warnings and received no commands"]
