"""Keeps in touch with live drivers: asks each for its progress every other second, brings commands, tells what is new.

One task a driver, and a bound on how many ask at once: for commands, for mere looks, and for drivers that did not answer
last, who are asked more and more seldom, each has its own, so that none waits behind another's time-outs. What it knows is a
look: nothing here decides, and all of it may be lost at any moment, because commands are on record in the status and are
sent again until they are acknowledged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final

from backfill_api.status.progress import Progress
from backfill_api.status.receipt import Receipt, ReceiptSummary
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
"""Of an attempt; at most four commands wait at a time."""

MISMATCHED_SHOWN_MAX: Final = 16
PROGRESS_EVERY_S: Final = 10.0
"""So often mere progress is worth a look; anything else is at once."""

SILENCE_EVERY_S: Final = 5.0
UNRESPONSIVE_EVERY_S: Final = 10.0
"""A driver that does not answer is asked half as often each time, down to this."""

WORDS_CHARACTERS_MAX: Final = 256

RECEIPT_EVERY: Final = 15
"""Every so many looks a receipt that nobody asked for is asked for, as after `verify: Final`."""


@dataclass(frozen=True, slots=True)
class DriverRef:
    """The driver of one attempt, as the cluster shows it."""

    namespace: str
    pod_name: str
    pod_uid: str
    attempt: int
    ready: bool
    ip: str | None


_log = logging.getLogger(__name__)

Locate = Callable[[DriverRef], Awaitable[DriverAddress]]
"""Finds where a driver is and how it is known; raises DriverUnreachableError or an ApiError when it cannot."""


@dataclass(slots=True)
class _Driver:
    """One driver that is followed."""

    ref: DriverRef
    look: DriverReport
    address: DriverAddress | None = None
    outbox: tuple[CommandRequest, ...] = ()
    sent_at: dict[int, float] = field(default_factory=dict)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    shown_at: float = 0.0
    looks: int = 0
    unanswered: int = 0
    """Looks in a row."""


class DriverPoller:
    """All drivers that are alive, by Backfill."""

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
        """Follow nobody yet.

        Args:
            client: Asks them.
            locate: Finds them.
            settings: How often, how many at once, how long a command is waited for.
            metrics: Where looks and acknowledgements are counted.
            enqueue: Told when a look is worth a decision.
            now_ms: Wall time.
        """
        self._client = client
        self._locate = locate
        self._settings = settings
        self._metrics = metrics
        self._enqueue = enqueue
        self._now_ms = now_ms
        self._drivers: dict[Key, _Driver] = {}
        lanes = [asyncio.Semaphore(settings.poll_concurrency) for _ in range(3)]
        self._asking, self._commanding, self._trying = lanes

    def look(self, key: Key, attempt: int) -> DriverReport | None:
        """Return what the driver of an attempt said last; None: nothing yet, and nothing is known to be wrong."""
        driver = self._drivers.get(key)
        if driver is None or driver.ref.attempt != attempt:
            return None
        look = driver.look
        never = look.heard_ms is None and (look.unreachable_since_ms is None or not driver.ref.ready)
        return None if never else look

    def follow(self, key: Key, ref: DriverRef) -> None:
        """Keep asking this driver; it takes the place of an earlier one of the same Backfill."""
        known = self._drivers.get(key)
        if known is not None and known.ref.pod_uid == ref.pod_uid:
            if known.ref != ref:
                known.address = known.address if known.ref.ip == ref.ip else None
                known.ref = ref
                known.wake.set()
            return
        self.leave(key)
        driver = _Driver(ref, DriverReport(ref.attempt))
        driver.task = asyncio.create_task(self._keep_asking(key, driver), name=f"driver {key[0]}/{key[1]}")
        self._drivers[key] = driver
        self._metrics.live_drivers.set(len(self._drivers))

    def leave(self, key: Key) -> None:
        """Ask it no more."""
        driver = self._drivers.pop(key, None)
        if driver is not None and driver.task is not None:
            driver.task.cancel()
        self._metrics.live_drivers.set(len(self._drivers))

    def send(self, key: Key, requests: tuple[CommandRequest, ...]) -> None:
        """Bring commands, in order, up to the first that gets no answer; their acknowledgements are in later looks."""
        driver = self._drivers.get(key)
        if driver is not None and requests != driver.outbox:
            driver.outbox = requests
            # To one that does not answer, what it was sent before goes with its next look.
            if not driver.unanswered or any(one.revision not in driver.sent_at for one in requests):
                driver.wake.set()

    async def close(self) -> None:
        """Ask nobody any more."""
        tasks = [driver.task for driver in self._drivers.values() if driver.task is not None]
        for key in list(self._drivers):
            self.leave(key)
        await asyncio.gather(*tasks, return_exceptions=True)

    # ------------------------------------------------------------ one driver
    async def _keep_asking(self, key: Key, driver: _Driver) -> None:
        while True:
            driver.wake.clear()
            before = driver.look
            with log_context("/".join(key), attempt=driver.ref.attempt, epoch=_epoch(before)):
                async with self._lane(driver):
                    outcome = await self._ask(driver)
                self._metrics.driver_polls.labels(outcome).inc()
                if self._worth_a_decision(before, driver):
                    driver.shown_at = asyncio.get_running_loop().time()
                    self._enqueue(key)
            await wait(jittered(self._pause_s(driver)), until=driver.wake)

    def _pause_s(self, driver: _Driver) -> float:
        poll_s = self._settings.poll_seconds
        return min(poll_s * 2.0 ** min(driver.unanswered, 16), max(poll_s, UNRESPONSIVE_EVERY_S))

    def _lane(self, driver: _Driver) -> asyncio.Semaphore:
        if driver.unanswered:
            return self._trying
        return self._commanding if driver.outbox else self._asking

    async def _ask(self, driver: _Driver) -> str:
        """Look; return what came of it, in the metric's word."""
        try:
            await self._exchange(driver)
        except (DriverUnreachableError, ApiError) as error:
            self._on_unreachable(driver, str(error))
            return "unreachable"
        except Exception as error:  # noqa: BLE001 - the border of a task: no words of a driver may end it for good
            _log.warning("the driver's answer cannot be used", exc_info=error)
            self._on_unreachable(driver, f"its answer cannot be used: {type(error).__name__}")
            return "unusable"
        return "answered"

    async def _exchange(self, driver: _Driver) -> None:
        """Bring what is to be brought, then look; an answer of any kind is an answer."""
        driver.address = driver.address or await self._locate(driver.ref)
        asked_for_receipt = await self._deliver(driver, driver.address)
        progress = await self._client.progress(driver.address)
        driver.looks += 1
        receipt = driver.look.receipt
        if asked_for_receipt or driver.looks % RECEIPT_EVERY == 1:
            receipt = _summary(await self._client.receipt(driver.address)) or receipt
        if driver.unanswered and driver.look.unreachable_since_ms is not None:
            _log.info("the driver answers again")
        driver.unanswered = 0
        driver.look = replace(
            driver.look, heard_ms=self._now_ms(), progress=progress, receipt=receipt, unreachable_since_ms=None,
            unreachable="",
        )  # fmt: skip

    def _on_unreachable(self, driver: _Driver, words: str) -> None:
        since_ms = driver.look.unreachable_since_ms
        if since_ms is None:
            _log.info("the driver does not answer: %s", words)
        driver.unanswered += 1
        driver.look = replace(
            driver.look,
            unreachable_since_ms=self._now_ms() if since_ms is None else since_ms,
            unreachable=words[:WORDS_CHARACTERS_MAX],
        )

    async def _deliver(self, driver: _Driver, address: DriverAddress) -> bool:
        """Send what is in the outbox; return whether a receipt was asked for and is there."""
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
            driver.look = replace(driver.look, acks=_with(driver.look.acks, ack))
            verified = verified or request.command.type == "Verify"
        return verified

    def _worth_a_decision(self, before: DriverReport, driver: _Driver) -> bool:
        after = driver.look
        if (before.acks, before.receipt, before.unreachable_since_ms) != (
            after.acks,
            after.receipt,
            after.unreachable_since_ms,
        ):
            return True
        silent = after.unreachable_since_ms is not None
        if not silent and _transitions(before.progress) != _transitions(after.progress):
            return True
        # Progress is shown at a walking pace; silence becomes worth saying with time alone.
        every_s = SILENCE_EVERY_S if silent else PROGRESS_EVERY_S
        return asyncio.get_running_loop().time() - driver.shown_at >= every_s


