"""Keys of `backfill status --watch` in a real terminal command a driver without Spark."""

import os
import termios

from support.console.command_line import running
from support.console.terminal import PythonTerminal

from backfill.lines import log_file

KEYS_LINE = "p pause  r resume  t throttle  v verify  l logs  e events  g grid  q quit"


def watching(folder):
    """Start the command in a terminal."""
    kept = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "COLUMNS", "LINES"}}
    env = {**kept, "BACKFILL_STATE_DIR": str(folder), "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"}
    return PythonTerminal(["-m", "backfill_cli", "status", "--watch"], env=env, columns=120, lines=30)


def reads_lines(terminal):
    """Return whether the terminal echoes characters and waits for Enter, as a shell expects it."""
    modes = termios.tcgetattr(terminal.master)[3]
    return bool(modes & termios.ECHO and modes & termios.ICANON)


class TestKeys:
    """They are those of `kubectl backfill get NAME -w`."""

    def test_keys_pause_throttle_and_resume_the_job(self, tmp_path):
        """The block shows the acknowledgement and the command that undoes it; the mode of the terminal is restored."""
        with running(tmp_path) as driver, watching(tmp_path) as terminal:
            terminal.wait_for(KEYS_LINE)
            terminal.press(b"p")
            terminal.wait_for("Undo: backfill resume")
            paused = driver.progress.paused
            terminal.press(b"t")
            terminal.wait_for("throttle to rows a second")
            terminal.press(b"50k\r")
            terminal.wait_for("limited to 50,000 rows/s")
            terminal.press(b"r")
            terminal.wait_for("resume: ")
            terminal.press(b"q")
            code, _ = terminal.ends()

            assert (code, paused) == (0, "History")
            assert driver.seen[1].command.rows_per_s == 50_000
            assert reads_lines(terminal)

    def test_keys_show_the_log_the_events_and_the_grid(self, tmp_path):
        """Each key again returns to the block; a log that the run writes elsewhere is named."""
        with running(tmp_path) as driver, watching(tmp_path) as terminal:
            terminal.wait_for(KEYS_LINE)
            terminal.press(b"l")
            terminal.wait_for("no log at")
            log_file(tmp_path, "default/job").write_text("WARN the store is slow\n")
            terminal.wait_for("WARN the store is slow")
            terminal.press(b"p")
            terminal.wait_for("Undo: backfill resume")
            terminal.press(b"e")
            terminal.wait_for("default/job  events")
            terminal.wait_for("applied at epoch")
            terminal.press(b"g")
            terminal.wait_for("25 %, the snapshot in 4 parts")
            terminal.press(b"g")
            terminal.wait_for("1,000 of 4,000")
            terminal.press(b"q")

            assert terminal.ends()[0] == 0
            assert driver.progress.paused == "History"

    def test_quit_leaves_the_job_as_it_is(self, tmp_path):
        """Only the watch ends."""
        with running(tmp_path) as driver, watching(tmp_path) as terminal:
            terminal.wait_for(KEYS_LINE)
            terminal.press(b"q")

            assert terminal.ends()[0] == 0
            assert driver.seen == []
