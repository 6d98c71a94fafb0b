"""Every error that a job can end with; `BackfillError` is the base of all."""

from backfill_core.command_errors import CommandRefusedError as CommandRefusedError  # noqa: PLC0414
from backfill_core.command_errors import DriverSilentError as DriverSilentError  # noqa: PLC0414
from backfill_core.command_errors import DriverStartingError as DriverStartingError  # noqa: PLC0414
from backfill_core.command_errors import NotAcknowledgedError as NotAcknowledgedError  # noqa: PLC0414
from backfill_core.command_errors import NotRunningError as NotRunningError  # noqa: PLC0414
from backfill_core.errors import *  # noqa: F403 - the same classes, under one name
from backfill_spark.settings import InvalidSettingError as InvalidSettingError  # noqa: PLC0414
