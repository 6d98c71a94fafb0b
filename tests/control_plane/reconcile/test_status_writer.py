"""The only writer of Backfills: it records an action in the status before the operator executes it."""

import time

import pytest
from support.cluster.fake_api import FakeApi

from backfill_api.names import WATCHED_ANNOTATION
from backfill_api.status.progress import ProgressSummary
from backfill_api.status.status import Attempt, BackfillStatus
from backfill_api.timestamps import rfc3339
from backfill_operator.informer.cache import Cache
from backfill_operator.kube.errors import ConflictError
from backfill_operator.kube.resources import BACKFILLS
from backfill_operator.metrics import Metrics
from backfill_operator.reconcile.status_writer import BackfillWriter
from backfill_operator.settings import OperatorSettings

SPEC = {
    "source": {"type": "Delta", "delta": {"path": "/a", "key": ["id"]}},
    "target": {"type": "Delta", "delta": {"path": "/b"}},
}
RUNNING = BackfillStatus(attempt=Attempt(number=1, state="Created"), progress=ProgressSummary(percent=4))
DOCUMENT = {"apiVersion": BACKFILLS.api_version, "kind": "Backfill", "metadata": {"name": "one"}, "spec": SPEC}


async def patched(cluster, seen, change, subresource=None):
    version = seen["metadata"]["resourceVersion"]
    return await cluster.patch(BACKFILLS, "default", "one", change, resource_version=version, subresource=subresource)


async def stale_look(cluster):
    """Create a Backfill with an empty status, and return the version before another writer changed it."""
    seen = await cluster.create(BACKFILLS, "default", DOCUMENT)
    document = BackfillStatus().model_dump(mode="json", by_alias=True, exclude_none=True)
    seen = await patched(cluster, seen, {"status": document}, "status")
    await patched(cluster, seen, {"metadata": {"labels": {"touched": "yes"}}})
    return seen


def writer(cluster, monotonic=time.monotonic, per_s=50):
    clocks = {"notify": lambda *_: None, "now_ms": lambda: int(monotonic() * 1000), "monotonic": monotonic}
    return BackfillWriter(cluster, Cache(), Metrics(), per_s, **clocks)


class TestMereProgress:
    @pytest.mark.parametrize("per_s", [50, 5, 1])
    async def test_progress_of_a_thousand_is_limited_in_any_second(self, per_s):
        """The limit is fifty and includes bursts, because other clients use the API server too. Time is virtual, writes are real."""
        now, written = [1000.0], []
        async with FakeApi() as api, api.cluster(OperatorSettings(queries_per_second=10_000)) as cluster:
            hands = writer(cluster, lambda: now[0], per_s)
            api.store.listeners.append(lambda plural, kind, _: kind == "MODIFIED" and written.append(now[0]))
            raws = [api.store.create("backfills", "default", named(f"job-{number}")) for number in range(1000)]
            for tick in range(75):
                now[0] = 1000.0 + tick / 25
                status = BackfillStatus(progress=ProgressSummary(percent=tick))
                # Those whose turn it is; the others would be refused in the same way.
                for number in range(tick * 10, tick * 10 + 10):
                    raws[number % 1000], _ = await hands.write_at_pace(raws[number % 1000], BackfillStatus(), status)

        in_a_second = [sum(start <= at < start + 1 for at in written) for start in written]
        assert max(in_a_second) <= per_s
        assert len(written) >= per_s * 3 * 0.5


class TestWatched:
    async def test_progress_of_a_watched_backfill_is_written_every_two_seconds(self):
        """Its viewer asked for it, and a Backfill beside it stays at ten seconds. Time is virtual, writes are real."""
        now, written = [1_800_000_000.0], []
        async with FakeApi() as api, api.cluster(OperatorSettings(queries_per_second=10_000)) as cluster:
            hands = writer(cluster, lambda: now[0])
            raws = {name: api.store.create("backfills", "default", named(name)) for name in ("watched", "other")}
            stored = dict.fromkeys(raws, RUNNING)
            api.store.listeners.append(
                lambda plural, kind, raw: kind == "MODIFIED" and written.append(name_at(raw, now))
            )
            for second in range(40):
                now[0] = 1_800_000_000.0 + second
                until = rfc3339(int(1000 * (1_800_000_000 + min(second, 19) + 1)))
                raws["watched"]["metadata"]["annotations"] = {WATCHED_ANNOTATION: until}
                for name, before in list(raws.items()):
                    status = RUNNING.model_copy(update={"progress": ProgressSummary(percent=4, rows_done=second + 1)})
                    raws[name], again_s = await hands.write_at_pace(before, stored[name], status)
                    if raws[name] is not before:
                        stored[name] = status
                    if name == "watched" and second < 20:
                        assert again_s is not None
                        assert again_s <= 2

        times = {name: [at for of, at in written if of == name] for name in raws}
        assert times["other"] == [0, 10, 20, 30]
        assert times["watched"] == [*range(0, 20, 2), 28, 38]


def name_at(raw, now):
    return raw["metadata"]["name"], round(now[0] - 1_800_000_000)


def named(name):
    return DOCUMENT | {"metadata": {"name": name}}


class TestTheFence:
    async def test_fenced_write_of_a_stale_object_fails_without_a_change(self):
        """Otherwise the operator would launch a job that has ended meanwhile."""
        async with FakeApi() as api, api.cluster(OperatorSettings()) as cluster:
            seen = await stale_look(cluster)

            with pytest.raises(ConflictError):
                await writer(cluster).write(seen, BackfillStatus(), fence=True)

    async def test_write_without_a_fence_and_change_sends_no_request(self):
        """Most reconciles find a correct status."""
        async with FakeApi() as api, api.cluster(OperatorSettings()) as cluster:
            seen = await stale_look(cluster)

            assert await writer(cluster).write(seen, BackfillStatus()) is seen
