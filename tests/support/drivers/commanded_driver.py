"""One driver process, reduced to its control channel."""

from __future__ import annotations

from dataclasses import dataclass

from backfill_api.spec.override import ThrottleSpec, Width
from backfill_api.timestamps import ms_of
from backfill_api.wire import Ack, CommandRequest


@dataclass
class Driver:
    """A driver of the simulated cluster."""

    attempt: int
    paused: str | None = None
    limits: tuple[int | None, int | None] = (None, None)
    """Rows and bytes a second."""

    revision: int = 0
    stopping: bool = False
    verified: int = 0
    until: str | None = None
    then: ThrottleSpec | None = None
    clock_ahead_ms: int = 0
    """Difference of its node's clock from the operator's."""

    width: Width = Width()  # noqa: RUF009 - it is frozen
    """The values of the width that this driver can change; it was launched with a fixed number of executors if they are absent."""

    def command(self, request: CommandRequest) -> Ack:
        """Obey at once, by the rules of the core: older revisions are superseded, the same one is already in force."""
        outcome = "Applied"
        if request.revision < self.revision:
            outcome = "Superseded"
        elif request.revision > self.revision:
            self.revision = request.revision
            match request.command.type:
                case "Pause":
                    self.paused = request.command.pause.scope
                case "Resume":
                    self.paused = None
                case "Throttle":
                    throttle = request.command.throttle
                    self.limits = throttle.rows_per_second, throttle.bytes_per_second
                    self.until, self.then = throttle.until, throttle.then
                case "Rescale":
                    given = request.command.rescale.given
                    assert given.keys() <= self.width.given.keys(), "a value was sent that this driver cannot change"
                    self.width = self.width.model_copy(update=given)
                case "Stop":
                    self.stopping = True
                case "Verify":
                    self.verified += 1
        return Ack(attempt=self.attempt, epoch=self.revision + 1, revision=request.revision, outcome=outcome)

    def end_limit(self, now_ms: int) -> None:
        """End a limit whose time has come by this driver's clock."""
        while self.until is not None and ms_of(self.until) <= now_ms + self.clock_ahead_ms:
            then = self.then or ThrottleSpec()
            self.limits, self.until, self.then = (then.rows_per_second, then.bytes_per_second), then.until, None
