"""Storage of an API server: objects, their versions and the history of their changes. In memory, and without HTTP.

The suite of the real API server (tests/control_plane/kube/test_api_conformance.py) runs on it too.
"""

import asyncio
import base64
import contextlib
import copy
import json
import re
import uuid
from datetime import UTC, datetime

from support.kueue.kinds import CLUSTER_QUEUES, LOCAL_QUEUES

from backfill_api.resources import NAMESPACES
from backfill_operator.kube.resources import (
    BACKFILLS,
    CONFIG_MAPS,
    EVENTS,
    FLAVORS,
    LEASES,
    PODS,
    SECRETS,
    SERVICES,
    WORKLOADS,
)

RESOURCES = {
    resource.plural: resource
    for resource in (
        BACKFILLS,
        PODS,
        CONFIG_MAPS,
        SECRETS,
        SERVICES,
        LEASES,
        EVENTS,
        NAMESPACES,
        WORKLOADS,
        FLAVORS,
        CLUSTER_QUEUES,
        LOCAL_QUEUES,
    )
}
WITH_STATUS = {"backfills", "pods", "services", "workloads"}
DNS_1123 = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


class Refusal(Exception):
    """An error answer: HTTP status, reason, message."""

    def __init__(self, status, reason, message, retry_after=None, cause=None):
        super().__init__(message)
        self.status, self.reason, self.message, self.retry_after, self.cause = (
            status,
            reason,
            message,
            retry_after,
            cause,
        )

    def body(self):
        return {
            "kind": "Status", "apiVersion": "v1", "status": "Failure",
            "reason": self.reason, "message": self.message, "code": self.status,
            "details": {"causes": [{"reason": self.cause, "message": self.message}]} if self.cause else {},
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
    """Return whether a set of labels satisfies `a=b,c`."""
    for term in filter(None, selector.split(",")):
        name, _, value = term.partition("=")
        if name not in labels or ("=" in term and labels[name] != value):
            return False
    return True


def _selectable(object_):
    """Return the fields of an object that a selector may name."""
    regarding = object_.get("regarding") or {}
    return {
        "status.phase": (object_.get("status") or {}).get("phase", ""), "metadata.name": object_["metadata"]["name"],
        "regarding.kind": regarding.get("kind", ""), "regarding.name": regarding.get("name", ""),
    }  # fmt: skip


class Store:
    """Objects by plural, namespace and name; every change has the next resourceVersion."""

    def __init__(self, *, garbage_collector=False, history_max=100_000):
        self.objects = {plural: {} for plural in RESOURCES}
        self.history = []
        self.version = 1
        self.forgotten = 0
        """Changes up to this version are no longer in the history."""

        self.history_max = history_max
        self.garbage_collector = garbage_collector
        self.namespaces_missing = set()
        self.admission = []
        """Each takes (plural, namespace, object) and may raise a Refusal, as a webhook or a quota does."""

        self.prune = lambda _plural, status: status
        """Takes (plural, status) and returns the fields that the CRD's schema contains; an older schema drops more."""

        self.listeners = []
        """Each is called with (plural, type, object) after a change."""

        self.before = None
        """The object before the newest change."""

    # ------------------------------------------------------------ reads
    def get(self, plural, namespace, name):
        try:
            return self.objects[plural][namespace or "", name]
        except KeyError:
            raise Refusal(404, "NotFound", f'{plural} "{name}" not found') from None

    def list(self, plural, namespace=None, *, selector="", fields="", limit=0, token=""):
        """Return a page and the token of the next one; field selectors are `status.phase`, `metadata.name` and those of events."""
        after = tuple(json.loads(base64.b64decode(token))) if token else ("", "")
        if token and after[0] == "expired":
            raise Refusal(410, "Expired", "The provided continue parameter is too old")
        matching = [
            (key, object_)
            for key, object_ in sorted(self.objects[plural].items())
            if key > after
            and namespace in (None, key[0])
            and matches(object_["metadata"].get("labels") or {}, selector)
            and matches(_selectable(object_), fields)
        ]
        page = matching[:limit] if limit else matching
        more = limit and len(matching) > limit
        return [object_ for _, object_ in page], base64.b64encode(
            json.dumps(page[-1][0]).encode()
        ).decode() if more else ""

    def changes(self, plural, namespace, since):
        """Return the changes after a version.

        Raises:
            Refusal: 410, when the history no longer contains them.
        """
        if since < self.forgotten:
            raise Refusal(410, "Expired", f"too old resource version: {since} ({self.forgotten})")
        first = len(self.history)
        while first and self.history[first - 1][0] > since:
            first -= 1
        return [
            (kind, object_)
            for _, at, kind, object_ in self.history[first:]
            if at == plural and namespace in (None, object_["metadata"].get("namespace"))
        ]

    def forget_history(self):
        """Compact, as etcd does every five minutes."""
        self.forgotten = self.version
        self.history.clear()

    def restore(self):
        """Count versions from 1 again, as after a restore from a backup. No object is newer than the store."""
        self.version = self.forgotten = 0
        self.history.clear()
        for objects in self.objects.values():
            for key, object_ in objects.items():
                self.version += 1
                objects[key] = object_ | {"metadata": object_["metadata"] | {"resourceVersion": str(self.version)}}

    # ------------------------------------------------------------ writes
    def create(self, plural, namespace, body, *, dry_run=False):
        resource, object_ = RESOURCES[plural], copy.deepcopy(body)
        if namespace in self.namespaces_missing:
            raise Refusal(404, "NotFound", f'namespaces "{namespace}" not found')
        metadata = object_.setdefault("metadata", {})
        if "generateName" in metadata and "name" not in metadata:
            metadata["name"] = metadata["generateName"] + uuid.uuid4().hex[:5]
        self._valid(plural, object_)
        if (namespace, metadata["name"]) in self.objects[plural]:
            raise Refusal(409, "AlreadyExists", f'{plural} "{metadata["name"]}" already exists')
        for admit in self.admission:
            admit(plural, namespace, object_)
        metadata |= {
            "namespace": namespace,
            "uid": str(uuid.uuid4()),
            "creationTimestamp": timestamp(),
            "generation": 1,
        }
        object_ |= {"apiVersion": resource.api_version, "kind": resource.kind}
        if plural in WITH_STATUS:
            object_.pop("status", None)
        if plural == "pods":
            object_["status"] = {"phase": "Pending"}
        if plural == "secrets":
            for entry, text in object_.pop("stringData", {}).items():
                object_.setdefault("data", {})[entry] = base64.b64encode(text.encode()).decode()
        if dry_run:
            return object_
        made = self._put("ADDED", plural, object_)
        owners = [owner["uid"] for owner in object_["metadata"].get("ownerReferences", [])]
        if (
            self.garbage_collector
            and owners
            and not any(
                parent["metadata"]["uid"] in owners
                for kind in ("backfills", "pods")
                for parent in self.objects[kind].values()
            )
        ):
            # An object created without a living owner: the collector deletes it, but not at once.
            asyncio.get_running_loop().call_later(0.1, self._collect, plural, made)
        return made

    def _collect(self, plural, object_):
        with contextlib.suppress(Refusal):
            self.delete(
                plural, object_["metadata"]["namespace"], object_["metadata"]["name"], uid=object_["metadata"]["uid"]
            )

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
        # A pod that no kubelet runs, or that ended, has nothing to wait for.
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

    def _put(self, kind, plural, object_):
        self.version += 1
        object_ = object_ | {"metadata": object_["metadata"] | {"resourceVersion": str(self.version)}}
        key = object_["metadata"]["namespace"], object_["metadata"]["name"]
        self.before = self.objects[plural].get(key)
        if kind == "DELETED":
            self.objects[plural].pop(key, None)
        else:
            self.objects[plural][key] = object_
        self.history.append((self.version, plural, kind, object_))
        if len(self.history) > self.history_max:
            self.forgotten = self.history[self.history_max // 2][0]
            del self.history[: self.history_max // 2 + 1]
        for listener in list(self.listeners):
            listener(plural, kind, object_)
        return object_

    def _remove(self, plural, old):
        gone = self._put("DELETED", plural, old)
        if self.garbage_collector:
            uid = old["metadata"]["uid"]
            for child_plural in ("pods", "configmaps", "secrets", "services", "workloads"):
                for (namespace, name), child in list(self.objects[child_plural].items()):
                    if any(owner["uid"] == uid for owner in child["metadata"].get("ownerReferences", [])):
                        self.delete(child_plural, namespace, name)
        return gone

    def _fenced(self, plural, old, metadata):
        for field in ("resourceVersion", "uid"):
            if metadata.get(field) not in (None, old["metadata"][field]):
                message = "the object has been modified; please apply your changes to the latest version and try again"
                raise Refusal(
                    409, "Conflict", f'Operation cannot be fulfilled on {plural} "{old["metadata"]["name"]}": {message}'
                )

    def _valid(self, plural, object_):
        name = str(object_["metadata"].get("name", ""))
        rule, longest = (DNS_1035, 63) if plural == "services" else (DNS_1123, 253)
        if not rule.fullmatch(name) or len(name) > longest:
            raise Refusal(422, "Invalid", f'{plural} "{name}" is invalid: metadata.name: Invalid value: "{name}"')
        if plural == "pods":
            containers = (object_.get("spec") or {}).get("containers")
            if not containers or not all(isinstance(c, dict) and c.get("name") and c.get("image") for c in containers):
                raise Refusal(422, "Invalid", f'Pod "{name}" is invalid: spec.containers: Required value')
