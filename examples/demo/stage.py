"""Common base of all demos: processes that write JSON lines, commands as a user types them, and a live view."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any

import yaml
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from backfill import Progress, Receipt
from backfill.lines import current_time, progress_in
from backfill_console.formatting import one_line
from backfill_console.frames import frame_of_driver
from backfill_console.terminal import show_frame, show_receipt

STEP_TIMEOUT_S = 180.0
DRIVER_MEMORY = "2g"


def copies(progress: Progress) -> bool:
    """Return true if the job reads history and is not paused."""
    return progress.paused is None and not progress.quiet and progress.rows_per_second > 0


def is_over(progress: Progress, *, step: str) -> bool:
    """Return true if a step is done, or the job does not have it."""
    return all(each.state == "Done" for each in progress.steps if each.name == step)


class DemoError(Exception):
    """A step failed; the message names the step and the logs."""


class Child:
    """A process that writes JSON lines. All lines go to a file; the newest one is kept, and wakes waiting threads."""

    def __init__(self, command: list[str], log_file: Path) -> None:
        """Start the process in a separate process group, so that a kill includes its children."""
        self._log = log_file.open("ab")
        self._lines = log_file.with_suffix(".jsonl").open("ab")
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, start_new_session=True
        )
        self._changed = threading.Condition()
        self.newest: dict[str, Any] = {}
        self.ended = False
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    def _read(self, out: IO[bytes]) -> None:
        for line in out:
            self._lines.write(line)
            try:
                document = json.loads(line)
            except ValueError:
                continue  # cut off by a kill
            with self._changed:
                self.newest = document
                self._changed.notify_all()
        self._log.close()
        self._lines.close()
        with self._changed:
            self.ended = True
            self._changed.notify_all()

    def wait_for(self, fits: Callable[[dict[str, Any]], bool], timeout_s: float = STEP_TIMEOUT_S) -> bool:
        """Wait until a line fits; return false if the process ended or the time ran out before."""
        with self._changed:
            self._changed.wait_for(lambda: self.ended or fits(self.newest), timeout=timeout_s)
            return fits(self.newest)

    def pause(self, seconds: float) -> None:
        """Let the process run for some seconds."""
        self.wait_for(lambda _: False, seconds)

    def kill(self) -> None:
        """End the process as a machine failure would: with SIGKILL, including the JVM."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def tell(self, line: str) -> None:
        """Write a line to standard input."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()

    def end(self, timeout_s: float = 30.0) -> int:
        """Close standard input, and wait for the end; then the files contain all output."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            code = -signal.SIGKILL
        self._reader.join(timeout_s)
        return code

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid


