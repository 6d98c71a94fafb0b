"""The objects that an administrator of Kueue makes, and the Workload that the operator makes; any Kueue reads them."""

import contextlib

from support.cluster.fake_store import Refusal


class Queues:
    """The queues of one rig's namespace. Names of objects of the whole cluster end with the namespace."""

    def __init__(self, rig):
        self.rig = rig
        self.store = rig.store
        self._of_the_cluster = []

    def full(self, name):
        """Return the name in the cluster."""
        return f"{name}-{self.rig.namespace}"

    def flavor(self, name="default", **spec):
        """Create a ResourceFlavor."""
        self._create("resourceflavors", "", self.full(name), spec)

    def cluster_queue(self, name="data", *, flavor="default", cpu="1", **spec):
        """Create a ClusterQueue with a quota of one flavor, in which a higher priority preempts."""
        quota = [{"name": "cpu", "nominalQuota": cpu}, {"name": "memory", "nominalQuota": "64Gi"}]
        group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": self.full(flavor), "resources": quota}]}
        spec = {
            "namespaceSelector": {}, "preemption": {"withinClusterQueue": "LowerPriority"}, "resourceGroups": [group],
        } | spec  # fmt: skip
        self._create("clusterqueues", "", self.full(name), spec)

    def local_queue(self, name="team", *, cluster_queue="data"):
        """Create a LocalQueue."""
        self._create("localqueues", self.rig.namespace, name, {"clusterQueue": self.full(cluster_queue)})

    def all(self, **quota):
        """Create a flavor, a ClusterQueue and the LocalQueue `team`."""
        self.flavor()
        self.cluster_queue(**quota)
        self.local_queue()

    def apply(self, documents):
        """Create the objects of a file in this namespace; those of the cluster get its suffix."""
        for document in documents:
            plural, spec, name = f"{document['kind'].lower()}s", document["spec"], document["metadata"]["name"]
            namespace = self.rig.namespace if plural == "localqueues" else ""
            if "clusterQueue" in spec:
                spec["clusterQueue"] = self.full(spec["clusterQueue"])
            for flavor in (flavor for group in spec.get("resourceGroups", []) for flavor in group["flavors"]):
                flavor["name"] = self.full(flavor["name"])
            self._create(plural, namespace, name if namespace else self.full(name), spec)

    def _create(self, plural, namespace, name, spec):
        self.store.create(plural, namespace, {"metadata": {"name": name}, "spec": spec})
        if not namespace:
            self._of_the_cluster.append((plural, name))

    def stop(self, policy, name="team"):
        """Set the stop policy of a LocalQueue: None, Hold, or HoldAndDrain."""
        self.store.patch("localqueues", self.rig.namespace, name, {"spec": {"stopPolicy": policy}})

    def activate(self, active, name="orders"):
        """Activate or deactivate a Workload, as a user does."""
        self.store.patch("workloads", self.rig.namespace, name, {"spec": {"active": active}})

    def delete_workload(self, name="orders"):
        """Delete a Workload, as a user does."""
        self.store.delete("workloads", self.rig.namespace, name)

    def close(self):
        """Delete the objects of the cluster, which outlive the namespace."""
        for plural, name in reversed(self._of_the_cluster):
            with contextlib.suppress(Refusal):
                self.store.delete(plural, "", name)

    def workload(self, name="orders"):
        """Return a Workload; `None` if it does not exist."""
        return self.store.objects["workloads"].get((self.rig.namespace, name))

    def conditions(self, name="orders"):
        """Return the conditions of a Workload as (status, reason), by type."""
        return {each["type"]: (each["status"], each["reason"]) for each in self._shown(name)}

    def message(self, type_, name="orders"):
        """Return the message of a condition of a Workload."""
        return next(each["message"] for each in self._shown(name) if each["type"] == type_)

    def _shown(self, name):
        return ((self.workload(name) or {}).get("status") or {}).get("conditions", [])

    def is_true(self, type_, name="orders"):
        """Return whether a condition of a Workload is true."""
        return self.conditions(name).get(type_, ("",))[0] == "True"
