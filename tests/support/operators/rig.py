"""The whole operator in a separate thread and loop, which can be killed between any two of its lines.

    async with Rig() as rig:
        rig.create("orders")
        await rig.until(lambda: rig.phase("orders") == "Running")

The fake API server, the kubelet and the drivers' doubles run in the test's loop and outlive the operator. An oracle checks
every change: never two live drivers of one Backfill, never conditions that contradict each other.
"""

import asyncio
import contextlib
import time

from support.cluster.fake_api import FakeApi
from support.cluster.fake_store import Refusal, Store
from support.cluster.fault_proxy import FaultProxy
from support.cluster.kstatus import broken_rules
from support.cluster.kubelet import Kubelet, driver_is_over
from support.cluster.remote_store import RemoteStore
from support.operators.operator_thread import OperatorThread

from backfill_api.names import API_VERSION, BACKFILL_LABEL, KIND, ROLE_LABEL
from backfill_core.lifecycle.naming import driver_name
from backfill_operator.settings import OperatorSettings

NAMESPACE = "shop"
SPEC = {
    "source": {"type": "Delta", "delta": {"path": "/data/a", "key": ["id"]}},
    "target": {"type": "Delta", "delta": {"path": "/data/b"}},
    "backoff": {"initialSeconds": 1, "maxSeconds": 1},
}
DEADLINE_S = 60.0
"""Seconds until a wait for an event fails. It is no promise about speed: a test that promises a time names it."""

TURN_S = 0.05
"""Seconds between two looks at a cluster without changes. A look that comes later counts as twice this time at most."""

QUICK = {
    "relist_min_seconds": 1.0, "relist_max_seconds": 1.5, "watch_silence_seconds": 2.0, "poll_seconds": 0.1,
    "control_timeout_seconds": 1.0, "command_wait_seconds": 0.5, "health_port": 0, "metrics_port": 0, "bind": "127.0.0.1",
    "executors_seconds": 0.3, "leader_election": False, "request_timeout_seconds": 2.0, "workers": 4,
}  # fmt: skip


class Oracle:
    """Checks every change of every pod and of every Backfill."""

    def __init__(self, store):
        self.store, self.violations, self.most = store, [], 0
        self._alive = {}
        """Names of live pods by the UID of their owner."""

        self.sound = None
        """Names of pods of which never two may live; `None` for all pods. Forged pods count for the owners that they claim."""

        store.listeners.append(self._look)

    def retire(self):
        """Check nothing from here on: the test writes statuses by hand."""
        self.store.listeners.remove(self._look)

    def _look(self, plural, kind, object_):
        if plural == "backfills":
            self._look_at_conditions(object_)
        elif plural == "pods":
            if object_["metadata"].get("labels", {}).get(ROLE_LABEL) == "executor":
                return
            alive = self._alive.setdefault(owner_of(object_), set())
            name = object_["metadata"]["name"]
            if kind == "DELETED" or driver_is_over(object_):
                alive.discard(name)
            else:
                alive.add(name)
            if len(alive) > 1:
                # A mirror reports new objects before deleted ones: the store has the truth.
                alive.intersection_update(self._really_alive(owner_of(object_)))
            self.most = max(self.most, len(alive))
            if len(alive) > 1 and (self.sound is None or alive & self.sound):
                self.violations.append(sorted(alive))

    def _really_alive(self, owner):
        return [
            pod["metadata"]["name"]
            for pod in self.store.objects["pods"].values()
            if owner_of(pod) == owner and not driver_is_over(pod)
        ]

    def _look_at_conditions(self, backfill):
        """Check that kubectl, Flux and Argo CD never read contradicting conditions."""
        if (backfill.get("status") or {}).get("conditions") and (broken := broken_rules(backfill)):
            self.violations.append((backfill["metadata"]["name"], *broken))


def owner_of(object_):
    """Return the UID of an object's first owner; `None` if it has none."""
    return object_["metadata"].get("ownerReferences", [{}])[0].get("uid")


class RealApi(FaultProxy):
    """A real API server in the place of the fake one: only the operator's requests go through faults."""

    def __init__(self, kubeconfig, namespace):
        super().__init__(kubeconfig)
        self.store = RemoteStore(kubeconfig, namespace)

    async def __aenter__(self):
        await super().__aenter__()
        await self.store.__aenter__()
        return self

    async def __aexit__(self, *error):
        await self.store.__aexit__(*error)
        await super().__aexit__(*error)


