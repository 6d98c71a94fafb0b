"""`backfill demo`: the product on real tables with real live changes, in two to three minutes.

The demo has three processes, as in real use: a writer that keeps changing the source, the driver (`backfill run`), and this
process, which runs the commands of a user and shows their output. Every number comes from the product.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from backfill.errors import EXIT_USAGE
from backfill_cli.commands.options import terminal
from demo.stage import Child, DemoError, Stage, copies
from demo.story import SNAPSHOT, STORIES, Story, describe_change, is_newer

WRITER = Path(__file__).with_name("writer.py")
SLOWER = 3
THROTTLE_SECONDS = 10
PAUSE_SECONDS = 5.0
BARRIERS_UNTIL_STILL = 3
KEY_PROOF = "the snapshot is complete; now the proof that each key is unique, before changes are merged"


class Demo(Stage):
    """Script of the demo for a table: its copy, and a writer that changes the table at the same time."""

    def __init__(self, folder: Path, rows: int, console: Console, story: Story = SNAPSHOT) -> None:
        """Store the scratch folder; `play` runs the demo."""
        super().__init__(folder, "orders", console)
        self._rows, self._story = rows, story

    def describe_writer(self, line: Mapping[str, Any]) -> str:
        """See `Stage`."""
        conflicts = line.get("conflicts", 0)
        again = f"; transactions that failed once and were repeated: {conflicts}" if conflicts else ""
        return f"the writer: version {line['version']}, {line['what']}{again}"

    def document(self) -> dict[str, Any]:
        """See `Stage`."""
        lake, parts = f"{self.folder}/lake", self._story.spec
        return {
            "apiVersion": "backfill.dev/v1alpha1",
            "kind": "Backfill",
            "metadata": {"name": "orders"},
            "spec": {
                "jobId": self.job,
                "source": {"type": "Delta", "delta": {"path": f"{lake}/orders", **parts["source"]}},
                "transform": dict(parts["transform"]),
                "target": {"type": "Delta", "delta": {"path": f"{lake}/{self._story.target}", **parts["target"]}},
                "strategy": {"type": self._story.strategy, **self._story.settings},
                "throttle": {"rowsPerSecond": self._rows // self._story.history_s},
                "after": "Exit",
                "verify": "Final",
            },
        }

    def script(self) -> dict[str, Any]:
        """See `Stage`."""
        self._make_table()
        self._first_attempt()
        self.start_again(self._story.again)
        return self.outcome(self.steps_after())

    def steps_after(self) -> tuple[tuple[str, str], ...]:
        """Return the steps after the copy, each with its caption."""
        return (("KeyProof", KEY_PROOF), ("CatchUp", self._story.catches_up), ("Receipt", self._story.receipt))

    def _make_table(self) -> None:
        self.say(f"a table of {self._rows:,} orders in {self.folder}/lake, and a writer that keeps changing it")
        command = [sys.executable, str(WRITER), f"{self.folder}/lake/orders"]
        reads = ["--reads", f"{self.folder}/lake/orders_copy"] if self._story.shows_changes else []
        options = ["--rows", str(self._rows), *self._story.writer, *reads]
        self.writer = Child([*command, *options], self.folder / "writer.log")
        if not self.writer.wait_for(lambda line: "version" in line):
            raise DemoError(f"the writer created no table; its log is {self.folder}/writer.log")

    def _first_attempt(self) -> None:
        self.start(self._story.begins)
        self.until("the first tenth is committed", lambda progress: progress.rows_done * 10 >= progress.rows_total > 0)
        slower = self._rows // self._story.history_s // SLOWER
        self.type("slower, for a while", "throttle", str(slower), "--for", f"{THROTTLE_SECONDS}s")
        self.show_changes("a reader looks in the copy for changes that the writer makes at the same time")
        self.until("the limit ends by itself", lambda progress: progress.throttle_until is None)
        self.type(self._story.paused, "pause")
        self.until("nothing runs", lambda progress: progress.quiet)
        # The next barriers commit the rows that were read before the pause; then progress stops.
        still = self.progress.epoch + BARRIERS_UNTIL_STILL
        self.until("all that was read is committed", lambda progress: progress.epoch >= still)
        held = self.progress.rows_done
        self.running().pause(PAUSE_SECONDS)
        self.where()
        self.note(f"{self.progress.rows_done - held:,} rows in {PAUSE_SECONDS:g} s of pause; the writer continued")
        self.show_changes("the reader looks again, during the pause")
        self.type("continue", "resume")
        self.until(
            "it copies again",
            lambda progress: progress.step != "Copy" or (copies(progress) and progress.rows_done > held),
        )
        self.kill()

    def show_changes(self, why: str) -> None:
        """Show that changes reach the copy before its last row, if the strategy promises that."""
        if not self._story.shows_changes:
            return
        assert self.writer is not None
        self.say(why)
        since = self.writer.newest["version"]
        if not self.writer.wait_for(lambda line: is_newer(line, since)):
            raise DemoError(f"the reader found no change in the copy; its log is {self.folder}/writer.log")
        self.where()
        self.note(describe_change(self.writer.newest, self.progress.rows_total - self.progress.rows_done))

    def describe_end(self, line: Mapping[str, Any]) -> str:
        """See `Stage`."""
        return f"complete, while the writer continued to version {line['version']}"

    def next_commands(self) -> tuple[tuple[str, str], ...]:
        """See `Stage`."""
        return (
            (f"verify -f {self.spec}", "compare source and target again, without a driver"),
            (f"status -f {self.spec} --offline", "the state that the target contains"),
            (f"run -f {self.spec}", "the job is finished, and ends at once"),
            (f"{self._story.last[0]} -f {self.spec}", self._story.last[1]),
        )


def run_demo(folder: Path | None, rows: int, strategy: str = SNAPSHOT.strategy) -> int:
    """Play the demo and return the exit code."""
    console = terminal(sys.stdout)
    scratch = (folder or Path(tempfile.mkdtemp(prefix="backfill-demo-"))).resolve()
    if (scratch / "lake").exists():
        console.print(f"[bold red]error[/]: {scratch} has a lake already; give another --dir, or remove it")
        return EXIT_USAGE
    scratch.mkdir(parents=True, exist_ok=True)
    # The folder stays: the suggested commands need it.
    return Demo(scratch, rows, console, STORIES[strategy]).play()
