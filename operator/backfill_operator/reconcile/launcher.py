"""Makes the objects of one attempt, and takes them away: deterministic names, the pod last, nothing twice.

A pod that the API server refuses leaves nothing behind, and from then on, in that namespace, a pod is asked for without
being made before anything is: a quota that is full is found out by one request a try. What is there already is ours when
the Backfill owns it, by UID, and a Secret only when the hash of its token is on record; anything else of that name is a
collision, and is not touched.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from backfill_api.names import UID_LABEL
from backfill_core.lifecycle.actions import LaunchDriver
from backfill_core.lifecycle.naming import driver_name
from backfill_core.lifecycle.observation import Observation, SpecRefused
from backfill_operator.drivers.certificates import CredentialPool, Credentials
from backfill_operator.kube.client import Cluster
from backfill_operator.kube.errors import AlreadyExistsError, ApiError, RefusedError
from backfill_operator.kube.resources import CONFIG_MAPS, PODS, SECRETS, SERVICES, Raw, Resource, resource_of
from backfill_operator.manifests.attempt import Installation, Launch, ManifestRefusedError
from backfill_operator.manifests.config_map import config_map
from backfill_operator.manifests.driver_pod import driver_pod
from backfill_operator.manifests.secret import Identity, secret, token_of
from backfill_operator.manifests.service import service
from backfill_operator.reconcile.soft_state import hash_of

COLLISION = "NameCollision"
MESSAGE_CHARACTERS_MAX = 1024
NOT_OURS = (
    "Secret {} was not made by the operator, although it names this Backfill as its owner: who made it could command the "
    "driver; delete it"
)
UNBUILDABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What a builder may raise of words that no check foresaw."""


@dataclass(frozen=True, slots=True)
class AttemptObjects:
    """What an attempt is made of, in the order in which it is made."""

    config_map: Raw
    secret: Raw
    service: Raw
    pod: Raw


Manifests = Callable[[Observation, LaunchDriver, Credentials], AttemptObjects]
"""Builds them; pure. Raises a ManifestRefusedError when the spec asks for what cannot be."""


def manifests_of(installation: Installation) -> Manifests:
    """Return the builder of this installation's attempts."""

    def build(seen: Observation, action: LaunchDriver, credentials: Credentials) -> AttemptObjects:
        if isinstance(seen.spec, SpecRefused):
            raise ManifestRefusedError("spec", "; ".join(seen.spec.errors), hint="mend it")
        launch = Launch(
            namespace=seen.namespace,
            name=seen.name,
            uid=seen.uid,
            attempt=action.attempt,
            kind=action.kind,
            spec=seen.spec,
            installation=installation,
            paused=action.paused,
            rows_per_second=action.rows_per_second,
        )
        identity = Identity(credentials.certificate, credentials.key, credentials.token, credentials.rpc_secret)
        return AttemptObjects(config_map(launch), secret(launch, identity), service(launch), driver_pod(launch))

    return build


