"""What the operator relies on of an API server: the fake and a real one answer alike."""

import asyncio
import contextlib

import pytest
from support.cluster.fake_api import FakeApi, Fault

from backfill_operator.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    GoneError,
    RefusedError,
    ResponseTooLargeError,
    UnavailableError,
)
from backfill_operator.kube.resources import BACKFILLS, CONFIG_MAPS, PODS, SERVICES
from backfill_operator.settings import OperatorSettings

SPEC = {
    "source": {"type": "Delta", "delta": {"path": "/a", "key": ["id"]}},
    "target": {"type": "Delta", "delta": {"path": "/b"}},
}


def config_map(name, **metadata):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": {"a": "1"}}


def pod(name, **metadata):
    container = {"name": "main", "image": "nothing:1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [container]},
    }


def backfill(name, **metadata):
    return {
        "apiVersion": BACKFILLS.api_version,
        "kind": "Backfill",
        "metadata": {"name": name, **metadata},
        "spec": SPEC,
    }


async def listed(cluster, resource, namespace, labels="", fields=""):
    """Return all objects, of all pages."""
    return [one async for page in cluster.pages(resource, namespace, labels=labels, fields=fields) for one in page]


def fence(one):
    return {"resource_version": one["metadata"]["resourceVersion"]}


class TestMaking:
    async def test_what_is_made_can_be_read(self, server):
        """With identity, version and moment of birth."""
        async with server() as (cluster, namespace):
            made = await cluster.create(CONFIG_MAPS, namespace, config_map("one"))
            read = await cluster.get(CONFIG_MAPS, namespace, "one")

        assert read == made
        assert {"uid", "resourceVersion", "creationTimestamp"} <= set(made["metadata"])

    async def test_what_is_not_there_is_none(self, server):
        """No exception: asking is how the operator finds out."""
        async with server() as (cluster, namespace):
            assert await cluster.get(CONFIG_MAPS, namespace, "no-such-name") is None

    async def test_a_name_is_taken_once(self, server):
        """The wall against a second driver."""
        async with server() as (cluster, namespace):
            await cluster.create(PODS, namespace, pod("driver"))
            with pytest.raises(AlreadyExistsError):
                await cluster.create(PODS, namespace, pod("driver"))

    async def test_a_dry_run_makes_nothing(self, server):
        """It only asks."""
        async with server() as (cluster, namespace):
            await cluster.create(PODS, namespace, pod("driver"), dry_run=True)
            assert await cluster.get(PODS, namespace, "driver") is None

    @pytest.mark.parametrize("dry_run", [True, False])
    async def test_a_pod_that_is_none_is_refused_with_words(self, server, dry_run):
        """The server's words are what a person needs."""
        wrong = pod("driver")
        wrong["spec"] = {"containers": []}
        async with server() as (cluster, namespace):
            with pytest.raises(RefusedError) as refused:
                await cluster.create(PODS, namespace, wrong, dry_run=dry_run)

        assert (refused.value.status, refused.value.reason) == (422, "Invalid")
        assert "spec.containers" in refused.value.message

    async def test_names_have_rules(self, server):
        """A Service's are stricter than a pod's."""
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "1-digit"},
            "spec": {"clusterIP": "None"},
        }
        async with server() as (cluster, namespace):
            with pytest.raises(RefusedError):
                await cluster.create(SERVICES, namespace, service)

    async def test_a_status_cannot_be_born(self, server):
        """It is written by its own door only."""
        async with server() as (cluster, namespace):
            made = await cluster.create(BACKFILLS, namespace, {**backfill("one"), "status": {"phase": "Running"}})
            assert (made.get("status") or {}).get("phase") is None


