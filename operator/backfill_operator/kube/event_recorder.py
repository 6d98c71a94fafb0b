"""Records Kubernetes events for `kubectl describe`, in the background, and not twice within ten minutes."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from backfill_api.names import API_VERSION, FIELD_MANAGER, KIND
from backfill_core.lifecycle.actions import EventNote
from backfill_operator.kube.client import Cluster
from backfill_operator.kube.errors import ApiError
from backfill_operator.kube.rate import RequestBucket
from backfill_operator.kube.resources import EVENTS, Raw

SILENCE_MS: Final = 600_000
"""The same event about the same object is not repeated within this time."""

KNOWN_MAX: Final = 4096
WAITING_MAX: Final = 1000
NOTE_CHARACTERS_MAX: Final = 1024
"""The API server's limit."""

EVENTS_PER_S: Final = 10.0

_log = logging.getLogger(__name__)


class EventRecorder:
    """Queues events and writes them in the background. Events may be lost, because the status is complete."""

    def __init__(self, cluster: Cluster, identity: str, now_ms: Callable[[], int]) -> None:
        """Start without memory of an earlier process."""
        self._cluster = cluster
        self._identity = identity
        self._now_ms = now_ms
        self._recorded: OrderedDict[bytes, int] = OrderedDict()
        self._waiting: asyncio.Queue[tuple[str, Raw]] = asyncio.Queue(WAITING_MAX)
        self._bucket = RequestBucket(EVENTS_PER_S, 5 * EVENTS_PER_S)

    def note(self, backfill: Raw, note: EventNote) -> None:
        """Queue an event about a Backfill, unless the same one is recent or the queue is full."""
        metadata, now_ms = backfill["metadata"], self._now_ms()
        identity = f"{metadata['uid']}\0{note.kind}\0{note.reason}\0{note.message}"
        key = hashlib.sha256(identity.encode(errors="replace")).digest()
        before = self._recorded.pop(key, None)
        self._recorded[key] = now_ms if before is None or now_ms - before >= SILENCE_MS else before
        while len(self._recorded) > KNOWN_MAX:
            self._recorded.popitem(last=False)
        if self._recorded[key] != now_ms or before == now_ms or self._waiting.full():
            return
        self._waiting.put_nowait((metadata["namespace"], self._event(metadata, note, key, now_ms)))

    async def run(self) -> None:
        """Write queued events until cancelled; an event that cannot be written is dropped."""
        while True:
            namespace, event = await self._waiting.get()
            await self._bucket.take()
            try:
                await self._cluster.create(EVENTS, namespace, event)
            except ApiError as error:
                _log.debug("an event was dropped: %s", error)

    def _event(self, metadata: Raw, note: EventNote, key: bytes, now_ms: int) -> Raw:
        moment = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {
                "name": f"{metadata['name'][:200]}.{key.hex()[:10]}{now_ms:x}",
                "namespace": metadata["namespace"],
            },
            "eventTime": moment,
            "type": note.kind,
            "reason": note.reason[:128],
            "action": "Reconcile",
            "note": note.message[:NOTE_CHARACTERS_MAX] or note.reason,
            "regarding": {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
            },
            "reportingController": f"backfill.dev/{FIELD_MANAGER}",
            "reportingInstance": self._identity[:128],
        }
