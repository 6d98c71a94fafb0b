"""Waiting executor pods: parsing, the representative of a driver's executors, and the cached form."""

import copy

import pytest
from support.operators.rig import NAMESPACE, SPEC

from backfill_api.names import ATTEMPT_LABEL, BACKFILL_LABEL, ROLE_LABEL
from backfill_core.lifecycle.observation import WaitingExecutors
from backfill_operator.informer.cache import Cache
from backfill_operator.informer.executors import executor_of, waiting_executors

KEY = (NAMESPACE, "orders")
NO_IMAGE = WaitingExecutors("ImagePullBackOff", "no such image")


def executor(status, *, number=1, driver="pod-1", **metadata):
    """Return an executor's pod as Spark creates it."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "orders-1-driver", "uid": driver, "controller": True}
    given = {
        "name": f"orders-1-exec-{number}", "namespace": NAMESPACE, "uid": f"exec-{number}",
        "labels": {ROLE_LABEL: "executor", BACKFILL_LABEL: "orders"}, "ownerReferences": [owner],
    }  # fmt: skip
    return {"metadata": given | metadata, "status": status}


def waits(reason, message="", **more):
    """Return a status with a waiting container."""
    state = {"waiting": {"reason": reason, "message": message}}
    return {"phase": "Pending", "containerStatuses": [{"name": "executor", "state": state}]} | more


def stored():
    """Return a cache with a Backfill and its driver."""
    cache = Cache()
    labels = {BACKFILL_LABEL: "orders", ATTEMPT_LABEL: "1", ROLE_LABEL: "driver"}
    owner = {
        "kind": "Backfill",
        "apiVersion": "backfill.dev/v1alpha1",
        "name": "orders",
        "uid": "uid-1",
        "controller": True,
    }
    metadata = {
        "name": "orders-1-driver",
        "namespace": NAMESPACE,
        "uid": "pod-1",
        "resourceVersion": "2",
        "labels": labels,
    }
    cache.put_backfill(
        {"metadata": {"name": "orders", "namespace": NAMESPACE, "uid": "uid-1", "resourceVersion": "1"}, "spec": SPEC}
    )
    cache.put_pod({"metadata": metadata | {"ownerReferences": [owner]}, "status": {"phase": "Running"}})
    return cache


class TestAnExecutorsPod:
    @pytest.mark.parametrize(
        ("status", "expected"),
        [
            (waits("ImagePullBackOff", "no such image"), ("ImagePullBackOff", "no such image")),
            (waits("CreateContainerConfigError", 'secret "late" not found'), ("CreateContainerConfigError", 'secret "late" not found')),
            ({"phase": "Pending", "initContainerStatuses": [{"name": "init", "state": {"waiting": {"reason": "ErrImagePull"}}}]}, ("ErrImagePull", "")),
            ({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": "no node"}]}, ("", "no node")),
        ],
    )  # fmt: skip
    def test_executor_reports_why_it_does_not_start(self, status, expected):
        """As for a driver's pod, the reason comes from a container, from an init container, or from the scheduler."""
        pod = executor_of(executor(status))

        assert pod.waits
        assert (pod.waiting, pod.message) == expected
        assert (pod.driver_uid, pod.label) == ("pod-1", KEY)

    @pytest.mark.parametrize(
        "status",
        [
            {}, {"phase": "Pending"}, waits("ContainerCreating"), waits("PodInitializing"),
            {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True", "message": "x"}]},
        ],
    )  # fmt: skip
    def test_new_executor_is_not_a_problem(self, status):
        """Each executor waits for some seconds."""
        assert not executor_of(executor(status)).waits

    @pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
    def test_ended_executor_does_not_count(self, phase):
        """Spark keeps some of them for a while."""
        assert executor_of(executor(waits("ImagePullBackOff", phase=phase))) is None

    def test_executor_in_deletion_does_not_count(self):
        """Spark has given it up."""
        assert executor_of(executor(waits("ImagePullBackOff"), deletionTimestamp="2027-01-15T08:00:00Z")) is None

    @pytest.mark.parametrize("owners", [None, [], [{"uid": "pod-1"}], "text"])
    def test_executor_without_an_owner_does_not_count(self, owners):
        """Its driver is unknown."""
        assert executor_of(executor(waits("ImagePullBackOff"), ownerReferences=owners)) is None

    def test_executor_of_any_form_is_read_or_skipped(self):
        """Users may create pods with these labels."""
        for odd in ("x", 7, [], {}, None, [None]):
            for part in ("status", "metadata"):
                raw = copy.deepcopy(executor(waits("ErrImagePull")))
                for name in list(raw[part]):
                    executor_of(raw | {part: raw[part] | {name: odd}})


class TestTheOneThatStandsForAll:
    def test_waiting_container_represents_the_executors(self):
        """A scheduler's message changes with each node that is added or removed."""
        unscheduled = {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "message": "no node"}],
        }
        pods = [
            executor_of(executor(status, number=number))
            for number, status in enumerate((unscheduled, waits("ErrImagePull", "none")))
        ]

        assert waiting_executors(pods, running=3) == WaitingExecutors("ErrImagePull", "none", 3)

    def test_representative_does_not_depend_on_the_order(self):
        """Otherwise the status would be written at each list."""
        pods = [executor_of(executor(waits("ErrImagePull", f"of {number}"), number=number)) for number in range(3)]

        assert waiting_executors(pods, running=None) == waiting_executors(pods[::-1], running=None)

    def test_running_executors_have_no_representative(self):
        """There is no problem to report."""
        assert waiting_executors([executor_of(executor({"phase": "Running"}))], running=1) is None


