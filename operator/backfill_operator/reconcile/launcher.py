"""Creates and deletes the objects of one attempt, with deterministic names, the pod last, and no object twice.

If the API server refuses a pod, its other objects are deleted. From then on, each launch in that namespace starts with a
dry run of the pod, so a full quota costs one request for each try. An existing object is ours if the Backfill owns it, by
UID. A Secret is ours only if the hash of its token is also in the status. Objects of an earlier Backfill of the same name
are replaced: its own objects, and objects without an owner from a restored backup. Any other object of that name is a
collision and is not changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from backfill_api.names import BACKFILL_LABEL, EXECUTORS_LABEL, GROUP, KIND, UID_LABEL
from backfill_core.cluster_rules.finding import Finding, ManifestRefusedError
from backfill_core.lifecycle.actions import CreateWorkload, LaunchDriver
from backfill_core.lifecycle.inputs.token_hash import hash_of
from backfill_core.lifecycle.naming import base_name, driver_name
from backfill_core.lifecycle.observation import NOT_BUILT, Observation, SpecRefused
from backfill_core.lifecycle.steps.launching import STILL_THERE, quota_is_full
from backfill_operator.drivers.certificates import CredentialPool, Credentials
from backfill_operator.kube.client import Cluster
from backfill_operator.kube.errors import AlreadyExistsError, ApiError, RefusedError
from backfill_operator.kube.resources import BACKFILLS, CONFIG_MAPS, PODS, SECRETS, SERVICES, Raw, Resource, resource_of
from backfill_operator.manifests.attempt import Installation, Launch, Placement
from backfill_operator.manifests.config_map import config_map
from backfill_operator.manifests.driver_pod import driver_pod
from backfill_operator.manifests.secret import Identity, secret, token_of
from backfill_operator.manifests.service import service
from backfill_operator.manifests.tried_executor import tried_executor
from backfill_operator.manifests.workload import DRIVER_SET, EXECUTOR_SET, workload

COLLISION = "NameCollision"
JUDGED_S, JUDGED_MAX = 600.0, 1_000
"""Seconds for which a successful dry run of executors is valid, and the number of remembered dry runs."""

MESSAGE_CHARACTERS_MAX = 1024
FOREIGN_MAKER = (
    "Secret {} was not created by the operator, although it names this Backfill as its owner: its creator could command "
    "the driver; delete it"
)
UNBUILDABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors that a builder may raise for a spec that passed all checks."""


@dataclass(frozen=True, slots=True)
class AttemptObjects:
    """The objects of an attempt, in the order of creation."""

    config_map: Raw
    secret: Raw
    service: Raw
    pod: Raw
    executor: Raw | None = None
    """A pod for a dry run, never created; `None` if there are no executors."""


Placements = Mapping[str, Placement]
"""Placement of the pods of each pod set of a Workload, by its name."""

NOWHERE: Final[Placements] = {}
Manifests = Callable[[Observation, LaunchDriver, Credentials, Placements], AttemptObjects]
"""Builds the objects; pure. Raises a ManifestRefusedError if the spec requests a value that is not allowed."""


def manifests_of(installation: Installation) -> Manifests:
    """Return the builder of this installation's attempts."""

    def build(
        seen: Observation, action: LaunchDriver, credentials: Credentials, placements: Placements = NOWHERE
    ) -> AttemptObjects:
        if isinstance(seen.spec, SpecRefused):
            raise ManifestRefusedError(Finding("spec", "; ".join(seen.spec.errors), "correct it"))
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
            bytes_per_second=action.bytes_per_second,
            until=action.until,
            width=action.width,
            refresh=action.refresh,
            procedure=action.procedure,
            detached=action.detached,
            driver_placement=placements.get(DRIVER_SET, Placement()),
            executor_placement=placements.get(EXECUTOR_SET, Placement()),
        )
        identity = Identity(credentials.certificate, credentials.key, credentials.token, credentials.rpc_secret)
        made = config_map(launch), secret(launch, identity), service(launch), driver_pod(launch)
        return AttemptObjects(*made, tried_executor(launch))

    return build


def workloads_of(installation: Installation) -> Callable[[Observation, CreateWorkload], Raw]:
    """Return the builder of this installation's Workloads."""

    def build(seen: Observation, action: CreateWorkload) -> Raw:
        if isinstance(seen.spec, SpecRefused):
            raise ManifestRefusedError(Finding("spec", "; ".join(seen.spec.errors), "correct it"))
        number = 1 if seen.status.attempt is None else seen.status.attempt.number
        return workload(Launch(seen.namespace, seen.name, seen.uid, number, action.kind, seen.spec, installation))

    return build


