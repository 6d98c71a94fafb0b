"""The newest state of one Backfill: its object by a watch, its pods and events by polls, in separate threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Self

from backfill_api.names import BACKFILL_LABEL, WATCHED_ANNOTATION
from backfill_api.resources import BACKFILLS, EVENTS, PODS
from backfill_core.errors import BackfillError
from backfill_core.lifecycle.naming import base_name
from backfill_kubectl.cluster.api import ApiServer
from backfill_kubectl.cluster.watch import follow
from backfill_kubectl.decisions.stored import Json, StoredBackfill, read_stored
from backfill_kubectl.errors import ForbiddenError

LEASE_S: Final = 60
RENEW_S: Final = 30.0
POLL_S: Final = 5.0
CLOSE_S: Final = 1.0
SLOW: Final = "progress every 10 s: you may not patch backfills.backfill.dev, so the operator is not asked for more"


@dataclass(frozen=True, slots=True)
class Seen:
    """State of a job, as the API server reported it."""

    backfill: StoredBackfill
    at: datetime
    """Time at which the object was received."""

    pods: list[Json] = field(default_factory=list)
    events: list[Json] = field(default_factory=list)
    deleted: bool = False
    limits: tuple[str, ...] = ()
    """Parts that the user may not read or write."""

    error: BackfillError | None = None
    """The error that ended the watch."""


def read_events(api: ApiServer, backfill: StoredBackfill) -> list[Json]:
    """Return the events of a Backfill and of the pod of its newest attempt."""
    objects = [("Backfill", backfill.name)]
    if backfill.status.attempt is not None and backfill.status.attempt.pod_name:
        objects.append(("Pod", backfill.status.attempt.pod_name))
    return [
        event
        for kind, name in objects
        for event in api.objects(EVENTS, backfill.namespace, fields=f"regarding.kind={kind},regarding.name={name}")
    ]


def read_pods(api: ApiServer, backfill: StoredBackfill) -> list[Json]:
    """Return the pods of a Backfill."""
    return api.objects(PODS, backfill.namespace, labels=f"{BACKFILL_LABEL}={base_name(backfill.name)}")


def look(api: ApiServer, backfill: StoredBackfill, at: datetime) -> Seen:
    """Return a job with its pods and events, as far as the user may read them."""
    return _with_parts(api, Seen(backfill, at))


def _with_parts(api: ApiServer, seen: Seen) -> Seen:
    limits: list[str] = [text for text in seen.limits if text == SLOW]
    parts: dict[str, list[Json]] = {}
    reads: dict[str, Callable[[ApiServer, StoredBackfill], list[Json]]] = {"pods": read_pods, "events": read_events}
    for name, read in reads.items():
        try:
            parts[name] = read(api, seen.backfill)
        except ForbiddenError:
            parts[name] = []
            limits.append(f"no {name}: you may not list {name} in namespace {seen.backfill.namespace}")
        except BackfillError:
            parts[name] = getattr(seen, name)  # the next poll may succeed
    return replace(seen, pods=parts["pods"], events=parts["events"], limits=tuple(limits))


class JobWatch:
    """The newest state of one Backfill, from `__enter__` to `__exit__`."""

    def __init__(self, api: ApiServer, backfill: StoredBackfill, now: Callable[[], datetime]) -> None:
        """Start with an object that was read."""
        self._api = api
        self._now = now
        self._lock = threading.Lock()
        self._seen = Seen(backfill, now())
        self._over = threading.Event()
        self.news = threading.Event()
        """Set after each change."""

    def __enter__(self) -> Self:
        """Start the threads."""
        for work in (self._follow, self._poll):
            threading.Thread(target=work, name=work.__name__, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the polls. The watch ends with the process, or at its next event."""
        self._over.set()

    @property
    def seen(self) -> Seen:
        """Return the newest state."""
        with self._lock:
            return self._seen

    def _update(self, **changes: object) -> None:
        with self._lock:
            self._seen = replace(self._seen, **changes)  # type: ignore[arg-type]
        self.news.set()

    def _follow(self) -> None:
        backfill = self.seen.backfill
        try:
            for raw in follow(self._api, backfill.namespace, backfill.name):
                if self._over.is_set():
                    return
                if raw is None:
                    self._update(deleted=True)
                    return
                self._update(backfill=read_stored(raw), at=self._now())
        except BackfillError as error:
            self._update(error=error)

    def _poll(self) -> None:
        """Read pods and events, and renew the request for frequent progress."""
        renewed: datetime | None = None
        while not self._over.is_set():
            moment = self._now()
            if renewed is None or moment - renewed >= timedelta(seconds=RENEW_S):
                renewed = moment
                self._renew(moment)
            read = _with_parts(self._api, self.seen)
            self._update(pods=read.pods, events=read.events, limits=read.limits)
            self._over.wait(POLL_S)

    def _renew(self, moment: datetime) -> None:
        """Ask the operator for progress every two seconds for a minute."""
        until = (moment + timedelta(seconds=LEASE_S)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        backfill = self.seen.backfill
        change = {"metadata": {"annotations": {WATCHED_ANNOTATION: until}}}
        others = tuple(text for text in self.seen.limits if text != SLOW)
        try:
            self._api.patch(BACKFILLS, backfill.namespace, backfill.name, change)
        except ForbiddenError:
            self._update(limits=(*others, SLOW))
        except BackfillError:
            return  # the next renewal may succeed
        else:
            self._update(limits=others)
