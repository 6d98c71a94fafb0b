"""API server behaviour that the operator relies on: the fake and a real server respond alike."""

import asyncio
import contextlib

import pytest
from support.cluster.fake_api import FakeApi, Fault
from support.cluster.harness import prepared

from backfill_core.lifecycle.observation import NAMESPACE_TERMINATING
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
    """Return all objects of all pages."""
    return [item async for page in cluster.pages(resource, namespace, labels=labels, fields=fields) for item in page]


def fence(manifest):
    return {"resource_version": manifest["metadata"]["resourceVersion"]}


class TestMaking:
    async def test_created_object_can_be_read(self, server):
        """It has a UID, a version and a creation time."""
        async with server() as (cluster, namespace):
            made = await cluster.create(CONFIG_MAPS, namespace, config_map("one"))
            read = await cluster.get(CONFIG_MAPS, namespace, "one")

        assert read == made
        assert {"uid", "resourceVersion", "creationTimestamp"} <= set(made["metadata"])

    async def test_missing_object_is_none(self, server):
        """The operator reads objects to find out whether they exist, so there is no exception."""
        async with server() as (cluster, namespace):
            assert await cluster.get(CONFIG_MAPS, namespace, "no-such-name") is None

    async def test_name_can_be_used_once(self, server):
        """This prevents a second driver."""
        async with server() as (cluster, namespace):
            await cluster.create(PODS, namespace, pod("driver"))
            with pytest.raises(AlreadyExistsError):
                await cluster.create(PODS, namespace, pod("driver"))

    async def test_dry_run_creates_no_object(self, server):
        """The server only checks the object."""
        async with server() as (cluster, namespace):
            await cluster.create(PODS, namespace, pod("driver"), dry_run=True)
            assert await cluster.get(PODS, namespace, "driver") is None

    @pytest.mark.parametrize("dry_run", [True, False])
    async def test_invalid_pod_is_refused_with_a_message(self, server, dry_run):
        """Users need the server's message."""
        wrong = pod("driver")
        wrong["spec"] = {"containers": []}
        async with server() as (cluster, namespace):
            with pytest.raises(RefusedError) as refused:
                await cluster.create(PODS, namespace, wrong, dry_run=dry_run)

        assert (refused.value.status, refused.value.reason) == (422, "Invalid")
        assert "spec.containers" in refused.value.message

    async def test_names_are_validated(self, server):
        """A Service's names are stricter than a pod's."""
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "1-digit"},
            "spec": {"clusterIP": "None"},
        }
        async with server() as (cluster, namespace):
            with pytest.raises(RefusedError):
                await cluster.create(SERVICES, namespace, service)

    async def test_create_ignores_the_status(self, server):
        """Only the subresource can write it."""
        async with server() as (cluster, namespace):
            made = await cluster.create(BACKFILLS, namespace, {**backfill("one"), "status": {"phase": "Running"}})
            assert (made.get("status") or {}).get("phase") is None