def _transitions(progress: Progress | None) -> tuple[object, ...]:
    """Return what of a progress is more than numbers growing."""
    if progress is None:
        return ()
    return (
        progress.phase, progress.percent, progress.paused, progress.quiet, progress.throttle_rows_per_second,
        progress.revision, progress.caught_up, progress.non_convergent, progress.reason,
        progress.table_version is None,
    )  # fmt: skip


def _epoch(look: DriverReport) -> int | None:
    return None if look.progress is None else look.progress.epoch


def _with(acks: tuple[Ack, ...], ack: Ack) -> tuple[Ack, ...]:
    return (*(one for one in acks if one.revision != ack.revision), ack)[-ACKS_KEPT_MAX:]


def _summary(receipt: Receipt | None) -> ReceiptSummary | None:
    if receipt is None:
        return None
    return ReceiptSummary(
        source_version=receipt.source_version,
        target_version=receipt.target_version,
        epoch=receipt.epoch,
        rows=receipt.rows,
        mismatches=len(receipt.mismatches),
        mismatched_vnodes=tuple(one.vnode for one in receipt.mismatches[:MISMATCHED_SHOWN_MAX]),
        digest=receipt.digest[:128],
        verified_at=receipt.verified_at,
        complete=receipt.complete,
        rows_filtered=receipt.rows_filtered,
        rows_total=receipt.rows_total,
    )
