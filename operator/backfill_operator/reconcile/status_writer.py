"""Writes Backfills: status, finalizer, deletion. Each write contains only changes, and the resourceVersion that was read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from backfill_api.names import DRAIN_FINALIZER
from backfill_api.status.status import BackfillStatus
from backfill_core.errors import BackfillError
from backfill_core.lifecycle.actions import EventNote
from backfill_core.lifecycle.status.write_policy import (
    PROGRESS_EVERY_MS,
    WATCHED_EVERY_MS,
    decide_write,
    lease_of,
    with_lease,
)
from backfill_operator.informer.cache import Cache
from backfill_operator.kube.client import Cluster
from backfill_operator.kube.errors import RefusedError
from backfill_operator.kube.rate import RequestBucket
from backfill_operator.kube.resources import BACKFILLS, Raw
from backfill_operator.metrics import Metrics

STATUS_REFUSED: Final = "StatusRefused"
INVALID: Final = frozenset({400, 413, 422})
REPORTED: Final = ("progress", "receipt", "plan")
"""Fields from the driver, in which a refused value must not prevent a pause or a deletion."""

DROPPED_SHOWN_MAX: Final = 5
PROGRESS_AGAIN_S: Final = 1.0
"""Delay before another try to write progress, after the rate limit had no token."""


class CrdOutdatedError(BackfillError):
    """The API server drops fields of the status: its CRD is older than this operator, so nothing is recorded reliably."""

    reason = "CrdOutdated"
    exit_code = 1


class BackfillWriter:
    """The only writer of Backfills; each response updates the cache."""

    def __init__(
        self,
        cluster: Cluster,
        cache: Cache,
        metrics: Metrics,
        progress_per_s: float,
        *,
        notify: Callable[[Raw, EventNote], None],
        now_ms: Callable[[], int],
        monotonic: Callable[[], float],
    ) -> None:
        """Take the parts.

        Args:
            cluster: Writes to the API server.
            cache: Updated at once, because the watch may show the write later.
            metrics: Counts progress writes.
            progress_per_s: Limit for writes that contain only progress, over all Backfills.
            notify: Records an event about a Backfill.
            now_ms: Wall time in milliseconds.
            monotonic: Clock of the limit, in seconds.
        """
        self._cluster = cluster
        self._cache = cache
        self._metrics = metrics
        self._bucket = RequestBucket.capped(progress_per_s)
        self._notify = notify
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._leases: dict[str, int] = {}
        """End of each watched Backfill's lease in milliseconds, by UID."""

        self._progress_ms: dict[str, int] = {}
        """Time of the last progress write of each Backfill, by UID; old entries are dropped."""

    async def write(self, raw: Raw, status: BackfillStatus, *, fence: bool = False) -> Raw:
        """Write a status and return the object; without a difference, no request is sent.

        Args:
            raw: The object as read; its resourceVersion is the condition of the write.
            status: The new status.
            fence: Always send the request, so that an action on a stale object fails even without a change of the status.

        Raises:
            ConflictError: the object has changed since it was read.
            NotFoundError: it is gone.
            CrdOutdatedError: it was written, but fields were dropped.
            RefusedError: the API server refused it, even without the fields that the driver reports.
        """
        document = status.model_dump(mode="json", by_alias=True, exclude_none=True)
        change = changes(raw.get("status") or {}, document)
        if not change and not fence:
            return raw
        if "progress" in change:
            self._note_progress(raw["metadata"]["uid"])
        try:
            answer = await self._patch(raw, {"status": change}, subresource="status")
        except RefusedError as refused:
            if refused.status not in INVALID or not any(name in document for name in REPORTED):
                raise
            note = EventNote("Warning", STATUS_REFUSED, f"written without the driver's report: {refused.message}")
            self._notify(raw, note)
            change = changes(raw.get("status") or {}, {k: v for k, v in document.items() if k not in REPORTED})
            if not change and not fence:
                return raw
            answer = await self._patch(raw, {"status": change}, subresource="status")
        if dropped := dropped_paths(change, answer.get("status") or {}):
            raise CrdOutdatedError(
                f"the API server does not keep {', '.join(f'status.{path}' for path in dropped[:DROPPED_SHOWN_MAX])}: "
                "its CRD is older than the operator",
                hint="Upgrade the chart, or apply crds/backfills.yaml of the operator's version.",
            )
        return answer

    async def write_at_pace(self, raw: Raw, stored: BackfillStatus, status: BackfillStatus) -> tuple[Raw, float | None]:
        """Write a status if it is due; return the object, and the seconds until another one may be due, `None` to wait for a change.

        The progress of a watched Backfill is due more often than it is reported.
        """
        watched = self._is_watched(raw, status)
        every_ms, again_s = (WATCHED_EVERY_MS, WATCHED_EVERY_MS / 1000) if watched else (PROGRESS_EVERY_MS, None)
        written_ms = self._progress_ms.get(raw["metadata"]["uid"])
        verdict = decide_write(stored, status, progress_written_ms=written_ms, now_ms=self._now_ms(), every_ms=every_ms)
        match verdict.write:
            case "Never":
                return raw, again_s
            case "Later":
                return raw, verdict.after_ms / 1000
            case "Progress":
                if not self._bucket.try_take(self._monotonic()):
                    return raw, PROGRESS_AGAIN_S
                self._metrics.progress_writes.inc()
            case "Now":
                pass
        return await self.write(raw, status), again_s

    def _is_watched(self, raw: Raw, status: BackfillStatus) -> bool:
        """Return whether somebody watches a Backfill that has a driver, and fewer than the allowed number are watched."""
        metadata, now_ms = raw["metadata"], self._now_ms()
        runs = status.attempt is not None and status.attempt.state == "Created"
        until_ms = lease_of(metadata.get("annotations") or {}, now_ms).until_ms if runs else 0
        if until_ms or self._leases:
            self._leases = with_lease(self._leases, metadata["uid"], until_ms, now_ms)
        return metadata["uid"] in self._leases

    async def set_finalizer(self, raw: Raw, *, there: bool) -> Raw:
        """Add or remove our finalizer; keep all others."""
        others = [finalizer for finalizer in raw["metadata"].get("finalizers") or () if finalizer != DRAIN_FINALIZER]
        return await self._patch(raw, {"metadata": {"finalizers": [*others, DRAIN_FINALIZER] if there else others}})

    async def delete(self, raw: Raw) -> None:
        """Delete the Backfill with the UID that was read, but not a recreated one of the same name."""
        metadata = raw["metadata"]
        await self._cluster.delete(BACKFILLS, metadata["namespace"], metadata["name"], uid=metadata["uid"])

    async def _patch(self, raw: Raw, change: Raw, *, subresource: str | None = None) -> Raw:
        metadata = raw["metadata"]
        answer = await self._cluster.patch(
            BACKFILLS,
            metadata["namespace"],
            metadata["name"],
            change,
            resource_version=metadata["resourceVersion"],
            subresource=subresource,
        )
        self._cache.put_backfill(answer)
        return answer

    def _note_progress(self, uid: str) -> None:
        now_ms = self._now_ms()
        self._progress_ms.pop(uid, None)
        self._progress_ms[uid] = now_ms
        for old, at_ms in list(self._progress_ms.items())[:2]:
            if now_ms - at_ms > PROGRESS_EVERY_MS:
                del self._progress_ms[old]


def changes(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return the merge patch (RFC 7386) from `old` to `new`; empty if they are equal."""
    patch: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            if inner := changes(before, value):
                patch[name] = inner
        elif name not in old or before != value:
            patch[name] = value
    return patch


def dropped_paths(patch: Any, answer: Any, path: str = "") -> list[str]:
    """Return the paths that a merge patch sets and the stored object lacks: the schema does not define them."""
    if isinstance(patch, dict) and isinstance(answer, dict):
        inner = [(name, value) for name, value in patch.items() if value is not None]
        return [
            dropped
            for name, value in inner
            for dropped in dropped_paths(value, answer.get(name), f"{path}.{name}".lstrip("."))
        ]
    if isinstance(patch, list) and isinstance(answer, list) and len(patch) == len(answer):
        pairs = enumerate(zip(patch, answer, strict=True))
        return [dropped for number, (sent, kept) in pairs for dropped in dropped_paths(sent, kept, f"{path}[{number}]")]
    return [] if patch == answer else [path]
