"""The Backfills and driver pods that lists and watches have shown, compact enough for ten thousand of each.

A Backfill is kept as compact JSON text and parsed when it is read. The text of one that is over is packed, and a large one is kept
as a stub. Of one that is over and at rest there is no text: a hundred thousand may wait to be forgotten. A pod is kept as the
value that the rules read. The cache is never newer than the cluster and often older. A reader that needs the current
state asks the API server.
"""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, Final

from backfill_api.names import BACKFILL_LABEL
from backfill_core.lifecycle.naming import base_name
from backfill_core.lifecycle.observation import DriverPod, WaitingExecutors
from backfill_operator.informer.compact import IndexFields, compact, dumps, index_fields_of, stub_of
from backfill_operator.informer.parse import label_of, owner_name, pod_ip, pod_of
from backfill_operator.informer.resting import Rest, rest_of
from backfill_operator.kube.resources import BACKFILLS, PODS, Raw, key_of

PACK_LEVEL = 1
"""Of zlib: a third of the text's size in 30 microseconds; higher levels save a tenth more in twice the time."""

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
    """JSON text; of one that is over, compressed: it is read once or twice until it is forgotten. Empty: it is at rest."""

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

        self._active: dict[str, set[Key]] = {}
        """Backfills with a recorded attempt that has not ended, by namespace."""

        self._executors: dict[str, tuple[StoredPod, WaitingExecutors]] = {}
        """Executors that wait, by the UID of the driver pod that made them."""

        self._gone: set[str] | None = None
        """UIDs that were deleted during a relist, whose pages may still show them; None: no relist runs."""

    def __len__(self) -> int:
        """Backfills that are known."""
        return len(self._backfills)

    # ------------------------------------------------------------ reads
    def backfill(self, key: Key) -> Raw | None:
        """Return a Backfill as last seen, or the stub of one that is large or at rest; None: it is not known."""
        stored = self._backfills.get(key)
        return None if stored is None else stored.raw(key)

    def rest(self, key: Key) -> Rest | None:
        """Return the rest of a Backfill; None: it may have something to do, or is not known."""
        stored = self._backfills.get(key)
        return None if stored is None else stored.rest

    def index(self, key: Key) -> IndexFields:
        """Return the indexed fields of a Backfill, without parsing it."""
        stored = self._backfills.get(key)
        return IndexFields() if stored is None else stored.index

    def target(self, key: Key) -> str | None:
        """Return the target of a Backfill; None: it has succeeded, or its spec names no target."""
        index = self.index(key)
        return None if index.phase == "Succeeded" else index.target

    def writers(self, target: str) -> AbstractSet[Key]:
        """Return the Backfills that write a target and have not succeeded."""
        return self._writers_of.get(target, set())

    def has_active_attempt(self, key: Key) -> bool:
        """Has the Backfill a recorded attempt that has not ended?"""
        return key in self._active.get(key[0], ())

    def active_attempts(self, namespace: str | None) -> int:
        """Return how many Backfills have one; None: in all namespaces."""
        if namespace is not None:
            return len(self._active.get(namespace, ()))
        return sum(len(keys) for keys in self._active.values())

    def keys(self) -> list[Key]:
        """Return all Backfills."""
        return list(self._backfills)

    def phases(self) -> Iterator[str]:
        """Yield the phase of each Backfill; safe in another thread."""
        for stored in list(self._backfills.values()):
            yield stored.index.phase

    def pods(self, key: Key, pod_name: str | None = None) -> tuple[DriverPod, ...]:
        """Return the pods with a Backfill's label, and the pod named `pod_name`, without regard to their owner."""
        namespace, name = key
        found = dict(self._pods_of.get((namespace, base_name(name)), {}))
        if pod_name is not None and (one := self._pods.get((namespace, pod_name))) is not None:
            found[namespace, pod_name] = one
        return tuple(self.with_executors(one.pod) for one in found.values())

    def with_executors(self, pod: DriverPod) -> DriverPod:
        """Return a driver pod with what is known of its executors that wait."""
        known = self._executors.get(pod.uid)
        return pod if known is None else replace(pod, executors=known[1])

    def ip(self, namespace: str, pod_name: str) -> str | None:
        """Return the address of a pod; None: it has none."""
        stored = self._pods.get((namespace, pod_name))
        return None if stored is None else stored.ip

    # ------------------------------------------------------------ changes
    def put_backfill(self, raw: Raw) -> bool:
        """Store a Backfill; False: this version or a newer one is known."""
        key, metadata = key_of(raw), raw["metadata"]
        version, uid = _version(metadata), str(metadata.get("uid", ""))
        known = self._backfills.get(key)
        self.newest[BACKFILLS.plural] = max(self.newest[BACKFILLS.plural], version)
        if self._is_gone(uid) or (known is not None and known.version >= version):
            return False
        generation = metadata.get("generation")
        generation = generation if isinstance(generation, int) else 0
        # The applied configuration changes only with the generation, and is expensive to parse.
        same_generation = known is not None and known.uid == uid and known.generation == generation
        index = index_fields_of(raw, pruned=known.index.pruned if known is not None and same_generation else None)
        # No matter who wrote it: what says something else than a decision would is not at rest.
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
        """Remove a Backfill; False: it is not known, or its name now belongs to another UID."""
        self._note_gone(uid)
        known = self._backfills.get(key)
        if known is None or known.uid != uid:
            return False
        self._remove_from_index(key)
        del self._backfills[key]
        return True

    def _add_to_index(self, key: Key, index: IndexFields) -> None:
        if index.target is not None and index.phase != "Succeeded":
            self._writers_of.setdefault(index.target, set()).add(key)
        if index.active:
            self._active.setdefault(key[0], set()).add(key)

    def _remove_from_index(self, key: Key) -> None:
        known = self._backfills.get(key)
        if known is None:
            return
        for index, name in ((self._writers_of, known.index.target), (self._active, key[0])):
            if name is not None and (keys := index.get(name)) is not None:
                keys.discard(key)
                if not keys:
                    del index[name]

    def put_pod(self, raw: Raw) -> Key | None:
        """Store a driver pod; return the Backfill to reconcile, None: nothing is new."""
        key, metadata = key_of(raw), raw["metadata"]
        version = _version(metadata)
        self.newest[PODS.plural] = max(self.newest[PODS.plural], version)
        known = self._pods.get(key)
        if self._is_gone(str(metadata.get("uid", ""))) or (known is not None and known.version >= version):
            return None
        label = label_of(raw, BACKFILL_LABEL)
        owner = owner_name(raw) or label
        stored = StoredPod(pod_of(raw), version, pod_ip(raw), (key[0], label), (key[0], owner))
        self._unlink(key)
        self._pods[key] = stored
        self._pods_of.setdefault(stored.label, {})[key] = stored
        return stored.backfill

    def drop_pod(self, key: Key, uid: str) -> Key | None:
        """Remove a pod; return the Backfill to reconcile, None: the pod is not known."""
        self._note_gone(uid)
        known = self._pods.get(key)
        if known is None or known.pod.uid != uid:
            return None
        self._unlink(key)
        return known.backfill

    def put_executors(self, found: Mapping[str, tuple[Key, WaitingExecutors]], namespace: str | None) -> list[Key]:
        """Store all executors that wait, by the UID of their driver pods; return the Backfills for which that is news.

        Args:
            found: The label of the Backfill and what waits; those of a pod that is not known are left out.
            namespace: Where it was looked; None: in all namespaces.
        """
        before = {uid: one for uid, one in self._executors.items() if namespace in (None, one[0].backfill[0])}
        for uid in before:
            del self._executors[uid]
        changed = [stored.backfill for uid, (stored, _) in before.items() if uid not in found]
        for uid, (label, seen) in found.items():
            stored = next((one for one in self._pods_of.get(label, {}).values() if one.pod.uid == uid), None)
            if stored is None:
                continue
            known = replace(before[uid][1], running=None) if uid in before else None
            # A kubelet says one and the other by turns: the status is not written each time.
            same = known is not None and {known.waiting, seen.waiting} <= PULLING
            executors = known if known is not None and same else seen
            self._executors[uid] = stored, executors
            if executors != known:
                changed.append(stored.backfill)
        return changed

    def put_executors_of(self, pod: DriverPod, executors: WaitingExecutors | None) -> DriverPod:
        """Store what a look at the executors of one driver has found; return its pod with it."""
        known = self._executors.pop(pod.uid, None)
        if known is not None and executors is not None:
            self._executors[pod.uid] = known[0], executors
        return replace(pod, executors=executors)

    def _unlink(self, key: Key) -> None:
        known = self._pods.pop(key, None)
        if known is not None:
            siblings = self._pods_of[known.label]
            del siblings[key]
            if not siblings:
                del self._pods_of[known.label]

    # ------------------------------------------------------------ relist
    def begin_relist(self) -> tuple[dict[Key, str], dict[Key, str]]:
        """Return the UIDs of the known Backfills and pods; those that no page shows are gone."""
        self._gone = set()
        return (
            {key: one.uid for key, one in self._backfills.items()},
            {key: one.pod.uid for key, one in self._pods.items()},
        )

    def end_relist(self) -> None:
        """End the relist: no page can show a deleted object any more."""
        self._gone = None

    def _is_gone(self, uid: str) -> bool:
        return self._gone is not None and uid in self._gone

    def _note_gone(self, uid: str) -> None:
        if self._gone is not None:
            self._gone.add(uid)


def _at_rest(uid: str, version: int, generation: int, index: IndexFields, rest: Rest) -> StoredBackfill:
    """Return what is kept of a Backfill at rest: of one that has succeeded its target neither, which it writes no more."""
    target = None if index.phase == "Succeeded" else index.target
    return StoredBackfill(uid, version, generation, IndexFields(sys.intern(index.phase), target=target), b"", rest)


def _version(metadata: dict[str, Any]) -> int:
    """Return a resourceVersion as a number; Kubernetes 1.35 defines their order, and before it they were etcd's revisions."""
    text = str(metadata.get("resourceVersion", ""))
    return int(text) if text.isascii() and text.isdigit() else 0
