"""What a terminal of some kind is sent: no escapes where it knows none, no colours where they are switched off."""

import fcntl
import os
import re
import struct
import sys
import termios

import pytest
from rich.console import Console
from rich.panel import Panel
from support.console.command_line import running
from support.console.emulator import Emulator
from support.console.terminal import Terminal
from support.tables.jobs import write_yaml

from backfill_cli.terminal.screen import CLEAR, Screen
from backfill_cli.terminal.streams import Out

COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3|4|9|10)\d(?:;\d+)*m")
SCRIPT = """
import sys
from backfill import Backfill, Progress
from backfill_api.status.progress import StepProgress
from backfill_cli.commands.run import Run, Shown
from backfill_core.protocol.receipt import Receipt
from backfill_spark.driver.attempt import RunOutcome

class Driver:
    def run_driver(self, backfill, *, settings, observe, starting, spark, stop):
        starting("looking at the tables")
        half = Progress(attempt=1, epoch=3, phase="Snapshot", percent=50, rows_total=10, rows_done=5, grid=(50,))
        observe(half)
        if sys.argv[2:] == ["complete"]:
            steps = (StepProgress(name="Copy", state="Done", seconds=95),)
            done = half.model_copy(update={"finished": True, "percent": 100, "rows_done": 10, "steps": steps})
            observe(done)
            return RunOutcome("Complete", 0, "Complete", "", "", done, Receipt(8, 9, 7, 10, 256, "ab" * 32, (), 0.5))
        return RunOutcome("Stopped", 10, "Stopped", "stopped at a barrier", "", half, None)

sys.exit(Run(Backfill.load(sys.argv[1]), Shown(), Driver()).to_end())
"""

STEPS = """
import os, sys
import click
from backfill import Backfill
from backfill_cli.terminal.steps import steps_shown

@click.command()
def look():
    with steps_shown(Backfill.load(sys.argv[1])) as on_step:
        os.write(1, b"WARN Utils: set SPARK_LOCAL_IP\\n")
        os.write(2, b"WARN NativeCodeLoader\\n")
        on_step("looking at the tables")
    click.echo("the plan")

look([])
"""


@pytest.fixture
def shown(tmp_path):
    """Returns what a terminal was sent by a run that stops at once."""

    file = write_yaml(tmp_path / "job.yaml", "/s", "/t")

    def run(*script, code=10, **environ):
        kept = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "COLUMNS", "LINES"}}
        env = {**kept, "BACKFILL_STATE_DIR": str(tmp_path), "TERM": "xterm-256color", **environ}
        with Terminal([sys.executable, "-c", SCRIPT, str(file), *script], env=env) as there:
            assert there.ends()[0] == code, there.text
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


@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_a_look_shows_its_steps_and_not_the_messages_of_spark(tmp_path, term):
    """A plan was silent for 17 seconds, then came four lines of Spark (fault U14)."""
    file = write_yaml(tmp_path / "job.yaml", "/s", "/t")
    env = {**os.environ, "BACKFILL_STATE_DIR": str(tmp_path), "TERM": term}
    with Terminal([sys.executable, "-c", STEPS, str(file)], env=env) as there:
        assert there.ends()[0] == 0, there.text
    steps = re.search(r"starting Spark  \d s\s+looking at the tables  \d s\s+the plan", there.text)

    assert "WARN" not in there.text
    assert bool(steps) == (term != "dumb"), there.text
    assert [path.read_text().count("WARN") for path in tmp_path.glob("*.log")] == [2]


def test_one_that_was_resized_is_cleared():
    """What it made of the lines before is unknown: the border stood twice."""
    seen, terminal = os.openpty()
    screen, sent = Screen(Out(terminal), Console()), []
    for columns in (80, 80, 60, 60):
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        screen.draw("+------+")
        sent.append(os.read(seen, 65536).decode())
    os.close(seen)
    os.close(terminal)

    assert [CLEAR in one for one in sent] == [False, False, True, False]


def test_keys_that_it_echoes_move_no_line():
    """`^C` at the end of a full line began another one, and the border stood twice."""
    seen, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    screen, shown = Screen(Out(terminal), Console(width=80)), Emulator()
    for number in range(3):
        screen.draw(Panel(f"line {number}"))
        shown.feed(os.read(seen, 65536).decode()).feed("^C")
    screen.close()
    os.close(seen)
    os.close(terminal)

    assert [line for line in shown.text.splitlines() if "line" in line] == ["│ line 2" + 70 * " " + "│"]
    assert shown.text.count("╭") == 1


def test_a_watch_that_ctrl_c_ends_leaves_one_block(state_dir):
    """And its exit is no error."""
    env = {**os.environ, "BACKFILL_STATE_DIR": str(state_dir), "TERM": "xterm-256color"}
    command = [sys.executable, "-m", "backfill_cli", "status", "--watch"]
    with running(state_dir), Terminal(command, env=env) as there:
        there.wait_for("╯")
        there.press()
        assert there.ends()[0] == 0, there.text
    shown = Emulator().feed(there.raw).text

    assert (shown.count("╭"), shown.count("╯"), "default/job" in shown) == (1, 1, True)


def test_of_a_job_that_is_complete_the_receipt_is_left(shown):
    """The block above it said how fast a job is that does nothing any more; the times of its steps stay."""
    left = Emulator(80).feed(shown("complete", code=0).raw).text

    assert left.splitlines()[0] == "copy 1 min 35 s"
    assert left.count("╭") == 1
    assert "╭─ receipt" in left
    assert "complete: 10 rows of the snapshot" in left


def test_of_a_job_that_has_stopped_the_block_is_left(shown):
    """It says how far the job is."""
    left = Emulator(80).feed(shown().raw).text

    assert "5 of 10 rows" in left
    assert "stopped at a barrier" in left
