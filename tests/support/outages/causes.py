"""Failures with a cause outside the job, as a kubelet, a scheduler and an API server write them.

The statuses of pods have the fields, reasons and messages of Kubernetes' documentation (pod lifecycle, disruptions, node
shutdown, node-pressure eviction) and of recorded objects. `pod_of` parses them, as in the operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from backfill_api.status.ending import Ending
from backfill_api.timestamps import rfc3339

Raw = dict[str, Any]

START = "2026-11-26T10:00:00Z"
IMAGE = "registry.example/backfill:1"
REGISTRY = 'failed to pull and unpack image "registry.example/backfill:1": failed to resolve reference "registry.example/backfill:1": '
PROXY = {"name": "istio-proxy", "image": "istio/proxyv2", "restartCount": 0}


# ------------------------------------------------------------------ statuses of pods
def condition(type_: str, status: str, reason: str = "", message: str = "", at: str = START) -> Raw:
    """Return a condition of a pod."""
    made = {"type": type_, "status": status, "lastTransitionTime": at, "reason": reason, "message": message}
    return {name: value for name, value in made.items() if value}


def container(state: Raw, **fields: Any) -> Raw:
    """Return the status of the driver's container."""
    return {
        "name": "driver",
        "image": IMAGE,
        "restartCount": 0,
        "ready": False,
        "started": False,
        "state": state,
    } | fields


def waits(reason: str, message: str = "") -> Raw:
    """Return the state of a container that waits."""
    return {"waiting": {"reason": reason} | ({"message": message} if message else {})}


def status(phase: str, *containers: Raw, scheduled_ms: int | None = None, **fields: Any) -> Raw:
    """Return the status of a pod that has had a node since `scheduled_ms`."""
    conditions = fields.pop("conditions", [])
    if scheduled_ms is not None:
        conditions = [condition("PodScheduled", "True", at=rfc3339(scheduled_ms)), *conditions]
    return {
        "phase": phase,
        "conditions": conditions,
        "containerStatuses": list(containers),
        "qosClass": "Burstable",
    } | fields


def disrupted(reason: str, message: str) -> list[Raw]:
    """Return the condition of a pod that its cluster is about to end."""
    return [condition("DisruptionTarget", "True", reason, message)]


def over(code: int, why: str, *, termination_message: str = "", ending: Ending | None = None, **fields: Any) -> Raw:
    """Return the status of a pod whose driver ended; `fields` are those of the status."""
    text = termination_message if ending is None else ending.text()
    ended = {"exitCode": code, "reason": why, "startedAt": START, "finishedAt": START} | (
        {"message": text} if text else {}
    )
    return status("Succeeded" if code == 0 else "Failed", container({"terminated": ended}), **fields)


RUNNING = container({"running": {"startedAt": START}}, ready=True, started=True)
STOPPED = Ending(outcome="Stopped", reason="Stopped", message="stopped at a barrier; run it again to resume")


def failed(reason: str, message: str) -> Ending:
    """Return the ending of a driver whose error has a cause outside the job."""
    return Ending(outcome="Failed", reason=reason, message=message, outside=True)


STORE_AWAY = failed(
    "Transient", "the commit failed: SdkClientException: Unable to execute HTTP request: Connection refused."
)
JAVA_HUNG = failed("JavaDied", "the Java process of Spark did not answer for 60 s, so the driver ended it.")
COMMIT_HUNG = failed("CommitStalled", "no barrier passed for 120 s, so the driver ended its Java.")


# ------------------------------------------------------------------ answers
def said(reason: str, message: str) -> Raw:
    """Return an answer of an API server."""
    return {"kind": "Status", "status": "Failure", "reason": reason, "message": message}


def page(title: str) -> Raw:
    """Return a proxy's answer, as the client reads one that is not JSON."""
    return {"message": f"<html><h1>{title}</h1></html>"}


