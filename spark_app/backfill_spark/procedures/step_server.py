"""Control server of a procedure: reports its step, and takes only the command to stop."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from backfill_api.status.progress import Progress
from backfill_core.protocol.actions import Acknowledge
from backfill_core.protocol.commands import Stop
from backfill_core.protocol.events import CommandReceived
from backfill_spark.control.operator_binding import OperatorBinding
from backfill_spark.driver.progress import while_silent
from backfill_spark.jvm.java_process import JavaWatch
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.settings import LOOPBACK, DriverSettings

ONLY_STOP = "this attempt performs a procedure: it takes no command but Stop"


class StepServer:
    """Serves an operator while a procedure runs; the drivers of the procedure do not."""

    def __init__(self, settings: DriverSettings, job_id: str, stop: StopSignal) -> None:
        """Bind the address of the settings.

        Raises:
            InvalidSettingError: the token or the certificate cannot be read, or the address cannot be bound.
        """
        self._stop, self._progress = stop, Progress(reason="Starting")
        self._java: JavaWatch | None = None
        attempt = settings.operator_attempt or 1
        self._binding = OperatorBinding(
            settings,
            attempt=attempt,
            job_id=job_id,
            submit=self._submit,
            progress=self._progress_now,
            alive=lambda: self._java is None or self._java.pulse.healthy,
            receipt=lambda: None,
        )

    def __enter__(self) -> Self:
        """Start to answer."""
        self._binding.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the server."""
        self._binding.close()

    @property
    def address(self) -> tuple[str, str]:
        """URL and token of the server."""
        return self._binding.url, self._binding.token

    def watch(self, java: JavaWatch) -> None:
        """Report from now on if Java or a commit does not answer."""
        self._java = java

    def starting(self, step: str) -> None:
        """Report a step from now on."""
        self._progress = self._progress.model_copy(update={"reason": step})

    def copied(self, version: int) -> None:
        """Report from now on that this attempt has copied back, up to a version of the target."""
        self._progress = self._progress.model_copy(update={"consumed_version": version})

    def _submit(self, event: CommandReceived) -> None:
        stops = isinstance(event.command, Stop)
        if isinstance(event.command, Stop):
            self._stop.ask(force=event.command.force)
        outcome, message = ("Applied", "") if stops else ("Refused", ONLY_STOP)
        self._binding.acknowledge(Acknowledge(event.attempt, 0, event.revision, outcome, message))

    def _progress_now(self) -> Progress:
        now = self._progress
        silent = now if self._java is None else while_silent(now, self._java.warnings)
        return silent.model_copy(update={"reason": now.reason})


def without_operator(settings: DriverSettings) -> DriverSettings:
    """Return the settings of a driver inside a procedure, without an operator."""
    alone = {"control_bind": LOOPBACK, "control_port": 0, "control_tls_dir": None, "control_token_file": None}
    return settings.model_copy(update=alone | {"operator_attempt": None, "termination_log": None, "mode": "run"})
