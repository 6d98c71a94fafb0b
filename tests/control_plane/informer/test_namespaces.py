"""Namespaces by label: served and released while the operator runs, without harm to running jobs."""

import pytest
from kubernetes import client, config
from support.cluster.fake_api import Fault
from support.operators.rig import NAMESPACE, Rig

from backfill_operator.informer.namespaces import WatchedNamespaces
from backfill_operator.settings import OperatorSettings

LABEL = "backfill.dev/served"
OTHER, SYSTEM = "stock", "backfill-system"


class Labels:
    """The labels of namespaces on the fake API server."""

    def __init__(self, rig):
        self._store = rig.store
        for name in (NAMESPACE, OTHER, SYSTEM):
            self._store.create("namespaces", "", {"metadata": {"name": name}})

    def set(self, name, value="yes"):
        """Set the label of a namespace, or remove it with `None`."""
        self._store.patch("namespaces", "", name, {"metadata": {"labels": {LABEL: value}}})


class RealLabels:
    """The label of a test's own namespace on a real API server."""

    def __init__(self, kubeconfig, namespace):
        self._core = client.CoreV1Api(config.new_client_from_config(str(kubeconfig)))
        self._namespace = namespace

    def set(self, value):
        self._core.patch_namespace(self._namespace, {"metadata": {"labels": {LABEL: value}}})


def rig(**settings):
    """Return a rig whose operator starts when the test says so."""
    return Rig(start=False, namespace_selector=f"{LABEL}=yes", relist_min_seconds=60, relist_max_seconds=60, **settings)


class TestTheServedNamespaces:
    def test_named_and_selected_namespaces_are_served(self):
        """Without a name and a selector, all are."""
        both = WatchedNamespaces(OperatorSettings(namespaces=("shop",), namespace_selector=LABEL))
        assert both.select({"stock", "shop"})
        assert (both.names, both.lists, both.all) == (("shop", "stock"), ("shop", "stock"), False)
        assert not both.select({"shop", "stock"})
        assert both.select(())
        assert (both.names, both.serves("shop"), both.serves("stock")) == (("shop",), True, False)

        everything = WatchedNamespaces(OperatorSettings())
        assert (everything.lists, everything.serves("any")) == ((None,), True)
        nothing = WatchedNamespaces(OperatorSettings(namespace_selector=LABEL))
        assert (nothing.lists, nothing.all, nothing.serves("any")) == ((), False, False)

    def test_own_namespace_is_never_served(self, caplog):
        """Its users could act as the operator. The log says it once."""
        watched = WatchedNamespaces(OperatorSettings(namespace_selector=LABEL, lease_namespace=SYSTEM))
        watched.select({SYSTEM, "shop"})
        watched.select({SYSTEM})

        assert not watched.serves(SYSTEM)
        assert [record.message for record in caplog.records if "operator's own" in record.message][1:] == []
        assert f"namespace {SYSTEM} is the operator's own" in caplog.text


class TestALabel:
    async def test_labelled_namespace_is_served_and_an_unlabelled_one_is_released(self):
        """A released Backfill keeps its driver, its status and its attempt, and goes on when the label returns."""
        async with rig() as made:
            labels = Labels(made)
            made.start()
            made.create("orders")
            await made.until(lambda: made.operator.relist.synced)
            assert made.status("orders") == {}
            labels.set(NAMESPACE)
            await made.until_holds("Running", "orders", 10)
            await made.until(lambda: made.progress("orders"))

            labels.set(NAMESPACE, None)
            await made.until(lambda: made.operator.cache.keys() == [], 10)
            await made.until(lambda: not made.operator.queue.busy and not len(made.operator.queue), 10)
            before = int(made.get("orders")["metadata"]["resourceVersion"])
            made.create("later", target={"type": "Delta", "delta": {"path": "/data/later"}})
            assert made.pods() == {made.driver("orders")[1]: "Running"}

            labels.set(NAMESPACE)
            await made.until_holds("Running", "later", 10)
            assert (made.attempt("orders"), made.pods()[made.driver("orders")[1]]) == (1, "Running")
            assert before <= int(made.get("orders")["metadata"]["resourceVersion"])

    async def test_labelled_namespace_without_a_role_keeps_no_other_waiting(self):
        """It is served as soon as the Role permits it."""
        async with rig() as made:
            labels = Labels(made)
            fault = Fault("answer", namespace=OTHER, status=403, reason="Forbidden", times=10**6)
            made.api.faults.append(fault)
            made.start()
            labels.set(OTHER)
            await made.until(lambda: made.operator.relist.synced, 10)
            made.create("orders")
            labels.set(NAMESPACE)
            await made.until_holds("Running", "orders", 10)

    async def test_namespace_that_is_being_deleted_is_served_to_its_end(self):
        """A list left it out. The finalizers of its Backfills stayed then, and the namespace was never deleted."""
        async with rig() as made:
            labels = Labels(made)
            labels.set(NAMESPACE)
            made.store.patch("namespaces", "", NAMESPACE, {"metadata": {"finalizers": ["kubernetes"]}})
            made.start()
            made.create("orders")
            await made.until_holds("Running", "orders")
            made.kill()
            made.store.delete("namespaces", "", NAMESPACE)
            made.delete("orders")
            made.start()

            await made.until(lambda: made.get("orders") is None, 20)

    async def test_labels_that_change_while_the_watch_is_broken_are_seen(self):
        """The list after a broken watch finds both changes."""
        async with rig() as made:
            labels = Labels(made)
            labels.set(OTHER)
            made.start()
            await made.until(lambda: made.operator.watched.names == (OTHER,), 10)
            made.api.faults.append(
                Fault("answer", verb="watch", plural="namespaces", status=500, reason="InternalError", times=1)
            )
            made.api.break_watches()
            labels.set(OTHER, None)
            labels.set(NAMESPACE)
            await made.until(lambda: made.operator.watched.names == (NAMESPACE,), 20)


class TestOnARealServer:
    @pytest.fixture
    def labels(self, real, real_cluster):
        """Yield the rig and the label of its namespace."""
        made = real(namespace_selector=f"{LABEL}=placeholder")
        return made, RealLabels(real_cluster.kubeconfig, made.namespace)

    async def test_namespace_is_served_and_released_by_its_label(self, labels):
        """The server's watch with a label selector reports a namespace that no longer matches as deleted."""
        made, label = labels
        made.settings = made.settings.model_copy(
            update={"namespaces": (), "namespace_selector": f"{LABEL}={made.namespace}"}
        )
        async with made:
            made.create()
            await made.until(lambda: made.operator.relist.synced)
            assert "conditions" not in made.status()
            label.set(made.namespace)
            await made.until_holds("Running", within_s=10)
            # The rig's own watch of pods may be behind the operator's.
            await made.until(lambda: list(made.pods().values()) == ["Running"], 10)
            label.set(None)
            await made.until(lambda: made.operator.cache.keys() == [], 10)
            assert list(made.pods().values()) == ["Running"]
            label.set(made.namespace)
            await made.until(lambda: made.operator.cache.keys() != [], 10)
            assert made.attempt() == 1
            made.kubelet.finish(made.driver())
            await made.until_phase("Succeeded")
