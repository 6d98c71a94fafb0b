"""Backfills and driver pods from lists and watches, compact enough for ten thousand of each.

A Backfill is stored as compact JSON and parsed on each read. A finished Backfill is compressed, and a large one is
stored as a stub. A finished Backfill at rest has no JSON, because a hundred thousand of them may wait for their deletion.
A pod is stored as the value that the rules read. The cache is never newer than the cluster and often older. A reader
that needs the current state reads it from the API server.
"""

from __future__ import annotations

import json
import math
import sys
import zlib
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

from backfill_api.names import BACKFILL_LABEL
from backfill_core.lifecycle.naming import base_name
from backfill_core.lifecycle.observation import DriverPod, WaitingExecutors
from backfill_operator.informer.compact import IndexFields, compact, dumps, index_fields_of, stub_of
from backfill_operator.informer.parse import label_of, owner_name, pod_ip, pod_of
from backfill_operator.informer.resting import Rest, rest_of
from backfill_operator.kube.deletions import Deletions
from backfill_operator.kube.resources import BACKFILLS, PODS, Raw, key_of, version_of

PACK_LEVEL = 1
"""zlib level. It reduces the JSON to a third in 30 microseconds; higher levels save a tenth more in twice the time."""

PULLING: Final = frozenset({"ErrImagePull", "ImagePullBackOff"})
"""Reasons of a container that waits for its image."""

Key = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class StoredBackfill:
    """One Backfill, as text."""

    uid: str
    version: int
    generation: int
    index: IndexFields
    packed: bytes
    """JSON. It is compressed if the Backfill is finished, because it is rarely read again, and empty if it is at rest."""

    rest: Rest | None = None

    def raw(self, key: Key) -> Raw:
        """Return the object, or its stub."""
        if self.rest is not None:
            metadata = {"namespace": key[0], "name": key[1], "uid": self.uid, "resourceVersion": str(self.version)}
            return stub_of(metadata | {"generation": self.generation}, self.index)
        parsed: Raw = json.loads(zlib.decompress(self.packed) if self.index.over else self.packed)
        return parsed


@dataclass(frozen=True, slots=True)
class StoredPod:
    """One driver pod, and its address."""

    pod: DriverPod
    version: int
    ip: str | None
    label: Key
    """Namespace and label of its Backfill; the pods of one Backfill share it."""

    backfill: Key
    """The Backfill to reconcile when the pod changes."""