class TestFences:
    async def test_a_stale_status_is_a_conflict(self, server):
        """The quicker writer has changed what the decision stood on."""
        async with server() as (cluster, namespace):
            made = await cluster.create(BACKFILLS, namespace, backfill("one"))
            await cluster.patch(
                BACKFILLS, namespace, "one", {"status": {"attempts": 1}}, **fence(made), subresource="status"
            )
            with pytest.raises(ConflictError):
                await cluster.patch(
                    BACKFILLS, namespace, "one", {"status": {"attempts": 2}}, **fence(made), subresource="status"
                )
            assert (await cluster.get(BACKFILLS, namespace, "one"))["status"]["attempts"] == 1

    async def test_a_status_of_an_earlier_object_is_a_conflict(self, server):
        """Same name, another life."""
        async with server() as (cluster, namespace):
            made = await cluster.create(BACKFILLS, namespace, backfill("one"))
            await cluster.delete(BACKFILLS, namespace, "one")
            await cluster.create(BACKFILLS, namespace, backfill("one"))
            with pytest.raises(ConflictError):
                await cluster.patch(
                    BACKFILLS, namespace, "one", {"status": {"attempts": 1}}, **fence(made), subresource="status"
                )

    async def test_a_status_changes_no_generation_and_a_spec_does(self, server):
        """observedGeneration means something."""
        async with server() as (cluster, namespace):
            made = await cluster.create(BACKFILLS, namespace, backfill("one"))
            told = await cluster.patch(
                BACKFILLS, namespace, "one", {"status": {"attempts": 1}}, **fence(made), subresource="status"
            )
            paused = await cluster.patch(
                BACKFILLS, namespace, "one", {"spec": {"desiredState": "Paused"}}, **fence(told)
            )

        generations = [one["metadata"]["generation"] for one in (made, told, paused)]
        assert generations == [1, 1, 2]
        assert paused["status"]["attempts"] == 1

    async def test_null_removes(self, server):
        """A merge patch takes away what it says null to."""
        async with server() as (cluster, namespace):
            made = await cluster.create(BACKFILLS, namespace, backfill("one"))
            told = await cluster.patch(
                BACKFILLS, namespace, "one", {"status": {"attempts": 1, "phase": "Running"}}, **fence(made),
                subresource="status",
            )  # fmt: skip
            told = await cluster.patch(
                BACKFILLS, namespace, "one", {"status": {"phase": None}}, **fence(told), subresource="status"
            )

        assert (told["status"].get("phase"), told["status"]["attempts"]) == (None, 1)

    async def test_the_same_again_is_no_change(self, server):
        """No new version, no event: a loop that writes what is there would turn for ever."""
        async with server() as (cluster, namespace):
            made = await cluster.create(BACKFILLS, namespace, backfill("one"))
            change = {"status": {"attempts": 1}}
            told = await cluster.patch(BACKFILLS, namespace, "one", change, **fence(made), subresource="status")
            again = await cluster.patch(BACKFILLS, namespace, "one", change, **fence(told), subresource="status")

        assert again["metadata"]["resourceVersion"] == told["metadata"]["resourceVersion"]

    async def test_a_lease_is_taken_by_one(self, server):
        """Two that replace the same version: one wins."""
        async with server() as (cluster, namespace):
            made = await cluster.create(CONFIG_MAPS, namespace, config_map("lease"))
            await cluster.replace(CONFIG_MAPS, namespace, "lease", {**made, "data": {"holder": "a"}})
            with pytest.raises(ConflictError):
                await cluster.replace(CONFIG_MAPS, namespace, "lease", {**made, "data": {"holder": "b"}})


class TestDeleting:
    async def test_twice_is_fine(self, server):
        """What should be gone is gone."""
        async with server() as (cluster, namespace):
            await cluster.create(CONFIG_MAPS, namespace, config_map("one"))
            assert await cluster.delete(CONFIG_MAPS, namespace, "one") is True
            assert await cluster.delete(CONFIG_MAPS, namespace, "one") is False

    async def test_another_uid_is_a_conflict(self, server):
        """A stale look must not delete the successor's driver."""
        async with server() as (cluster, namespace):
            made = await cluster.create(PODS, namespace, pod("driver"))
            with pytest.raises(ConflictError):
                await cluster.delete(PODS, namespace, "driver", uid="11111111-2222-3333-4444-555555555555")
            assert await cluster.delete(PODS, namespace, "driver", uid=made["metadata"]["uid"], grace_s=1) is True

    async def test_a_finalizer_holds_an_object(self, server):
        """Until it is taken away; a drain has time."""
        async with server() as (cluster, namespace):
            await cluster.create(BACKFILLS, namespace, backfill("one", finalizers=["backfill.dev/drain"]))
            await cluster.delete(BACKFILLS, namespace, "one")
            held = await cluster.get(BACKFILLS, namespace, "one")
            assert "deletionTimestamp" in held["metadata"]
            await cluster.patch(BACKFILLS, namespace, "one", {"metadata": {"finalizers": None}}, **fence(held))
            assert await cluster.get(BACKFILLS, namespace, "one") is None


