"""What a terminal of some kind is sent: no escapes where it knows none, no colours where they are switched off."""

import os
import re
import sys

import pytest
from support.console.terminal import Terminal
from support.tables.jobs import write_yaml

COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3|4|9|10)\d(?:;\d+)*m")
SCRIPT = """
import sys
from backfill import Backfill, Progress
from backfill_cli.commands.run import Run, Shown
from backfill_spark.driver.attempt import RunOutcome

class Driver:
    def run_driver(self, backfill, *, settings, observe, starting, spark, stop):
        starting("looking at the tables")
        half = Progress(attempt=1, epoch=3, phase="Snapshot", percent=50, rows_total=10, rows_done=5, grid=(50,))
        observe(half)
        return RunOutcome("Stopped", 10, "Stopped", "stopped at a barrier", "", half, None)

sys.exit(Run(Backfill.load(sys.argv[1]), Shown(), Driver()).to_end())
"""


@pytest.fixture
def shown(tmp_path):
    """Returns what a terminal was sent by a run that stops at once."""

    file = write_yaml(tmp_path / "job.yaml", "/s", "/t")

    def run(**environ):
        kept = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "COLUMNS", "LINES"}}
        env = {**kept, "BACKFILL_STATE_DIR": str(tmp_path), "TERM": "xterm-256color", **environ}
        with Terminal([sys.executable, "-c", SCRIPT, str(file)], env=env) as there:
            assert there.ends()[0] == 10, there.text
            return there

    return run


def test_one_that_knows_no_escapes_gets_lines_at_once(shown):
    """It showed nothing until the end."""
    there = shown(TERM="dumb")
    assert "\x1b" not in there.raw
    assert re.search(
        r"^20\S+Z default/job  starting Spark.*\n.*looking at the tables.*\n.* 50 % 5 of 10 rows", there.text
    )


def test_colours_are_left_out_where_they_are_not_wanted(shown):
    """NO_COLOR; the block is drawn all the same."""
    assert COLOUR.search(shown().raw)
    plain = shown(NO_COLOR="1").raw
    assert COLOUR.search(plain) is None
    assert "\x1b[?25l" in plain
