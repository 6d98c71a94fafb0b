"""`backfill demo`: the product on real tables with real live changes, in two to three minutes.

Three processes, as in real life: a writer that keeps changing the source, the driver (`backfill run`), and this
one, which types the commands that a person would type and shows what they answer. Every number is the product's.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any

import yaml
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from backfill import Progress, Receipt
from backfill.errors import EXIT_USAGE
from backfill.lines import progress_in
from backfill.words import one_line
from backfill_cli.commands.demo_story import SNAPSHOT, Story, is_newer, seen_words
from backfill_cli.terminal.view import show_progress, show_receipt

STEP_TIMEOUT_S = 180.0
DRIVER_MEMORY = "2g"
SLOWER = 3
THROTTLE_SECONDS = 10
PAUSE_SECONDS = 5.0


BARRIERS_UNTIL_STILL = 3
KEY_PROOF = "all of the snapshot is there; now the proof that each key stands in one row, before changes are merged"
RECEIPT = "then the receipt: every row of both sides is hashed and compared"


def copies(progress: Progress) -> bool:
    """Is it at work on history, and nothing holds it?"""
    return progress.paused is None and not progress.quiet and progress.rows_per_second > 0


def is_over(progress: Progress, *, step: str) -> bool:
    """Is a step done?"""
    return all(one.state == "Done" for one in progress.steps if one.name == step)


class DemoError(Exception):
    """A step did not do what it must; the message says which, and where the logs are."""


class Child:
    """A process that speaks JSON lines: all go to a file, the newest is kept, and who waits for one is woken."""

    def __init__(self, command: list[str], log_file: Path) -> None:
        """Start it in a group of its own, so that all of it can be killed."""
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
                words = json.loads(line)
            except ValueError:
                continue  # cut off by a kill
            with self._changed:
                self.newest = words
                self._changed.notify_all()
        self._log.close()
        self._lines.close()
        with self._changed:
            self.ended = True
            self._changed.notify_all()

    def wait_for(self, found: Callable[[dict[str, Any]], bool], timeout_s: float = STEP_TIMEOUT_S) -> bool:
        """Wait until a line fits; False: it ended or took too long before one did."""
        with self._changed:
            self._changed.wait_for(lambda: self.ended or found(self.newest), timeout=timeout_s)
            return found(self.newest)

    def pause(self, seconds: float) -> None:
        """Let it run for a while."""
        self.wait_for(lambda _: False, seconds)

    def kill(self) -> None:
        """End it as a machine's failure would: SIGKILL, the JVM too."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def end(self, timeout_s: float = 30.0) -> int:
        """Close its standard input, and wait for the end; all that it said is in the files then."""
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
        """Its process id."""
        return self._process.pid