class TestLists:
    async def test_pages_are_the_whole(self, server):
        """Each object once, whatever the size of a page; each says its kind, although a list's items do not."""
        async with server(page_size=10) as (cluster, namespace):
            for number in range(25):
                await cluster.create(CONFIG_MAPS, namespace, config_map(f"one-{number}", labels={"mine": "yes"}))
            pages = [page async for page in cluster.pages(CONFIG_MAPS, namespace, labels="mine=yes")]

        assert [len(page) for page in pages] == [10, 10, 5]
        assert len({one["metadata"]["name"] for page in pages for one in page}) == 25
        assert {one["kind"] for page in pages for one in page} == {"ConfigMap"}

    async def test_labels_choose(self, server):
        """By value, and by being there."""
        async with server() as (cluster, namespace):
            await cluster.create(PODS, namespace, pod("a", labels={"role": "driver"}))
            await cluster.create(PODS, namespace, pod("b", labels={"role": "executor"}))
            await cluster.create(PODS, namespace, pod("c"))
            driver = await listed(cluster, PODS, namespace, labels="role=driver")
            both = await listed(cluster, PODS, namespace, labels="role")

        assert [one["metadata"]["name"] for one in driver] == ["a"]
        assert [one["metadata"]["name"] for one in both] == ["a", "b"]

    async def test_a_phase_chooses(self, server):
        """Beside labels: of the pods that no node has taken, those with the label."""
        async with server() as (cluster, namespace):
            await cluster.create(PODS, namespace, pod("a", labels={"role": "executor"}))
            await cluster.create(PODS, namespace, pod("b"))
            waiting = await listed(cluster, PODS, namespace, labels="role=executor", fields="status.phase=Pending")
            running = await listed(cluster, PODS, namespace, labels="role=executor", fields="status.phase=Running")

        assert [one["metadata"]["name"] for one in waiting] == ["a"]
        assert running == []


@contextlib.asynccontextmanager
async def faulty(*faults, calls=None, **settings):
    """Give a client of a fake in which things go wrong."""
    async with FakeApi() as api:
        api.faults.extend(faults)
        observe = (calls if calls is not None else []).append
        async with api.cluster(OperatorSettings(**settings), observe=observe) as cluster:
            yield api, cluster