class Launcher:
    """Makes attempts and removes what they leave."""

    def __init__(self, cluster: Cluster, manifests: Manifests) -> None:
        """Take where they are made, and from what."""
        self._cluster = cluster
        self._manifests = manifests
        self._credentials = CredentialPool()
        self._doubted: set[str] = set()
        """Namespaces whose newest pod was refused: to ask first costs each launch an eighth of its requests."""

    async def launch(self, seen: Observation, action: LaunchDriver, token: str) -> Raw:
        """Make an attempt's objects; return its pod.

        Doing it again after any failure is safe: what is there is taken as it is, or brought up to date before the pod
        can read it.

        Args:
            seen: The look.
            action: The attempt, which is on record.
            token: What will command its driver; its hash is on record too.

        Raises:
            AlreadyExistsError: the pod is there, whoever owns it; or, with the reason `NameCollision`, another object
                has a name that this attempt needs.
            RefusedError: the server will not have one of them.
            UnavailableError: nobody knows how far it came.
        """
        made = self.build(seen, action, replace(await self._credentials.take(), token=token))
        if seen.namespace in self._doubted:
            await self._cluster.create(PODS, seen.namespace, made.pod, dry_run=True)
        await self._ensure(seen, made.config_map, mend=True)
        # A Secret of ours that is there stays: this attempt's driver has no other, and its maker may have made the pod.
        there = await self._ensure(seen, made.secret, mend=False)
        if there is not None and action.token_hashes and hash_of(token_of(there) or "") not in action.token_hashes:
            raise AlreadyExistsError(409, COLLISION, NOT_OURS.format(made.secret["metadata"]["name"]))
        await self._ensure(seen, made.service, mend=False)
        try:
            pod = await self._cluster.create(PODS, seen.namespace, made.pod)
        except (RefusedError, AlreadyExistsError):
            await self._take_back(seen, action.attempt)
            raise
        self._doubted.discard(seen.namespace)
        return pod

    def build(self, seen: Observation, action: LaunchDriver, credentials: Credentials) -> AttemptObjects:
        """Build them; whatever stands in the spec, it is the spec that is refused, and in the status.

        Raises:
            RefusedError: the spec asks for what cannot be built.
        """
        try:
            return self._manifests(seen, action, credentials)
        except ManifestRefusedError as refused:
            raise RefusedError(422, "Invalid", str(refused)) from refused
        except UNBUILDABLE as error:
            words = f"the driver's objects cannot be made of this spec: {type(error).__name__}: {error}"
            raise RefusedError(422, "Invalid", words[:MESSAGE_CHARACTERS_MAX]) from error

    async def _take_back(self, seen: Observation, attempt: int) -> None:
        """Remove what was made for a pod that cannot be; what stays in spite of that is ours, and goes with the attempt."""
        self._doubted.add(seen.namespace)
        with suppress(ApiError):
            there = await self._cluster.get(PODS, seen.namespace, driver_name(seen.name, attempt))
            # A pod of ours was made by a request whose answer was lost; it may be what fills the quota now.
            if there is None or not owned(there, seen.uid):
                await self.remove(seen, attempt)

    async def _ensure(self, seen: Observation, wanted: Raw, *, mend: bool) -> Raw | None:
        """Make an object, or return the one that is there; `mend`: with what is in it now, when that differs."""
        resource, name = resource_of(wanted), wanted["metadata"]["name"]
        try:
            await self._cluster.create(resource, seen.namespace, wanted)
        except AlreadyExistsError as taken:
            there = await self._cluster.get(resource, seen.namespace, name)
            if there is None:
                raise  # it went a moment ago: the next look makes it
            if not owned(there, seen.uid):
                words = f"{resource.kind} {name} belongs to somebody else; delete it, or give the Backfill another name"
                raise AlreadyExistsError(409, COLLISION, words) from taken
            if mend and there.get("data") != wanted.get("data"):
                # It is immutable, and no pod reads it yet.
                await self._cluster.delete(resource, seen.namespace, name, uid=there["metadata"]["uid"])
                await self._cluster.create(resource, seen.namespace, wanted)
            return there
        return None

    async def lost(self, seen: Observation, attempt: int) -> frozenset[str]:
        """Return the kinds of an attempt's objects that are not there, its pod excepted.

        Raises:
            ApiError: one of them may be there or not.
        """
        name = driver_name(seen.name, attempt)
        kinds = (CONFIG_MAPS, SECRETS, SERVICES)
        return frozenset([one.kind for one in kinds if await self._cluster.get(one, seen.namespace, name) is None])

    async def make_again(self, seen: Observation, action: LaunchDriver, kinds: frozenset[str]) -> None:
        """Make the ConfigMap and the Service of a running attempt again, as far as they are of these kinds.

        Raises:
            ApiError: the server will not have one of them, or nobody knows.
        """
        try:
            made = self.build(seen, action, Credentials("", "", "", ""))
        except RefusedError:
            return  # the spec asks for what cannot be by now: the next attempt says so
        for one in (made.config_map, made.service):
            if one["kind"] in kinds:
                await self._ensure(seen, one, mend=False)

    async def remove(self, seen: Observation, attempt: int) -> None:
        """Delete what an attempt was made of, its pod excepted; missing ones are fine, and strangers' are left alone.

        Raises:
            ApiError: one of them may still be there.
        """
        name = driver_name(seen.name, attempt)
        for resource in (CONFIG_MAPS, SECRETS, SERVICES):
            await self._remove(resource, seen, name)

    async def _remove(self, resource: Resource, seen: Observation, name: str) -> None:
        there = await self._cluster.get(resource, seen.namespace, name)
        if there is not None and owned(there, seen.uid):
            await self._cluster.delete(resource, seen.namespace, name, uid=there["metadata"]["uid"])


def owned(raw: Raw, uid: str) -> bool:
    """Does the Backfill of this UID own the object, or did it, until somebody deleted it without what it owns?"""
    metadata = raw["metadata"]
    controllers = [
        owner.get("uid") for owner in metadata.get("ownerReferences") or () if owner.get("controller") is True
    ]
    labels = metadata.get("labels") or {}
    return uid in controllers or (not controllers and labels.get(UID_LABEL) == uid)
