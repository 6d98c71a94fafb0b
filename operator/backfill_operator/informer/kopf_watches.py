"""kopf's part: login and two watches. Every event goes into the cache, and its Backfill's key into the queue.

Nothing else of kopf is used: no finalizers, annotations, timers, daemons or indices of its, no events, no peering. So
it writes nothing, anywhere.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import kopf
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject

from backfill_api.names import GROUP, PLURAL, ROLE_LABEL, VERSION
from backfill_operator.informer.cache import Cache, Key
from backfill_operator.informer.watch_session import ITEMS_OF_A_LIST, StartVersion, session
from backfill_operator.kube.resources import PODS, Raw, key_of
from backfill_operator.metrics import Metrics
from backfill_operator.settings import OperatorSettings

WATCHING_LOGGER = "kopf._cogs.clients.watching"


def registry_of(
    configuration: Configuration,
    cache: Cache,
    enqueue: Callable[[Key], None],
    on_event: Callable[[str], None],
    *,
    start_version: StartVersion,
    on_unreadable: Callable[[str, object], None],
) -> kopf.OperatorRegistry:
    """Return kopf's registry with our handlers in it.

    Args:
        configuration: Address and credentials, as our own client has them.
        cache: Takes what is seen.
        enqueue: Told which Backfill to look at.
        on_event: Told of which resource a watch said anything.
        start_version: Says from which version on a watch begins.
        on_unreadable: Told of what a watch shows and nobody can read.
    """
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        header = await configuration.get_api_key_with_prefix("BearerToken", alias="authorization") or ""
        # As our own client: the library reads kubeconfigs and makes the TLS context.
        context = RESTClientObject(configuration).ssl_context
        headers = {"Authorization": header} if header else {}
        http = session(ssl=context, headers=headers, start_version=start_version, on_unreadable=on_unreadable)
        return kopf.AiohttpSession(server=configuration.host, aiohttp_session=http)

    # Coroutines: kopf runs plain functions in threads, and cache and queue belong to the loop.
    @kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)
    async def backfill(event: Any, **_: Any) -> None:
        raw: Raw = event["object"]
        on_event(PLURAL)
        if event["type"] == "DELETED":
            cache.drop_backfill(key_of(raw), raw["metadata"]["uid"])
            enqueue(key_of(raw))
        elif cache.put_backfill(raw):
            enqueue(key_of(raw))

    @kopf.on.event("", "v1", "pods", labels={ROLE_LABEL: "driver"}, registry=registry)
    async def driver_pod(event: Any, **_: Any) -> None:
        raw: Raw = event["object"]
        on_event(PODS.plural)
        gone = event["type"] == "DELETED"
        owner = cache.drop_pod(key_of(raw), raw["metadata"]["uid"]) if gone else cache.put_pod(raw)
        if owner is not None:
            enqueue(owner)

    return registry


def kopf_settings(settings: OperatorSettings) -> kopf.OperatorSettings:
    """Return kopf's settings: watch, and do nothing else."""
    made = kopf.OperatorSettings()
    made.posting.enabled = False
    made.peering.standalone = True
    made.scanning.disabled = True
    made.watching.chunk_size = ITEMS_OF_A_LIST
    made.watching.inactivity_timeout = settings.watch_silence_seconds
    made.watching.label_selectors["", "v1", "pods"] = f"{ROLE_LABEL}=driver"
    made.networking.request_timeout = settings.request_timeout_seconds
    made.networking.enforce_retry_after = True
    # The task that kopf keeps for an object has nothing to wait for.
    made.queueing.idle_timeout = 0.1
    made.persistence.diffbase_storage = NoDiffBase()
    made.persistence.progress_storage = NoProgress()
    made.process.ultimate_exiting_timeout = None
    return made


class NoDiffBase(kopf.DiffBaseStorage):
    """What kopf would compare an object with, if one of our handlers wanted to know: nothing.

    Its own builds a deep copy of every object at every event: half of the operator's time, for nobody.
    """

    def build(self, **_: Any) -> Any:
        """Return the essence of every object."""
        return {}

    def fetch(self, **_: Any) -> Any:
        """Nothing was ever stored."""
        return None

    def store(self, **_: Any) -> None:
        """Nothing is stored."""


class NoProgress(kopf.ProgressStorage):
    """Where kopf would note how far a handler came: ours are done at once."""

    def fetch(self, **_: Any) -> Any:
        """Nothing was ever stored."""
        return None

    def store(self, **_: Any) -> None:
        """Nothing is stored."""

    def purge(self, **_: Any) -> None:
        """Nothing is there."""

    def touch(self, **_: Any) -> None:
        """Nothing is touched."""

    def clear(self, *, essence: Any) -> Any:
        """Return what was given: nothing of ours is in it."""
        return essence


class ReconnectCounter(logging.Handler):
    """Counts the watches that kopf makes anew: it tells nobody but its log."""

    def __init__(self, metrics: Metrics) -> None:
        """Take where they are counted."""
        super().__init__(logging.DEBUG)
        self._metrics = metrics

    def emit(self, record: logging.LogRecord) -> None:
        """Count a line that says so."""
        message = record.getMessage()
        if "Restarting the watch-stream" in message or "is inactive, reconnecting" in message:
            self._metrics.watch_reconnects.inc()


def count_reconnects(metrics: Metrics) -> ReconnectCounter:
    """Begin to count; what kopf says below the level of our log is still not written, because the log's handler has one."""
    logger = logging.getLogger(WATCHING_LOGGER)
    handler = ReconnectCounter(metrics)
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    return handler