class TestWhatGoesWrong:
    async def test_a_read_is_repeated(self):
        """Nothing is lost by asking again."""
        calls = []
        async with faulty(Fault("answer", verb="get", times=2), calls=calls) as (api, cluster):
            api.store.create("configmaps", "default", config_map("one"))
            assert await cluster.get(CONFIG_MAPS, "default", "one") is not None

        assert [(one.verb, one.resource, one.status) for one in calls] == [
            ("get", "configmaps", 500), ("get", "configmaps", 500), ("get", "configmaps", 200),
        ]  # fmt: skip

    async def test_a_create_that_got_no_answer_is_not_repeated(self):
        """It may have been done: its caller must look."""
        async with faulty(Fault("lose the answer", verb="create")) as (api, cluster):
            with pytest.raises(UnavailableError):
                await cluster.create(PODS, "default", pod("driver"))
            assert [one.verb for one in api.requests] == ["create"]
            assert ("default", "driver") in api.store.objects["pods"]

    async def test_a_create_that_was_too_much_is_repeated(self):
        """429 says that nothing was done."""
        fault = Fault("answer", verb="create", status=429, reason="TooManyRequests", retry_after=1)
        async with faulty(fault) as (_, cluster):
            began = asyncio.get_running_loop().time()
            await cluster.create(PODS, "default", pod("driver"))
            assert asyncio.get_running_loop().time() - began >= 1

    async def test_a_long_retry_after_is_left_to_the_queue(self):
        """A worker that waits for a minute is a worker less."""
        fault = Fault("answer", verb="get", status=429, reason="TooManyRequests", retry_after=60)
        async with faulty(fault) as (_, cluster):
            with pytest.raises(UnavailableError) as refused:
                await cluster.get(PODS, "default", "driver")

        assert refused.value.retry_after == 60

    async def test_tries_have_an_end(self):
        """The work queue knows better how to wait."""
        async with faulty(Fault("answer", status=503, times=99)) as (api, cluster):
            with pytest.raises(UnavailableError):
                await cluster.get(PODS, "default", "driver")
            assert len(api.requests) == 4

    async def test_a_slow_answer_is_none(self):
        """A worker must come back."""
        fault = Fault("slow", verb="create", seconds=5)
        async with faulty(fault, request_timeout_seconds=0.2) as (_, cluster):
            with pytest.raises(UnavailableError):
                await cluster.create(PODS, "default", pod("driver"))

    async def test_a_deletion_whose_answer_was_lost_is_done(self):
        """The second time says that it is gone."""
        async with faulty(Fault("lose the answer", verb="delete")) as (api, cluster):
            made = api.store.create("configmaps", "default", config_map("one"))
            assert await cluster.delete(CONFIG_MAPS, "default", "one", uid=made["metadata"]["uid"]) is False
            assert api.store.objects["configmaps"] == {}

    async def test_an_answer_has_a_largest_size(self):
        """Whatever answers at that address, memory is bounded."""
        async with FakeApi() as api:
            api.store.create("configmaps", "default", {**config_map("one"), "data": {"a": "x" * 100_000}})
            async with api.cluster(OperatorSettings(), response_bytes_max=50_000) as cluster:
                with pytest.raises(ResponseTooLargeError):
                    await cluster.get(CONFIG_MAPS, "default", "one")

    async def test_a_page_that_is_too_large_is_asked_for_in_halves(self):
        """One page over the limit ended every list for ever; only a single object over it does."""
        async with FakeApi() as api:
            for number in range(50):
                api.store.create("configmaps", "default", {**config_map(f"one-{number}"), "data": {"a": "x" * 10_000}})
            settings = OperatorSettings(page_size=40)
            async with api.cluster(settings, response_bytes_max=60_000) as cluster:
                names = {one["metadata"]["name"] for one in await listed(cluster, CONFIG_MAPS, "default")}
                tries = len(api.requests)
                assert len(names) == 50
                await listed(cluster, CONFIG_MAPS, "default")
                assert len(api.requests) - tries < tries, "what was learnt is kept"
            async with api.cluster(settings, response_bytes_max=5_000) as cluster:
                with pytest.raises(ResponseTooLargeError):
                    await listed(cluster, CONFIG_MAPS, "default")

    async def test_a_forgotten_list_says_so(self):
        """410 in the middle of the pages: the pages that were read are no version of the whole, so the caller starts again."""
        fault = Fault("answer", verb="list", status=410, reason="Expired", after=1)
        async with faulty(fault, page_size=10) as (api, cluster):
            for number in range(15):
                api.store.create("configmaps", "default", config_map(f"one-{number}"))
            with pytest.raises(GoneError):
                await listed(cluster, CONFIG_MAPS, "default")

    @pytest.mark.parametrize("name", ["../../../v1/secrets/x", "a/b", "a?b=c", "a#b", "ü"])
    async def test_a_name_cannot_leave_its_place(self, name):
        """Names come from objects that anybody may write."""
        async with faulty() as (api, cluster):
            assert await cluster.get(PODS, "default", name) is None
            assert [(one.plural, one.name.count("/")) for one in api.requests if one.plural != "pods"] == []

    async def test_requests_keep_to_the_rate(self):
        """A client of its own manners needs no priority and fairness to be polite."""
        async with faulty(queries_per_second=50, query_burst=5) as (_, cluster):
            began = asyncio.get_running_loop().time()
            await asyncio.gather(*(cluster.get(PODS, "default", "x") for _ in range(15)))
            assert asyncio.get_running_loop().time() - began >= 0.19
