"""`python -m backfill_spark -f job.yaml`: one attempt, progress as JSON lines on standard output.

Each line has its time. A line is printed when the job changes, and at least every ten seconds. With `BACKFILL_MODE=plan` the
process only prints the plan. The last line reports the outcome, also of a failed start; in a pod, the termination log has it
too. Errors are printed on standard error, in a pod as JSON lines.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from types import FrameType
from typing import Any

from backfill_api.json_lines import JsonLines, log_what_python_prints, write_json
from backfill_api.load import SpecError, load_backfill
from backfill_api.spec.spec import BackfillResource
from backfill_api.status.progress import Progress
from backfill_core.errors import EXIT_COMPLETE, BackfillError, InvalidSpecError
from backfill_spark.control.wire import to_api_receipt
from backfill_spark.driver import termination_message
from backfill_spark.driver.attempt import run_driver
from backfill_spark.driver.lines import POD_EVERY_S, Lines, clock, json_line, progress_document
from backfill_spark.driver.plan import plan_job
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.procedures.perform import KINDS, perform
from backfill_spark.settings import DriverSettings, InvalidSettingError, in_a_pod

_log = logging.getLogger("backfill_spark")


def main() -> int:
    """Run the driver and return its exit code."""
    if in_a_pod():
        write_json("WARNING", JsonLines())
        log_what_python_prints()
        threading.excepthook = lambda found: sys.excepthook(
            found.exc_type, found.exc_value or found.exc_type(), found.exc_traceback
        )
    parser = argparse.ArgumentParser(prog="backfill-driver", description=__doc__)
    parser.add_argument("-f", "--file", type=Path, required=True)
    file: Path = parser.parse_args().file
    settings: DriverSettings | None = None
    try:
        settings = DriverSettings.from_environ()
        backfill = load_backfill(_text(file))
        if settings.mode in KINDS:
            return _perform(backfill, settings)
        return _plan(backfill, settings) if settings.mode == "plan" else _run(backfill, settings)
    except SpecError as error:
        return _refuse(InvalidSpecError(str(error)), settings)
    except BackfillError as error:
        return _refuse(error, settings)
    except Exception as error:  # noqa: BLE001 - process boundary: every error gets a line and an exit code
        if in_a_pod():
            _log.exception("the driver failed")
        else:
            traceback.print_exc()
        return _refuse(BackfillError(f"{type(error).__name__}: {error}"), settings)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSettingError(
            f"-f {file} cannot be read: {error}.", hint="Pass a Backfill as a YAML file."
        ) from error


def _run(backfill: BackfillResource, settings: DriverSettings) -> int:
    stop = StopSignal()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.ask(force=False)

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    began_s = time.monotonic()
    lines = Lines(
        lambda progress: _print(progress_document(backfill.job_id, progress, time.monotonic() - began_s, grid=False)),
        POD_EVERY_S,
    )
    try:
        lines.see(Progress(reason="starting Spark"))
        outcome = run_driver(
            backfill,
            settings=settings,
            observe=lines.see,
            starting=lambda step: lines.see(Progress(reason=step)),
            stop=stop,
        )
    finally:
        lines.close()
    receipt = (
        None if outcome.receipt is None else to_api_receipt(outcome.receipt).model_dump(mode="json", by_alias=True)
    )
    _say_end(outcome.outcome, outcome.reason, outcome.message, outcome.hint, receipt)
    termination_message.leave(settings, termination_message.of_outcome(outcome))
    return outcome.exit_code


def _plan(backfill: BackfillResource, settings: DriverSettings) -> int:
    ending = termination_message.of_plan(plan_job(backfill, settings=settings))
    print(ending.model_dump_json(by_alias=True, exclude_none=True), flush=True)
    termination_message.leave(settings, ending)
    return EXIT_COMPLETE


def _perform(backfill: BackfillResource, settings: DriverSettings) -> int:
    stop = StopSignal()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.ask(force=False))
    began_s = time.monotonic()

    def starting(step: str) -> None:
        _print(progress_document(backfill.job_id, Progress(reason=step), time.monotonic() - began_s, grid=False))

    done = perform(backfill, settings=settings, stop=stop, starting=starting)
    ending = done.ending
    receipt = None if ending.receipt is None else ending.receipt.model_dump(mode="json", by_alias=True)
    _say_end(ending.outcome, ending.reason, ending.message, ending.hint, receipt)
    termination_message.leave(settings, ending)
    return done.exit_code


def _refuse(error: BackfillError, settings: DriverSettings | None) -> int:
    _say_end("Failed", error.reason, error.message, error.hint, None)
    if settings is not None:
        termination_message.leave(settings, termination_message.of_error(error))
    return error.exit_code


def _say_end(outcome: str, reason: str, message: str, hint: str, receipt: dict[str, Any] | None) -> None:
    """Print the outcome for programs, and an error for users."""
    if outcome == "Failed":
        text = f"{reason}: {message} {hint}".rstrip()
        if in_a_pod():
            _log.error(text)
        else:
            print(f"error: {text}", file=sys.stderr)
    _print(
        {"time": clock(), "outcome": outcome, "reason": reason, "message": message, "hint": hint, "receipt": receipt}
    )


def _print(fields: dict[str, Any]) -> None:
    print(json_line(fields), end="", flush=True)


if __name__ == "__main__":
    sys.exit(main())
