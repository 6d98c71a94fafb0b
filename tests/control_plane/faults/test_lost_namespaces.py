"""A watched namespace without the operator's role: being deleted, or not set up yet. The others must not notice."""

import asyncio
import itertools
from collections import Counter

from support.cluster.fake_api import Fault
from support.operators.rig import NAMESPACE, SPEC, Rig
from support.operators.virtual_time import run_virtually

from backfill_api.names import API_VERSION, KIND
from backfill_operator.informer.kopf_watches import kopf_settings
from backfill_operator.informer.pace import WatchPace
from backfill_operator.settings import OperatorSettings

OTHER = "stock"
FOR_EVER = float("inf")


def forbidden(*verbs):
    """Return the answers to an operator whose role in a namespace is gone."""
    return [
        Fault("answer", verb=verb, namespace=OTHER, status=403, reason="Forbidden", times=FOR_EVER) for verb in verbs
    ]


def backfill():
    """Return a Backfill of the other namespace."""
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "orders"}, "spec": SPEC}


def asked_in_vain(rig):
    """Return the verbs that were refused, and how often."""
    return Counter(one.verb for one in rig.api.requests if one.namespace == OTHER and one.status == 403)


async def pauses_after(failures, pace):
    """Return the seconds that a watch waits after each of its failures in a row."""
    loop, pauses = asyncio.get_running_loop(), []
    for _ in range(failures):
        pace.failed("/pods", "forbidden")
        began = loop.time()
        await pace.wait("/pods")
        pauses.append(loop.time() - began)
    return pauses


class TestANamespaceThatCannotBeRead:
    async def test_from_the_start_stops_no_other(self):
        """Namespaces are deleted while an operator restarts: it would wait for them for ever."""
        async with Rig(start=False, namespaces=(NAMESPACE, OTHER)) as rig:
            rig.api.faults += forbidden("list", "watch", "get")
            rig.create()
            rig.start()
            await rig.until_holds("Running")

    async def test_from_some_time_on_stops_no_other(self):
        """The Role goes before the Backfills do when a namespace is deleted."""
        async with Rig(namespaces=(NAMESPACE, OTHER)) as rig:
            await rig.until(lambda: rig.api.open_watches == 4)
            rig.api.faults += forbidden("list", "watch", "get")
            rig.api.break_watches()
            await rig.until(lambda: asked_in_vain(rig)["watch"] >= 2 and asked_in_vain(rig)["list"] >= 3)
            rig.create()
            await rig.until_holds("Running")

            assert rig.running.alive

    def test_is_asked_for_without_end(self):
        """kopf would end the process after its ninth failure, and the kubelet restarts it later each time."""
        delays = list(itertools.islice(kopf_settings(OperatorSettings()).networking.error_backoffs, 1000))
        longest_s = OperatorSettings().watch_retry_max_seconds
        pauses = run_virtually(pauses_after(1000, WatchPace(longest_s)))

        assert delays == [0.0] * 1000
        assert longest_s == 30.0
        # Each is up to a quarter shorter or longer.
        assert 0.0 < min(pauses) <= max(pauses) <= 1.25 * longest_s

    async def test_is_served_once_it_can_be(self):
        """A Role that comes after its Backfill is not waited for longer than for a watch."""
        async with Rig(start=False, namespaces=(NAMESPACE, OTHER)) as rig:
            rig.api.faults += forbidden("list", "watch", "get")
            rig.store.create("backfills", OTHER, backfill())
            rig.start()
            await rig.until(lambda: asked_in_vain(rig)["list"] >= 4)
            rig.api.faults.clear()
            await rig.until(lambda: (OTHER, "orders-1-driver") in rig.store.objects["pods"])

    async def test_what_was_known_of_it_is_not_gone(self):
        """Unreadable is not deleted: its driver still takes a place, and is commanded on when the Role is back."""
        async with Rig(namespaces=(NAMESPACE, OTHER)) as rig:
            await rig.until(lambda: rig.api.open_watches == 4)
            rig.store.create("backfills", OTHER, backfill())
            key = (OTHER, "orders-1-driver")
            await rig.until(lambda: key in rig.kubelet.running)
            uid = rig.store.objects["pods"][key]["metadata"]["uid"]
            rig.api.faults += forbidden("list", "watch", "get")
            rig.api.break_watches()
            await rig.until(lambda: asked_in_vain(rig)["list"] >= 6)
            assert rig.operator.cache.backfill((OTHER, "orders")) is not None
            rig.api.faults.clear()
            rig.store.patch("backfills", OTHER, "orders", {"spec": {"desiredState": "Paused"}})
            await rig.until(lambda: rig.store.get("backfills", OTHER, "orders")["status"]["phase"] == "Paused")

            assert rig.store.objects["pods"][key]["metadata"]["uid"] == uid

    async def test_an_operator_that_may_read_none_is_not_ready(self):
        """That is no namespace that is going, but an installation without its Roles."""
        async with Rig(start=False, namespaces=(OTHER,)) as rig:
            rig.api.faults += forbidden("list", "watch", "get")
            rig.start()
            await rig.until(lambda: asked_in_vain(rig)["list"] >= 2)

            assert rig.operator.health.unready() != ""
