"""A Kueue that does what a test says: it admits and evicts Workloads, and leaves everything else to the operator.

The conditions, reasons and messages are those of Kueue 0.17. Both stores of `support.cluster` have the methods that it uses.
"""

from pathlib import Path

from support.operators.rig import Rig

from backfill_api.timestamps import rfc3339
from backfill_operator.kube.server_clock import wall_ms

CRDS = Path(__file__).parent / "crds.yaml"


class ScriptedKueue:
    """Writes the status of the Workloads in a rig's namespace."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.store = rig.store

    def workload(self, name="orders"):
        """Return a Workload; `None` if it does not exist."""
        return self.store.objects["workloads"].get((self.rig.namespace, name))

    def condition(self, type_, name="orders"):
        """Return the status of a condition; `None` if it is not shown."""
        shown = ((self.workload(name) or {}).get("status") or {}).get("conditions", [])
        return next((condition["status"] for condition in shown if condition["type"] == type_), None)

    def holds_quota(self, name="orders"):
        return self.condition("QuotaReserved", name) == "True"

    def flavor(self, name, **spec):
        """Create a ResourceFlavor."""
        self.store.create("resourceflavors", "", {"metadata": {"name": name}, "spec": spec})

    def admit(self, name="orders", flavor="default"):
        """Reserve quota of a flavor for all pods, and admit the Workload."""
        assignments = [
            {"name": pods["name"], "flavors": {"cpu": flavor, "memory": flavor}, "count": pods["count"]}
            for pods in self.workload(name)["spec"]["podSets"]
        ]
        admission = {"clusterQueue": "all", "podSetAssignments": assignments}
        self._show(
            name, {"admission": admission}, QuotaReserved="QuotaReserved", Admitted="Admitted", Evicted="!QuotaReserved"
        )

    def refuse(self, message, name="orders", reason="Pending"):
        """Leave a Workload in its queue, with the reason."""
        self._show(name, {}, message=message, QuotaReserved=f"!{reason}")

    def evict(self, name="orders", message="Preempted to accommodate a workload"):
        """Evict a Workload; its quota stays reserved until the job has returned it."""
        self._show(name, {}, message=message, Evicted="Preempted")

    def _show(self, name, change, *, message="", **reasons):
        """Set conditions by type: a reason is True, one with `!` before it is False."""
        shown = ((self.workload(name).get("status") or {}).get("conditions")) or []
        kept = [condition for condition in shown if condition["type"] not in reasons]
        conditions = [
            {
                "type": type_, "status": "False" if reason.startswith("!") else "True", "reason": reason.removeprefix("!"),
                "message": message, "lastTransitionTime": rfc3339(wall_ms()),
            }
            for type_, reason in reasons.items()
        ]  # fmt: skip
        change = {"status": change | {"conditions": kept + conditions}}
        self.store.patch("workloads", self.rig.namespace, name, change, subresource="status")
