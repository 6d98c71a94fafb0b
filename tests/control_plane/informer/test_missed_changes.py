"""List and watch together miss no change, however time-outs, ends of watches and changes meet.

The server is scripted and the clock is virtual. Each turn of the loop costs time, as on a slow machine, so that all of them
meet in every order.
"""

import asyncio
import itertools
import math
import random

import kopf
import pytest
from support.cluster.scripted_api import ScriptedApi
from support.operators.virtual_time import VirtualLoop

from backfill_api.names import GROUP, VERSION
from backfill_operator.informer.cache import Cache
from backfill_operator.informer.kopf_watches import kopf_settings
from backfill_operator.informer.list_watch import FAILED_AGAIN_S
from backfill_operator.informer.pace import WatchPace
from backfill_operator.informer.relist import Relist
from backfill_operator.informer.watch_session import Hooks, WatchSession
from backfill_operator.metrics import Metrics
from backfill_operator.settings import OperatorSettings

SILENCE_S = 20.0
NEVER_S = 10_000.0
LIST_S = 4.0
"""Seconds that a list of one resource takes; two lists follow each other, and a pause."""

APART_S = [half / 2 for half in range(13)]
AFTER_S = [tenth / 10 - 0.15 for tenth in range(9)]


class Informer:
    """kopf's watches and our lists of a scripted server; `known` is the time at which each object was seen first."""

    def __init__(self, api, **settings):
        self.api, self.known = api, {}
        self._settings = OperatorSettings(watch_silence_seconds=SILENCE_S, **settings)
        self._relist = Relist(
            api, Cache(), self._settings, Metrics(), enqueue=lambda key: self._see(key[1]),
            monotonic=asyncio.get_running_loop().time,
        )  # fmt: skip
        self._hooks = Hooks(
            start_version=self._relist.start_version, on_watch=lambda _: None, on_unreadable=lambda *_: None,
            admitted=_at_once, authorization=_at_once,
        )  # fmt: skip

    def _see(self, name):
        self.known.setdefault(name, asyncio.get_running_loop().time())

    async def __aenter__(self):
        registry, pace = kopf.OperatorRegistry(), WatchPace(1.0)

        @kopf.on.login(registry=registry)
        async def login(**_):
            http = WatchSession("http://scripted", self.api, pace, self._hooks, silence_s=SILENCE_S)
            return kopf.AiohttpSession(server="http://scripted", aiohttp_session=http)

        @kopf.on.event("", "v1", "pods", registry=registry)
        @kopf.on.event(GROUP, VERSION, "backfills", registry=registry)
        async def changed(name, **_):
            self._see(name)

        self._parts = [asyncio.create_task(self._relist.run())]
        await self._relist.complete.wait()
        ready = asyncio.Event()
        watches = kopf.operator(
            registry=registry,
            settings=kopf_settings(self._settings),
            clusterwide=True,
            standalone=True,
            ready_flag=ready,
        )
        self._parts.append(asyncio.create_task(watches))
        await ready.wait()
        await asyncio.sleep(2 * FAILED_AGAIN_S)
        return self

    async def __aexit__(self, *_):
        for part in self._parts:
            part.cancel()
        await asyncio.gather(*self._parts, return_exceptions=True)


async def _at_once():
    return None


def virtually(coroutine, *, turn_s):
    """Return the result of a coroutine; each turn of the loop takes this many seconds."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(turn_s)) as runner:
        return runner.run(coroutine)


class TestSilence:
    @pytest.mark.parametrize("delay_s", [SILENCE_S - 6 + quarter / 4 for quarter in range(48)])
    def test_event_at_the_end_of_a_silence_is_seen(self, delay_s):
        """kopf ends its own watcher, for ever and without a word, if its time-out ends while it starts a worker."""

        async def seen():
            api = ScriptedApi()
            async with Informer(api, relist_min_seconds=NEVER_S, relist_max_seconds=NEVER_S) as informer:
                for number in range(4):
                    api.create("pods", f"pod-{number}")
                    await asyncio.sleep(delay_s)
                await asyncio.sleep(3 * SILENCE_S)
                return sorted(informer.known)

        assert virtually(seen(), turn_s=0.5) == [f"pod-{number}" for number in range(4)]


class TestExpiredVersions:
    @pytest.mark.parametrize("plural", ["backfills", "pods"])
    def test_change_beside_expired_versions_is_seen_with_the_next_list(self, plural):
        """Two versions expire at any distance, during a list, a pause or a new watch; an object is created around the second."""
        late = {}
        for seed, (apart_s, after_s) in enumerate(itertools.product(APART_S, AFTER_S)):
            random.seed(seed)
            seconds = virtually(until_seen(plural, apart_s, after_s), turn_s=0.01)
            if seconds > 2 * LIST_S + FAILED_AGAIN_S + 2 * LIST_S:
                late[apart_s, after_s] = seconds

        assert late == {}


async def until_seen(plural, apart_s, after_s):
    """Return the seconds from the creation of an object until it is known; infinite if it never is.

    Args:
        plural: The kind.
        apart_s: Seconds between two times at which all versions expire.
        after_s: Seconds from the second time to the creation.
    """
    api, loop = ScriptedApi(turns=3, list_s=LIST_S), asyncio.get_running_loop()
    async with Informer(api, relist_min_seconds=NEVER_S, relist_max_seconds=NEVER_S) as informer:
        api.forget()
        await asyncio.sleep(apart_s)
        loop.call_later(1, api.forget)
        await asyncio.sleep(1 + after_s)
        api.create(plural, "late")
        created = loop.time()
        await asyncio.sleep(8 * LIST_S)
        return informer.known.get("late", math.inf) - created
