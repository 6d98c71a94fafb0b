"""Writes the Workload of a job. Each write reads it first, so a repeated one changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from backfill_api.timestamps import rfc3339
from backfill_core.cluster_rules.finding import ManifestRefusedError
from backfill_core.lifecycle.actions import (
    CreateWorkload,
    DeleteWorkload,
    FinishWorkload,
    ReportPodsReady,
    RequeueWorkload,
)
from backfill_core.lifecycle.naming import base_name
from backfill_core.lifecycle.observation import Observation
from backfill_operator.kube.client import Cluster
from backfill_operator.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    NotFoundError,
    RefusedError,
    UnavailableError,
)
from backfill_operator.kube.resources import FLAVORS, WORKLOADS, Raw
from backfill_operator.manifests.attempt import Placement
from backfill_operator.queues.feed import WorkloadFeed, describe_refusal
from backfill_operator.queues.parse import flavors_of, mapping, mappings, placement_of_flavor, updates_of, workload_of

WorkloadAction = CreateWorkload | DeleteWorkload | RequeueWorkload | FinishWorkload | ReportPodsReady

REQUEUED_AT_ONCE: Final = ("Preempted", "NodeFailures")
"""Kueue's reasons of evictions after which a Workload returns to its queue without a delay."""

CHARACTERS_MAX: Final = 1024


