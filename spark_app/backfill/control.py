"""Commands a driver that runs on this machine: in this process, or in another one."""

from __future__ import annotations

import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import ValidationError
from pydantic_core import from_json

from backfill.shown import ShownReceipt
from backfill_api.model import Model, known
from backfill_api.status.progress import Progress
from backfill_api.wire import Ack, Command, CommandRequest, PauseCommand, RescaleCommand, StopCommand, ThrottleCommand
from backfill_core.command_errors import (
    CommandRefusedError,
    DriverSilentError,
    DriverStartingError,
    NotAcknowledgedError,
    NotRunningError,
)
from backfill_spark.control.local_registry import Address, left_behind, running
from backfill_spark.settings import DriverSettings

LOOK_TIMEOUT_S = 5.0
REVISIONS_TRIED_MAX = 10
ACK_WAIT_S = 10.0
GATHER_S = 30.0
"""Seconds that one request waits at the server; a longer wait takes several requests."""

START_LOOK_S = 0.1
RECEIPT_WAIT_S = 3600.0
RECEIPT_LOOK_S = 0.2
ANSWER_BYTES_MAX = 8 * 1024 * 1024
EXCERPT_CHARACTERS = 200
GOOD = (200, 202, 409)
"""Status codes of answers; 409 is an acknowledgement by another attempt."""

M = TypeVar("M", bound=Model)


