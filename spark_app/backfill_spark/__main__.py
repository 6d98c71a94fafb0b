"""`python -m backfill_spark -f job.yaml`: one attempt, progress as JSON lines on standard output."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path
from types import FrameType

from backfill_api.load import SpecError, load_backfill
from backfill_api.progress import Progress
from backfill_core.errors import InvalidSpecError
from backfill_spark.driver import request_stop, run_driver
from backfill_spark.settings import DriverSettings
from backfill_spark.wire_commands import receipt_words


def main() -> int:
    """Run the driver and return its exit code."""
    parser = argparse.ArgumentParser(prog="backfill-driver", description=__doc__)
    parser.add_argument("-f", "--file", type=Path, required=True)
    try:
        backfill = load_backfill(parser.parse_args().file.read_text())
    except SpecError as error:
        print(str(error), file=sys.stderr)
        return InvalidSpecError.exit_code

    def stop(_number: int, _frame: FrameType | None) -> None:
        request_stop(force=False)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    outcome = run_driver(backfill, settings=DriverSettings.from_environ(), observe=_print)
    receipt = None if outcome.receipt is None else receipt_words(outcome.receipt).model_dump(mode="json", by_alias=True)
    words = {"outcome": outcome.outcome, "reason": outcome.reason, "message": outcome.message, "cure": outcome.cure}
    print(json.dumps({**words, "receipt": receipt}), flush=True)
    return outcome.exit_code


def _print(progress: Progress) -> None:
    print(progress.model_dump_json(by_alias=True, exclude_none=True), flush=True)


if __name__ == "__main__":
    sys.exit(main())
