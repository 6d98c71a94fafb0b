"""A watched namespace without the operator's Role, because it is being deleted or not set up yet, does not affect other namespaces."""

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
    """Return the answers to an operator without a Role in a namespace."""
    return [
        Fault("answer", verb=verb, namespace=OTHER, status=403, reason="Forbidden", times=FOR_EVER) for verb in verbs
    ]


def backfill():
    """Return a Backfill of the other namespace."""
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "orders"}, "spec": SPEC}


def asked_in_vain(rig):
    """Return the refused verbs with their numbers."""
    return Counter(request.verb for request in rig.api.requests if request.namespace == OTHER and request.status == 403)


async def pauses_after(failures, pace):
    """Return the seconds that a watch waits after each consecutive failure."""
    loop, pauses = asyncio.get_running_loop(), []
    for _ in range(failures):
        pace.failed("/pods", "forbidden")
        began = loop.time()
        await pace.wait("/pods")
        pauses.append(loop.time() - began)
    return pauses


class TestANamespaceThatCannotBeRead:
    async def test_namespace_that_is_forbidden_from_the_start_stops_no_other(self):
        """If namespaces are deleted during a restart, the operator would wait for them for ever."""
        async with Rig(start=False, namespaces=(NAMESPACE, OTHER)) as rig:
            rig.api.faults += forbidden("list", "watch", "get")
            rig.create()
            rig.start()
            await rig.until_holds("Running")

    async def test_namespace_that_becomes_forbidden_stops_no_other(self):
        """The Role of a deleted namespace is deleted before its Backfills."""
        async with Rig(namespaces=(NAMESPACE, OTHER)) as rig:
            await rig.until(lambda: rig.api.open_watches == 5)
            rig.api.faults += forbidden("list", "watch", "get")
            rig.api.break_watches()
            await rig.until(lambda: asked_in_vain(rig)["watch"] >= 2 and asked_in_vain(rig)["list"] >= 3)
            rig.create()
            await rig.until_holds("Running")

            assert rig.running.alive

    def test_forbidden_namespace_is_watched_without_end(self):
        """kopf would end the process after its ninth failure, and the kubelet restarts it later each time."""
        delays = list(itertools.islice(kopf_settings(OperatorSettings()).networking.error_backoffs, 1000))
        longest_s = OperatorSettings().watch_retry_max_seconds
        pauses = run_virtually(pauses_after(1000, WatchPace(longest_s)))

        assert delays == [0.0] * 1000
        assert longest_s == 30.0
        # Each delay is up to a quarter shorter or longer.
        assert 0.0 < min(pauses) <= max(pauses) <= 1.25 * longest_s

    async def test_namespace_is_served_after_it_gets_its_role(self):
        """The delay for a Role that is created after its Backfill is not longer than for a watch."""
        async with Rig(start=False, namespaces=(NAMESPACE, OTHER)) as rig:
            rig.api.faults += forbidden("list", "watch", "get")
            rig.store.create("backfills", OTHER, backfill())
            rig.start()
            await rig.until(lambda: asked_in_vain(rig)["list"] >= 4)
            rig.api.faults.clear()
            await rig.until(lambda: (OTHER, "orders-1-driver") in rig.store.objects["pods"])

    async def test_cached_objects_of_a_forbidden_namespace_are_kept(self):
        """A forbidden object is not deleted: its driver still uses a slot, and receives commands again with the Role."""
        async with Rig(namespaces=(NAMESPACE, OTHER)) as rig:
            await rig.until(lambda: rig.api.open_watches == 5)
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

    async def test_operator_without_any_readable_namespace_is_not_ready(self):
        """The cause is not a deleted namespace, but an installation without its Roles."""
        async with Rig(start=False, namespaces=(OTHER,)) as rig:
            rig.api.faults += forbidden("list", "watch", "get")
            rig.start()
            await rig.until(lambda: asked_in_vain(rig)["list"] >= 2)

            assert rig.operator.health.unready() != ""
