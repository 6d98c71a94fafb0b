"""`python -m backfill_spark -f job.yaml`: one attempt, progress as JSON lines on standard output.

With `BACKFILL_MODE=plan` it only says what would happen. The last line is how it ended; in a pod, so is the termination log.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path
from types import FrameType

from backfill_api.load import SpecError, load_backfill
from backfill_api.progress import Progress
from backfill_api.spec import Backfill
from backfill_core.errors import EXIT_COMPLETE, BackfillError, InvalidSpecError
from backfill_spark import last_words
from backfill_spark.driver import request_stop, run_driver
from backfill_spark.plan import plan_job
from backfill_spark.settings import DriverSettings, InvalidSettingError
from backfill_spark.wire_commands import receipt_words


def main() -> int:
    """Run the driver and return its exit code."""
    parser = argparse.ArgumentParser(prog="backfill-driver", description=__doc__)
    parser.add_argument("-f", "--file", type=Path, required=True)
    file: Path = parser.parse_args().file
    try:
        settings = DriverSettings.from_environ()
    except InvalidSettingError as error:
        print(str(error), file=sys.stderr)
        return error.exit_code
    try:
        backfill = load_backfill(file.read_text())
    except SpecError as error:
        print(str(error), file=sys.stderr)
        last_words.leave(settings, last_words.of_error(InvalidSpecError(str(error))))
        return InvalidSpecError.exit_code
    return _plan(backfill, settings) if settings.mode == "plan" else _run(backfill, settings)


def _run(backfill: Backfill, settings: DriverSettings) -> int:
    asked: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        asked.append(number)
        request_stop(force=False)

    def observe(progress: Progress) -> None:
        # Whoever asked while Spark was starting found nobody to tell; so it is said again until it is seen.
        if asked and not progress.reason.startswith("stopping"):
            request_stop(force=False)
        print(progress.model_dump_json(by_alias=True, exclude_none=True), flush=True)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    outcome = run_driver(backfill, settings=settings, observe=observe)
    receipt = None if outcome.receipt is None else receipt_words(outcome.receipt).model_dump(mode="json", by_alias=True)
    words = {"outcome": outcome.outcome, "reason": outcome.reason, "message": outcome.message, "cure": outcome.cure}
    print(json.dumps({**words, "receipt": receipt}), flush=True)
    last_words.leave(settings, last_words.of_outcome(outcome))
    return outcome.exit_code


def _plan(backfill: Backfill, settings: DriverSettings) -> int:
    try:
        ending = last_words.of_plan(plan_job(backfill, settings=settings))
        code = EXIT_COMPLETE
    except BackfillError as error:
        ending, code = last_words.of_error(error), error.exit_code
    print(ending.model_dump_json(by_alias=True, exclude_none=True), flush=True)
    last_words.leave(settings, ending)
    return code


if __name__ == "__main__":
    sys.exit(main())
