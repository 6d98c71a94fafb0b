"""Leader election with a Lease, so that one process works. A process that loses the lease exits, which stops its work.

The holder's clock is never compared with ours. A lease has expired when its record has not changed for its whole length
by our own clock. A holder gives up earlier, so there are never two leaders.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from backfill_core.errors import BackfillError
from backfill_operator.kube.client import Cluster
from backfill_operator.kube.errors import AlreadyExistsError, ApiError, ConflictError, NotFoundError
from backfill_operator.kube.rate import jittered, wait
from backfill_operator.kube.resources import LEASES, Raw
from backfill_operator.settings import OperatorSettings

_log = logging.getLogger(__name__)


class LeadershipLostError(BackfillError):
    """Another process may be the leader now, so this process must end."""

    reason = "LeadershipLost"
    exit_code = 1


class Election:
    """One candidate."""

    def __init__(self, cluster: Cluster, settings: OperatorSettings, *, now_ms: Callable[[], int]) -> None:
        """Start as a candidate."""
        self._cluster = cluster
        self._settings = settings
        self._now_ms = now_ms
        self._held: Raw | None = None
        self._seen: tuple[str, float] | None = None
        """Version of another holder's lease, and when it was first seen."""

        self.leading = asyncio.Event()
        self.leader: str | None = None
        """Identity of the leader; `None` until it is known."""

    async def run(self) -> None:
        """Become leader, and renew the lease until cancelled.

        Raises:
            LeadershipLostError: the lease could not be renewed in time, or another process holds it.
        """
        loop, deadline_s = asyncio.get_running_loop(), self._settings.lease_renew_deadline_seconds
        # Measured from before the request: other candidates measure from the write, which may precede its response by long.
        renewed_at = loop.time()
        while not await self._try() or loop.time() - renewed_at >= deadline_s:
            await wait(jittered(self._settings.lease_retry_seconds))
            renewed_at = loop.time()
        _log.info("%s leads", self._settings.identity)
        self.leading.set()
        while True:
            await wait(self._settings.lease_retry_seconds)
            asked_at = loop.time()
            left_s = renewed_at + deadline_s - asked_at
            try:
                async with asyncio.timeout(max(left_s, 0.0)):
                    if await self._try():
                        renewed_at = asked_at
            except TimeoutError:
                left_s = 0.0
            if self.leader != self._settings.identity or left_s <= 0:
                raise LeadershipLostError(f"the lease could not be renewed; its holder is {self.leader or 'unknown'}")

    async def release(self) -> None:
        """Release the lease, so that the next leader does not wait; a failure is only logged."""
        if self._held is None:
            return
        spec = self._held["spec"] | {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": self._moment()}
        try:
            await self._cluster.replace(LEASES, *self._place(), {**self._held, "spec": spec})
        except ApiError as error:
            _log.info("the lease was not released: %s", error)
        self._held = None

    async def _try(self) -> bool:
        """Take or renew the lease if it is free or ours; `False` if it is neither, or the request failed."""
        try:
            return await self._take()
        except (ConflictError, AlreadyExistsError, NotFoundError):
            self._held = None  # another process wrote or deleted it; the next try reads the holder, or creates it
            return False
        except ApiError as error:
            _log.warning("the lease cannot be reached: %s", error)
            return False

    async def _take(self) -> bool:
        there = self._held or await self._cluster.get(LEASES, *self._place())
        if there is None:
            body = {
                "apiVersion": LEASES.api_version,
                "kind": LEASES.kind,
                "metadata": {"name": self._settings.lease_name, "namespace": self._settings.lease_namespace},
                "spec": self._spec({}),
            }
            self._held = await self._cluster.create(LEASES, self._settings.lease_namespace, body)
        else:
            spec = there.get("spec") or {}
            holder = spec.get("holderIdentity") or ""
            if holder not in ("", self._settings.identity) and not self._over(there, spec):
                self.leader = holder
                return False
            self._held = await self._cluster.replace(LEASES, *self._place(), {**there, "spec": self._spec(spec)})
        self.leader = self._settings.identity
        return True

    def _over(self, there: Raw, spec: dict[str, Any]) -> bool:
        version, now = str(there["metadata"].get("resourceVersion")), asyncio.get_running_loop().time()
        if self._seen is None or self._seen[0] != version:
            self._seen = version, now
        length = spec.get("leaseDurationSeconds")
        length_s = float(length) if isinstance(length, int) else self._settings.lease_seconds
        return now - self._seen[1] > length_s

    def _spec(self, before: dict[str, Any]) -> dict[str, Any]:
        renewed = before.get("holderIdentity") == self._settings.identity
        transitions = before.get("leaseTransitions") or 0
        return {
            "holderIdentity": self._settings.identity,
            "leaseDurationSeconds": max(1, round(self._settings.lease_seconds)),
            "acquireTime": before.get("acquireTime") if renewed else self._moment(),
            "renewTime": self._moment(),
            "leaseTransitions": transitions if renewed or not before else transitions + 1,
        }

    def _moment(self) -> str:
        return datetime.fromtimestamp(self._now_ms() / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def _place(self) -> tuple[str, str]:
        return self._settings.lease_namespace, self._settings.lease_name
