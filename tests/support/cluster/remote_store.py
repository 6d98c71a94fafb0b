"""A real API server behind the face of `support.cluster.fake_store.Store`: so the same rig, kubelet and tests run on both.

Reads come from a mirror that is listed a few times a second; writes go to the server at once. Where no controllers run,
the garbage collector is played here: what is owned by a Backfill that is gone is deleted.
"""

import asyncio
import json
from urllib.parse import urlencode

from kubernetes import config
from support.cluster.fake_store import RESOURCES, Refusal

EVERY_S = 0.05


class RemoteStore:
    """One namespace of a server, from `__aenter__` to `__aexit__`."""

    def __init__(self, kubeconfig, namespace, *, garbage_collector=True):
        self.namespace, self.garbage_collector = namespace, garbage_collector
        self.objects = {plural: {} for plural in RESOURCES}
        self.listeners, self.admission = [], []
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
            for plural in ("backfills", "pods", "configmaps", "secrets", "services", "events"):
                found = await asyncio.to_thread(self._listed, plural)
                self._compare(plural, found)
            if self.garbage_collector:
                await asyncio.to_thread(self._collect)
            await asyncio.sleep(EVERY_S)

    def _listed(self, plural):
        items = self._call("GET", plural)["items"]
        return {(self.namespace, one["metadata"]["name"]): one for one in items}

    def _compare(self, plural, found):
        before, self.objects[plural] = self.objects[plural], found
        for key, one in found.items():
            old = before.get(key)
            if old is None or old["metadata"]["uid"] != one["metadata"]["uid"]:
                self._tell(plural, "ADDED", one)
            elif old["metadata"]["resourceVersion"] != one["metadata"]["resourceVersion"]:
                self._tell(plural, "MODIFIED", one)
        for key, one in before.items():
            if key not in found:
                self._tell(plural, "DELETED", one)

    def _tell(self, plural, kind, one):
        for listener in list(self.listeners):
            listener(plural, kind, one)

    def failed(self):
        """Return why the mirror shows nothing any more, if it does not."""
        return self._task.exception() if self._task.done() else None

    def _collect(self):
        # Executors are owned by the pod of their driver.
        owners = [one for plural in ("backfills", "pods") for one in self._listed(plural).values()]
        alive = {one["metadata"]["uid"] for one in owners}
        for plural in ("pods", "configmaps", "secrets", "services"):
            for one in self._listed(plural).values():
                owners = one["metadata"].get("ownerReferences", [])
                if owners and not any(owner["uid"] in alive for owner in owners):
                    try:
                        self.delete(plural, self.namespace, one["metadata"]["name"])
                    except Refusal:
                        continue

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

    def delete(self, plural, namespace, name, *, uid=None, grace_s=None):
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        body |= {"preconditions": {"uid": uid}} if uid else {}
        body |= {} if grace_s is None else {"gracePeriodSeconds": grace_s}
        return self._call("DELETE", plural, name, body=body)

    def _call(self, method, plural, name=None, *, body=None, subresource=None, query=None):
        url = self._host + RESOURCES[plural].path(self.namespace, name, subresource)
        url += f"?{urlencode(query)}" if query else ""
        headers = {"Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json"}
        if token := self._client.configuration.get_api_key_with_prefix("BearerToken", alias="authorization"):
            headers["Authorization"] = token
        payload = None if body is None else json.dumps(body).encode()
        answer = self._client.rest_client.pool_manager.request(method, url, body=payload, headers=headers)
        words = json.loads(answer.data)
        if answer.status >= 400:
            raise Refusal(answer.status, words.get("reason", ""), words.get("message", ""))
        return words
