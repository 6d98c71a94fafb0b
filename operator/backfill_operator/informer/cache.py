"""What the watches have shown: Backfills and driver pods, small enough that ten thousand of each are no burden.

A Backfill is kept as lean JSON text and parsed when it is looked at, a large one as a stub, which says only where to find
it; a pod as the value that the rules read.
Never newer than the cluster, often older: a caller that must not be wrong asks the API server.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from backfill_api.names import BACKFILL_LABEL
from backfill_core.lifecycle.naming import base_name
from backfill_core.lifecycle.observation import DriverPod
from backfill_operator.informer.compact import IndexFields, compact, dumps, index_fields_of
from backfill_operator.informer.parse import label_of, owner_name, pod_ip, pod_of
from backfill_operator.kube.resources import BACKFILLS, PODS, Raw, key_of

Key = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class StoredBackfill:
    """One Backfill, as text."""

    uid: str
    version: int
    generation: int
    index: IndexFields
    text: bytes

    def raw(self) -> Raw:
        """Return the object, or its stub."""
        parsed: Raw = json.loads(self.text)
        return parsed


@dataclass(frozen=True, slots=True)
class StoredPod:
    """One driver pod, and where it is reached."""

    pod: DriverPod
    version: int
    ip: str | None
    label: Key
    """Namespace and the short name of its Backfill, by which its siblings are found."""

    backfill: Key
    """The Backfill that is to be looked at when it changes."""


class Cache:
    """Objects by key; a change that is older than what is known changes nothing."""

    def __init__(self) -> None:
        """Start empty, and not synced."""
        self._backfills: dict[Key, StoredBackfill] = {}
        self._pods: dict[Key, StoredPod] = {}
        self._pods_of: dict[Key, dict[Key, StoredPod]] = {}
        self.newest = dict.fromkeys((BACKFILLS.plural, PODS.plural), 0)
        """The newest version that was seen, by resource."""

        self._writers_of: dict[str, set[Key]] = {}
        """Backfills that write a target and are not done with it."""

        self._active: dict[str, set[Key]] = {}
        """Backfills with an attempt on record that has not ended, by namespace."""

        self._gone: set[str] | None = None
        """UIDs that went while a relist runs: its pages may still show them."""

    def __len__(self) -> int:
        """Backfills that are known."""
        return len(self._backfills)

    # ------------------------------------------------------------ reads
    def backfill(self, key: Key) -> Raw | None:
        """Return the newest known form of a Backfill; of a large one it is a stub."""
        stored = self._backfills.get(key)
        return None if stored is None else stored.raw()

    def index(self, key: Key) -> IndexFields:
        """Return what is known of a Backfill without reading it."""
        stored = self._backfills.get(key)
        return IndexFields() if stored is None else stored.index

    def target(self, key: Key) -> str | None:
        """Return what a Backfill writes; None: it is done with it, or it cannot be told."""
        index = self.index(key)
        return None if index.phase == "Succeeded" else index.target

    def writers(self, target: str) -> AbstractSet[Key]:
        """Return the Backfills that write a target and are not done with it."""
        return self._writers_of.get(target, set())

    def has_active_attempt(self, key: Key) -> bool:
        """Has a Backfill an attempt on record that has not ended?"""
        return key in self._active.get(key[0], ())

    def active_attempts(self, namespace: str | None) -> int:
        """Return how many have; None: in all namespaces."""
        if namespace is not None:
            return len(self._active.get(namespace, ()))
        return sum(len(keys) for keys in self._active.values())

    def keys(self) -> list[Key]:
        """Return all Backfills."""
        return list(self._backfills)

    def phases(self) -> Iterator[str]:
        """Yield the phase of each Backfill; also from another thread."""
        for stored in list(self._backfills.values()):
            yield stored.index.phase

    def pods(self, key: Key, pod_name: str | None = None) -> tuple[DriverPod, ...]:
        """Return the pods that carry a Backfill's label, and the one that has its driver's name, with any owner."""
        namespace, name = key
        found = dict(self._pods_of.get((namespace, base_name(name)), {}))
        if pod_name is not None and (one := self._pods.get((namespace, pod_name))) is not None:
            found[namespace, pod_name] = one
        return tuple(one.pod for one in found.values())

    def ip(self, namespace: str, pod_name: str) -> str | None:
        """Return where a pod is reached."""
        stored = self._pods.get((namespace, pod_name))
        return None if stored is None else stored.ip

    # ------------------------------------------------------------ changes
    def put_backfill(self, raw: Raw) -> bool:
        """Take what was seen; False: it was known already, or is older."""
        key, metadata = key_of(raw), raw["metadata"]
        version, uid = _version(metadata), str(metadata.get("uid", ""))
        known = self._backfills.get(key)
        self.newest[BACKFILLS.plural] = max(self.newest[BACKFILLS.plural], version)
        if self._forgotten(uid) or (known is not None and known.version >= version):
            return False
        generation = metadata.get("generation")
        generation = generation if isinstance(generation, int) else 0
        # What was applied changes with the generation only, and is long.
        same_generation = known is not None and known.uid == uid and known.generation == generation
        index = index_fields_of(raw, pruned=known.index.pruned if known is not None and same_generation else None)
        self._remove_from_index(key)
        self._backfills[key] = StoredBackfill(uid, version, generation, index, dumps(compact(raw)))
        self._add_to_index(key, index)
        return True

    def drop_backfill(self, key: Key, uid: str) -> bool:
        """Take that a Backfill is gone; False: another one has its name by now."""
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
        """Take what was seen of a driver pod; return the Backfill to look at, None when nothing is new."""
        key, metadata = key_of(raw), raw["metadata"]
        version = _version(metadata)
        self.newest[PODS.plural] = max(self.newest[PODS.plural], version)
        known = self._pods.get(key)
        if self._forgotten(str(metadata.get("uid", ""))) or (known is not None and known.version >= version):
            return None
        label = label_of(raw, BACKFILL_LABEL)
        owner = owner_name(raw) or label
        stored = StoredPod(pod_of(raw), version, pod_ip(raw), (key[0], label), (key[0], owner))
        self._unlink(key)
        self._pods[key] = stored
        self._pods_of.setdefault(stored.label, {})[key] = stored
        return stored.backfill

    def drop_pod(self, key: Key, uid: str) -> Key | None:
        """Take that a pod is gone; return the Backfill to look at."""
        self._note_gone(uid)
        known = self._pods.get(key)
        if known is None or known.pod.uid != uid:
            return None
        self._unlink(key)
        return known.backfill

    def _unlink(self, key: Key) -> None:
        known = self._pods.pop(key, None)
        if known is not None:
            siblings = self._pods_of[known.label]
            del siblings[key]
            if not siblings:
                del self._pods_of[known.label]

    # ------------------------------------------------------------ relist
    def begin_relist(self) -> tuple[dict[Key, str], dict[Key, str]]:
        """Return what is known now, as UIDs: of it, what no page shows is gone."""
        self._gone = set()
        return (
            {key: one.uid for key, one in self._backfills.items()},
            {key: one.pod.uid for key, one in self._pods.items()},
        )

    def end_relist(self) -> None:
        """Pages end here; what goes from now on cannot come back through them."""
        self._gone = None

    def _forgotten(self, uid: str) -> bool:
        return self._gone is not None and uid in self._gone

    def _note_gone(self, uid: str) -> None:
        if self._gone is not None:
            self._gone.add(uid)


def _version(metadata: dict[str, Any]) -> int:
    """Return a resourceVersion as a number: since Kubernetes 1.35 they may be compared, and they always were etcd's."""
    text = str(metadata.get("resourceVersion", ""))
    return int(text) if text.isascii() and text.isdigit() else 0
