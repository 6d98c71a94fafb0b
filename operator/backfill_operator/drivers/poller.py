"""Polls running drivers every two seconds: fetches progress, delivers commands, and enqueues changed Backfills.

Each driver has a task. Three semaphores limit the number of concurrent requests: one for commands, one for polls, one for
unresponsive drivers, which are polled less and less often. So no driver waits for the time-outs of another. This module
makes no decisions, and its state may be lost at any time: commands are recorded in the status and sent until acknowledged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final

from backfill_api.spec.override import WIDTH_FIELDS
from backfill_api.status.progress import Progress
from backfill_api.wire import Ack, CommandRequest
from backfill_core.lifecycle.observation import DriverReport
from backfill_operator.drivers.control_client import ControlClient, DriverAddress, DriverUnreachableError
from backfill_operator.informer.cache import Key
from backfill_operator.kube.errors import ApiError
from backfill_operator.kube.rate import jittered, wait
from backfill_operator.logs import log_context
from backfill_operator.metrics import Metrics
from backfill_operator.settings import OperatorSettings

ACKS_KEPT_MAX: Final = 16
"""Limit for each attempt. At most five commands are pending at a time."""

PROGRESS_EVERY_S: Final = 10.0
"""Interval of reconciles for progress only. Any other change causes a reconcile at once."""

SILENCE_EVERY_S: Final = 5.0
UNRESPONSIVE_EVERY_S: Final = 10.0
"""Maximum poll interval of an unresponsive driver; the interval doubles each time."""

REASON_CHARACTERS_MAX: Final = 256

RECEIPT_EVERY: Final = 15
"""One poll in this many fetches the receipt without a command, because `verify: Final` also creates one."""


@dataclass(frozen=True, slots=True)
class DriverRef:
    """The driver of one attempt, with the state of its pod in the cluster."""

    namespace: str
    pod_name: str
    pod_uid: str
    attempt: int
    ready: bool
    ip: str | None


_log = logging.getLogger(__name__)

Locate = Callable[[DriverRef], Awaitable[DriverAddress]]
"""Returns the address and credentials of a driver; raises DriverUnreachableError or an ApiError."""


@dataclass(slots=True)
class _Driver:
    """One driver that is polled."""

    ref: DriverRef
    report: DriverReport
    address: DriverAddress | None = None
    outbox: tuple[CommandRequest, ...] = ()
    sent_at: dict[int, float] = field(default_factory=dict)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    shown_at: float = 0.0
    polls: int = 0
    unanswered: int = 0
    """Consecutive polls without a response."""


class DriverPoller:
    """Polls the running driver of each Backfill."""

    def __init__(
        self,
        client: ControlClient,
        locate: Locate,
        settings: OperatorSettings,
        metrics: Metrics,
        *,
        enqueue: Callable[[Key], None],
        now_ms: Callable[[], int],
    ) -> None:
        """Start without drivers.

        Args:
            client: Sends the requests.
            locate: Returns the address of a driver.
            settings: Interval, concurrency, and how long to wait for an acknowledgement.
            metrics: Counts polls and measures acknowledgements.
            enqueue: Called with the Backfill when a poll is worth a reconcile.
            now_ms: Wall time in milliseconds.
        """
        self._client = client
        self._locate = locate
        self._settings = settings
        self._metrics = metrics
        self._enqueue = enqueue
        self._now_ms = now_ms
        self._drivers: dict[Key, _Driver] = {}
        lanes = [asyncio.Semaphore(settings.poll_concurrency) for _ in range(3)]
        self._polling, self._commanding, self._retrying = lanes

    def report(self, key: Key, attempt: int) -> DriverReport | None:
        """Return the result of the last polls of an attempt's driver; `None` before it answers or is unreachable."""
        driver = self._drivers.get(key)
        if driver is None or driver.ref.attempt != attempt:
            return None
        report = driver.report
        never = report.heard_ms is None and (report.unreachable_since_ms is None or not driver.ref.ready)
        return None if never else report

    def follow(self, key: Key, ref: DriverRef) -> None:
        """Start to poll this driver instead of an earlier one of the same Backfill."""
        existing = self._drivers.get(key)
        if existing is not None and existing.ref.pod_uid == ref.pod_uid:
            if existing.ref != ref:
                existing.address = existing.address if existing.ref.ip == ref.ip else None
                existing.ref = ref
                existing.wake.set()
            return
        self.leave(key)
        driver = _Driver(ref, DriverReport(ref.attempt))
        driver.task = asyncio.create_task(self._keep_polling(key, driver), name=f"driver {key[0]}/{key[1]}")
        self._drivers[key] = driver
        self._metrics.live_drivers.set(len(self._drivers))

    def leave(self, key: Key) -> None:
        """Stop polling the driver of a Backfill."""
        driver = self._drivers.pop(key, None)
        if driver is not None and driver.task is not None:
            driver.task.cancel()
        self._metrics.live_drivers.set(len(self._drivers))

    def send(self, key: Key, requests: tuple[CommandRequest, ...]) -> None:
        """Deliver commands in order, up to the first without a response; later reports contain their acknowledgements."""
        driver = self._drivers.get(key)
        if driver is not None and requests != driver.outbox:
            driver.outbox = requests
            # Only a new command wakes the task of an unresponsive driver; old ones are sent with its next poll.
            if not driver.unanswered or any(request.revision not in driver.sent_at for request in requests):
                driver.wake.set()

    async def close(self) -> None:
        """Stop polling all drivers."""
        tasks = [driver.task for driver in self._drivers.values() if driver.task is not None]
        for key in list(self._drivers):
            self.leave(key)
        await asyncio.gather(*tasks, return_exceptions=True)

    # ------------------------------------------------------------ one driver
    async def _keep_polling(self, key: Key, driver: _Driver) -> None:
        while True:
            driver.wake.clear()
            before = driver.report
            with log_context("/".join(key), attempt=driver.ref.attempt, epoch=_epoch(before)):
                async with self._lane(driver):
                    outcome = await self._poll(driver)
                self._metrics.driver_polls.labels(outcome).inc()
                if self._worth_a_reconcile(before, driver):
                    driver.shown_at = asyncio.get_running_loop().time()
                    self._enqueue(key)
            await wait(jittered(self._pause_s(driver)), until=driver.wake)

    def _pause_s(self, driver: _Driver) -> float:
        poll_s = self._settings.poll_seconds
        return min(poll_s * 2.0 ** min(driver.unanswered, 16), max(poll_s, UNRESPONSIVE_EVERY_S))

    def _lane(self, driver: _Driver) -> asyncio.Semaphore:
        if driver.unanswered:
            return self._retrying
        return self._commanding if driver.outbox else self._polling

    async def _poll(self, driver: _Driver) -> str:
        """Poll once; return the outcome, as the metric's label."""
        try:
            await self._exchange(driver)
        except (DriverUnreachableError, ApiError) as error:
            self._on_unreachable(driver, str(error))
            return "unreachable"
        except Exception as error:  # noqa: BLE001 - the task's boundary: no response of a driver may end the polling
            _log.warning("the driver's response cannot be used", exc_info=error)
            self._on_unreachable(driver, f"its response cannot be used: {type(error).__name__}")
            return "unusable"
        return "answered"

    async def _exchange(self, driver: _Driver) -> None:
        """Deliver the outbox, then fetch the progress and, if it is due, the receipt."""
        ref = driver.ref
        address = driver.address or await self._locate(ref)
        if driver.ref.ip == ref.ip:
            driver.address = address
        verified = await self._deliver(driver, address)
        progress = await self._client.progress(address)
        driver.polls += 1
        receipt = driver.report.receipt
        if verified or driver.polls % RECEIPT_EVERY == 1:
            taken = await self._client.receipt(address)
            receipt = receipt if taken is None else taken.summary
        if driver.unanswered and driver.report.unreachable_since_ms is not None:
            _log.info("the driver answers again")
        driver.unanswered = 0
        driver.report = replace(
            driver.report, heard_ms=self._now_ms(), progress=progress, receipt=receipt, unreachable_since_ms=None,
            unreachable="",
        )  # fmt: skip

    def _on_unreachable(self, driver: _Driver, reason: str) -> None:
        since_ms = driver.report.unreachable_since_ms
        if since_ms is None:
            _log.info("the driver does not answer: %s", reason)
        driver.unanswered += 1
        driver.report = replace(
            driver.report,
            unreachable_since_ms=self._now_ms() if since_ms is None else since_ms,
            unreachable=reason[:REASON_CHARACTERS_MAX],
        )

    async def _deliver(self, driver: _Driver, address: DriverAddress) -> bool:
        """Send the outbox; return whether a Verify was acknowledged, so that there is a receipt."""
        verified = False
        requests, driver.outbox = driver.outbox, ()
        loop = asyncio.get_running_loop()
        for request in requests:
            began = driver.sent_at.setdefault(request.revision, loop.time())
            ack = await self._client.command(address, request, self._settings.command_wait_seconds)
            if ack.outcome == "Pending":
                break
            if ack.outcome == "Applied" and driver.sent_at.pop(request.revision, None) is not None:
                self._metrics.ack_seconds.labels(request.command.type).observe(loop.time() - began)
            driver.report = replace(driver.report, acks=_with(driver.report.acks, ack))
            verified = verified or request.command.type == "Verify"
        return verified

    def _worth_a_reconcile(self, before: DriverReport, driver: _Driver) -> bool:
        after = driver.report
        if (before.acks, before.receipt, before.unreachable_since_ms) != (
            after.acks,
            after.receipt,
            after.unreachable_since_ms,
        ):
            return True
        unreachable = after.unreachable_since_ms is not None
        if not unreachable and _transitions(before.progress) != _transitions(after.progress):
            return True
        # Growing counters are reported slowly. The consequences of silence depend on time only.
        every_s = SILENCE_EVERY_S if unreachable else PROGRESS_EVERY_S
        return asyncio.get_running_loop().time() - driver.shown_at >= every_s


def _transitions(progress: Progress | None) -> tuple[object, ...]:
    """Return the fields of a progress whose change causes a reconcile at once; the others only grow."""
    if progress is None:
        return ()
    return (
        progress.phase, progress.percent, progress.paused, progress.quiet, progress.throttle_rows_per_second,
        progress.throttle_bytes_per_second, progress.throttle_until, progress.revision, progress.caught_up, progress.non_convergent, progress.reason,
        progress.table_version is None, *(getattr(progress, name) for name in WIDTH_FIELDS),
    )  # fmt: skip


def _epoch(report: DriverReport) -> int | None:
    return None if report.progress is None else report.progress.epoch


def _with(acks: tuple[Ack, ...], ack: Ack) -> tuple[Ack, ...]:
    return (*(existing for existing in acks if existing.revision != ack.revision), ack)[-ACKS_KEPT_MAX:]
