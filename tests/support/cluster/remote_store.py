"""A real API server with the interface of `support.cluster.fake_store.Store`, so the same rig, kubelet and tests run on both.

Reads come from a mirror that is listed a few times a second, all kinds as of one version. Writes go to the server at once.
If no controllers run, this class collects garbage: objects whose owning Backfill is gone are deleted, or those of one that is
deleted in the foreground, before it.
"""

import asyncio
import contextlib
import json
from urllib.parse import urlencode

from kubernetes import config
from support.cluster.fake_store import RESOURCES, Refusal

EVERY_S = 0.1
OWNED = ("pods", "configmaps", "secrets", "services")
MIRRORED = ("backfills", *OWNED, "events")
CLUSTER_WIDE = ("resourceflavors", "clusterqueues")
FOREGROUND = "foregroundDeletion"


def _in_foreground(object_):
    """Return whether an object waits for the deletion of those that it owns."""
    return FOREGROUND in object_["metadata"].get("finalizers", ())


def _is_orphan(object_, alive):
    """Return whether an object has owners, of which none has one of the UIDs in `alive`."""
    owners = object_["metadata"].get("ownerReferences", [])
    return bool(owners) and not any(owner["uid"] in alive for owner in owners)


class RemoteStore:
    """One namespace of a server, from `__aenter__` to `__aexit__`."""

    def __init__(self, kubeconfig, namespace, *, garbage_collector=True):
        self.namespace, self.garbage_collector = namespace, garbage_collector
        self.objects = {plural: {} for plural in RESOURCES}
        self.listeners, self.admission = [], []
        self.mirrored_too = ()
        """Kinds that only some servers have."""

        self._client = config.new_client_from_config(str(kubeconfig))
        self._host = self._client.configuration.host

    async def __aenter__(self):
        self._task = asyncio.create_task(self._mirror())
        return self

    async def __aexit__(self, *_):
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._client.close()

    # ------------------------------------------------------------ the mirror
    async def _mirror(self):
        while True:
            before, self.objects = self.objects, self.objects | await asyncio.to_thread(self._snapshot)
            for plural, listed in self.objects.items():
                self._compare(plural, before[plural], listed)
            if self.garbage_collector and self._has_garbage():
                await asyncio.to_thread(self._collect)
            await asyncio.sleep(EVERY_S)

    def _snapshot(self):
        """List all kinds as of one version, so that no status is older than a pod, and no pod older than a status."""
        newest = self._call("GET", "backfills")["metadata"]["resourceVersion"]
        at = {"resourceVersion": newest, "resourceVersionMatch": "Exact"}
        return {plural: self._listed(plural, at) for plural in (*MIRRORED, *self.mirrored_too)}

    def _listed(self, plural, version=None):
        items = self._call("GET", plural, query=version)["items"]
        return {(self.namespace, item["metadata"]["name"]): item for item in items}

    def _compare(self, plural, before, listed):
        for key, object_ in listed.items():
            old = before.get(key)
            if old is None or old["metadata"]["uid"] != object_["metadata"]["uid"]:
                self._tell(plural, "ADDED", object_)
            elif old["metadata"]["resourceVersion"] != object_["metadata"]["resourceVersion"]:
                self._tell(plural, "MODIFIED", object_)
        for key, object_ in before.items():
            if key not in listed:
                self._tell(plural, "DELETED", object_)

    def _tell(self, plural, kind, object_):
        for listener in list(self.listeners):
            listener(plural, kind, object_)

    def failed(self):
        """Return the exception that ended the mirror; `None` if it runs."""
        return self._task.exception() if self._task.done() else None

    def _has_garbage(self):
        """Return whether the mirror has an object without its owner; the owner may be newer than the mirror."""
        alive = {
            owner["metadata"]["uid"] for plural in ("backfills", "pods") for owner in self.objects[plural].values()
        }
        return any(map(_in_foreground, self.objects["backfills"].values())) or any(
            _is_orphan(object_, alive)
            for plural in (*OWNED, *self.mirrored_too)
            for object_ in self.objects[plural].values()
        )

    def _collect(self):
        # An executor's owner is the pod of its driver.
        owners = [owner for plural in ("backfills", "pods") for owner in self._listed(plural).values()]
        alive = {owner["metadata"]["uid"] for owner in owners if not _in_foreground(owner)}
        blocked = set()
        for plural in (*OWNED, *self.mirrored_too):
            for object_ in self._listed(plural).values():
                if _is_orphan(object_, alive):
                    blocked |= {owner["uid"] for owner in object_["metadata"]["ownerReferences"]}
                    with contextlib.suppress(Refusal):
                        self.delete(plural, self.namespace, object_["metadata"]["name"])
        for owner in filter(_in_foreground, owners):
            if owner["metadata"]["uid"] not in blocked:
                self._let_go(owner["metadata"])

    def _let_go(self, metadata):
        """Remove the finalizer of a foreground deletion: nothing is left that the object owns."""
        finalizers = [name for name in metadata["finalizers"] if name != FOREGROUND]
        change = {"metadata": {"finalizers": finalizers, "resourceVersion": metadata["resourceVersion"]}}
        with contextlib.suppress(Refusal):
            self.patch("backfills", self.namespace, metadata["name"], change)

    # ------------------------------------------------------------ the face of the store
    def get(self, plural, namespace, name):
        return self._call("GET", plural, name)

    def create(self, plural, namespace, body, *, dry_run=False):
        resource = RESOURCES[plural]
        body = {"apiVersion": resource.api_version, "kind": resource.kind} | body
        return self._call("POST", plural, body=body, query={"dryRun": "All"} if dry_run else None)

    def patch(self, plural, namespace, name, change, *, subresource=None):
        if subresource is None and "nodeName" in change.get("spec", {}):
            target = {"apiVersion": "v1", "kind": "Node", "name": change["spec"]["nodeName"]}
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
            return self._call("POST", plural, name, body=body, subresource="binding")
        return self._call("PATCH", plural, name, body=change, subresource=subresource)

    def delete(self, plural, namespace, name, *, uid=None, grace_s=None, propagation="Background"):
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        body |= {"preconditions": {"uid": uid}} if uid else {}
        body |= {} if grace_s is None else {"gracePeriodSeconds": grace_s}
        return self._call("DELETE", plural, name, body=body)

    def _call(self, method, plural, name=None, *, body=None, subresource=None, query=None):
        url = self._host + RESOURCES[plural].path(None if plural in CLUSTER_WIDE else self.namespace, name, subresource)
        url += f"?{urlencode(query)}" if query else ""
        headers = {"Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json"}
        if token := self._client.configuration.get_api_key_with_prefix("BearerToken", alias="authorization"):
            headers["Authorization"] = token
        payload = None if body is None else json.dumps(body).encode()
        answer = self._client.rest_client.pool_manager.request(method, url, body=payload, headers=headers)
        document = json.loads(answer.data)
        if answer.status >= 400:
            raise Refusal(answer.status, document.get("reason", ""), document.get("message", ""))
        return document
