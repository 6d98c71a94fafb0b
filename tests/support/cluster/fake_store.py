"""What an API server keeps: objects, their versions and the history of their changes. In memory, and no HTTP.

Held to the suite of the real API server (tests/control_plane/kube/test_api_conformance.py).
"""

import asyncio
import base64
import contextlib
import copy
import json
import re
import uuid
from datetime import UTC, datetime

from backfill_operator.kube.resources import BACKFILLS, CONFIG_MAPS, EVENTS, LEASES, PODS, SECRETS, SERVICES

RESOURCES = {one.plural: one for one in (BACKFILLS, PODS, CONFIG_MAPS, SECRETS, SERVICES, LEASES, EVENTS)}
WITH_STATUS = {"backfills", "pods", "services"}
DNS_1123 = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


class Refusal(Exception):
    """An answer that is no object: HTTP status, reason, message."""

    def __init__(self, status, reason, message, retry_after=None):
        super().__init__(message)
        self.status, self.reason, self.message, self.retry_after = status, reason, message, retry_after

    def body(self):
        return {
            "kind": "Status", "apiVersion": "v1", "status": "Failure",
            "reason": self.reason, "message": self.message, "code": self.status,
        }  # fmt: skip


def merged(old, change):
    """Return RFC 7386's merge of a change into a document."""
    if not isinstance(change, dict):
        return change
    result = dict(old) if isinstance(old, dict) else {}
    for name, value in change.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def timestamp():
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def matches(labels, selector):
    """Does a set of labels satisfy `a=b,c`?"""
    for term in filter(None, selector.split(",")):
        name, _, value = term.partition("=")
        if name not in labels or ("=" in term and labels[name] != value):
            return False
    return True