class Launcher:
    """Creates attempts and deletes their objects."""

    def __init__(self, cluster: Cluster, manifests: Manifests) -> None:
        """Take the API server and the builder of the objects."""
        self._cluster = cluster
        self._manifests = manifests
        self._credentials = CredentialPool()
        self._refused_in: set[str] = set()
        """Namespaces whose last pod was refused. Only these get a dry run, which is an eighth of a launch's requests."""

        self._judged: dict[tuple[str, str, str], float] = {}
        """Time of the last successful dry run of such executors, by namespace, hash of the executor spec, and account."""

    async def launch(
        self, seen: Observation, action: LaunchDriver, token: str, placements: Placements = NOWHERE
    ) -> Raw:
        """Create an attempt's objects; return its pod.

        Repeating it after any failure is safe: existing objects are kept, or updated before the pod can read them.

        Args:
            seen: The observation that the launch was decided on.
            action: The attempt; it is recorded in the status.
            token: Authorizes commands to its driver; the status also records its hash.
            placements: Where a queue places its pods.

        Raises:
            AlreadyExistsError: the pod exists, ours or not. With the reason `NameCollision`, another object has a name
                that this attempt needs. With `StillThere`, an object is being deleted.
            RefusedError: the API server refused one of the objects.
            UnavailableError: a request had no response, so any of the objects may exist.
        """
        made = self.build(seen, action, replace(await self._credentials.take(), token=token), placements)
        if seen.namespace in self._refused_in:
            await self._cluster.create(PODS, seen.namespace, made.pod, dry_run=True)
        if made.executor is not None:
            await self._try_executor(seen, made.executor, made.pod)
        await self._ensure(seen, made.config_map, update=True)
        # An existing Secret of ours is kept: an earlier try may have created the pod with it.
        there = await self._ensure(seen, made.secret, update=False)
        if there is not None and action.token_hashes and hash_of(token_of(there) or "") not in action.token_hashes:
            raise AlreadyExistsError(409, COLLISION, FOREIGN_MAKER.format(made.secret["metadata"]["name"]))
        await self._ensure(seen, made.service, update=False)
        try:
            pod = await self._cluster.create(PODS, seen.namespace, made.pod)
        except (RefusedError, AlreadyExistsError):
            await self._roll_back(seen, action.attempt)
            raise
        self._refused_in.discard(seen.namespace)
        return pod

    def build(
        self, seen: Observation, action: LaunchDriver, credentials: Credentials, placements: Placements = NOWHERE
    ) -> AttemptObjects:
        """Build the objects.

        Raises:
            RefusedError: the objects cannot be built from this spec, for any reason; the status reports it.
        """
        try:
            return self._manifests(seen, action, credentials, placements)
        except ManifestRefusedError as refused:
            raise RefusedError(422, NOT_BUILT, str(refused)) from refused
        except UNBUILDABLE as error:
            message = f"the driver's objects cannot be built from this spec: {type(error).__name__}: {error}"
            raise RefusedError(422, NOT_BUILT, message[:MESSAGE_CHARACTERS_MAX]) from error

    async def _try_executor(self, seen: Observation, pod: Raw, driver: Raw) -> None:
        """Dry-run an executor's pod: Spark would request refused pods for ever, and report it only in its log.

        A full quota does not fail the launch. The API server checks it last, capacity may become available, and a driver
        can work with fewer executors. Backfills with equal executors share one dry run for `JUDGED_S` seconds.
        """
        alike = (seen.namespace, driver["metadata"]["labels"][EXECUTORS_LABEL], driver["spec"]["serviceAccountName"])
        now_s = asyncio.get_running_loop().time()
        if now_s - self._judged.get(alike, -JUDGED_S) < JUDGED_S:
            return
        try:
            await self._cluster.create(PODS, seen.namespace, pod, dry_run=True)
        except AlreadyExistsError:
            pass
        except RefusedError as refused:
            if not quota_is_full(refused.status, refused.message):
                message = f"spec.executor: {refused.message}"[:MESSAGE_CHARACTERS_MAX]
                raise RefusedError(refused.status, refused.reason, message) from refused
        if len(self._judged) >= JUDGED_MAX:
            self._judged.clear()
        self._judged[alike] = now_s

    async def _roll_back(self, seen: Observation, attempt: int) -> None:
        """Delete the objects of a refused pod; if a deletion fails now, it happens with the attempt's."""
        self._refused_in.add(seen.namespace)
        with suppress(ApiError):
            there = await self._cluster.get(PODS, seen.namespace, driver_name(seen.name, attempt))
            # An earlier request whose response was lost may have created a pod of ours, which may fill the quota.
            if there is None or not owned(there, seen.uid):
                await self.remove(seen, attempt)

    async def _ensure(self, seen: Observation, desired: Raw, *, update: bool) -> Raw | None:
        """Create an object and return `None`, or return the existing one; with `update`, replace one with different data."""
        resource, name = resource_of(desired), desired["metadata"]["name"]
        try:
            await self._cluster.create(resource, seen.namespace, desired)
        except AlreadyExistsError as taken:
            there = await self._cluster.get(resource, seen.namespace, name)
            if there is None:
                raise  # it was just deleted; the next reconcile creates it
            if await self._left_behind(there, seen):
                await self._replace(seen, there, desired)
                return None
            if not owned(there, seen.uid):
                message = f"{resource.kind} {name} belongs to another owner; delete it, or rename the Backfill"
                raise AlreadyExistsError(409, COLLISION, message) from taken
            if update and there.get("data") != desired.get("data"):
                # The object is immutable, and no pod reads it yet.
                await self._replace(seen, there, desired)
            return there
        return None

    async def _left_behind(self, there: Raw, seen: Observation) -> bool:
        """Return whether the object belongs to an earlier Backfill of this name, by its owner, or else by our labels.

        The garbage collector deletes objects of a missing owner, but seconds later. The Backfill is read after the object.
        So an owner with a UID other than the observed and the current one no longer exists.
        """
        metadata = there["metadata"]
        owners, labels = metadata.get("ownerReferences") or (), metadata.get("labels") or {}
        if not owners and (
            labels.get(BACKFILL_LABEL) != base_name(seen.name) or labels.get(UID_LABEL) in (None, seen.uid)
        ):
            return False
        if not all(_names(owner, seen.name) and owner.get("uid") != seen.uid for owner in owners):
            return False
        now = await self._cluster.get(BACKFILLS, seen.namespace, seen.name)
        return now is not None and now["metadata"]["uid"] == seen.uid

    async def _replace(self, seen: Observation, there: Raw, desired: Raw) -> None:
        resource, name = resource_of(desired), desired["metadata"]["name"]
        await self._cluster.delete(resource, seen.namespace, name, uid=there["metadata"]["uid"])
        try:
            await self._cluster.create(resource, seen.namespace, desired)
        except AlreadyExistsError as taken:
            # A finalizer blocks its deletion. No watch reports its end, so the launch is retried with a delay.
            message = f"{resource.kind} {name} is being deleted"
            raise AlreadyExistsError(409, STILL_THERE, message) from taken

    async def missing(self, seen: Observation, attempt: int) -> frozenset[str]:
        """Return the kinds of an attempt's missing objects, except the pod.

        Raises:
            ApiError: one of them could not be read.
        """
        name = driver_name(seen.name, attempt)
        kinds = (CONFIG_MAPS, SECRETS, SERVICES)
        return frozenset(
            [resource.kind for resource in kinds if await self._cluster.get(resource, seen.namespace, name) is None]
        )

    async def recreate(
        self, seen: Observation, action: LaunchDriver, kinds: frozenset[str], placements: Placements = NOWHERE
    ) -> None:
        """Recreate the ConfigMap and the Service of a running attempt if they are among these kinds.

        Raises:
            ApiError: the API server refused one of them, or did not answer.
        """
        try:
            made = self.build(seen, action, Credentials("", "", "", ""), placements)
        except RefusedError:
            return  # the spec cannot be built any more; the next attempt reports that
        for item in (made.config_map, made.service):
            if item["kind"] in kinds:
                await self._ensure(seen, item, update=False)

    async def remove(self, seen: Observation, attempt: int) -> None:
        """Delete the objects of an attempt, except its pod; missing and foreign objects are skipped.

        Raises:
            ApiError: one of them may still exist.
        """
        name = driver_name(seen.name, attempt)
        for resource in (CONFIG_MAPS, SECRETS, SERVICES):
            await self._remove(resource, seen, name)

    async def _remove(self, resource: Resource, seen: Observation, name: str) -> None:
        there = await self._cluster.get(resource, seen.namespace, name)
        if there is not None and (owned(there, seen.uid) or await self._left_behind(there, seen)):
            await self._cluster.delete(resource, seen.namespace, name, uid=there["metadata"]["uid"])


def _names(owner: Raw, name: str) -> bool:
    group = str(owner.get("apiVersion", "")).partition("/")[0]
    return (group, owner.get("kind"), owner.get("name")) == (GROUP, KIND, name)


def owned(raw: Raw, uid: str) -> bool:
    """Return whether the Backfill of this UID owns the object, or owned it before a deletion that orphaned it."""
    metadata = raw["metadata"]
    controllers = [
        owner.get("uid") for owner in metadata.get("ownerReferences") or () if owner.get("controller") is True
    ]
    labels = metadata.get("labels") or {}
    return uid in controllers or (not controllers and labels.get(UID_LABEL) == uid)