class Client:
    """One driver that runs, or starts: then it reports its step, and commands wait."""

    def __init__(self, address: Address, state_dir: Path) -> None:
        """Connect to nothing yet; a driver that starts will publish its address in `state_dir`."""
        self.address = address
        self._state_dir = state_dir
        # A proxy of the environment must never see a request to this machine or its token.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def progress(self) -> Progress:
        """Return the progress; only the step while the driver starts."""
        if self.starting:
            return Progress(reason=self.address.step)
        body = self._call("/v1/progress")
        if not isinstance(body, dict) or "jobId" not in body:
            raise self._no_driver("it has no jobId")
        return self._read(Progress, body)

    def receipt(self) -> ShownReceipt | None:
        """Return the newest receipt; `None` before the first."""
        if self.starting:
            return None
        body = self._call("/v1/receipt")
        return None if body is None else self._read(ShownReceipt, body)

    def acks(self, after: int = 0) -> list[Ack]:
        """Return the acknowledgements above a revision, oldest first."""
        if self.starting:
            return []
        body = self._call(f"/v1/acks?after={after}")
        acks = body.get("acks") if isinstance(body, dict) else None
        if not isinstance(acks, list):
            raise self._no_driver("it has no list of acknowledgements")
        return [self._read(Ack, ack) for ack in acks]

    @property
    def starting(self) -> bool:
        """Return whether the driver is starting.

        Raises:
            NotRunningError: it ended while it started.
        """
        if self.address.starting:
            addresses = [address for address in running(self._state_dir) if address.job_id == self.address.job_id]
            if not addresses:
                raise NotRunningError(
                    f"the driver of {self.address.job_id!r} ended while it started.",
                    hint="Look at how it ended with `backfill status --offline`.",
                )
            self.address = addresses[0]
        return self.address.starting

    def until_started(self, wait_s: float) -> None:
        """Wait until the driver takes commands.

        Raises:
            DriverStartingError: it still starts after `wait_s` seconds.
            NotRunningError: it ended while it started.
        """
        deadline_s = time.monotonic() + wait_s
        while self.starting:
            if time.monotonic() >= deadline_s:
                raise DriverStartingError(
                    f"the driver of {self.address.job_id!r} is starting ({self.address.step}) and takes no commands yet.",
                    hint="Try again in some seconds, or wait longer with --timeout.",
                )
            threading.Event().wait(START_LOOK_S)

    def command(self, command: Command, wait_s: float) -> Ack:
        """Send a command as the next revision, and return its acknowledgement.

        Another sender may take the revision first; then the next one is tried. `Pending`: no answer within `wait_s`
        seconds; the driver has the command all the same. A driver that starts gets as many seconds for its start.
        """
        self.until_started(wait_s)
        deadline_s = time.monotonic() + wait_s
        revision = max(self.progress().revision, *(ack.revision for ack in self.acks()), 0) + 1
        for _ in range(REVISIONS_TRIED_MAX):
            ack = self._send(command, revision, deadline_s)
            if ack.outcome != "Superseded":
                return ack
            revision += 1
        return ack

    def apply(self, command: Command, wait_s: float) -> Ack:
        """Send a command, and return its acknowledgement once it is in force.

        Raises:
            NotAcknowledgedError: the driver has the command; it was not in force within `wait_s` seconds.
            CommandRefusedError: it is not in force, and will not be.
            DriverSilentError: the driver runs, and does not answer.
            NotRunningError: the driver ended.
        """
        ack = self.command(command, wait_s)
        if ack.outcome == "Pending":
            raise NotAcknowledgedError(
                f"no acknowledgement of revision {ack.revision} within {wait_s:g} s; the driver has the command.",
                hint="See with `backfill status` when it is in force.",
            )
        if ack.outcome != "Applied":
            raise CommandRefusedError(
                f"{ack.outcome}: {ack.message}", hint="Look with `backfill status`, and try again."
            )
        return ack

    def verify(self, wait_s: float, acknowledged: Callable[[Ack], None] = lambda _: None) -> ShownReceipt:
        """Have a receipt taken, and return it; `acknowledged` is called when the driver has begun.

        Raises:
            NotAcknowledgedError: the command, or the receipt (an hour), did not come in time.
            CommandRefusedError: it is not in force, and will not be.
            NotRunningError: the driver ended.
        """
        self.until_started(wait_s)
        before = self.receipt()
        acknowledged(self.apply(Command(type="Verify"), wait_s))
        deadline_s = time.monotonic() + RECEIPT_WAIT_S
        while (receipt := self.receipt()) is None or receipt == before:
            if time.monotonic() > deadline_s:
                raise NotAcknowledgedError(
                    f"no receipt within {RECEIPT_WAIT_S:g} s.", hint="Look with `backfill status`."
                )
            threading.Event().wait(RECEIPT_LOOK_S)
        return receipt

    def _send(self, command: Command, revision: int, deadline_s: float) -> Ack:
        request = CommandRequest(attempt=self.address.attempt, revision=revision, command=command)
        body = request.model_dump_json(by_alias=True, exclude_none=True).encode()
        while True:
            wait_s = min(GATHER_S, max(0.0, deadline_s - time.monotonic()))
            ack = self._read(Ack, self._call(f"/v1/command?wait={wait_s:.3f}", body, wait_s))
            if ack.outcome != "Pending" or time.monotonic() >= deadline_s:
                return ack

    def _call(self, path: str, body: bytes | None = None, wait_s: float = 0.0) -> Any:
        request = urllib.request.Request(self.address.url + path, data=body)  # noqa: S310 - from our own file
        request.add_header("Authorization", f"Bearer {self.address.token}")
        try:
            status, text = self._answer(request, wait_s + LOOK_TIMEOUT_S)
        except (OSError, HTTPException) as error:  # no answer, or one that was cut off
            raise self._unanswered(error) from error
        try:
            answer = from_json(text, allow_inf_nan=False)
        except ValueError as error:
            raise self._no_driver(f"status {status}, not JSON: {text[:EXCERPT_CHARACTERS]!r}") from error
        if status in GOOD:
            return answer
        if not isinstance(answer, dict) or "error" not in answer:
            raise self._no_driver(f"status {status}: {text[:EXCERPT_CHARACTERS]!r}")
        excerpt = text[:EXCERPT_CHARACTERS].decode(errors="replace")
        hint = "Look with `backfill jobs`: the driver may be another one than the one that was asked."
        raise CommandRefusedError(f"the driver answered {status}: {excerpt}", hint=hint)

    def _unanswered(self, error: Exception) -> NotRunningError | DriverSilentError:
        """Return the error for a request without an answer. A driver that lives, and lets a request time out, is silent."""
        job_id, pid = self.address.job_id, self.address.pid
        timed_out = isinstance(getattr(error, "reason", error), TimeoutError)
        if not timed_out or self.address not in running(self._state_dir):
            return NotRunningError(f"the driver of {job_id!r} does not answer: {error}", hint="It may just have ended.")
        return DriverSilentError(
            f"the driver of {job_id!r} (pid {pid}) runs, and does not answer: {error}.",
            hint=f"Try again in some seconds. If it stays silent, end process {pid} and run the job again: it resumes at its last commit.",
        )

    def _answer(self, request: urllib.request.Request, timeout_s: float) -> tuple[int, bytes]:
        """Return the status and the body of an answer, whatever its status."""
        try:
            answer = self._opener.open(request, timeout=timeout_s)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            if answer.length is None or answer.length > ANSWER_BYTES_MAX:
                raise self._no_driver(f"its length is unknown, or above {ANSWER_BYTES_MAX:,} bytes")
            return answer.status, answer.read()

    def _read(self, model: type[M], body: Any) -> M:
        """Return an answer as a model, without fields that only a later release knows."""
        try:
            return model.model_validate(known(model, body))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            path = ".".join(str(part) for part in first["loc"])
            raise self._no_driver(f"{path or model.__name__}: {first['msg']}") from error

    def _no_driver(self, detail: str) -> NotRunningError:
        address = self.address
        return NotRunningError(
            f"{address.url}, the address of the driver of {address.job_id!r}, gives an answer that is not a driver's: {detail}.",
            hint=f"If process {address.pid} is the driver, use the command line of its release; otherwise end the program that listens there.",
        )


def drivers(state_dir: Path) -> list[Client]:
    """Return the drivers that run on this machine, in the order of their job ids."""
    return [Client(address, state_dir) for address in running(state_dir)]