class Store:
    """Objects by plural, namespace and name; every change has the next resourceVersion."""

    def __init__(self, *, garbage_collector=False, history_max=100_000):
        self.objects = {plural: {} for plural in RESOURCES}
        self.history = []
        self.version = 1
        self.forgotten = 0
        """Changes up to this version are not in the history any more."""

        self.history_max = history_max
        self.garbage_collector = garbage_collector
        self.namespaces_missing = set()
        self.admission = []
        """Each takes (plural, namespace, object) and may raise a Refusal, as a webhook or a quota does."""

        self.prune = lambda _plural, status: status
        """Takes (plural, status) and returns what the CRD's schema knows of it; an older one knows less."""

        self.listeners = []
        """Each is told (plural, type, object) after a change."""

        self.before = None
        """What the object was before the newest change."""

    # ------------------------------------------------------------ reads
    def get(self, plural, namespace, name):
        try:
            return self.objects[plural][namespace, name]
        except KeyError:
            raise Refusal(404, "NotFound", f'{plural} "{name}" not found') from None

    def list(self, plural, namespace=None, *, selector="", fields="", limit=0, token=""):
        """Return a page and the token of the next one; of the field selectors `status.phase` is known."""
        after = tuple(json.loads(base64.b64decode(token))) if token else ("", "")
        if token and after[0] == "expired":
            raise Refusal(410, "Expired", "The provided continue parameter is too old")
        found = [
            (key, one)
            for key, one in sorted(self.objects[plural].items())
            if key > after
            and namespace in (None, key[0])
            and matches(one["metadata"].get("labels") or {}, selector)
            and matches({"status.phase": (one.get("status") or {}).get("phase", "")}, fields)
        ]
        page = found[:limit] if limit else found
        more = limit and len(found) > limit
        return [one for _, one in page], base64.b64encode(json.dumps(page[-1][0]).encode()).decode() if more else ""

    def changes(self, plural, namespace, since):
        """Return what happened after a version.

        Raises:
            Refusal: 410, when that is not known any more.
        """
        if since < self.forgotten:
            raise Refusal(410, "Expired", f"too old resource version: {since} ({self.forgotten})")
        first = len(self.history)
        while first and self.history[first - 1][0] > since:
            first -= 1
        return [
            (kind, one)
            for _, at, kind, one in self.history[first:]
            if at == plural and namespace in (None, one["metadata"].get("namespace"))
        ]

    def forget_history(self):
        """Compact, as etcd does every five minutes."""
        self.forgotten = self.version
        self.history.clear()

    # ------------------------------------------------------------ writes
    def create(self, plural, namespace, body, *, dry_run=False):
        resource, one = RESOURCES[plural], copy.deepcopy(body)
        if namespace in self.namespaces_missing:
            raise Refusal(404, "NotFound", f'namespaces "{namespace}" not found')
        metadata = one.setdefault("metadata", {})
        if "generateName" in metadata and "name" not in metadata:
            metadata["name"] = metadata["generateName"] + uuid.uuid4().hex[:5]
        self._valid(plural, one)
        if (namespace, metadata["name"]) in self.objects[plural]:
            raise Refusal(409, "AlreadyExists", f'{plural} "{metadata["name"]}" already exists')
        for admit in self.admission:
            admit(plural, namespace, one)
        metadata |= {
            "namespace": namespace,
            "uid": str(uuid.uuid4()),
            "creationTimestamp": timestamp(),
            "generation": 1,
        }
        one |= {"apiVersion": resource.api_version, "kind": resource.kind}
        if plural in WITH_STATUS:
            one.pop("status", None)
        if plural == "pods":
            one["status"] = {"phase": "Pending"}
        if plural == "secrets":
            for entry, text in one.pop("stringData", {}).items():
                one.setdefault("data", {})[entry] = base64.b64encode(text.encode()).decode()
        if dry_run:
            return one
        made = self._put("ADDED", plural, one)
        owners = [owner["uid"] for owner in one["metadata"].get("ownerReferences", [])]
        if (
            self.garbage_collector
            and owners
            and not any(
                parent["metadata"]["uid"] in owners
                for kind in ("backfills", "pods")
                for parent in self.objects[kind].values()
            )
        ):
            # Born without a parent: the collector takes it, though not at once.
            asyncio.get_running_loop().call_later(0.1, self._collect, plural, made)
        return made

    def _collect(self, plural, one):
        with contextlib.suppress(Refusal):
            self.delete(plural, one["metadata"]["namespace"], one["metadata"]["name"], uid=one["metadata"]["uid"])

    def update(self, plural, namespace, name, body, *, subresource=None):
        old = self.get(plural, namespace, name)
        self._fenced(plural, old, body.get("metadata") or {})
        if subresource == "status":
            return self._changed(plural, old, old | {"status": copy.deepcopy(body.get("status") or {})})
        new = copy.deepcopy(body)
        for field in ("uid", "creationTimestamp", "namespace", "name", "generation", "deletionTimestamp"):
            if field in old["metadata"]:
                new["metadata"][field] = old["metadata"][field]
        if plural in WITH_STATUS and "status" in old:
            new["status"] = old["status"]
        return self._changed(plural, old, new)

    def patch(self, plural, namespace, name, change, *, subresource=None):
        old = self.get(plural, namespace, name)
        self._fenced(plural, old, change.get("metadata") or {})
        if subresource == "status":
            new = old | {"status": self.prune(plural, merged(old.get("status"), change.get("status", {})))}
        else:
            new = merged(old, {field: value for field, value in change.items() if field != "status"})
        return self._changed(plural, old, new)

    def delete(self, plural, namespace, name, *, uid=None, grace_s=None):
        old = self.get(plural, namespace, name)
        if uid is not None and uid != old["metadata"]["uid"]:
            raise Refusal(409, "Conflict", f"the UID in the precondition ({uid}) does not match the UID in record")
        if plural == "pods" and grace_s is None:
            grace_s = (old.get("spec") or {}).get("terminationGracePeriodSeconds", 30)
        # A pod that no kubelet has, or that ended, has nothing to wait for.
        graceful = (
            plural == "pods"
            and grace_s
            and (old.get("spec") or {}).get("nodeName")
            and old["status"].get("phase") not in ("Succeeded", "Failed")
        )
        if graceful or old["metadata"].get("finalizers"):
            if "deletionTimestamp" in old["metadata"]:
                return old
            metadata = old["metadata"] | {"deletionTimestamp": timestamp(), "deletionGracePeriodSeconds": grace_s or 0}
            metadata["generation"] = metadata.get("generation", 0) + 1
            return self._put("MODIFIED", plural, old | {"metadata": metadata})
        return self._remove(plural, old)

    # ------------------------------------------------------------ one change
    def _changed(self, plural, old, new):
        same = {field: value for field, value in new.items() if field != "metadata"}
        before = {field: value for field, value in old.items() if field != "metadata"}
        left_out = {"resourceVersion", "managedFields"}
        metadata = {field: value for field, value in new["metadata"].items() if field not in left_out}
        if same == before and metadata == {f: v for f, v in old["metadata"].items() if f not in left_out}:
            return old
        self._valid(plural, new)
        if new.get("spec") != old.get("spec"):
            metadata["generation"] = old["metadata"].get("generation", 0) + 1
        new = new | {"metadata": metadata}
        if "deletionTimestamp" in metadata and not metadata.get("finalizers") and plural != "pods":
            return self._remove(plural, new)
        return self._put("MODIFIED", plural, new)

    def _put(self, kind, plural, one):
        self.version += 1
        one = one | {"metadata": one["metadata"] | {"resourceVersion": str(self.version)}}
        key = one["metadata"]["namespace"], one["metadata"]["name"]
        self.before = self.objects[plural].get(key)
        if kind == "DELETED":
            self.objects[plural].pop(key, None)
        else:
            self.objects[plural][key] = one
        self.history.append((self.version, plural, kind, one))
        if len(self.history) > self.history_max:
            self.forgotten = self.history[self.history_max // 2][0]
            del self.history[: self.history_max // 2 + 1]
        for listener in list(self.listeners):
            listener(plural, kind, one)
        return one

    def _remove(self, plural, old):
        gone = self._put("DELETED", plural, old)
        if self.garbage_collector:
            uid = old["metadata"]["uid"]
            for child_plural in ("pods", "configmaps", "secrets", "services"):
                for (namespace, name), child in list(self.objects[child_plural].items()):
                    if any(owner["uid"] == uid for owner in child["metadata"].get("ownerReferences", [])):
                        self.delete(child_plural, namespace, name)
        return gone

    def _fenced(self, plural, old, metadata):
        for field in ("resourceVersion", "uid"):
            if metadata.get(field) not in (None, old["metadata"][field]):
                words = "the object has been modified; please apply your changes to the latest version and try again"
                raise Refusal(
                    409, "Conflict", f'Operation cannot be fulfilled on {plural} "{old["metadata"]["name"]}": {words}'
                )

    def _valid(self, plural, one):
        name = str(one["metadata"].get("name", ""))
        rule, longest = (DNS_1035, 63) if plural == "services" else (DNS_1123, 253)
        if not rule.fullmatch(name) or len(name) > longest:
            raise Refusal(422, "Invalid", f'{plural} "{name}" is invalid: metadata.name: Invalid value: "{name}"')
        if plural == "pods":
            containers = (one.get("spec") or {}).get("containers")
            if not containers or not all(isinstance(c, dict) and c.get("name") and c.get("image") for c in containers):
                raise Refusal(422, "Invalid", f'Pod "{name}" is invalid: spec.containers: Required value')
