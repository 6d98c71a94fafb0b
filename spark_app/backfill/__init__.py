"""Backfill a Delta table from Python: in your own SparkSession, or in an embedded one.

    from backfill import Backfill

    job = Backfill.load("orders.yaml")
    print(job.plan(spark))
    outcome = job.run(spark)

Not allowed inside: rules of a job (`backfill_core`), Spark jobs (`backfill_spark`), and anything of the terminal.
"""

from backfill.job import Backfill, Comparison
from backfill.run import Outcome, Run
from backfill.session import open_session
from backfill.shown import ShownPlan as Plan
from backfill.shown import ShownReceipt as Receipt
from backfill.status import Status
from backfill_api.status.progress import Progress
from backfill_api.wire import Ack
from backfill_core.command_errors import (
    CommandRefusedError,
    DriverSilentError,
    DriverStartingError,
    NotAcknowledgedError,
    NotRunningError,
)
from backfill_core.errors import BackfillError
from backfill_spark.repair.result import Repaired
from backfill_spark.settings import DriverSettings as Settings

__all__ = [
    "Ack",
    "Backfill",
    "BackfillError",
    "CommandRefusedError",
    "Comparison",
    "DriverSilentError",
    "DriverStartingError",
    "NotAcknowledgedError",
    "NotRunningError",
    "Outcome",
    "Plan",
    "Progress",
    "Receipt",
    "Repaired",
    "Run",
    "Settings",
    "Status",
    "open_session",
]