def find(state_dir: Path, job_id: str | None) -> Client:
    """Return the driver of a job, or the only one on this machine; it may still be starting.

    Raises:
        NotRunningError: there is none, or there are several and none was named.
    """
    addresses = running(state_dir)
    matching = [address for address in addresses if job_id in (None, address.job_id)]
    if len(matching) == 1:
        return Client(matching[0], state_dir)
    names = ", ".join(address.job_id for address in addresses)
    if matching:
        raise NotRunningError(f"several backfills run: {names}.", hint="Name one with -f FILE or --job ID.")
    missing = f"job {job_id!r} is not running" if job_id else "no backfill runs"
    killed = [address for address in left_behind(state_dir) if job_id == address.job_id]
    last = f"; {_describe_killed(killed[0])}" if killed else ""
    hint = (
        f"There is: {names}."
        if names
        else "What the target holds: `backfill status -f FILE`; to go on with it: `backfill run -f FILE`."
    )
    raise NotRunningError(f"{missing} on this machine{last}.", hint=hint)


def _describe_killed(last: Address) -> str:
    if last.starting:
        return f"its last driver (pid {last.pid}) was killed while it started"
    return f"its attempt {last.attempt} (pid {last.pid}) was killed"


class Commands:
    """Commands to the driver of one job on this machine, in this process or in another one."""

    _settings: DriverSettings

    @property
    def job_id(self) -> str:
        """Identity of the state that the target keeps."""
        raise NotImplementedError

    def driver(self) -> Client:
        """Return the driver of this job that runs on this machine, in this process or in another one.

        Raises:
            NotRunningError: there is none.
        """
        return find(self._settings.state_dir, self.job_id)

    def pause(
        self, *, scope: Literal["History", "All"] = "History", force: bool = False, wait_s: float = ACK_WAIT_S
    ) -> Ack:
        """Hold the snapshot, or everything; returns when that is in force.

        Args:
            scope: `History`: changes are still applied. `All`: nothing is.
            force: Cancel what runs instead of waiting for it.
            wait_s: Seconds to wait for the acknowledgement.

        Raises:
            NotRunningError: no driver of this job runs on this machine.
            NotAcknowledgedError: it was not in force in time; the driver has the command.
            CommandRefusedError: it is not in force, and will not be.
        """
        return self._apply(Command(type="Pause", pause=PauseCommand(scope=scope, force=force)), wait_s)

    def resume(self, *, wait_s: float = ACK_WAIT_S) -> Ack:
        """Undo a pause; waits and raises as `pause` does."""
        return self._apply(Command(type="Resume"), wait_s)

    def throttle(
        self,
        rows_per_second: int | None = None,
        *,
        bytes_per_second: int | None = None,
        for_seconds: int | None = None,
        wait_s: float = ACK_WAIT_S,
    ) -> Ack:
        """Limit the snapshot; waits and raises as `pause` does. The lower of two limits applies; without a value the limit ends.

        Args:
            rows_per_second: Limit of rows; 0 reads nothing, `None` removes the limit.
            bytes_per_second: Limit of stored bytes of the source's files; not for a topic. `None` removes the limit.
            for_seconds: Afterwards the limit is what it was before; None: until the next command.
            wait_s: Seconds to wait for the acknowledgement.
        """
        limit = ThrottleCommand(
            rows_per_second=rows_per_second, bytes_per_second=bytes_per_second, for_seconds=for_seconds
        )
        return self._apply(Command(type="Throttle", throttle=limit), wait_s)

    def rescale(
        self,
        max_in_flight: int | None = None,
        *,
        split_target_seconds: int | None = None,
        chunk_rows: int | None = None,
        executors: int | None = None,
        wait_s: float = ACK_WAIT_S,
    ) -> Ack:
        """Change number and size of the pieces of the snapshot that run at the same time; waits and raises as `pause` does.

        A value that is not given stays. A job refuses a value that its strategy does not have.

        Args:
            max_in_flight: Most pieces, 1 to 64. Those that run already may end.
            split_target_seconds: Target duration of a split, 1 to 600; it sizes the next one.
            chunk_rows: Most rows of a chunk of strategy Arrangement; 0: as many as take about four seconds.
            executors: Number of executors, 1 to 10,000; only for a driver that gets them from Kubernetes.
            wait_s: Seconds to wait for the acknowledgement.
        """
        width = RescaleCommand(
            max_in_flight=max_in_flight,
            split_target_seconds=split_target_seconds,
            chunk_rows=chunk_rows,
            executors=executors,
        )
        return self._apply(Command(type="Rescale", rescale=width), wait_s)

    def stop(self, *, force: bool = False, wait_s: float = ACK_WAIT_S) -> Ack:
        """End the attempt at a barrier; the next run resumes there. Waits and raises as `pause` does."""
        return self._apply(Command(type="Stop", stop=StopCommand(force=force)), wait_s)

    def _apply(self, command: Command, wait_s: float) -> Ack:
        return self.driver().apply(command, wait_s)