# ------------------------------------------------------------------ outages
@dataclass(frozen=True)
class Outage:
    """One failure: its symptoms, and its expected effect on the status of a Backfill."""

    says: str
    """A string that the status contains while the outage lasts."""

    taken: Raw | None = None
    """Status of the driver's pod that it ends; `None` if the driver continues or is removed."""

    removed: bool = False
    """True if it also deletes the pod from the API server, without a last status."""

    new: Raw | None = None
    """Status of a pod that is made while it lasts; `None` for the normal one."""

    ends_in_s: int = 0
    """Seconds that a driver lives if it starts meanwhile; 0 if it is not ended."""

    refused: tuple[int, Raw] | None = None
    """Status and body of the answer to a launch meanwhile; status 0 for no answer."""

    before: bool = True
    """True if a driver runs when it begins; else the job is new."""

    spec: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the pod that a webhook or the template adds."""

    warns: tuple[str, str] | None = None
    """Code and message of the warning of a driver that answers."""


OUTAGES: dict[str, Outage] = {
    # -- the node goes: spot, shutdown, preemption, drain, pressure, reboot, rejection
    "spot: the node shuts down in time": Outage(
        "Pod was terminated in response to imminent node shutdown",
        over(143, "Error", reason="Terminated", message="Pod was terminated in response to imminent node shutdown.",
             conditions=disrupted("TerminationByKubelet", "Pod was terminated in response to imminent node shutdown.")),
    ),
    "spot: the node is gone at once": Outage(
        "node no longer exists",
        status("Failed", RUNNING, conditions=disrupted("DeletionByPodGC", "PodGC: node no longer exists")),
    ),
    "spot: the pod is gone with it": Outage("is gone: it was deleted, or its node was lost", removed=True),
    "spot: no driver lives for a minute": Outage(
        "node no longer exists",
        status("Failed", RUNNING, conditions=disrupted("DeletionByPodGC", "PodGC: node no longer exists")),
        ends_in_s=30,
    ),
    "the node restarts": Outage(
        "Unknown", over(255, "Unknown"),
    ),
    "the node forgets its containers": Outage(
        "could not be located",
        over(137, "ContainerStatusUnknown", termination_message="The container could not be located when the pod was terminated"),
    ),
    "preempted": Outage(
        "preempting to accommodate a higher priority pod",
        over(143, "Error", conditions=disrupted("PreemptionByScheduler", "default-scheduler: preempting to accommodate a higher priority pod")),
    ),
    "drained, and stopped at a barrier": Outage(
        "stopped at a barrier",
        over(10, "Error", ending=STOPPED, conditions=disrupted("EvictionByEvictionAPI", "Eviction API: evicting")),
    ),
    "drained, and killed after its grace": Outage(
        "Eviction API: evicting",
        over(137, "Error", conditions=disrupted("EvictionByEvictionAPI", "Eviction API: evicting")),
    ),
    "evicted by a node under pressure": Outage(
        "The node was low on resource: memory",
        over(137, "Error", reason="Evicted", message="The node was low on resource: memory. Container driver was using 900Mi.",
             conditions=disrupted("TerminationByKubelet", "The node was low on resource: memory.")),
    ),
    "a full node rejects it": Outage(
        "OutOfcpu",
        over(143, "Error", reason="Terminated"),
        new=status("Failed", reason="OutOfcpu", message="Pod was rejected: Node didn't have enough resource: cpu, requested: 1000"),
    ),
    # -- no node takes it
    "unschedulable": Outage(
        "0/3 nodes are available",
        over(143, "Error", reason="Terminated"),
        new=status("Pending", conditions=[condition("PodScheduled", "False", "Unschedulable", "0/3 nodes are available: 3 Insufficient cpu.")]),
    ),
    "gated": Outage(
        "non-empty scheduling gates", before=False,
        new=status("Pending", conditions=[condition("PodScheduled", "False", "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates")]),
    ),
    "no scheduler looks": Outage("no scheduler has looked at the pod", before=False, new=status("Pending")),
    # -- the registry is unavailable
    **{
        f"registry: {name}": Outage(
            text, over(143, "Error", reason="Terminated"),
            new=status("Pending", container(waits("ImagePullBackOff", f'Back-off pulling image "{IMAGE}": ErrImagePull: {REGISTRY}{text}'))),
        )
        for name, text in {
            "no route": 'failed to do request: Head "https://registry.example/v2/": dial tcp 203.0.113.7:443: connect: no route to host',
            "time-out": 'failed to do request: Head "https://registry.example/v2/": dial tcp 203.0.113.7:443: i/o timeout',
            "no name": 'failed to do request: Head "https://registry.example/v2/": dial tcp: lookup registry.example on 10.96.0.10:53: no such host',
            "503": "unexpected status from HEAD request to https://registry.example/v2/: 503 Service Unavailable",
            "429": "unexpected status from HEAD request to https://registry.example/v2/: 429 Too Many Requests",
        }.items()
    },
    "registry: back-off alone": Outage(
        "ImagePullBackOff", before=False,
        new=status("Pending", container(waits("ImagePullBackOff", f'Back-off pulling image "{IMAGE}"'))),
    ),
    # -- the API server, or a proxy in front of it
    **{
        f"launch: {name}": Outage(says, over(143, "Error", reason="Terminated"), refused=answer)
        for name, (says, answer) in {
            "a full quota": ("exceeded quota", (403, said("Forbidden", 'pods "orders-2-driver" is forbidden: exceeded quota: pods, requested: pods=1, used: pods=9'))),
            "no answer": ("Cannot connect", (0, said("NoAnswer", "POST pods: ClientConnectorError: Cannot connect to host 10.96.0.1:443"))),
            "too slow": ("TimeoutError", (0, said("NoAnswer", "POST pods: TimeoutError: "))),
            "overloaded": ("too many requests", (429, said("TooManyRequests", "too many requests, please try again later"))),
            "a webhook that does not answer": ("failed calling webhook", (500, said("InternalError", 'Internal error occurred: failed calling webhook "v.example": context deadline exceeded'))),
            "etcd without a leader": ("etcdserver: no leader", (500, said("InternalError", "etcdserver: no leader"))),
            "a page of a load balancer": ("503 Service Unavailable", (503, page("503 Service Unavailable"))),
            "a gateway's 502": ("502 Bad Gateway", (502, page("502 Bad Gateway"))),
            "a load balancer's 403": ("403 from a proxy before the API server", (403, page("Access denied"))),
            "a default backend": ("404 from a proxy before the API server", (404, {"message": "default backend - 404"})),
        }.items()
    },
    # -- another container of the pod
    "a sidecar that has ended": Outage(
        "container shipper is not ready",
        new=status("Running", RUNNING, RUNNING | {"name": "shipper", "ready": False, "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}),
        before=False,
    ),
    "a sidecar that is never ready": Outage(
        "container istio-proxy is not ready", before=False,
        new=status("Running", RUNNING, RUNNING | PROXY | {"ready": False},
                   conditions=[condition("Ready", "False", "ContainersNotReady", "containers with unready status: [istio-proxy]")]),
    ),
    "a native sidecar that does not start": Outage(
        "istio-proxy", over(143, "Error", reason="Terminated"),
        new=status("Pending", container(waits("PodInitializing")),
                   conditions=[condition("Initialized", "False", "ContainersNotInitialized", "containers with incomplete status: [istio-proxy]")],
                   initContainerStatuses=[RUNNING | PROXY | {"ready": False, "started": False}]),
        spec={"initContainers": [{"name": "istio-proxy", "restartPolicy": "Always"}]},
    ),
    "a native sidecar that crashes": Outage(
        "back-off 5m0s restarting failed container=istio-proxy", over(143, "Error", reason="Terminated"),
        new=status("Pending", container(waits("PodInitializing")),
                   initContainerStatuses=[PROXY | {"ready": False, "started": False, "state": waits("CrashLoopBackOff", "back-off 5m0s restarting failed container=istio-proxy pod=orders-2-driver")}]),
        spec={"initContainers": [{"name": "istio-proxy", "restartPolicy": "Always"}]},
    ),
    # -- the environment of the driver
    "the store is away": Outage("Connection refused", over(61, "Error", ending=STORE_AWAY), ends_in_s=40),
    "the store is away from the start": Outage("Connection refused", over(61, "Error", ending=STORE_AWAY), ends_in_s=5, before=False),
    "the JVM hangs": Outage("did not answer for 60 s", over(64, "Error", ending=JAVA_HUNG), ends_in_s=75),
    "commits hang": Outage("no barrier passed for 120 s", over(65, "Error", ending=COMMIT_HUNG), ends_in_s=135),
    "the JVM hangs, and its driver does nothing": Outage("nothing is read or committed", warns=("JavaSilent", "nothing is read or committed")),
    "commits hang, and their driver does nothing": Outage("nothing is committed", warns=("CommitStalled", "nothing is committed")),
}  # fmt: skip
"""Outages by name."""