class Cache:
    """Objects by key; an older version never replaces a newer one."""

    def __init__(self) -> None:
        """Start empty."""
        self._backfills: dict[Key, StoredBackfill] = {}
        self._pods: dict[Key, StoredPod] = {}
        self._pods_of: dict[Key, dict[Key, StoredPod]] = {}
        self.newest = dict.fromkeys((BACKFILLS.plural, PODS.plural), 0)
        """The highest resourceVersion seen of each resource."""

        self._writers_of: dict[str, set[Key]] = {}
        """The unfinished Backfills of each target."""

        self._dependents: dict[Key, set[Key]] = {}
        """The Backfills that wait for each one before their first attempt."""

        self._active: dict[str, set[Key]] = {}
        """Backfills with a recorded attempt that has not ended, by namespace."""

        self._executors: dict[str, tuple[StoredPod, WaitingExecutors]] = {}
        """Executors that wait, by the UID of the driver pod that made them."""

        self._deletions = Deletions()

    def __len__(self) -> int:
        """Return the number of cached Backfills."""
        return len(self._backfills)

    # ------------------------------------------------------------ reads
    def backfill(self, key: Key) -> Raw | None:
        """Return a Backfill as last seen, or a stub if it is large or at rest; `None` if it is not cached."""
        stored = self._backfills.get(key)
        return None if stored is None else stored.raw(key)

    def rest(self, key: Key) -> Rest | None:
        """Return the rest of a Backfill; `None` if it may need a decision, or is not cached."""
        stored = self._backfills.get(key)
        return None if stored is None else stored.rest

    def index(self, key: Key) -> IndexFields:
        """Return the indexed fields of a Backfill, without parsing it."""
        stored = self._backfills.get(key)
        return IndexFields() if stored is None else stored.index

    def target(self, key: Key) -> str | None:
        """Return the target of a Backfill; `None` if it has succeeded, or its spec has no target."""
        index = self.index(key)
        return None if index.phase == "Succeeded" else index.target

    def writers(self, target: str) -> AbstractSet[Key]:
        """Return the Backfills that write a target and have not succeeded."""
        return self._writers_of.get(target, set())

    def exists(self, key: Key) -> bool:
        """Return whether a Backfill is cached."""
        return key in self._backfills

    def dependents(self, key: Key) -> AbstractSet[Key]:
        """Return the Backfills that wait for one before their first attempt."""
        return self._dependents.get(key, set())

    def has_active_attempt(self, key: Key) -> bool:
        """Return whether the Backfill has a recorded attempt that has not ended."""
        return key in self._active.get(key[0], ())

    def active_attempts(self, namespace: str | None) -> int:
        """Return the number of Backfills with an active attempt; `None` counts all namespaces."""
        if namespace is not None:
            return len(self._active.get(namespace, ()))
        return sum(len(keys) for keys in self._active.values())

    def active_closings(self, namespace: str) -> int:
        """Return the number of deleted Backfills of a namespace whose last driver is active."""
        return sum(self._backfills[key].index.closing for key in self._active.get(namespace, ()))

    def keys(self) -> list[Key]:
        """Return all Backfills."""
        return list(self._backfills)

    def stored(self) -> list[tuple[Key, StoredBackfill]]:
        """Return all Backfills as they are stored; safe in another thread."""
        return list(self._backfills.items())

    def phases(self) -> Iterator[str]:
        """Yield the phase of each Backfill; safe in another thread."""
        for stored in list(self._backfills.values()):
            yield stored.index.phase

    def pods(self, key: Key, pod_name: str | None = None) -> tuple[DriverPod, ...]:
        """Return the pods with a Backfill's label, and the pod named `pod_name`, without regard to their owner."""
        return tuple(self.with_executors(stored.pod) for stored in self._stored_pods(key, pod_name).values())

    def pod_versions(self, key: Key, pod_name: str) -> dict[Key, tuple[str, int]]:
        """Return the UID and the version of each pod that `pods` returns."""
        stored = self._stored_pods(key, pod_name)
        return {pod_key: (entry.pod.uid, entry.version) for pod_key, entry in stored.items()}

    def _stored_pods(self, key: Key, pod_name: str | None) -> dict[Key, StoredPod]:
        namespace, name = key
        pods = dict(self._pods_of.get((namespace, base_name(name)), {}))
        if pod_name is not None and (named := self._pods.get((namespace, pod_name))) is not None:
            pods[namespace, pod_name] = named
        return pods

    def with_executors(self, pod: DriverPod) -> DriverPod:
        """Return a driver pod with its waiting executors, if any are cached."""
        waiting = self._executors.get(pod.uid)
        return pod if waiting is None else replace(pod, executors=waiting[1])

    def ip(self, namespace: str, pod_name: str) -> str | None:
        """Return the address of a pod; `None` if it has none."""
        stored = self._pods.get((namespace, pod_name))
        return None if stored is None else stored.ip

    # ------------------------------------------------------------ changes
    def put_backfill(self, raw: Raw) -> bool:
        """Store a Backfill; `False` if this version or a newer one is cached, or the Backfill is deleted."""
        key, metadata = key_of(raw), raw["metadata"]
        version, uid = version_of(raw), str(metadata.get("uid", ""))
        existing = self._backfills.get(key)
        self.newest[BACKFILLS.plural] = max(self.newest[BACKFILLS.plural], version)
        if self._deletions.cover(uid, version) or (existing is not None and existing.version >= version):
            return False
        generation = metadata.get("generation")
        generation = generation if isinstance(generation, int) else 0
        # The applied configuration changes only with the generation, and is expensive to parse.
        same_generation = existing is not None and existing.uid == uid and existing.generation == generation
        index = index_fields_of(raw, pruned=existing.index.pruned if existing is not None and same_generation else None)
        # The author does not matter: a status that differs from the next decision is not at rest.
        rest = rest_of(raw, index)
        if rest is not None:
            stored = _at_rest(uid, version, generation, index, rest)
        else:
            text = dumps(compact(raw))
            packed = zlib.compress(text, PACK_LEVEL) if index.over else text
            stored = StoredBackfill(uid, version, generation, index, packed)
        self._remove_from_index(key)
        self._backfills[key] = stored
        self._add_to_index(key, stored.index)
        return True

    def drop_backfill(self, key: Key, uid: str) -> bool:
        """Remove a deleted Backfill for ever; `False` if it is not cached, or its name now belongs to another UID."""
        self._deletions.note(uid)
        return self.evict_backfill(key, uid)

    def evict_backfill(self, key: Key, uid: str) -> bool:
        """Remove a Backfill that may return; `False` if it is not cached, or its name now belongs to another UID."""
        existing = self._backfills.get(key)
        if existing is None or existing.uid != uid:
            return False
        self._remove_from_index(key)
        del self._backfills[key]
        return True

    def _add_to_index(self, key: Key, index: IndexFields) -> None:
        if index.target is not None and index.phase != "Succeeded":
            self._writers_of.setdefault(index.target, set()).add(key)
        if index.active:
            self._active.setdefault(key[0], set()).add(key)
        for name in index.depends_on:
            self._dependents.setdefault((key[0], name), set()).add(key)

    def _remove_from_index(self, key: Key) -> None:
        existing = self._backfills.get(key)
        if existing is None:
            return
        for index, name in ((self._writers_of, existing.index.target), (self._active, key[0])):
            if name is not None and (keys := index.get(name)) is not None:
                keys.discard(key)
                if not keys:
                    del index[name]
        for name in existing.index.depends_on:
            if (waiting := self._dependents.get((key[0], name))) is not None:
                waiting.discard(key)
                if not waiting:
                    del self._dependents[key[0], name]

    def put_pod(self, raw: Raw) -> tuple[Key, ...]:
        """Store a driver pod; return the Backfills to reconcile: its own, and that of the pod that it replaces."""
        key, metadata = key_of(raw), raw["metadata"]
        version, uid = version_of(raw), str(metadata.get("uid", ""))
        self.newest[PODS.plural] = max(self.newest[PODS.plural], version)
        existing = self._pods.get(key)
        if self._deletions.cover(uid, version) or (existing is not None and existing.version >= version):
            return ()
        label = label_of(raw, BACKFILL_LABEL)
        owner = owner_name(raw) or label
        stored = StoredPod(pod_of(raw), version, pod_ip(raw), (key[0], label), (key[0], owner))
        self._unlink(key)
        self._pods[key] = stored
        self._pods_of.setdefault(stored.label, {})[key] = stored
        return tuple(dict.fromkeys((stored.backfill, *([] if existing is None else [existing.backfill]))))

    def drop_pod(self, raw: Raw) -> tuple[Key, ...]:
        """Remove a pod that a watch reports as deleted; return the Backfill to reconcile, if the pod is cached."""
        uid = str(raw["metadata"]["uid"])
        self._deletions.note(uid, version_of(raw))
        owner = self.evict_pod(key_of(raw), uid)
        return () if owner is None else (owner,)

    def evict_pod(self, key: Key, uid: str, version: float = math.inf) -> Key | None:
        """Remove a pod that may return; return the Backfill to reconcile, or `None` if the pod is not cached.

        Args:
            key: The pod.
            uid: A pod with another UID stays.
            version: A newer version stays.
        """
        existing = self._pods.get(key)
        if existing is None or existing.pod.uid != uid or existing.version > version:
            return None
        self._unlink(key)
        return existing.backfill

    def put_executors(self, waiting: Mapping[str, tuple[Key, WaitingExecutors]], namespace: str | None) -> list[Key]:
        """Store all waiting executors by the UID of their driver pods; return the Backfills with a change.

        Args:
            waiting: Label of the Backfill, and its waiting executors. Entries of uncached driver pods are ignored.
            namespace: The listed namespace; `None` means all namespaces.
        """
        before = {uid: entry for uid, entry in self._executors.items() if namespace in (None, entry[0].backfill[0])}
        for uid in before:
            del self._executors[uid]
        changed = [stored.backfill for uid, (stored, _) in before.items() if uid not in waiting]
        for uid, (label, seen) in waiting.items():
            stored = next(
                (candidate for candidate in self._pods_of.get(label, {}).values() if candidate.pod.uid == uid), None
            )
            if stored is None:
                continue
            previous = replace(before[uid][1], running=None) if uid in before else None
            # A kubelet alternates between the two reasons. The status is not written for each change.
            same = previous is not None and {previous.waiting, seen.waiting} <= PULLING
            executors = previous if previous is not None and same else seen
            self._executors[uid] = stored, executors
            if executors != previous:
                changed.append(stored.backfill)
        return changed

    def put_executors_of(self, pod: DriverPod, executors: WaitingExecutors | None) -> DriverPod:
        """Store the waiting executors of one driver; return its pod with them."""
        entry = self._executors.pop(pod.uid, None)
        if entry is not None and executors is not None:
            self._executors[pod.uid] = entry[0], executors
        return replace(pod, executors=executors)

    def _unlink(self, key: Key) -> None:
        existing = self._pods.pop(key, None)
        if existing is not None:
            siblings = self._pods_of[existing.label]
            del siblings[key]
            if not siblings:
                del self._pods_of[existing.label]

    # ------------------------------------------------------------ relist
    def begin_relist(self) -> tuple[dict[Key, str], dict[Key, str]]:
        """Return the UIDs of the cached Backfills and pods; those that appear on no page no longer exist."""
        self._deletions.begin_relist()
        return (
            {key: backfill.uid for key, backfill in self._backfills.items()},
            {key: stored.pod.uid for key, stored in self._pods.items()},
        )

    def end_relist(self) -> None:
        """End the relist: pages can no longer contain deleted objects."""
        self._deletions.end_relist()


def _at_rest(uid: str, version: int, generation: int, index: IndexFields, rest: Rest) -> StoredBackfill:
    """Return the stored form of a Backfill at rest; it has no target after success, because it writes no more."""
    target = None if index.phase == "Succeeded" else index.target
    kept = replace(index, phase=sys.intern(index.phase), active=False, target=target, pruned=())
    return StoredBackfill(uid, version, generation, kept, b"", rest)