class Rig:
    """The environment of an operator, and the operator."""

    def __init__(self, api=None, *, start=True, double=None, patience=1.0, **settings):
        self.settings = OperatorSettings(**(QUICK | settings))
        self.api = api or FakeApi(Store(garbage_collector=True))
        self.store = self.api.store
        self.oracle = Oracle(self.store)
        self.kubelet = Kubelet(self.store, **(double or {}))
        self.namespace = getattr(self.store, "namespace", NAMESPACE)
        self.operators = []
        self.patience = patience
        """Factor by which every wait may take longer than its test allows."""

        self._start = start
        self.calls = []
        self.options = {}
        """Further options of every operator that is started."""

    async def __aenter__(self):
        self._stack = contextlib.AsyncExitStack()
        await self._stack.enter_async_context(self.api)
        await self._stack.enter_async_context(self.kubelet)
        if self._start:
            self.start()
        return self

    async def __aexit__(self, kind, *_):
        for operator in self.operators:
            await operator.stop()
        await self._stack.aclose()
        if kind is None:
            assert self.oracle.violations == [], self.oracle.violations
            errors = [operator.error for operator in self.operators if operator.error]
            assert errors == [], errors

    # ------------------------------------------------------------ operators
    def start(self, **settings):
        """Start an operator; return it."""
        settings = OperatorSettings(**(self.settings.model_dump() | settings))
        operator = self.made(settings)
        self.operators.append(operator)
        return operator

    def made(self, settings):
        """Make an operator; a test may override it."""
        return OperatorThread(self.api.configuration(), settings, **({"observe": self.calls.append} | self.options))

    @property
    def running(self):
        return self.operators[-1]

    @property
    def operator(self):
        return self.operators[-1].operator

    def kill(self, _request=None):
        """Kill the newest operator; may be the action of a fault."""
        self.operators[-1].kill()

    def restart(self):
        """Clear all faults, and replace the operator by a new one."""
        self.api.faults.clear()
        if self.running.alive:
            self.kill()
        return self.start()

    # ------------------------------------------------------------ Backfills
    def create(self, name="orders", annotations=None, finalizers=None, **spec):
        """Apply a Backfill."""
        metadata = {"name": name} | ({"annotations": annotations} if annotations else {})
        metadata |= {"finalizers": finalizers} if finalizers else {}
        body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": SPEC | spec}
        return self.store.create("backfills", self.namespace, body)

    def edit(self, name="orders", **spec):
        """Change its spec."""
        return self.store.patch("backfills", self.namespace, name, {"spec": spec})

    def annotate(self, name="orders", **annotations):
        return self.store.patch("backfills", self.namespace, name, {"metadata": {"annotations": annotations}})

    def delete(self, name="orders"):
        with contextlib.suppress(Refusal):
            self.store.delete("backfills", self.namespace, name)

    def get(self, name="orders"):
        return self.store.objects["backfills"].get((self.namespace, name))

    def uid(self, name="orders"):
        return self.get(name)["metadata"]["uid"]

    def status(self, name="orders"):
        return (self.get(name) or {}).get("status") or {}

    def phase(self, name="orders"):
        return self.status(name).get("phase")

    def condition(self, type_, name="orders"):
        """Return (status, reason) of a condition."""
        condition = self._condition(type_, name)
        return (condition["status"], condition["reason"]) if condition else None

    def message(self, type_, name="orders"):
        """Return the message of a condition."""
        return self._condition(type_, name)["message"]

    def _condition(self, type_, name):
        return next(
            (condition for condition in self.status(name).get("conditions", []) if condition["type"] == type_), None
        )

    def progress(self, name="orders"):
        return self.status(name).get("progress") or {}

    def attempt(self, name="orders"):
        return (self.status(name).get("attempt") or {}).get("number")

    def driver(self, name="orders", attempt=1):
        """Return the key of an attempt's pod."""
        return self.namespace, driver_name(name, attempt)

    def double(self, name="orders", attempt=1):
        """Return the driver of an attempt, if it runs."""
        return self.kubelet.running.get(self.driver(name, attempt))

    def statuses(self):
        """Return the status of every Backfill, for messages."""
        return {name: body.get("status", {}) for (_, name), body in sorted(self.store.objects["backfills"].items())}

    def pods(self):
        return {name: pod["status"]["phase"] for (_, name), pod in sorted(self.store.objects["pods"].items())}

    def objects(self):
        """Return all objects except Backfills, events and leases."""
        plurals = ("pods", "configmaps", "secrets", "services")
        return sorted((plural, name) for plural in plurals for _, name in self.store.objects[plural])

    def has_one_driver(self, name="orders", attempt=1):
        """Return whether exactly one driver exists with its objects, and nothing else."""
        plurals = ("configmaps", "pods", "secrets", "services")
        return self.objects() == [(plural, self.driver(name, attempt)[1]) for plural in plurals]

    def leaks(self):
        """Return objects that belong to no current attempt of a Backfill."""
        current = {driver_name(name, self.attempt(name) or 0) for (_, name) in self.store.objects["backfills"]}
        return [object_ for object_ in self.objects() if object_[1] not in current]

    def events(self):
        return [event["reason"] for event in self.store.objects["events"].values()]

    def executor(self, number, status, name="orders", attempt=1, **other):
        """Let a driver make an executor pod, or set the status of one; `other`: fields of its owner."""
        pod = f"{driver_name(name, attempt).removesuffix('-driver')}-exec-{number}"
        if (self.namespace, pod) not in self.store.objects["pods"]:
            driver = self.store.get("pods", *self.driver(name, attempt))["metadata"]
            owner = {"apiVersion": "v1", "kind": "Pod", "name": driver["name"], "uid": driver["uid"]}
            labels = {ROLE_LABEL: "executor", BACKFILL_LABEL: driver["labels"][BACKFILL_LABEL]}
            metadata = {"name": pod, "labels": labels, "ownerReferences": [owner | {"controller": True} | other]}
            spec = {"containers": [{"name": "executor", "image": "localhost/any:1"}]}
            # The mirror of a real server may not show the pod yet.
            with contextlib.suppress(Refusal):
                self.store.create("pods", self.namespace, {"metadata": metadata, "spec": spec})
        self.store.patch("pods", self.namespace, pod, {"status": status}, subresource="status")

    # ------------------------------------------------------------ waiting
    async def until(self, true, within_s=DEADLINE_S, what=None):
        """Wait until a predicate is true of the cluster; checks after every change, and fails with the whole status.

        A promise of seconds holds on a machine that is free: while others take its cores, the time passes more slowly.
        """
        changed = asyncio.Event()
        loop = asyncio.get_running_loop()

        def listen(*_):
            loop.call_soon_threadsafe(changed.set)

        self.store.listeners.append(listen)
        left_s, looked = within_s * self.patience, time.monotonic()
        try:
            while not true():
                if (broken := self.kubelet.broken or getattr(self.store, "failed", lambda: None)()) is not None:
                    raise broken
                if left_s <= 0:
                    what = what() if callable(what) else what or "it"
                    raise AssertionError(f"{what} did not become true: {self.statuses()} {self.pods()}")
                changed.clear()
                with contextlib.suppress(TimeoutError):
                    # Doubles change without the store: they are polled a few times a second.
                    async with asyncio.timeout(min(left_s, TURN_S)):
                        await changed.wait()
                now = time.monotonic()
                left_s, looked = left_s - min(now - looked, 2 * TURN_S), now
        finally:
            self.store.listeners.remove(listen)

    async def until_phase(self, phase, name="orders", within_s=DEADLINE_S):
        await self.until(lambda: self.phase(name) == phase, within_s, what=f"{name} {phase}")

    def holds(self, phase, name="orders"):
        """Return whether the current spec is in force and the phase is `phase`."""
        backfill = self.get(name)
        if backfill is None or self.status(name).get("observedGeneration") != backfill["metadata"]["generation"]:
            return False
        return self.phase(name) == phase and (self.condition("Ready", name) or "?")[0] == "True"

    async def until_holds(self, phase, name="orders", within_s=DEADLINE_S):
        await self.until(lambda: self.holds(phase, name), within_s, what=f"{name} {phase}")

    async def still(self, true, for_s):
        """Assert that a predicate stays true for a while."""
        deadline = time.monotonic() + for_s
        while time.monotonic() < deadline:
            assert true()
            await asyncio.sleep(0.02)
