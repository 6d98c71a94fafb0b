"""A kubelet that runs driver pods as doubles in this process: binds, starts, serves, ends, and confirms deletions.

It works on the store of the fake API server. Every pod has a separate loopback address, so the operator reaches drivers by the
pod's address, as on a cluster.
"""

import asyncio
import base64
import contextlib
import errno
import random
from datetime import UTC, datetime

import yaml
from support.cluster.fake_store import Refusal
from support.drivers.driver_double import DriverDouble, server_context

from backfill_api.names import ATTEMPT_LABEL, ROLE_LABEL
from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.ending import Ending
from backfill_api.width import width_of
from backfill_core.errors import EXIT_COMPLETE, EXIT_STOPPED
from backfill_operator.manifests.names import CONTROL_PORT, SPEC_KEY
from backfill_operator.manifests.secret import CERTIFICATE_KEY, PRIVATE_KEY, TOKEN_KEY

_CHANCE = random.SystemRandom()


def moment():
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Kubelet:
    """One node from `__aenter__` to `__aexit__`, in the running loop."""

    def __init__(self, store, *, start_s=0.02, kind=DriverDouble, **double):
        self.store, self.start_s, self.kind, self.double = store, start_s, kind, double
        self.running = {}
        """Doubles by namespace and name of their pod."""

        self.tokens = {}
        """Token of the Secret of each started pod: its driver writes it into the termination message."""

        self.held = False
        """New pods are not started."""

        self.missing = set()
        """Images that no node has: pods of them are not started."""

        self.beside = ()
        """States of other containers of each pod, as a webhook adds them: listed before the driver."""

        self.sidecars = ()
        """States of native sidecars of each pod, as the webhook of a mesh adds them: init containers that run on."""

        self._tasks = {}

        self.broken = None
        """The error of this machine because of which a pod could not be run."""

    async def __aenter__(self):
        self._loop = asyncio.get_running_loop()
        self.store.listeners.append(self._seen)
        for pod in list(self.store.objects["pods"].values()):
            self._seen("pods", "ADDED", pod)
        return self

    async def __aexit__(self, *_):
        self.store.listeners.remove(self._seen)
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for double in list(self.running.values()):
            await double.stop(abruptly=True)

    def _seen(self, plural, kind, pod):
        if plural != "pods" or pod["metadata"].get("labels", {}).get(ROLE_LABEL) != "driver":
            return
        key = pod["metadata"]["namespace"], pod["metadata"]["name"]
        uid = pod["metadata"]["uid"]
        if kind == "DELETED":
            self._end_task(uid)
        elif uid not in self._tasks and pod["status"]["phase"] == "Pending" and not self._waits(pod):
            self._tasks[uid] = self._loop.create_task(self._run(key, uid))
            self._tasks[uid].add_done_callback(self._ran)
        elif "deletionTimestamp" in pod["metadata"]:
            double = self.running.get(key)
            if double is not None:
                double.stopped.set()
            else:
                self._loop.call_soon(self._confirm, key, uid)

    def _ran(self, task):
        if not task.cancelled() and isinstance(task.exception(), OSError):
            self.broken = task.exception()

    def _waits(self, pod):
        return self.held or any(container.get("image") in self.missing for container in pod["spec"]["containers"])

    def _confirm(self, key, uid):
        """Confirm that no process of a deleted pod runs any more."""
        self._end_task(uid)
        with contextlib.suppress(Refusal):
            self.store.delete("pods", *key, uid=uid, grace_s=0)

    def _end_task(self, uid):
        task = self._tasks.pop(uid, None)
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    async def _run(self, key, uid):
        """Run one pod, from its binding to its end."""
        pod = self.store.get("pods", *key)
        self._bind(key, pod)
        await asyncio.sleep(self.start_s)
        secret = self.store.get("secrets", *key)
        entries = {name: base64.b64decode(value).decode() for name, value in secret["data"].items()}
        attempt = int(pod["metadata"]["labels"][ATTEMPT_LABEL])
        self.tokens[key] = entries[TOKEN_KEY]
        double = self.kind(attempt=attempt, token=entries[TOKEN_KEY], job_id="/".join(key), **self.double)
        double.progress = double.progress.model_copy(update=_controls(self.store.get("configmaps", *key)))
        context = server_context(entries[CERTIFICATE_KEY], entries[PRIVATE_KEY])
        host = await self._started(double, context)
        self.running[key] = double
        try:
            self.status(key, _running(host, self.beside, self.sidecars), uid=uid)
            await double.stopped.wait()
            # A stop is sealed before the process ends.
            await asyncio.sleep(double.barrier_s)
        finally:
            self.running.pop(key, None)
            await double.stop(abruptly=True)
        # A killed pod already has its status.
        with contextlib.suppress(Refusal):
            self.status(
                key,
                _ended(EXIT_STOPPED, self.signed(key, Ending(outcome="Stopped", reason="Stopped"))),
                uid=uid,
                once=True,
            )
            if "deletionTimestamp" in self.store.get("pods", *key)["metadata"]:
                self.store.delete("pods", *key, uid=uid, grace_s=0)

    @staticmethod
    async def _started(double, context):
        """Start a driver at an address that no other run on this machine uses; return the address."""
        while True:
            host = f"127.{_CHANCE.randrange(2, 250)}.{_CHANCE.randrange(250)}.{_CHANCE.randrange(1, 250)}"
            try:
                await double.start(host=host, port=CONTROL_PORT, ssl_context=context)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
            else:
                return host

    def _bind(self, key, pod):
        spec = {"nodeName": "node-1"}
        if self.sidecars:
            added = [{"name": sidecar["name"], "restartPolicy": "Always"} for sidecar in self.sidecars]
            spec["initContainers"] = [*pod["spec"].get("initContainers", ()), *added]
        self.store.patch("pods", *key, {"spec": spec, "metadata": {"uid": pod["metadata"]["uid"]}})

    def status(self, key, status, *, uid=None, once=False):
        """Set the status of a pod; `once`: unless its driver already ended, which other containers may outlive."""
        pod = self.store.get("pods", *key)
        if (uid is None or pod["metadata"]["uid"] == uid) and not (once and driver_is_over(pod)):
            self.store.patch("pods", *key, {"status": status}, subresource="status")

    # ------------------------------------------------------------ what happens to pods
    def finish(self, key, *, exit_code=EXIT_COMPLETE, ending=None, **more):
        """End a driver's process with an exit code and its termination message."""
        ending = ending or Ending(outcome="Complete" if exit_code == 0 else "Failed")
        self.status(key, _ended(exit_code, self.signed(key, ending)) | more)
        self._drop(key)

    def signed(self, key, ending):
        """Return a termination message as a pod's driver writes it."""
        return ending.model_copy(update={"token": self.tokens.get(key, "")}).text()

    def kill(self, key, *, exit_code=137, reason="Error", pod_reason=None, condition=None):
        """End a driver's process from outside."""
        status = _ended(exit_code, "", reason=reason)
        if pod_reason:
            status["reason"] = pod_reason
        if condition:
            status["conditions"] = [{"type": condition, "status": "True"}]
        self.status(key, status)
        self._drop(key)

    def vanish(self, key):
        """Delete a pod whose node is gone."""
        self.store.delete("pods", *key, grace_s=0)
        self._drop(key)

    def _drop(self, key):
        double = self.running.pop(key, None)
        if double is not None:
            double.stopped.set()