class Demo:
    """The script, and what the screen shows meanwhile."""

    def __init__(self, folder: Path, rows: int, console: Console, story: Story = SNAPSHOT) -> None:
        """Take the scratch folder; `play` does the rest."""
        self._folder = folder
        self._rows = rows
        self._story = story
        self.console = console
        self._spec = folder / "orders.yaml"
        self._job = f"demo/{folder.name}"
        self.writer: Child | None = None
        self.driver: Child | None = None
        self.progress = Progress(reason="starting Spark")
        self._began_s = time.monotonic()
        self._step = 0

    # ------------------------------------------------------------------ the screen
    def _view(self) -> RenderableType:
        newest = self.driver.newest if self.driver is not None else {}
        if "epoch" in newest:
            self.progress = progress_in(newest)
        parts = [show_progress(self._job, self.progress)] if self.driver is not None else []
        if self.writer is not None and self.writer.newest:
            words = f"the writer: version {self.writer.newest['version']}, {self.writer.newest['what']}"
            parts.append(Text(words, style="magenta"))
        return Group(*parts)

    def _say(self, words: str) -> None:
        self._step += 1
        seconds = time.monotonic() - self._began_s
        self.console.print(f"[bold cyan]{self._step:2}[/] [dim]{seconds:4.0f} s[/]  {words}", soft_wrap=True)

    def _note(self, words: str) -> None:
        self.console.print(Text(f"            {words}", style="green"), soft_wrap=True)

    def _where(self) -> None:
        """On something that is no terminal there is no live view: say a line instead."""
        self._view()
        if not self.console.is_terminal:
            self._note(one_line(self.progress))

    # ------------------------------------------------------------------ the script
    def play(self) -> int:
        """Go through all of it, and return the exit code."""
        try:
            with Live(console=self.console, get_renderable=self._view, refresh_per_second=4, transient=True):
                self._make_table()
                self._first_attempt()
                outcome = self._second_attempt()
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

    def _make_table(self) -> None:
        self._say(f"a table of {self._rows:,} orders in {self._folder}/lake, and a writer that keeps changing it")
        self._spec.write_text(yaml.safe_dump(self.document(), sort_keys=False))
        command = [sys.executable, "-m", "backfill_cli.commands.demo_writer", f"{self._folder}/lake/orders"]
        reads = ["--reads", f"{self._folder}/lake/orders_copy"] if self._story.shows_changes else []
        self.writer = Child([*command, "--rows", str(self._rows), *reads], self._folder / "writer.log")
        if not self.writer.wait_for(lambda words: "version" in words):
            raise DemoError(f"the writer made no table; its log is {self._folder}/writer.log")

    def document(self) -> dict[str, Any]:
        """Return the Backfill of the demo, as its file has it."""
        lake = f"{self._folder}/lake"
        return {
            "apiVersion": "backfill.dev/v1alpha1",
            "kind": "Backfill",
            "metadata": {"name": "orders"},
            "spec": {
                "jobId": self._job,
                "source": {"type": "Delta", "delta": {"path": f"{lake}/orders", "key": ["order_id"]}},
                "transform": {
                    "select": ["order_id", "customer", "amount", "ordered_at", "upper(status) AS status"],
                    "where": "amount > 0",
                },
                "target": {"type": "Delta", "delta": {"path": f"{lake}/orders_copy", "writeMode": "Upsert"}},
                "strategy": {"type": self._story.strategy},
                "throttle": {"rowsPerSecond": self._rows // self._story.history_s},
                "after": "Exit",
                "verify": "Final",
            },
        }

    def _first_attempt(self) -> None:
        self._start(self._story.begins)
        self.until("the first tenth is committed", lambda progress: progress.rows_done * 10 >= progress.rows_total > 0)
        slower = self._rows // self._story.history_s // SLOWER
        self._type("slower, for a while", "throttle", str(slower), "--for", f"{THROTTLE_SECONDS}s")
        self.show_changes("a reader looks into the copy for what the writer changes meanwhile")
        self.until("the limit ends by itself", lambda progress: progress.throttle_until is None)
        self._type(self._story.paused, "pause")
        self.until("nothing runs", lambda progress: progress.quiet)
        # What was read when the pause came is committed by the barriers that follow; from then on nothing moves.
        still = self.progress.epoch + BARRIERS_UNTIL_STILL
        self.until("all that was read is committed", lambda progress: progress.epoch >= still)
        held = self.progress.rows_done
        self.running().pause(PAUSE_SECONDS)
        self._where()
        self._note(f"{self.progress.rows_done - held:,} rows in {PAUSE_SECONDS:g} s of pause; the writer went on")
        self.show_changes("the reader looks again, in the pause")
        self._type("go on", "resume")
        self.until(
            "it copies again",
            lambda progress: progress.step != "Copy" or (copies(progress) and progress.rows_done > held),
        )
        self._say(f"$ kill -9 {self.running().pid}   [dim]# no warning, in the middle of its work[/]")
        self.running().kill()
        self._where()
        self._note(f"last seen: {self.progress.rows_done:,} rows committed at epoch {self.progress.epoch}")

    def show_changes(self, why: str) -> None:
        """Show, where a strategy promises it, that changes come into the copy before its last row does."""
        if not self._story.shows_changes:
            return
        assert self.writer is not None
        self._say(why)
        since = self.writer.newest["version"]
        if not self.writer.wait_for(lambda words: is_newer(words, since)):
            raise DemoError(f"the reader found no change in the copy; its log is {self._folder}/writer.log")
        self._where()
        self._note(seen_words(self.writer.newest, self.progress.rows_total - self.progress.rows_done))

    def _second_attempt(self) -> dict[str, Any]:
        before = self.progress
        self._start(self._story.again)
        self.until("the next attempt has committed", lambda progress: progress.attempt > before.attempt)
        self._note(f"attempt {self.progress.attempt} began at {self.progress.rows_done:,} rows")
        if self.progress.step == "Copy" and "outcome" not in self.running().newest:
            self._type("and now as fast as it can", "throttle", "none")
        self.until("all rows are read", lambda progress: progress.step not in {"Start", "Copy"})
        self.tell_steps()
        if not self.running().wait_for(lambda words: "outcome" in words):
            raise DemoError(f"the driver ended without an outcome; its log is {self._folder}/driver.log")
        outcome = self.running().newest
        if outcome["outcome"] != "Complete":
            raise DemoError(f"{outcome['reason']}: {outcome['message']} {outcome['hint']}")
        return outcome

    def tell_steps(self) -> None:
        """Announce each step after the copy, and wait for its end."""
        for step, words in (("KeyProof", KEY_PROOF), ("CatchUp", self._story.catches_up), ("Receipt", RECEIPT)):
            if not is_over(self.progress, step=step):
                self._say(words)
                self.until(f"{step} is done", partial(is_over, step=step))

    def _show_end(self, outcome: dict[str, Any]) -> None:
        assert self.writer is not None
        self._say(f"complete, while the writer went on to version {self.writer.newest['version']}")
        self.writer.end()
        self.console.print(show_receipt(Receipt.model_validate(outcome["receipt"])))
        self.console.print("[bold cyan]what to try next[/]")
        backfill = shlex.join(typed())
        for command, why in (
            (f"{backfill} verify -f {self._spec}", "look for a difference again, without a driver"),
            (f"{backfill} status -f {self._spec} --offline", "what the target itself knows"),
            (f"{backfill} run -f {self._spec}", "it is finished, and says so at once"),
            (f"{backfill} release -f {self._spec}", "take its state out of the copy, so that any writer may use it"),
            (f"less {self._spec}", "the same file is for kubectl apply, later"),
            (f"rm -r {self._folder}", "take it all away"),
        ):
            self.console.print(f"  {command}   [dim]# {why}[/]", soft_wrap=True)

    # ------------------------------------------------------------------ the driver
    def _start(self, why: str) -> None:
        self._say(f"$ backfill run -f {self._spec.name}   [dim]# {why}[/]")
        command = [sys.executable, "-m", "backfill_cli", "run", "-f", str(self._spec), "-o", "json", "--grid"]
        self.driver = Child([*command, "--memory", DRIVER_MEMORY], self._folder / "driver.log")

    def running(self) -> Child:
        """Return the driver, which must have been started."""
        assert self.driver is not None
        return self.driver

    def until(self, what: str, found: Callable[[Progress], bool]) -> None:
        """Wait for a progress of the driver.

        Raises:
            DemoError: the driver ended, or was too slow.
        """
        # Lines come faster than a waiter wakes: a job that is complete has passed every step.
        if not self.running().wait_for(
            lambda words: words.get("outcome") == "Complete" or ("epoch" in words and found(progress_in(words)))
        ):
            last = self.running().newest
            words = f"{last.get('reason')}: {last.get('message')}" if "outcome" in last else "no answer"
            raise DemoError(f"waited for “{what}”, got {words}; logs are in {self._folder}")
        self._where()

    def _type(self, why: str, *words: str) -> None:
        """Run the command that a person would type in another terminal, and show its answer."""
        words = (*words, *self._story.patience)
        self._say(f"$ backfill {shlex.join(words)}   [dim]# {why}[/]")
        command = [sys.executable, "-m", "backfill_cli", *words, "-f", str(self._spec)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self._note((done.stdout or done.stderr).strip())
        if done.returncode != 0:
            raise DemoError(f"`backfill {shlex.join(words)}` ended with {done.returncode}; logs are in {self._folder}")


def typed() -> list[str]:
    """Return what to type for this very command in another terminal: its name where that finds it, else where it lies."""
    beside = Path(sys.executable).with_name("backfill")
    found = shutil.which("backfill")
    if found is not None and Path(found).resolve() == beside.resolve():
        return ["backfill"]
    return [str(beside)] if beside.is_file() else [sys.executable, "-m", "backfill_cli"]


def run_demo(folder: Path | None, rows: int, story: Story = SNAPSHOT) -> int:
    """Play the demo and return the exit code."""
    console = Console(highlight=False)
    scratch = (folder or Path(tempfile.mkdtemp(prefix="backfill-demo-"))).resolve()
    if (scratch / "lake").exists():
        console.print(f"[bold red]error[/]: {scratch} has a lake already; give another --dir, or remove it")
        return EXIT_USAGE
    scratch.mkdir(parents=True, exist_ok=True)
    # The folder stays: what to try next is in it.
    return Demo(scratch, rows, console, story).play()
