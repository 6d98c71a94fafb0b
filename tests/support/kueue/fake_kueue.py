"""A Kueue in memory: it admits, preempts and evicts the Workloads of one rig by the quotas of its ClusterQueues.

It has Kueue's conditions, reasons and messages, and passes the suite of the real one (tests/control_plane/launches/test_queues.py).
It has no cohorts, no admission checks and no topologies, and preempts only within a ClusterQueue.
"""

import asyncio
from dataclasses import dataclass

from support.cluster.fake_store import Refusal, timestamp

from backfill_core.cluster_rules.container_sizes import quantity

WATCHED = ("workloads", "localqueues", "clusterqueues", "resourceflavors")
RESTARTED = {
    "LocalQueueStopped": ("LocalQueueRestarted", "The LocalQueue was restarted after being stopped"),
    "ClusterQueueStopped": ("ClusterQueueRestarted", "The ClusterQueue was restarted after being stopped"),
    "Deactivated": ("Reactivated", "The workload was reactivated"),
}
"""Reasons for which an evicted Workload is held, with the condition that lets it wait again."""


@dataclass(frozen=True)
class Assignment:
    """Flavors and use of each pod set, or the reason why there is no room."""

    pod_sets: tuple = ()
    problem: str = ""


class FakeKueue:
    """The decisions of Kueue, one after each change of a Workload or a queue."""

    def __init__(self, store):
        self.store = store
        self._planned = False
        store.listeners.append(self._changed)

    def _changed(self, plural, _kind, _object):
        if plural in WATCHED and not self._planned:
            self._planned = True
            asyncio.get_running_loop().call_soon(self._decide)

    def _decide(self):
        self._planned = False
        for workload in self._workloads():
            self._reconcile(workload)
        for queue in list(self.store.objects["clusterqueues"].values()):
            self._schedule(queue)

    # ------------------------------------------------------------ one Workload
    def _reconcile(self, workload):
        """Evict a Workload that may not run, and let one wait that may run again."""
        queue = self.store.objects["localqueues"].get(
            (workload["metadata"]["namespace"], workload["spec"]["queueName"])
        )
        stopped = self._stopped(queue)
        held = condition(workload, "Requeued")
        if workload["spec"].get("active") is False:
            self._evict(workload, "Deactivated", "The workload is deactivated")
        elif held.get("status") == "False" and held["reason"] in RESTARTED and held["reason"] not in stopped:
            reason, message = RESTARTED[held["reason"]]
            self._show(workload, Requeued=("True", reason, message))
        elif is_true(workload, "QuotaReserved"):
            for reason, drains in stopped.items():
                if drains:
                    self._evict(workload, reason, f"The {reason.removesuffix('Stopped')} is stopped")
        elif problem := self._inadmissible(workload["spec"]["queueName"], queue, stopped):
            self._show(workload, QuotaReserved=("False", "Inadmissible", problem))

    def _cluster_queue(self, queue):
        return self.store.objects["clusterqueues"].get(("", queue["spec"]["clusterQueue"]))

    def _stopped(self, queue):
        """Return the reasons for which a LocalQueue is stopped, each with whether its Workloads are evicted."""
        of = {"LocalQueueStopped": queue, "ClusterQueueStopped": queue and self._cluster_queue(queue)}
        policies = {
            reason: ((stopped or {}).get("spec") or {}).get("stopPolicy", "None") for reason, stopped in of.items()
        }
        return {reason: policy == "HoldAndDrain" for reason, policy in policies.items() if policy != "None"}

    def _inadmissible(self, name, queue, stopped):
        if queue is None:
            return f"LocalQueue {name} doesn't exist"
        if "LocalQueueStopped" in stopped:
            return f"LocalQueue {name} is inactive"
        if self._cluster_queue(queue) is None:
            return f"ClusterQueue {queue['spec']['clusterQueue']} doesn't exist"
        if "ClusterQueueStopped" in stopped:
            return f"ClusterQueue {queue['spec']['clusterQueue']} is inactive"
        return ""

    # ------------------------------------------------------------ one ClusterQueue
    def _schedule(self, queue):
        """Admit those that wait, the highest priority first; a Workload without room preempts lower priorities."""
        for workload in sorted(filter(lambda each: self._waits_in(queue, each), self._workloads()), key=_order):
            assignment = self._assign(queue, workload, self._users(queue))
            if assignment.pod_sets:
                self._admit(queue, workload, assignment)
                continue
            message = assignment.problem
            if victims := self._victims(queue, workload):
                message += f". Pending the preemption of {len(victims)} workload(s)"
            self._show(workload, QuotaReserved=("False", "Pending", message))
            for victim in victims:
                self._preempt(victim, workload["metadata"])

    def _waits_in(self, queue, workload):
        local = self.store.objects["localqueues"].get(
            (workload["metadata"]["namespace"], workload["spec"]["queueName"])
        )
        at_rest = any(is_true(workload, type_) for type_ in ("QuotaReserved", "Finished"))
        held = condition(workload, "Requeued").get("status") == "False"
        return (
            local is not None and self._cluster_queue(local) is queue and not self._stopped(local)
            and not at_rest and not held and workload["spec"].get("active") is not False
        )  # fmt: skip

    def _users(self, queue):
        name = queue["metadata"]["name"]
        return [
            workload
            for workload in self._workloads()
            if is_true(workload, "QuotaReserved") and workload["status"]["admission"]["clusterQueue"] == name
        ]

    def _victims(self, queue, workload):
        """Return the fewest Workloads of a lower priority whose quota makes room, the lowest first."""
        if (queue["spec"].get("preemption") or {}).get("withinClusterQueue", "Never") == "Never":
            return []
        users = self._users(queue)
        lower = sorted((user for user in users if _priority(user) < _priority(workload)), key=_order, reverse=True)
        for count in range(1, len(lower) + 1):
            if self._assign(queue, workload, [user for user in users if user not in lower[:count]]).pod_sets:
                return lower[:count]
        return []

    def _assign(self, queue, workload, users):
        """Choose for each pod set the first flavor with room."""
        used = {}
        for user in users:
            for pods in user["status"]["admission"]["podSetAssignments"]:
                for resource, flavor in pods["flavors"].items():
                    used[flavor, resource] = used.get((flavor, resource), 0) + amount(pods["resourceUsage"][resource])
        chosen = []
        for pods in workload["spec"]["podSets"]:
            requests, flavors = requested(pods), {}
            for group in queue["spec"]["resourceGroups"]:
                covered = {
                    resource: requests[resource] for resource in group["coveredResources"] if resource in requests
                }
                flavor, problem = _flavor(group, covered, used)
                if problem:
                    return Assignment(problem=f"{_lead(pods)}: {problem}")
                flavors |= dict.fromkeys(covered, flavor)
            for resource, wanted in requests.items():
                if resource not in flavors:
                    return Assignment(problem=f"{_lead(pods)}: resource {resource} unavailable in ClusterQueue")
                used[flavors[resource], resource] = used.get((flavors[resource], resource), 0) + wanted
            usage = {resource: format(wanted, "f") for resource, wanted in requests.items()}
            chosen.append({"name": pods["name"], "flavors": flavors, "resourceUsage": usage, "count": pods["count"]})
        return Assignment(tuple(chosen))

    # ------------------------------------------------------------ writes
    def _admit(self, queue, workload, assignment):
        admission = {"clusterQueue": queue["metadata"]["name"], "podSetAssignments": list(assignment.pod_sets)}
        over = {
            type_: ("False", "QuotaReserved", f"Previously: {condition(workload, type_)['message']}")
            for type_ in ("Evicted", "Preempted")
            if is_true(workload, type_)
        }
        reserved = "True", "QuotaReserved", f"Quota reserved in ClusterQueue {queue['metadata']['name']}"
        admitted = "True", "Admitted", "The workload is admitted"
        self._show(workload, {"admission": admission}, QuotaReserved=reserved, Admitted=admitted, **over)

    def _preempt(self, workload, by):
        job = by["labels"].get("kueue.x-k8s.io/job-uid", "UNKNOWN")
        cause = f"(UID: {by['uid']}, JobUID: {job}) due to prioritization in the ClusterQueue"
        message = f"Preempted to accommodate a workload {cause}"
        self._evict(workload, "Preempted", message, Preempted=("True", "InClusterQueue", message))

    def _evict(self, workload, reason, message, **more):
        """Evict a Workload; its quota stays reserved until the owner of its pods has returned it."""
        if not is_true(workload, "Evicted"):
            self._show(workload, Evicted=("True", reason, message), **more)

    def _show(self, workload, change=None, **conditions):
        """Set conditions by type: status, reason, message."""
        shown = (workload.get("status") or {}).get("conditions") or []
        new = [
            {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": timestamp()}
            for type_, (status, reason, message) in conditions.items()
            if _differs(condition(workload, type_), status, reason, message)
        ]
        if not new and change is None:
            return
        types = {each["type"] for each in new}
        status = (change or {}) | {"conditions": [old for old in shown if old["type"] not in types] + new}
        metadata = workload["metadata"]
        body = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": status}
        try:
            self.store.patch("workloads", metadata["namespace"], metadata["name"], body, subresource="status")
        except Refusal:
            return  # changed meanwhile: the change is the next reason to decide

    def _workloads(self):
        """Return the Workloads that have not finished, as they are now."""
        return [each for each in list(self.store.objects["workloads"].values()) if not is_true(each, "Finished")]


def condition(workload, type_):
    """Return a condition; empty if it is not shown."""
    shown = (workload.get("status") or {}).get("conditions") or []
    return next((each for each in shown if each["type"] == type_), {})


def is_true(workload, type_):
    """Return whether a condition is true."""
    return condition(workload, type_).get("status") == "True"


def requested(pods):
    """Return the requests of all pods of a pod set, by resource."""
    total = {}
    for container in pods["template"]["spec"]["containers"]:
        for resource, text in ((container.get("resources") or {}).get("requests") or {}).items():
            total[resource] = total.get(resource, 0) + amount(text) * pods["count"]
    return total


def _flavor(group, covered, used):
    """Return the first flavor of a resource group with room, or else the problem of the last one."""
    problem = ""
    for flavor in group["flavors"]:
        quota = {resource["name"]: amount(resource["nominalQuota"]) for resource in flavor["resources"]}
        missing = {
            resource: covered[resource] + used.get((flavor["name"], resource), 0) - quota[resource]
            for resource in covered
        }
        problem = next(
            (
                f"insufficient unused quota for {resource} in flavor {flavor['name']}, {more.normalize():f} more needed"
                for resource, more in missing.items()
                if more > 0
            ),
            "",
        )
        if not problem:
            return flavor["name"], ""
    return None, problem


def amount(text):
    """Return a quantity."""
    return quantity(text, "requests")


def _differs(old, status, reason, message):
    return (old.get("status"), old.get("reason"), old.get("message")) != (status, reason, message)


def _priority(workload):
    return workload["spec"].get("priority") or 0


def _order(workload):
    return -_priority(workload), workload["metadata"]["creationTimestamp"], workload["metadata"]["resourceVersion"]


def _lead(pods):
    return f"couldn't assign flavors to pod set {pods['name']}"
