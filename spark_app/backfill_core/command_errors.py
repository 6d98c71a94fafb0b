"""Errors of commands to a driver; the job itself is unchanged."""

from __future__ import annotations

from backfill_core.errors import BackfillError


class NotRunningError(BackfillError):
    """No driver of the job runs, or several do and none was named."""

    reason = "NotRunning"
    exit_code = 4


class DriverStartingError(BackfillError):
    """The driver starts, and takes no commands yet."""

    reason = "DriverStarting"
    exit_code = 5


class DriverSilentError(BackfillError):
    """The driver runs, and does not answer."""

    reason = "DriverSilent"
    exit_code = 5


class CommandRefusedError(BackfillError):
    """The driver answers, and does not take the request."""

    reason = "CommandRefused"
    exit_code = 5


class NotAcknowledgedError(BackfillError):
    """The driver has the command, and has not answered in time."""

    reason = "NotAcknowledged"
    exit_code = 5


class NotDroppableError(BackfillError):
    """A target cannot be removed with its job: it may have rows of other writers, or be in use; the message has the reason."""

    reason = "NotDroppable"
    exit_code = 7
