"""Draws a terminal from recorded lines of `backfill run -o json`, for the docs.

`python -m backfill_cli.terminal.picture docs/images/run.json docs/images/run.svg`; the recording is
`{"job": …, "time": …, "progress": {…}, "receipt": {…}}`, taken from `driver.jsonl` of a demo.
"""

from __future__ import annotations

import io
import json
import sys
from datetime import datetime
from pathlib import Path

from rich.console import Console

from backfill import Receipt
from backfill.lines import progress_in
from backfill_console.frames import frame_of_driver
from backfill_console.terminal import show_frame, show_receipt

WIDTH_COLUMNS = 96


def draw(recording: Path, picture: Path) -> None:
    """Write the SVG of a recording; the same recording gives the same file."""
    recorded = json.loads(recording.read_text(encoding="utf-8"))
    console = Console(
        width=WIDTH_COLUMNS, record=True, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print("$ backfill run -f orders.yaml", style="bold")
    frame = frame_of_driver(
        recorded["job"], progress_in(recorded["progress"]), now=datetime.fromisoformat(recorded["time"])
    )
    console.print(show_frame(frame))
    if recorded.get("receipt"):
        console.print("…", style="dim")
        console.print(show_receipt(Receipt.model_validate(recorded["receipt"])))
    # Without a given id, it is a hash of the content; with one, the file changes only where the terminal does.
    picture.write_text(console.export_svg(title="backfill run", unique_id="run"), encoding="utf-8")


def record(lines: Path, recording: Path, job: str, percent: int) -> None:
    """Extract the first throttled progress of at least `percent`, and the receipt, from a demo's `driver.jsonl`."""
    documents = [json.loads(line) for line in lines.read_text(encoding="utf-8").split("\n") if line.startswith("{")]
    shown = next(
        document
        for document in documents
        if document.get("percent", 0) >= percent and document.get("revision") and document.get("throttleRowsPerSecond")
    )
    receipts = [document["receipt"] for document in documents if document.get("receipt")]
    kept = {"job": job, "time": shown["time"], "progress": shown, "receipt": receipts[-1] if receipts else None}
    recording.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
