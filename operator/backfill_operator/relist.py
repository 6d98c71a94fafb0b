"""Lists everything, every now and then: what a watch lost is found, and what it kept too long is dropped."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable
from typing import Final

from backfill_api.names import ROLE_LABEL
from backfill_operator.api_errors import ApiError
from backfill_operator.cache import Cache, Key
from backfill_operator.cluster import Cluster
from backfill_operator.metrics import Metrics
from backfill_operator.pacing import wait
from backfill_operator.resources import BACKFILLS, PODS, key_of
from backfill_operator.settings import OperatorSettings

FAILED_AGAIN_S: Final = 5.0

_log = logging.getLogger(__name__)


class Relist:
    """Compares the cache with the cluster; the first time is how the cache is filled."""

    def __init__(
        self,
        cluster: Cluster,
        cache: Cache,
        settings: OperatorSettings,
        metrics: Metrics,
        *,
        changed: Callable[[Key], None],
        monotonic: Callable[[], float],
    ) -> None:
        """Take the hands.

        Args:
            cluster: What is.
            cache: What is known.
            settings: How often, and in which namespaces.
            metrics: Where repairs are counted.
            changed: Told which Backfills to look at.
            monotonic: For the age of the last list.
        """
        self._cluster = cluster
        self._cache = cache
        self._settings = settings
        self._metrics = metrics
        self._changed = changed
        self._monotonic = monotonic
        self._done_at: float | None = None
        self._heard: set[str] = set()
        """Resources of which a watch said anything since the last list."""

        self._missed: Counter[str] = Counter()
        """Lists in a row that found changes of a resource of which no watch said anything."""

        self.complete = asyncio.Event()
        """Set when everything was listed once: before that, what is not in the cache may be there all the same."""

    @property
    def synced(self) -> bool:
        """Was everything listed once?"""
        return self.complete.is_set()

    def heard(self, plural: str) -> None:
        """Take that a watch said something."""
        self._heard.add(plural)

    @property
    def missed(self) -> int:
        """Lists in a row that found what a watch, which said nothing at all meanwhile, should have shown."""
        return max(self._missed.values(), default=0)

    def age_s(self) -> float | None:
        """Return how long ago everything was listed last; None: never."""
        return None if self._done_at is None else self._monotonic() - self._done_at

    async def run(self) -> None:
        """List until cancelled."""
        while True:
            try:
                await self.once()
                await wait(random.uniform(self._settings.relist_min_seconds, self._settings.relist_max_seconds))
            except ApiError as error:
                _log.warning("the cluster could not be listed: %s", error)
                await wait(min(FAILED_AGAIN_S, self._settings.relist_min_seconds))

    async def once(self) -> None:
        """List everything; changes that no watch had shown are counted, and looked at.

        Raises:
            ApiError: not everything was listed; what was is known nevertheless.
        """
        first = not self.synced
        backfills, pods = self._cache.begin_relist()
        repaired = {BACKFILLS.plural: 0, PODS.plural: 0}
        try:
            for namespace in self._settings.namespaces or (None,):
                async for page in self._cluster.pages(BACKFILLS, namespace):
                    for raw in page:
                        backfills.pop(key_of(raw), None)
                        if self._cache.put_backfill(raw):
                            repaired[BACKFILLS.plural] += 1
                            self._changed(key_of(raw))
                async for page in self._cluster.pages(PODS, namespace, labels=f"{ROLE_LABEL}=driver"):
                    for raw in page:
                        pods.pop(key_of(raw), None)
                        if (owner := self._cache.put_pod(raw)) is not None:
                            repaired[PODS.plural] += 1
                            self._changed(owner)
        finally:
            self._cache.end_relist()
        # What was known before the list began, and is on no page of it, is gone.
        for key, uid in backfills.items():
            if self._cache.drop_backfill(key, uid):
                repaired[BACKFILLS.plural] += 1
                self._changed(key)
        for key, uid in pods.items():
            if (owner := self._cache.drop_pod(key, uid)) is not None:
                repaired[PODS.plural] += 1
                self._changed(owner)
        self._done_at = self._monotonic()
        self.complete.set()
        if not first:
            for plural, number in repaired.items():
                self._metrics.relist_repairs.labels(plural).inc(number)
                self._missed[plural] = 0 if plural in self._heard else self._missed[plural] + bool(number)
        self._heard.clear()