class TestFences:
    async def test_stale_status_write_is_a_conflict(self, server):
        """The faster writer has changed the base of the decision."""
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

    async def test_status_write_of_an_earlier_object_is_a_conflict(self, server):
        """A recreated object has the same name and another UID."""
        async with server() as (cluster, namespace):
            made = await cluster.create(BACKFILLS, namespace, backfill("one"))
            await cluster.delete(BACKFILLS, namespace, "one")
            await cluster.create(BACKFILLS, namespace, backfill("one"))
            with pytest.raises(ConflictError):
                await cluster.patch(
                    BACKFILLS, namespace, "one", {"status": {"attempts": 1}}, **fence(made), subresource="status"
                )

    async def test_status_write_keeps_the_generation_and_spec_write_changes_it(self, server):
        """observedGeneration depends on this."""
        async with server() as (cluster, namespace):
            made = await cluster.create(BACKFILLS, namespace, backfill("one"))
            changed = await cluster.patch(
                BACKFILLS, namespace, "one", {"status": {"attempts": 1}}, **fence(made), subresource="status"
            )
            paused = await cluster.patch(
                BACKFILLS, namespace, "one", {"spec": {"desiredState": "Paused"}}, **fence(changed)
            )

        generations = [manifest["metadata"]["generation"] for manifest in (made, changed, paused)]
        assert generations == [1, 1, 2]
        assert paused["status"]["attempts"] == 1

    async def test_null_in_a_merge_patch_removes_a_field(self, server):
        """The other fields stay."""
        async with server() as (cluster, namespace):
            made = await cluster.create(BACKFILLS, namespace, backfill("one"))
            changed = await cluster.patch(
                BACKFILLS, namespace, "one", {"status": {"attempts": 1, "phase": "Running"}}, **fence(made),
                subresource="status",
            )  # fmt: skip
            changed = await cluster.patch(
                BACKFILLS, namespace, "one", {"status": {"phase": None}}, **fence(changed), subresource="status"
            )

        assert (changed["status"].get("phase"), changed["status"]["attempts"]) == (None, 1)

    async def test_equal_write_changes_no_version(self, server):
        """It causes no event: otherwise a loop that writes the current state would never end."""
        async with server() as (cluster, namespace):
            made = await cluster.create(BACKFILLS, namespace, backfill("one"))
            change = {"status": {"attempts": 1}}
            changed = await cluster.patch(BACKFILLS, namespace, "one", change, **fence(made), subresource="status")
            again = await cluster.patch(BACKFILLS, namespace, "one", change, **fence(changed), subresource="status")

        assert again["metadata"]["resourceVersion"] == changed["metadata"]["resourceVersion"]

    async def test_lease_is_taken_by_one_candidate(self, server):
        """If two replace the same version, one wins."""
        async with server() as (cluster, namespace):
            made = await cluster.create(CONFIG_MAPS, namespace, config_map("lease"))
            await cluster.replace(CONFIG_MAPS, namespace, "lease", {**made, "data": {"holder": "a"}})
            with pytest.raises(ConflictError):
                await cluster.replace(CONFIG_MAPS, namespace, "lease", {**made, "data": {"holder": "b"}})


class TestDeleting:
    async def test_second_deletion_succeeds(self, server):
        """The object is gone, as requested."""
        async with server() as (cluster, namespace):
            await cluster.create(CONFIG_MAPS, namespace, config_map("one"))
            assert await cluster.delete(CONFIG_MAPS, namespace, "one") is True
            assert await cluster.delete(CONFIG_MAPS, namespace, "one") is False

    async def test_deletion_with_another_uid_is_a_conflict(self, server):
        """A stale observation must not delete the successor's driver."""
        async with server() as (cluster, namespace):
            made = await cluster.create(PODS, namespace, pod("driver"))
            with pytest.raises(ConflictError):
                await cluster.delete(PODS, namespace, "driver", uid="11111111-2222-3333-4444-555555555555")
            assert await cluster.delete(PODS, namespace, "driver", uid=made["metadata"]["uid"], grace_s=1) is True

    async def test_finalizer_keeps_an_object(self, server):
        """The object stays until the finalizer is removed, so a drain has time."""
        async with server() as (cluster, namespace):
            await cluster.create(BACKFILLS, namespace, backfill("one", finalizers=["backfill.dev/drain"]))
            await cluster.delete(BACKFILLS, namespace, "one")
            held = await cluster.get(BACKFILLS, namespace, "one")
            assert "deletionTimestamp" in held["metadata"]
            await cluster.patch(BACKFILLS, namespace, "one", {"metadata": {"finalizers": None}}, **fence(held))
            assert await cluster.get(BACKFILLS, namespace, "one") is None