class TestTheCache:
    def test_waiting_executors_are_stored_with_their_driver(self):
        """A change enqueues its Backfill."""
        cache = stored()
        first = cache.put_executors({"pod-1": (KEY, NO_IMAGE)}, None)
        again = cache.put_executors({"pod-1": (KEY, NO_IMAGE)}, None)

        assert (first, again) == ([KEY], [])
        assert [pod.executors for pod in cache.pods(KEY)] == [NO_IMAGE]

    def test_backfill_is_enqueued_when_its_executors_run(self):
        """Its status would report a solved problem."""
        cache = stored()
        cache.put_executors({"pod-1": (KEY, NO_IMAGE)}, None)

        assert cache.put_executors({}, None) == [KEY]
        assert [pod.executors for pod in cache.pods(KEY)] == [None]
        assert cache.put_executors({}, None) == []

    def test_executors_of_other_namespaces_are_kept(self):
        """Each watched namespace is listed separately."""
        cache = stored()
        cache.put_executors({"pod-1": (KEY, NO_IMAGE)}, NAMESPACE)

        assert cache.put_executors({}, "stock") == []
        assert [pod.executors for pod in cache.pods(KEY)] == [NO_IMAGE]

    def test_executors_of_unknown_drivers_are_ignored(self):
        """Every user who may create pods could fill the cache."""
        cache = stored()

        assert cache.put_executors({"forged": (KEY, NO_IMAGE), "of none": ((NAMESPACE, "none"), NO_IMAGE)}, None) == []
        assert [pod.executors for pod in cache.pods(KEY)] == [None]

    def test_alternating_reasons_of_a_kubelet_are_one_state(self):
        """A kubelet alternates between both reasons."""
        cache = stored()
        cache.put_executors({"pod-1": (KEY, NO_IMAGE)}, None)

        assert cache.put_executors({"pod-1": (KEY, WaitingExecutors("ErrImagePull", "not found"))}, None) == []
        assert cache.put_executors({"pod-1": (KEY, WaitingExecutors("InvalidImageName", "a b"))}, None) == [KEY]

    def test_number_of_running_executors_is_kept_until_the_next_list(self):
        """An edit that depends on it reads the API server once for each list, not in each reconcile."""
        cache = stored()
        cache.put_executors({"pod-1": (KEY, NO_IMAGE)}, None)
        [driver] = cache.pods(KEY)
        cache.put_executors_of(driver, WaitingExecutors("ImagePullBackOff", "no such image", 2))
        [after] = cache.pods(KEY)
        news = cache.put_executors({"pod-1": (KEY, NO_IMAGE)}, None)
        [later] = cache.pods(KEY)

        assert (after.executors.running, news, later.executors.running) == (2, [], None)

    def test_executors_are_dropped_when_a_live_read_finds_none(self):
        """They run by now."""
        cache = stored()
        cache.put_executors({"pod-1": (KEY, NO_IMAGE)}, None)
        [driver] = cache.pods(KEY)

        assert cache.put_executors_of(driver, None).executors is None
        assert [pod.executors for pod in cache.pods(KEY)] == [None]
