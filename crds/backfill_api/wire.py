"""The messages between a driver and its controller: the command line, or the operator."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, StrictBool, StrictInt, model_validator

from backfill_api.model import Model, refused
from backfill_api.spec.bounds import (
    COUNT_MAX,
    REVISION_MAX,
    ByteRate,
    Count,
    Message,
    Moment,
    Rate,
    ReportedRevision,
    Seconds,
    Until,
)
from backfill_api.spec.override import WIDTH_FIELDS, ThrottleSpec, Width
from backfill_api.status.progress import Progress
from backfill_api.status.receipt import Mismatch, Receipt

__all__ = [
    "Ack", "Command", "CommandRequest", "Mismatch", "PauseCommand", "Progress", "Receipt", "RescaleCommand", "StopCommand",
    "ThrottleCommand",
]  # fmt: skip


CommandType = Literal["Pause", "Resume", "Throttle", "Rescale", "Verify", "Stop"]


class PauseCommand(Model):
    """Pause the snapshot, or everything."""

    scope: Literal["History", "All"] = "History"
    """Scope of the pause."""

    force: StrictBool = False
    """Cancel running work instead of waiting for it."""


class ThrottleCommand(Model):
    """Limit the snapshot."""

    rows_per_second: Rate | None = None
    """Rows a second; null: unlimited, 0: none."""

    bytes_per_second: ByteRate | None = None
    """Bytes of the source's files a second; null: unlimited, 0: none. Of two limits the lower one holds."""

    for_seconds: Seconds | None = None
    """Return to the earlier limit after this long."""

    until: Until | None = None
    """Time at which `then` replaces this limit, RFC 3339; the driver ends it even if no operator runs then."""

    then: ThrottleSpec | None = None
    """Limit after `until`, with an end of its own; absent: no limit."""

    @model_validator(mode="after")
    def _one_end(self) -> Self:
        if self.until is not None and self.for_seconds is not None:
            raise refused("until", "must be left out beside forSeconds", hint="remove one of the two", value=self.until)
        if self.then is not None and self.until is None:
            raise refused("then", "is the limit after until, and until is missing", hint="add until, or remove it")
        return self


class RescaleCommand(Width):
    """Change the size and the number of the pieces of the snapshot that are read at the same time, or the number of executors."""

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if self == RescaleCommand.model_construct():
            hint = f"give at least one of {', '.join(WIDTH_FIELDS.values())}"
            raise refused("rescale", "changes nothing", hint=hint)
        return self


class StopCommand(Model):
    """End the attempt."""

    force: StrictBool = False
    """Cancel running work instead of waiting for it."""


class Command(Model):
    """One command; members of another type must be left out."""

    type: CommandType
    """Requested state."""

    pause: PauseCommand | None = None
    """Parameters of `Pause`; default: history, not forced."""

    throttle: ThrottleCommand | None = None
    """Parameters of `Throttle`; required."""

    rescale: RescaleCommand | None = None
    """Parameters of `Rescale`; required."""

    stop: StopCommand | None = None
    """Parameters of `Stop`; default: not forced."""

    @model_validator(mode="after")
    def _checked(self) -> Self:
        for name in ("Pause", "Throttle", "Rescale", "Stop"):
            if getattr(self, name.lower()) is not None and name != self.type:
                hint = f"remove it, or set type: {name}"
                raise refused(name.lower(), f"must be left out, because type is {self.type}", hint=hint)
        if self.type == "Throttle" and self.throttle is None:
            raise refused("throttle", "is required, because type is Throttle", hint="add throttle: {rowsPerSecond: n}")
        if self.type == "Rescale" and self.rescale is None:
            raise refused("rescale", "is required, because type is Rescale", hint="add rescale: {maxInFlight: n}")
        return self


class CommandRequest(Model):
    """A command for one attempt; revisions only grow."""

    attempt: StrictInt = Field(ge=1, le=COUNT_MAX)
    """The attempt that it is for; any other refuses it."""

    revision: StrictInt = Field(ge=1, le=REVISION_MAX)
    """Number of the command; a command older than the newest is superseded, and one that is far ahead of it is refused."""

    command: Command
    """Requested state."""


class Ack(Model):
    """The answer, after the commit that contains the command."""

    attempt: Count
    """The attempt that answers."""

    epoch: Count
    """Barrier whose commit contains the command."""

    revision: ReportedRevision
    """The command's."""

    outcome: Literal["Applied", "Superseded", "WrongAttempt", "Refused", "Pending"]
    """`Pending`: not committed yet, ask again."""

    message: Message = ""
    """Message for users."""

    type: CommandType | None = None
    """Type of the command; absent: it came with the start of the driver, or its driver is older than this field."""

    time: Moment | None = None
    """Time of the answer, RFC 3339; absent as above."""

    ms: Count | None = None
    """Milliseconds from the arrival of the command to the answer; absent as above."""
