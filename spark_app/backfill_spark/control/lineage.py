"""Sends events of OpenLineage. A server that is slow, away or wrong loses events, and never delays or fails the job.

One thread sends them in their order. A full queue drops an event, and the end of a run waits at most `CLOSE_S` for the last ones.
"""

from __future__ import annotations

import http.client
import json
import logging
import queue
import threading
import uuid
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

from backfill_api.spec.spec import BackfillResource
from backfill_api.status.progress import Progress
from backfill_core.lineage.events import Dataset, EventType, LineageRun, event, running_due, type_of_end
from backfill_core.protocol.clock import Now
from backfill_spark.settings import LineageSettings

EVENTS_MAX: Final = 8
SEND_S: Final = 5.0
CLOSE_S: Final = 5.0
OK: Final = range(200, 300)

_log = logging.getLogger(__name__)


class LineageReport:
    """The events of one run; without settings it sends none."""

    def __init__(self, settings: LineageSettings | None, backfill: BackfillResource, now: Callable[[], Now]) -> None:
        """Send START.

        Args:
            settings: The server; `None` for none.
            backfill: The job.
            now: Reads the clocks.
        """
        self._now = now
        self._running_s: float | None = None
        self._warned = False
        self._events: queue.Queue[dict[str, Any] | None] = queue.Queue(EVENTS_MAX)
        self._settings, self._run = settings, None
        if settings is not None:
            self._run = _run_of(settings, backfill)
            self._thread = threading.Thread(target=self._send_all, args=(settings,), name="lineage", daemon=True)
            self._thread.start()
            self._put(self._run, "START")

    def observing(self, observe: Callable[[Progress], None]) -> Callable[[Progress], None]:
        """Return a function that calls `observe`, and sends RUNNING when it is due."""

        def seen(progress: Progress) -> None:
            observe(progress)
            if self._run is not None and running_due(self._running_s, self._now().mono_s):
                self._running_s = self._now().mono_s
                self._put(self._run, "RUNNING")

        return seen

    def end(self, outcome: str, reason: str, message: str) -> None:
        """Send the last event, and wait for it at most `CLOSE_S`; reason and message describe a failure.

        Args:
            outcome: Complete, Stopped or Failed.
            reason: Reason in one CamelCase word.
            message: Message for users.
        """
        run, self._run = self._run, None
        if run is None:
            return
        self._put(run, type_of_end(outcome), f"{reason}: {message}" if outcome == "Failed" else "")
        try:
            self._events.put_nowait(None)
        except queue.Full:
            return
        self._thread.join(CLOSE_S)
        if self._thread.is_alive():
            self._warn(f"no answer within {CLOSE_S:.0f} s")

    def _put(self, run: LineageRun, kind: EventType, problem: str = "") -> None:
        try:
            self._events.put_nowait(event(run, kind, self._now().wall_ms, problem=problem))
        except queue.Full:
            self._warn(f"{EVENTS_MAX} events wait")

    def _send_all(self, settings: LineageSettings) -> None:
        while (body := self._events.get()) is not None:
            if problem := post(settings, body):
                self._warn(problem)

    def _warn(self, problem: str) -> None:
        """Log the first problem of a run; the following ones would repeat it."""
        if not self._warned:
            self._warned = True
            _log.warning("an event for OPENLINEAGE_URL was dropped, and the job continues: %s", problem)


def post(settings: LineageSettings, body: dict[str, Any]) -> str:
    """Send an event; return the problem, or an empty string. It follows no redirect, and raises no error of the network."""
    headers = {"Content-Type": "application/json", "Connection": "close"}
    if settings.api_key:
        headers["Authorization"] = f"Bearer {settings.api_key}"
    host = settings.url.split("/")[2]
    try:
        place = urlsplit(settings.url)
        kind = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
        connection = kind(place.netloc, timeout=SEND_S)
        try:
            path = f"{place.path.rstrip('/')}/{settings.endpoint.strip('/')}"
            connection.request("POST", path, json.dumps(body), headers)
            status = connection.getresponse().status
        finally:
            connection.close()
    except (OSError, http.client.HTTPException, ValueError) as error:
        return f"{host} does not answer: {type(error).__name__}"
    return "" if status in OK else f"{host} answers {status}"


def _run_of(settings: LineageSettings, backfill: BackfillResource) -> LineageRun:
    """Return the facts of a run. A name in a catalog has the namespace of the job."""
    spec = backfill.spec
    places = (side.params.dataset for side in (spec.source, spec.target))
    source, target = (Dataset(namespace or settings.namespace, name) for namespace, name in places)
    run_id, streams = str(uuid.uuid4()), spec.after == "Follow"
    return LineageRun(run_id, settings.namespace, backfill.job_id, source, target, streaming=streams)
