"""`make demo-switch` moves a live writer from a table to its copy, and back, in about three minutes.

It has three processes, as in real life: a writer that looks up the name of its table before each commit, the driver (`backfill run`),
and this process, which runs the commands of a user and shows their output. The name is a file, and a shell script changes it.

python examples/demo/switch.py --rows 200000
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1])]

from rich.console import Console

from demo.stage import Child, DemoError, Stage

WRITER = Path(__file__).with_name("switch_writer.py")
ROWS = 200_000
FRESH_S = 10
"""Longest lag at the begin of a switch-over, which refuses 30 seconds: a busy machine is slow between the two."""

FLIP = """\
#!/bin/sh
# The name of the table is a file. `show` prints its folder, `set` changes it.
cd "$(dirname "$0")"
case "$1" in
show) cat current ;;
set) printf '%s\\n' "$2" >next && mv next current ;;
esac
"""


class SwitchDemo(Stage):
    """The script of a switch-over under a writer that does not stop."""

    def __init__(self, folder: Path, rows: int, console: Console) -> None:
        """Store the scratch folder; `play` runs the demo."""
        super().__init__(folder, "orders", console)
        self._rows = rows
        self._source, self._target = folder / "lake" / "orders", folder / "lake" / "orders_v2"

    def document(self) -> dict[str, Any]:
        """See `Stage`."""
        return {
            "apiVersion": "backfill.dev/v1alpha1",
            "kind": "Backfill",
            "metadata": {"name": "orders"},
            "spec": {
                "jobId": self.job,
                "source": {"type": "Delta", "delta": {"path": str(self._source), "key": ["order_id"]}},
                "target": {"type": "Delta", "delta": {"path": str(self._target), "clusterBy": ["order_id"]}},
                "strategy": {"type": "Snapshot"},
                "after": "Follow",
                "switch": {"flip": {"type": "Command", "command": ["./point-orders-to.sh"]}},
            },
        }

    def describe_writer(self, line: Mapping[str, Any]) -> str:
        """See `Stage`."""
        refused = f"; refused {line['refused']} times" if "refused" in line else ""
        return f"the writer: {line['written']:,} orders, the last ones in {Path(line['table']).name}{refused}"

    def script(self) -> dict[str, Any]:
        """See `Stage`."""
        self._write()
        self._follow("a copy with another layout, which follows the table")
        self.type("what a switch would do; it changes nothing", "switch", "--dry-run")
        self._switch_and_back()
        self._follow("it continues where it was")
        before = self._live()["written"]
        self.type("again, and the writer tries until a table accepts its orders", "switch")
        self.wait_for_commit(self._target, before, "the writer has looked the name up again")
        return {"exitCode": self._count()}

    def _write(self) -> None:
        self.say(f"a table of {self._rows:,} orders in {self.folder}/lake, and a writer that finds it by a name")
        name, flip = self.folder / "current", self.folder / "point-orders-to.sh"
        name.write_text(f"{self._source}\n")
        flip.write_text(FLIP)
        flip.chmod(0o755)
        command = [sys.executable, str(WRITER), str(name), "--rows", str(self._rows)]
        self.writer = Child(command, self.folder / "writer.log")
        if not self.writer.wait_for(lambda line: line.get("written", 0) > self._rows):
            raise DemoError(f"the writer wrote nothing; its log is {self.folder}/writer.log")

    def _follow(self, why: str) -> None:
        before = self.progress.attempt
        self.start(why)
        self.until(
            "it has caught up",
            lambda progress: progress.attempt > before and progress.caught_up and progress.lag_seconds <= FRESH_S,
        )
        self.note(f"{self.progress.rows_done:,} rows are copied, and changes are applied as they come")

    def _switch_and_back(self) -> None:
        writer, refused = self._child(), self._live().get("refused", 0)
        writer.tell("hold")
        self.type("moves readers and writers; this writer waits after its first error", "switch")
        if not writer.wait_for(lambda line: line.get("refused", 0) > refused):
            raise DemoError(f"no table refused the writer; its log is {self.folder}/writer.log")
        self.note(f"the writer got: {self._live()['error']}")
        self.type("back: no other writer has changed the copy yet", "switch", "--undo")
        before = self._live()["written"]
        writer.tell("go")
        self.wait_for_commit(self._source, before, "the writer tries the same orders again")

    def wait_for_commit(self, table: Path, before: int, why: str) -> None:
        """Wait until the writer has committed more orders to a table.

        Raises:
            DemoError: It did not.
        """
        self.say(why)
        if not self._child().wait_for(lambda line: line.get("table") == str(table) and line["written"] > before):
            raise DemoError(f"the writer did not reach {table}; its log is {self.folder}/writer.log")
        self.note(self.describe_writer(self._live()))

    def _count(self) -> int:
        self._child().end(60)
        line = self._live()
        self.say(f"the writer ends: it wrote {line['written']:,} orders, and {line.get('found', 0):,} are in the table")
        return 0 if is_whole(line) else 1

    def describe_end(self, line: Mapping[str, Any]) -> str:
        """See `Stage`."""
        return "no order was lost, and none was written twice" if is_whole(line) else "orders are missing or doubled"

    def next_commands(self) -> tuple[tuple[str, str], ...]:
        """See `Stage`."""
        return (
            (f"switch -f {self.spec} --undo", "refused now: the copy has newer orders"),
            (f"switch -f {self.spec} --complete", "lift the fence of the old table"),
        )

    def _child(self) -> Child:
        assert self.writer is not None
        return self.writer

    def _live(self) -> dict[str, Any]:
        """Return the newest line of the writer."""
        return self._child().newest


def is_whole(line: Mapping[str, Any]) -> bool:
    """Return whether the table has each order that the writer wrote exactly once."""
    return {line.get("found"), line.get("distinct")} == {line["written"]}


def main() -> int:
    """Play the demo."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    given = parser.parse_args()
    # The folder stays, because the suggested next commands use it.
    folder = Path(tempfile.mkdtemp(prefix="backfill-demo-"))
    return SwitchDemo(folder, given.rows, Console(highlight=False)).play()


if __name__ == "__main__":
    sys.exit(main())
