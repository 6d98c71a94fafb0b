"""A response of the API server that arrives after a newer event of a watch changes nothing in the cache. The two have no order."""

import asyncio
from contextlib import asynccontextmanager

from support.cluster.fake_api import FakeApi, Fault
from support.operators.observations import observed
from support.operators.rig import NAMESPACE, SPEC, Rig

from backfill_api.names import API_VERSION, BACKFILL_LABEL, KIND, ROLE_LABEL
from backfill_core.lifecycle.actions import RefetchPods
from backfill_operator.informer.cache import Cache
from backfill_operator.reconcile.observer import Observer
from backfill_operator.settings import OperatorSettings

KEY = (NAMESPACE, "orders")
BACKFILL = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "orders"}, "spec": SPEC}
POD = {
    "apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "driver", "image": "localhost/any:1"}]},
    "metadata": {"name": "orders-1-driver", "labels": {ROLE_LABEL: "driver", BACKFILL_LABEL: "orders"}},
}  # fmt: skip
SLOW = {"relist_min_seconds": 300, "relist_max_seconds": 300, "request_timeout_seconds": 60}
"""No list repairs the cache, and no request times out."""


class TestAnObjectThatIsDeletedMeanwhile:
    async def test_backfill_whose_deletion_was_reported_does_not_return(self):
        """Its first status is answered last. It counted as a job and as a writer of its target until the next list."""
        async with Rig(**SLOW) as rig:
            late = Fault("slow answer", verb="patch", plural="backfills", until=asyncio.Event())
            rig.api.faults.append(late)
            rig.create(suspend=True)
            await late.done.wait()
            rig.delete()
            await rig.until(lambda: not rig.operator.cache.exists(KEY))
            late.until.set()
            await rig.until(lambda: not rig.operator.queue.busy and not rig.operator.queue.delayed)

            assert not rig.operator.cache.exists(KEY)

    async def test_driver_whose_deletion_was_reported_does_not_return(self):
        """The creation of its pod is answered last. The job waited for a pod that no longer existed."""
        async with Rig(**SLOW) as rig:
            late = Fault("slow answer", verb="create", plural="pods", until=asyncio.Event())
            rig.api.faults.append(late)
            rig.create()
            await late.done.wait()
            await rig.until(lambda: rig.operator.cache.ip(*rig.driver()))
            rig.kubelet.vanish(rig.driver())
            await rig.until(lambda: not rig.operator.cache.pods(KEY))
            late.until.set()

            await rig.until_holds("Running")


@asynccontextmanager
async def observer():
    """Yield an observer with a fake API server and a cache that the test fills as a watch does."""
    async with FakeApi() as api, api.cluster(OperatorSettings(request_timeout_seconds=60)) as cluster:
        cache, woken = Cache(), []
        yield api, cache, Observer(cluster, cache, None, None, None, woken.append)


class TestAnObjectThatIsCreatedMeanwhile:
    async def test_backfill_that_replaces_a_deleted_one_stays(self):
        """Its name did not exist when the API server answered. It had no reconcile until the next list."""
        async with observer() as (api, cache, made):
            old = api.store.create("backfills", NAMESPACE, BACKFILL)
            cache.put_backfill(old)
            api.store.delete("backfills", NAMESPACE, "orders")
            late = Fault("slow answer", verb="get", plural="backfills", until=asyncio.Event())
            api.faults.append(late)
            reading = asyncio.create_task(made.refresh(KEY))
            await late.done.wait()
            new = api.store.create("backfills", NAMESPACE, BACKFILL)
            cache.put_backfill(new)
            late.until.set()
            await reading

            assert cache.backfill(KEY)["metadata"]["uid"] == new["metadata"]["uid"]

    async def test_pod_that_appears_after_the_read_stays(self):
        """A lost creation may be executed late. Without its pod in the cache, the driver had no address."""
        async with observer() as (api, cache, made):
            late = Fault("slow answer", verb="get", plural="pods", until=asyncio.Event())
            api.faults.append(late)
            reading = asyncio.create_task(made.fetch_pods(observed(), RefetchPods("orders-1-driver")))
            await late.done.wait()
            cache.put_pod(api.store.create("pods", NAMESPACE, POD))
            late.until.set()

            assert await reading == ()
            assert [pod.name for pod in cache.pods(KEY)] == ["orders-1-driver"]

    async def test_pod_that_no_longer_exists_is_removed(self):
        """The watch of pods may be broken."""
        async with observer() as (api, cache, made):
            cache.put_pod(api.store.create("pods", NAMESPACE, POD))
            api.store.delete("pods", NAMESPACE, "orders-1-driver")

            assert await made.fetch_pods(observed(), RefetchPods("orders-1-driver")) == ()
            assert cache.pods(KEY) == ()