def driver_is_over(pod):
    """Return whether the driver of a pod has ended; a sidecar may run longer."""
    containers = pod["status"].get("containerStatuses", ())
    ended = [container["name"] for container in containers if "terminated" in container.get("state", {})]
    return pod["status"].get("phase") in ("Failed", "Succeeded") or "driver" in ended


def _controls(config_map):
    """Return a driver's initial controls, from its Backfill in the ConfigMap."""
    spec = yaml.load(config_map["data"][SPEC_KEY], yaml.CSafeLoader)["spec"]
    paused = (spec.get("pause") or {}).get("scope", "History") if spec.get("desiredState") == "Paused" else None
    limits = spec.get("throttle") or {}
    width = width_of(BackfillSpec.model_validate(spec, by_alias=True, by_name=False))
    return {
        **width.given, "paused": paused, "throttle_rows_per_second": limits.get("rowsPerSecond"),
        "throttle_bytes_per_second": limits.get("bytesPerSecond"), "throttle_until": limits.get("until"),
    }  # fmt: skip


def _running(host, beside, sidecars):
    ready = str(all(container["ready"] for container in (*beside, *sidecars)))
    driver = {"name": "driver", "ready": True, "state": {"running": {"startedAt": moment()}}}
    return {
        "phase": "Running", "podIP": host, "startTime": moment(),
        "conditions": [{"type": "Ready", "status": ready}, {"type": "PodScheduled", "status": "True"}],
        "containerStatuses": [*beside, driver], "initContainerStatuses": [*sidecars],
    }  # fmt: skip


def _ended(exit_code, message, reason=None):
    terminated = {
        "exitCode": exit_code, "reason": reason or ("Completed" if exit_code == 0 else "Error"),
        "startedAt": moment(), "finishedAt": moment(), "message": message,
    }  # fmt: skip
    return {
        "phase": "Succeeded" if exit_code == 0 else "Failed",
        "conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [{"name": "driver", "ready": False, "state": {"terminated": terminated}}],
    }