class Workloads:
    """Writes Workloads, and reads where Kueue places their pods."""

    def __init__(
        self,
        cluster: Cluster,
        feed: WorkloadFeed,
        manifest: Callable[[Observation, CreateWorkload], Raw],
        now_ms: Callable[[], int],
    ) -> None:
        """Take the parts.

        Args:
            cluster: Reads and writes.
            feed: Updated with each Workload that is read or written.
            manifest: Builds the Workload of a job; may raise a ManifestRefusedError.
            now_ms: Wall time in milliseconds.
        """
        self._cluster = cluster
        self._feed = feed
        self._manifest = manifest
        self._now_ms = now_ms

    async def execute(self, seen: Observation, action: WorkloadAction) -> None:
        """Execute an action.

        Raises:
            ConflictError: Kueue changed the Workload meanwhile; the next reconcile decides again.
            UnavailableError: a request had no response.
        """
        match action:
            case CreateWorkload():
                await self._create(seen, action)
            case DeleteWorkload():
                await self._delete(seen, action)
            case FinishWorkload():
                await self._finish(seen, action)
            case RequeueWorkload():
                await self._requeue(seen, action)
            case ReportPodsReady():
                ready = self._condition("PodsReady", "Started", "the driver is ready")
                await self._show(seen, action.name, action.uid, ready)

    async def placements(self, seen: Observation) -> Mapping[str, Placement]:
        """Return where Kueue places the pods of each pod set, by its name; empty without a queue.

        Raises:
            ConflictError: the Workload is not admitted any more.
            RefusedError: a flavor cannot be read.
        """
        known = seen.workload
        if known is None or not known.may_run:
            return {}
        raw = await self._read(seen, known.name, known.uid)
        if raw is None or not workload_of(raw).observed.may_run:
            raise ConflictError(409, "Conflict", f"Workload {known.name} is not admitted any more")
        return {name: await self._placement(raw, name, flavors) for name, flavors in flavors_of(raw).items()}

    async def _placement(self, raw: Raw, pod_set: str, flavors: tuple[str, ...]) -> Placement:
        placement = updates_of(raw, pod_set)
        for flavor in flavors:
            try:
                found = await self._cluster.get(FLAVORS, None, flavor)
            except RefusedError as error:
                message = (
                    f"ResourceFlavor {flavor} cannot be read, set the chart's value queues.enabled: {error.message}"
                )
                raise RefusedError(error.status, error.reason, message[:CHARACTERS_MAX]) from error
            if found is None:
                message = f"ResourceFlavor {flavor}, which Kueue assigned to the job, does not exist; create it again"
                raise RefusedError(422, "Invalid", message)
            placement = placement_of_flavor(found).with_more(placement)
        return placement

    async def _create(self, seen: Observation, action: CreateWorkload) -> None:
        key = seen.namespace, seen.name
        try:
            self._feed.put(await self._cluster.create(WORKLOADS, seen.namespace, self._manifest(seen, action)))
        except AlreadyExistsError:
            # Another owner's has perhaps no label of ours, so no list contains it.
            there = await self._cluster.get(WORKLOADS, seen.namespace, base_name(seen.name))
            if there is not None:
                self._feed.put(there)
        except (RefusedError, NotFoundError, UnavailableError) as error:
            # A webhook of Kueue that does not answer is a reason to wait, and the status must show it.
            self._feed.refuse(key, describe_refusal(error)[:CHARACTERS_MAX])
        except ManifestRefusedError as error:
            self._feed.refuse(key, f"the Workload cannot be built from this spec: {error}"[:CHARACTERS_MAX])

    async def _delete(self, seen: Observation, action: DeleteWorkload) -> None:
        try:
            await self._cluster.delete(WORKLOADS, seen.namespace, action.name, uid=action.uid)
        except ConflictError:
            return  # another one has its name, which the watch reports
        self._feed.drop((seen.namespace, action.name))

    async def _finish(self, seen: Observation, action: FinishWorkload) -> None:
        reason = "Succeeded" if action.succeeded else "Failed"
        try:
            await self._show(seen, action.name, action.uid, self._condition("Finished", reason, action.message))
        except RefusedError as error:
            # The end of a job must not wait for rights that were withdrawn; the quota returns with the Backfill.
            self._feed.refuse((seen.namespace, seen.name), describe_refusal(error)[:CHARACTERS_MAX])

    async def _requeue(self, seen: Observation, action: RequeueWorkload) -> None:
        """Return the quota of an evicted Workload, as an integration of Kueue does after the pods of a job are gone."""
        raw = await self._read(seen, action.name, action.uid)
        if raw is None or not workload_of(raw).observed.reserved:
            return
        shown = {
            condition.get("type"): condition for condition in mappings(mapping(raw.get("status")).get("conditions"))
        }
        cause = shown.get("Evicted", {})
        reason, message = str(cause.get("reason") or "Pending"), str(cause.get("message") or "its pods are gone")
        at_once = reason in REQUEUED_AT_ONCE
        conditions: tuple[Raw, ...] = (
            self._condition("Requeued", reason, message, "True" if at_once else "False"),
            self._condition("QuotaReserved", "Pending", message, "False"),
            self._condition("Admitted", "NoReservation", "The workload has no reservation", "False"),
        )
        if "PodsReady" in shown:
            # The next admission begins with this condition, and Kueue may wait until it is true.
            conditions += (self._condition("PodsReady", "WaitForStart", "the driver has stopped", "False"),)
        await self._write(seen, raw, conditions, {"admission": None})

    async def _show(self, seen: Observation, name: str, uid: str, condition: Raw) -> None:
        """Add a condition that is true; one that is true already stays unchanged."""
        raw = await self._read(seen, name, uid)
        shown = mappings(mapping(raw.get("status")).get("conditions")) if raw is not None else ()
        if raw is None or any((old.get("type"), old.get("status")) == (condition["type"], "True") for old in shown):
            return
        await self._write(seen, raw, (condition,), {})

    async def _read(self, seen: Observation, name: str, uid: str) -> Raw | None:
        raw = await self._cluster.get(WORKLOADS, seen.namespace, name)
        if raw is None:
            self._feed.drop((seen.namespace, name))
            return None
        self._feed.put(raw)
        return raw if raw["metadata"]["uid"] == uid else None

    async def _write(self, seen: Observation, raw: Raw, conditions: tuple[Raw, ...], change: Mapping[str, Any]) -> None:
        kept = list(mappings(mapping(raw.get("status")).get("conditions")))
        names = {condition["type"] for condition in conditions}
        status = {"conditions": [*(old for old in kept if old.get("type") not in names), *conditions], **change}
        metadata = raw["metadata"]
        written = await self._cluster.patch(
            WORKLOADS, seen.namespace, metadata["name"], {"status": status},
            resource_version=metadata["resourceVersion"], subresource="status",
        )  # fmt: skip
        self._feed.put(written)

    def _condition(self, type_: str, reason: str, message: str, status: str = "True") -> Raw:
        return {
            "type": type_, "status": status, "reason": reason, "message": message[:CHARACTERS_MAX],
            "lastTransitionTime": rfc3339(self._now_ms()),
        }  # fmt: skip