class TestLists:
    async def test_pages_contain_each_object_once(self, server):
        """This is true for any page size. Each object has its kind, although the items of a list do not."""
        async with server(page_size=10) as (cluster, namespace):
            for number in range(25):
                await cluster.create(CONFIG_MAPS, namespace, config_map(f"one-{number}", labels={"mine": "yes"}))
            pages = [page async for page in cluster.pages(CONFIG_MAPS, namespace, labels="mine=yes")]

        assert [len(page) for page in pages] == [10, 10, 5]
        assert len({item["metadata"]["name"] for page in pages for item in page}) == 25
        assert {item["kind"] for page in pages for item in page} == {"ConfigMap"}

    async def test_labels_select_objects(self, server):
        """A selector compares values or requires a label."""
        async with server() as (cluster, namespace):
            await cluster.create(PODS, namespace, pod("a", labels={"role": "driver"}))
            await cluster.create(PODS, namespace, pod("b", labels={"role": "executor"}))
            await cluster.create(PODS, namespace, pod("c"))
            driver = await listed(cluster, PODS, namespace, labels="role=driver")
            both = await listed(cluster, PODS, namespace, labels="role")

        assert [item["metadata"]["name"] for item in driver] == ["a"]
        assert [item["metadata"]["name"] for item in both] == ["a", "b"]

    async def test_phase_selects_objects(self, server):
        """A field selector works with labels: pods without a node, with the label."""
        async with server() as (cluster, namespace):
            await cluster.create(PODS, namespace, pod("a", labels={"role": "executor"}))
            await cluster.create(PODS, namespace, pod("b"))
            waiting = await listed(cluster, PODS, namespace, labels="role=executor", fields="status.phase=Pending")
            running = await listed(cluster, PODS, namespace, labels="role=executor", fields="status.phase=Running")

        assert [item["metadata"]["name"] for item in waiting] == ["a"]
        assert running == []


@contextlib.asynccontextmanager
async def faulty(*faults, calls=None, **settings):
    """Yield a client of a fake with faults."""
    async with FakeApi() as api:
        api.faults.extend(faults)
        observe = (calls if calls is not None else []).append
        async with api.cluster(OperatorSettings(**settings), observe=observe) as cluster:
            yield api, cluster


