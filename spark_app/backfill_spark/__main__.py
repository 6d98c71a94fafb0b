"""`python -m backfill_spark -f job.yaml`: one attempt, progress as JSON lines on standard output.

The last line says how it ended, also when it could not start; what went wrong stands on standard error, too.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import traceback
from pathlib import Path
from types import FrameType
from typing import Any

from backfill_api.load import SpecError, load_backfill
from backfill_api.progress import Progress
from backfill_api.spec import Backfill
from backfill_core.errors import EXIT_UNEXPECTED, BackfillError, InvalidSpecError
from backfill_spark.driver import request_stop, run_driver
from backfill_spark.settings import DriverSettings, InvalidSettingError
from backfill_spark.wire_commands import receipt_words


def main() -> int:
    """Run the driver and return its exit code."""
    parser = argparse.ArgumentParser(prog="backfill-driver", description=__doc__)
    parser.add_argument("-f", "--file", type=Path, required=True)
    file = parser.parse_args().file
    try:
        return _run(load_backfill(_text(file)), DriverSettings.from_environ())
    except SpecError as error:
        return _refuse(InvalidSpecError.reason, str(error), "", InvalidSpecError.exit_code)
    except BackfillError as error:
        return _refuse(error.reason, error.message, error.cure, error.exit_code)
    except Exception as error:  # noqa: BLE001 - the process's border: whatever it was gets a line and a code
        traceback.print_exc()
        return _refuse(BackfillError.reason, f"{type(error).__name__}: {error}", "", EXIT_UNEXPECTED)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSettingError(f"-f {file} cannot be read: {error}.", cure="Give the Backfill, as YAML.") from error


def _run(backfill: Backfill, settings: DriverSettings) -> int:
    def stop(_number: int, _frame: FrameType | None) -> None:
        request_stop(force=False)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    outcome = run_driver(backfill, settings=settings, observe=_print)
    receipt = None if outcome.receipt is None else receipt_words(outcome.receipt).model_dump(mode="json", by_alias=True)
    _say_end(outcome.outcome, outcome.reason, outcome.message, outcome.cure, receipt)
    return outcome.exit_code


def _refuse(reason: str, message: str, cure: str, exit_code: int) -> int:
    _say_end("Failed", reason, message, cure, None)
    return exit_code


def _say_end(outcome: str, reason: str, message: str, cure: str, receipt: dict[str, Any] | None) -> None:
    """Say how it ended, to programs; and what went wrong, to people."""
    if outcome == "Failed":
        print(f"error: {reason}: {message} {cure}".rstrip(), file=sys.stderr)
    words = {"outcome": outcome, "reason": reason, "message": message, "cure": cure, "receipt": receipt}
    print(json.dumps(words), flush=True)


def _print(progress: Progress) -> None:
    print(progress.model_dump_json(by_alias=True, exclude_none=True), flush=True)


if __name__ == "__main__":
    sys.exit(main())
