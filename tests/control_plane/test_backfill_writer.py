"""The one writer of Backfills: what is on record before the operator acts."""

import time

import pytest
from support.fake_api import FakeApi

from backfill_api.status import BackfillStatus
from backfill_operator.api_errors import ConflictError
from backfill_operator.backfill_writer import BackfillWriter
from backfill_operator.cache import Cache
from backfill_operator.metrics import Metrics
from backfill_operator.resources import BACKFILLS
from backfill_operator.settings import OperatorSettings

SPEC = {
    "source": {"type": "Delta", "delta": {"path": "/a", "key": ["id"]}},
    "target": {"type": "Delta", "delta": {"path": "/b"}},
}
DOCUMENT = {"apiVersion": BACKFILLS.api_version, "kind": "Backfill", "metadata": {"name": "one"}, "spec": SPEC}


async def patched(cluster, seen, change, subresource=None):
    version = seen["metadata"]["resourceVersion"]
    return await cluster.patch(BACKFILLS, "default", "one", change, resource_version=version, subresource=subresource)


async def stale_look(cluster):
    """Make a Backfill with an empty status, and return it as it was before somebody changed it."""
    seen = await cluster.create(BACKFILLS, "default", DOCUMENT)
    words = BackfillStatus().model_dump(mode="json", by_alias=True, exclude_none=True)
    seen = await patched(cluster, seen, {"status": words}, "status")
    await patched(cluster, seen, {"metadata": {"labels": {"touched": "yes"}}})
    return seen


def writer(cluster):
    metrics = Metrics()
    clocks = {"now_ms": lambda: time.time_ns() // 1_000_000, "monotonic": time.monotonic}
    return BackfillWriter(cluster, Cache(), metrics, 50, **clocks)


class TestTheFence:
    async def test_a_stale_look_is_told_so_although_its_status_changes_nothing(self):
        """Else it would launch what has ended meanwhile."""
        async with FakeApi() as api, api.cluster(OperatorSettings()) as cluster:
            seen = await stale_look(cluster)

            with pytest.raises(ConflictError):
                await writer(cluster).write(seen, BackfillStatus(), fence=True)

    async def test_without_a_fence_nothing_is_asked_when_nothing_differs(self):
        """Most looks find things as they should be."""
        async with FakeApi() as api, api.cluster(OperatorSettings()) as cluster:
            seen = await stale_look(cluster)

            assert await writer(cluster).write(seen, BackfillStatus()) is seen