class Stage(ABC):
    """A demo: it writes a Backfill, starts its driver and a writer, and shows both."""

    def __init__(self, folder: Path, name: str, console: Console) -> None:
        """Store the scratch folder; `play` runs the demo.

        Args:
            folder: Scratch folder of the demo; it stays.
            name: Name of the Backfill and its file.
            console: Console that shows the demo.
        """
        self.folder, self.console = folder, console
        self.spec, self.job = folder / f"{name}.yaml", f"demo/{folder.name}"
        self.writer: Child | None = None
        self.driver: Child | None = None
        self.progress = Progress(reason="starting Spark")
        self._began_s = time.monotonic()
        self._step = 0

    # ------------------------------------------------------------------ implemented by subclasses
    @abstractmethod
    def document(self) -> dict[str, Any]:
        """Return the Backfill of the demo, as in its file."""

    @abstractmethod
    def script(self) -> dict[str, Any]:
        """Run the steps, and return the outcome that the driver reported."""

    @abstractmethod
    def describe_writer(self, line: Mapping[str, Any]) -> str:
        """Describe the writer's activity from its newest line."""

    @abstractmethod
    def describe_end(self, line: Mapping[str, Any]) -> str:
        """Return the closing caption, from the writer's newest line."""

    @abstractmethod
    def next_commands(self) -> Iterable[tuple[str, str]]:
        """Return arguments of `backfill` to try afterwards, each with its purpose."""

    # ------------------------------------------------------------------ the screen
    def _view(self) -> RenderableType:
        newest = self.driver.newest if self.driver is not None else {}
        if "epoch" in newest:
            self.progress = progress_in(newest)
        frame = frame_of_driver(self.job, self.progress, now=current_time())
        parts: list[RenderableType] = [show_frame(frame)] if self.driver is not None else []
        if self.writer is not None and self.writer.newest:
            parts.append(Text(self.describe_writer(self.writer.newest), style="magenta"))
        # The empty last line takes keys that a terminal echoes (^C): on a full line they would move the block.
        return Group(*parts, Text())

    def say(self, caption: str) -> None:
        """Announce a step."""
        self._step += 1
        seconds = time.monotonic() - self._began_s
        self.console.print(f"[bold cyan]{self._step:2}[/] [dim]{seconds:4.0f} s[/]  {caption}", soft_wrap=True)

    def note(self, message: str) -> None:
        """Print the result of a step."""
        self.console.print(Text(textwrap.indent(message, " " * 12), style="green"), soft_wrap=True)

    def where(self) -> None:
        """Print a line of progress if the console is not a terminal, and so has no live view."""
        self._view()
        if not self.console.is_terminal:
            self.note(one_line(self.progress))

    # ------------------------------------------------------------------ the script
    def play(self) -> int:
        """Run the demo, and return the exit code."""
        try:
            with Live(console=self.console, get_renderable=self._view, refresh_per_second=4, transient=True):
                self.spec.write_text(yaml.safe_dump(self.document(), sort_keys=False))
                outcome = self.script()
            self._show_end(outcome)
        except DemoError as error:
            self.console.print(f"[bold red]error[/]: {error}")
            return 1
        except KeyboardInterrupt:
            self.console.print("ended")
            return 130
        finally:
            for child in (self.driver, self.writer):
                if child is not None:
                    child.kill()
        return int(outcome["exitCode"])

    def kill(self) -> None:
        """End the driver as a machine failure would."""
        self.say(f"$ kill -9 {self.running().pid}   [dim]# no warning, in the middle of its work[/]")
        self.running().kill()
        self.where()
        self.note(f"last seen: {self.progress.rows_done:,} rows committed at epoch {self.progress.epoch}")

    def start_again(self, why: str) -> None:
        """Start the next attempt, and let it copy the remaining rows without a limit."""
        before = self.progress
        self.start(why)
        self.until(
            "the next attempt is at work",
            lambda progress: progress.attempt > before.attempt and progress.step != "Start",
        )
        self.note(f"attempt {self.progress.attempt} began at {self.progress.rows_done:,} rows")
        if self.progress.step == "Copy" and "outcome" not in self.running().newest:
            self.type("now at full speed", "throttle", "none")
        self.until("all rows are read", lambda progress: progress.step not in {"Start", "Copy"})

    def tell_steps(self, steps: Iterable[tuple[str, str]]) -> None:
        """Announce each step after the copy with its caption, and wait for its end."""
        for step, caption in steps:
            if not is_over(self.progress, step=step):
                self.say(caption)
                self.until(f"{step} is done", partial(is_over, step=step))

    def outcome(self, steps: Iterable[tuple[str, str]]) -> dict[str, Any]:
        """Announce the steps after the copy, and return the driver's outcome.

        Raises:
            DemoError: The job is not complete.
        """
        self.tell_steps(steps)
        if not self.running().wait_for(lambda line: "outcome" in line):
            raise DemoError(f"the driver ended without an outcome; its log is {self.folder}/driver.log")
        outcome = self.running().newest
        if outcome["outcome"] != "Complete":
            raise DemoError(f"{outcome['reason']}: {outcome['message']} {outcome['hint']}")
        return outcome

    def _show_end(self, outcome: Mapping[str, Any]) -> None:
        assert self.writer is not None
        self.say(self.describe_end(self.writer.newest))
        self.writer.end()
        if "receipt" in outcome:
            self.console.print(show_receipt(Receipt.model_validate(outcome["receipt"])))
        self.console.print("[bold cyan]commands to try next[/]")
        backfill = shlex.join(typed())
        for command, why in (
            *((f"{backfill} {arguments}", why) for arguments, why in self.next_commands()),
            (f"less {self.spec}", "the Backfill that was run"),
            (f"rm -r {self.folder}", "delete the demo"),
        ):
            self.console.print(f"  {command}   [dim]# {why}[/]", soft_wrap=True)

    # ------------------------------------------------------------------ the driver
    def start(self, why: str) -> None:
        """Start a driver."""
        self.say(f"$ backfill run -f {self.spec.name}   [dim]# {why}[/]")
        command = [sys.executable, "-m", "backfill_cli", "run", "-f", str(self.spec), "-o", "json", "--grid"]
        self.driver = Child([*command, "--memory", DRIVER_MEMORY], self.folder / "driver.log")

    def running(self) -> Child:
        """Return the driver, which must have been started."""
        assert self.driver is not None
        return self.driver

    def until(self, what: str, reached: Callable[[Progress], bool]) -> None:
        """Wait for a progress of the driver.

        Raises:
            DemoError: The driver ended, or was too slow.
        """
        # Lines may arrive faster than a waiter wakes. A complete job has passed every step.
        if not self.running().wait_for(
            lambda line: line.get("outcome") == "Complete" or ("epoch" in line and reached(progress_in(line)))
        ):
            last = self.running().newest
            answer = f"{last.get('reason')}: {last.get('message')}" if "outcome" in last else "no answer"
            raise DemoError(f"waited for “{what}”, got {answer}; logs are in {self.folder}")
        self.where()

    def type(self, why: str, *arguments: str) -> None:
        """Run a command as a user would in another terminal, and show its output."""
        line = shlex.join(arguments)
        self.say(f"$ backfill {line}   [dim]# {why}[/]")
        command = [sys.executable, "-m", "backfill_cli", *arguments, "-f", str(self.spec)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.note((done.stdout or done.stderr).strip())
        if done.returncode != 0:
            raise DemoError(f"`backfill {line}` ended with {done.returncode}; logs are in {self.folder}")


def typed() -> list[str]:
    """Return the command line that starts this `backfill` in another terminal: its name if on the PATH, else its path."""
    local = Path(sys.executable).with_name("backfill")
    on_path = shutil.which("backfill")
    if on_path is not None and Path(on_path).resolve() == local.resolve():
        return ["backfill"]
    return [str(local)] if local.is_file() else [sys.executable, "-m", "backfill_cli"]
