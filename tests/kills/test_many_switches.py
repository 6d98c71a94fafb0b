"""Many switch-overs and undos with SIGKILL at their steps: no write of either engine is lost or doubled.

`make crash-switches SWITCHES=200` runs more of them, and prints how long neither table accepted writes.
"""

import os
import statistics
import time

import pytest
from support.crashes.switch_job import SwitchJob

SWITCHES = int(os.environ.get("BACKFILL_SWITCHES", "2"))
"""Number of switch-overs and undos."""

SEED = int(os.environ.get("BACKFILL_SEED", "1"))
FIRST = int(os.environ.get("BACKFILL_FIRST", "0"))
"""Number of commands of earlier runs with this seed: this one continues with their places of death."""

LIMIT_S = 600 + 60 * SWITCHES


@pytest.mark.rest
@pytest.mark.timeout(LIMIT_S)
class TestManySwitches:
    """Writers of both engines write each order until the table of the name accepts it."""

    def test_no_write_is_lost_or_doubled(self, spark, tmp_path):
        """The name's table has each accepted order once, after each command and at the end."""
        ends_s = time.monotonic() + float(os.environ.get("BACKFILL_SECONDS", LIMIT_S - 300))

        report = SwitchJob(spark, tmp_path, SEED).lives(SWITCHES, ends_s, first=FIRST)

        gaps = {goal: sorted(seconds) for goal, seconds in report.gaps_s.items() if seconds}
        print(
            f"\n{report.commands} commands, {report.kills.total()} kills, {report.orders} orders, {report.errors} errors"
        )
        for name, kills in sorted(report.kills.items()):
            print(f"{kills:5} {name}")
        for goal, seconds in gaps.items():
            print(
                f"{goal}: neither side accepted writes for {statistics.median(seconds):.2f} s (p50), {seconds[-1]:.2f} s (max)"
            )
        assert report.problems == []
        assert report.commands >= min(SWITCHES, 2)