class TestWhatGoesWrong:
    async def test_read_is_repeated(self):
        """Repeating it is safe."""
        calls = []
        async with faulty(Fault("answer", verb="get", times=2), calls=calls) as (api, cluster):
            api.store.create("configmaps", "default", config_map("one"))
            assert await cluster.get(CONFIG_MAPS, "default", "one") is not None

        assert [(call.verb, call.resource, call.status) for call in calls] == [
            ("get", "configmaps", 500), ("get", "configmaps", 500), ("get", "configmaps", 200),
        ]  # fmt: skip

    async def test_create_without_an_answer_is_not_repeated(self):
        """It may have been executed, so its caller must read the object."""
        async with faulty(Fault("lose the answer", verb="create")) as (api, cluster):
            with pytest.raises(UnavailableError):
                await cluster.create(PODS, "default", pod("driver"))
            assert [request.verb for request in api.requests] == ["create"]
            assert ("default", "driver") in api.store.objects["pods"]

    async def test_create_after_429_is_repeated(self):
        """429 means that the request was not executed."""
        fault = Fault("answer", verb="create", status=429, reason="TooManyRequests", retry_after=1)
        async with faulty(fault) as (_, cluster):
            began = asyncio.get_running_loop().time()
            await cluster.create(PODS, "default", pod("driver"))
            assert asyncio.get_running_loop().time() - began >= 1

    async def test_long_retry_after_is_left_to_the_queue(self):
        """A waiting worker could not reconcile other Backfills."""
        fault = Fault("answer", verb="get", status=429, reason="TooManyRequests", retry_after=60)
        async with faulty(fault) as (_, cluster):
            with pytest.raises(UnavailableError) as refused:
                await cluster.get(PODS, "default", "driver")

        assert refused.value.retry_after == 60

    async def test_number_of_tries_is_limited(self):
        """The work queue handles longer delays."""
        async with faulty(Fault("answer", status=503, times=99)) as (api, cluster):
            with pytest.raises(UnavailableError):
                await cluster.get(PODS, "default", "driver")
            assert len(api.requests) == 4

    async def test_slow_answer_counts_as_missing(self):
        """A worker must become free again."""
        fault = Fault("slow", verb="create", seconds=5)
        async with faulty(fault, request_timeout_seconds=0.2) as (_, cluster):
            with pytest.raises(UnavailableError):
                await cluster.create(PODS, "default", pod("driver"))

    async def test_deletion_with_a_lost_answer_succeeds(self):
        """The second request finds that the object is gone."""
        async with faulty(Fault("lose the answer", verb="delete")) as (api, cluster):
            made = api.store.create("configmaps", "default", config_map("one"))
            assert await cluster.delete(CONFIG_MAPS, "default", "one", uid=made["metadata"]["uid"]) is False
            assert api.store.objects["configmaps"] == {}

    async def test_size_of_an_answer_is_limited(self):
        """Memory is bounded for any server at that address."""
        async with FakeApi() as api:
            api.store.create("configmaps", "default", {**config_map("one"), "data": {"a": "x" * 100_000}})
            async with api.cluster(OperatorSettings(), response_bytes_max=50_000) as cluster:
                with pytest.raises(ResponseTooLargeError):
                    await cluster.get(CONFIG_MAPS, "default", "one")

    async def test_page_over_the_limit_is_requested_in_halves(self):
        """One page over the limit ended every list for ever; now only a single object over it does."""
        async with FakeApi() as api:
            for number in range(50):
                api.store.create("configmaps", "default", {**config_map(f"one-{number}"), "data": {"a": "x" * 10_000}})
            settings = OperatorSettings(page_size=40)
            async with api.cluster(settings, response_bytes_max=60_000) as cluster:
                names = {item["metadata"]["name"] for item in await listed(cluster, CONFIG_MAPS, "default")}
                tries = len(api.requests)
                assert len(names) == 50
                await listed(cluster, CONFIG_MAPS, "default")
                assert len(api.requests) - tries < tries, "what was learnt is kept"
            async with api.cluster(settings, response_bytes_max=5_000) as cluster:
                with pytest.raises(ResponseTooLargeError):
                    await listed(cluster, CONFIG_MAPS, "default")

    async def test_expired_list_is_reported(self):
        """After a 410 between pages, the pages are not a consistent version, so the caller starts again."""
        fault = Fault("answer", verb="list", status=410, reason="Expired", after=1)
        async with faulty(fault, page_size=10) as (api, cluster):
            for number in range(15):
                api.store.create("configmaps", "default", config_map(f"one-{number}"))
            with pytest.raises(GoneError):
                await listed(cluster, CONFIG_MAPS, "default")

    @pytest.mark.parametrize("name", ["../../../v1/secrets/x", "a/b", "a?b=c", "a#b", "ü"])
    async def test_name_cannot_change_the_path(self, name):
        """Names come from objects that any user may write."""
        async with faulty() as (api, cluster):
            assert await cluster.get(PODS, "default", name) is None
            assert [
                (request.plural, request.name.count("/")) for request in api.requests if request.plural != "pods"
            ] == []

    async def test_requests_respect_the_rate_limit(self):
        """The client limits its own rate, so it does not depend on priority and fairness of the server."""
        async with faulty(queries_per_second=50, query_burst=5) as (_, cluster):
            began = asyncio.get_running_loop().time()
            await asyncio.gather(*(cluster.get(PODS, "default", "x") for _ in range(15)))
            assert asyncio.get_running_loop().time() - began >= 0.19


class TestANamespaceThatIsDeleted:
    async def test_its_refusal_has_a_cause(self, real_cluster, real_client):
        """The end of a job relies on it. Only a real server has namespaces; a finalizer keeps this one until the request."""
        held = config_map("held", finalizers=[f"{BACKFILLS.group}/test"])
        with prepared(real_cluster) as namespace:
            async with real_client(real_cluster.kubeconfig, namespace, {}) as (cluster, _):
                await cluster.create(CONFIG_MAPS, namespace, held)
        async with real_client(real_cluster.kubeconfig, namespace, {}) as (cluster, _):
            with pytest.raises(RefusedError) as refused:
                await cluster.create(CONFIG_MAPS, namespace, config_map("late"))
            seen = await cluster.get(CONFIG_MAPS, namespace, "held")
            await cluster.patch(CONFIG_MAPS, namespace, "held", {"metadata": {"finalizers": None}}, **fence(seen))

        assert (refused.value.reason, refused.value.causes) == ("Forbidden", (NAMESPACE_TERMINATING,))
