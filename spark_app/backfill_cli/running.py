"""Runs a job in this process with a view of it."""

from __future__ import annotations

import json
import os
import signal
import time
from types import FrameType

from rich.console import Console
from rich.live import Live

from backfill_api.progress import Progress
from backfill_api.spec import Backfill
from backfill_cli.view import one_line, show_progress, show_receipt
from backfill_spark.driver import RunOutcome, request_stop, run_driver
from backfill_spark.settings import DriverSettings
from backfill_spark.wire_commands import receipt_words

LINE_EVERY_S = 5.0


def run_job(backfill: Backfill, settings: DriverSettings, output: str) -> int:
    """Run one attempt, show it, and return the exit code."""
    presses = 0
    console = Console(stderr=output == "json")

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal presses
        presses += 1
        if presses > 1:
            # The state is the target's; dying here loses the work in flight and nothing else.
            os._exit(130)
        request_stop(force=False)

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    if output == "json":
        outcome = run_driver(backfill, settings=settings, observe=_json_line)
        print(json.dumps(_words(outcome)), flush=True)
        return outcome.exit_code
    if console.is_terminal:
        starting = Progress(reason="starting Spark")
        with Live(show_progress(backfill.job_id, starting), console=console, refresh_per_second=4) as live:
            outcome = run_driver(
                backfill,
                settings=settings,
                observe=lambda progress: live.update(
                    show_progress(backfill.job_id, progress, "stopping at a barrier; Ctrl-C again: at once" if presses else "")
                ),
            )
    else:
        outcome = run_driver(backfill, settings=settings, observe=_Lines(console))
    _conclude(console, outcome)
    return outcome.exit_code


class _Lines:
    """One line every few seconds and at every change of phase: for logs."""

    def __init__(self, console: Console) -> None:
        """Say nothing yet."""
        self._console = console
        self._last_s = float("-inf")
        self._phase = ""

    def __call__(self, progress: Progress) -> None:
        """Look at a progress."""
        now_s = time.monotonic()
        if now_s - self._last_s >= LINE_EVERY_S or progress.phase != self._phase:
            self._last_s, self._phase = now_s, progress.phase
            self._console.print(one_line(progress), highlight=False, soft_wrap=True)


def _json_line(progress: Progress) -> None:
    print(progress.model_dump_json(by_alias=True, exclude_none=True), flush=True)


def _words(outcome: RunOutcome) -> dict[str, object]:
    receipt = outcome.receipt
    shown = None if receipt is None else receipt_words(receipt).model_dump(mode="json", by_alias=True)
    return {"outcome": outcome.outcome, "reason": outcome.reason, "message": outcome.message, "receipt": shown}


def _conclude(console: Console, outcome: RunOutcome) -> None:
    if outcome.receipt is not None:
        console.print(show_receipt(receipt_words(outcome.receipt)))
    match outcome.outcome:
        case "Complete":
            console.print(f"[bold green]complete[/] {outcome.message}")
        case "Stopped":
            console.print(f"[bold yellow]stopped[/] {outcome.message}")
        case _:
            console.print(f"[bold red]error[/]: {outcome.reason}: {outcome.message}", highlight=False)
            if outcome.cure:
                console.print(f"cure: {outcome.cure}", highlight=False)
