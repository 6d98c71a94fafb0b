"""Draws a terminal from recorded lines of `backfill run -o json`, for the docs.

`python -m backfill_cli.terminal.picture docs/images/run.json docs/images/run.svg`; the recording is
`{"job": …, "progress": {…}, "receipt": {…}}`, taken from `driver.jsonl` of a demo.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

from rich.console import Console

from backfill import Receipt
from backfill.lines import progress_in
from backfill_cli.terminal.view import show_progress, show_receipt

WIDTH_COLUMNS = 96


def draw(recording: Path, picture: Path) -> None:
    """Write the SVG of a recording; the same recording gives the same file."""
    words = json.loads(recording.read_text(encoding="utf-8"))
    console = Console(
        width=WIDTH_COLUMNS, record=True, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print("$ backfill run -f orders.yaml", style="bold")
    console.print(show_progress(words["job"], progress_in(words["progress"])))
    if words.get("receipt"):
        console.print("…", style="dim")
        console.print(show_receipt(Receipt.model_validate(words["receipt"])))
    # Without a given id, it is a hash of the content; with one, the file changes only where the terminal does.
    picture.write_text(console.export_svg(title="backfill run", unique_id="run"), encoding="utf-8")


def record(lines: Path, recording: Path, job: str, percent: int) -> None:
    """Keep of a demo's `driver.jsonl` the first progress of at least `percent` that is throttled, and the receipt."""
    words = [json.loads(line) for line in lines.read_text(encoding="utf-8").split("\n") if line.startswith("{")]
    shown = next(
        one
        for one in words
        if one.get("percent", 0) >= percent and one.get("revision") and one.get("throttleRowsPerSecond")
    )
    receipts = [one["receipt"] for one in words if one.get("receipt")]
    kept = {"job": job, "progress": shown, "receipt": receipts[-1] if receipts else None}
    recording.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
