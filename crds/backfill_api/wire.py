"""What travels between a driver and whoever commands it: the command line, or the operator."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, StrictBool, StrictInt, model_validator

from backfill_api.model import Model
from backfill_api.spec import Rate, Seconds


class PauseCommand(Model):
    """Hold history, or everything."""

    scope: Literal["History", "All"] = "History"
    """What is held."""

    force: StrictBool = False
    """Cancel what runs instead of waiting for it."""


class ThrottleCommand(Model):
    """Limit history."""

    rows_per_second: Rate | None = None
    """Rows a second; null: unlimited, 0: none."""

    for_seconds: Seconds | None = None
    """Come back to what was in force before, after this long."""


class StopCommand(Model):
    """End the attempt."""

    force: StrictBool = False
    """Cancel what runs instead of waiting for it."""


class Command(Model):
    """One command; members that belong to another type must be left out."""

    type: Literal["Pause", "Resume", "Throttle", "Verify", "Stop"]
    """What is wanted."""

    pause: PauseCommand | None = None
    throttle: ThrottleCommand | None = None
    stop: StopCommand | None = None

    @model_validator(mode="after")
    def _union(self) -> Self:
        for name in ("pause", "throttle", "stop"):
            if getattr(self, name) is not None and name != self.type.lower():
                raise ValueError(f"{name}: must be left out, because type is {self.type}")
        if self.type == "Throttle" and self.throttle is None:
            raise ValueError("throttle: is required, because type is Throttle")
        return self


class CommandRequest(Model):
    """A command for one attempt; revisions only grow."""

    attempt: StrictInt = Field(ge=1)
    revision: StrictInt = Field(ge=1)
    command: Command


class Ack(Model):
    """The answer, after the seal that contains the command."""

    attempt: int
    epoch: int
    revision: int
    outcome: Literal["Applied", "Superseded", "WrongAttempt", "Pending"]
    message: str = ""
