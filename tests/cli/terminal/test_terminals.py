"""Output for different terminals: no escapes on a dumb terminal, and no colours if they are disabled."""

import fcntl
import os
import re
import struct
import termios

import pytest
from rich.console import Console
from rich.panel import Panel
from support.console.command_line import running
from support.console.emulator import Emulator
from support.console.terminal import PythonTerminal
from support.tables.jobs import write_yaml

from backfill_cli.terminal.screen import HOME_AND_CLEAR, Screen
from backfill_cli.terminal.streams import Out

COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3|4|9|10)\d(?:;\d+)*m")
SCRIPT = """
import sys
from backfill import Backfill, Progress
from backfill_api.status.progress import StepProgress
from backfill_cli.commands.run import RunCommand, Shown
from backfill_core.protocol.receipt import TableReceipt
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
            return RunOutcome("Complete", 0, "Complete", "", "", done, TableReceipt(8, 9, 7, 10, 256, "ab" * 32, (), 0.5))
        return RunOutcome("Stopped", 10, "Stopped", "stopped at a barrier", "", half, None)

sys.exit(RunCommand(Backfill.load(sys.argv[1]), Shown(), Driver()).to_end())
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
    """Return a function that runs a job which stops at once, and returns its terminal."""

    file = write_yaml(tmp_path / "job.yaml", "/s", "/t")

    def run(*script, code=10, **environ):
        kept = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "COLUMNS", "LINES"}}
        env = {**kept, "BACKFILL_STATE_DIR": str(tmp_path), "TERM": "xterm-256color", **environ}
        with PythonTerminal(["-c", SCRIPT, str(file), *script], env=env) as terminal:
            assert terminal.ends()[0] == code, terminal.text
            return terminal

    return run


def console_of(terminal):
    """Return a console that writes to a terminal."""
    return Console(file=Out(terminal), _environ={"TERM": "xterm-256color"})


def drawn(seen):
    """Return what a screen has drawn: it may arrive in parts, and ends in the first column."""
    output = b""
    while not output.endswith(b"\r"):
        output += os.read(seen, 65536)
    return output.decode()


def test_a_dumb_terminal_gets_lines_at_once(shown):
    """It used to show nothing until the end."""
    terminal = shown(TERM="dumb")
    assert "\x1b" not in terminal.raw
    assert re.search(
        r"^20\S+Z default/job  starting Spark.*\n.*looking at the tables.*\n.* 50 % 5 of 10 rows", terminal.text
    )


def test_no_color_removes_colours(shown):
    """NO_COLOR still draws the block."""
    assert COLOUR.search(shown().raw)
    plain = shown(NO_COLOR="1").raw
    assert COLOUR.search(plain) is None
    assert "\x1b[?25l" in plain


@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_a_command_shows_its_steps_and_not_the_messages_of_spark(tmp_path, term):
    """A plan was silent for 17 seconds, and then printed four lines of Spark (fault U14)."""
    file = write_yaml(tmp_path / "job.yaml", "/s", "/t")
    env = {**os.environ, "BACKFILL_STATE_DIR": str(tmp_path), "TERM": term}
    with PythonTerminal(["-c", STEPS, str(file)], env=env) as terminal:
        assert terminal.ends()[0] == 0, terminal.text
    steps = re.search(r"starting Spark  \d s\s+looking at the tables  \d s\s+the plan", terminal.text)

    assert "WARN" not in terminal.text
    assert bool(steps) == (term != "dumb"), terminal.text
    assert [path.read_text().count("WARN") for path in tmp_path.glob("*.log")] == [2]


def test_a_resized_terminal_is_cleared():
    """A terminal may rewrap the lines above: the border appeared twice."""
    seen, terminal = os.openpty()
    screen, sent = Screen(console_of(terminal)), []
    for columns in (80, 80, 60, 60):
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        screen.draw("+------+")
        sent.append(drawn(seen))
    os.close(seen)
    os.close(terminal)

    assert [HOME_AND_CLEAR.segment.text in output for output in sent] == [False, False, True, False]


def test_echoed_keys_move_no_line():
    """`^C` at the end of a full line began another line, and the border appeared twice."""
    seen, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    screen, shown = Screen(console_of(terminal)), Emulator()
    for number in range(3):
        screen.draw(Panel(f"line {number}"))
        shown.feed(drawn(seen)).feed("^C")
    screen.close()
    os.close(seen)
    os.close(terminal)

    assert [line for line in shown.text.splitlines() if "line" in line] == ["│ line 2" + 70 * " " + "│"]
    assert shown.text.count("╭") == 1


def test_a_watch_that_ctrl_c_ends_leaves_one_block(state_dir):
    """The exit is no error."""
    env = {**os.environ, "BACKFILL_STATE_DIR": str(state_dir), "TERM": "xterm-256color"}
    words = ["-m", "backfill_cli", "status", "--watch"]
    with running(state_dir), PythonTerminal(words, env=env) as terminal:
        terminal.wait_for("rows ")
        terminal.press()
        assert terminal.ends()[0] == 0, terminal.text
    shown = Emulator().feed(terminal.raw).text

    assert (shown.count("default/job"), shown.count("rows/s"), shown.count("\njob ")) == (1, 1, 1)


def test_a_complete_job_leaves_the_receipt(shown):
    """The block above it showed the speed of a job that had ended; the times of its steps stay."""
    left = Emulator(80).feed(shown("complete", code=0).raw).text

    assert left.splitlines()[:2] == ["copy ✔ 1 min 35 s", "receipt   ✔ source and target are equal"]
    assert "default/job" not in left
    assert "complete: 10 rows of the snapshot" in left


def test_a_stopped_job_leaves_the_block(shown):
    """The block shows the progress of the job."""
    left = Emulator(80).feed(shown().raw).text

    assert "5 of 10 rows" in left
    assert "stopped at a barrier" in left
