"""The rules by which kubectl, Flux and other tools compute the health of a custom resource (sigs.k8s.io/cli-utils kstatus).

Ported rule by rule: generic checks first (deletion, generation, Reconciling, Stalled), then Ready, else Current.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def kstatus(resource: Mapping[str, Any]) -> str:
    """Return Terminating, InProgress, Failed or Current for an object of the API server."""
    metadata, status = resource.get("metadata", {}), resource.get("status", {})
    if metadata.get("deletionTimestamp"):
        return "Terminating"
    observed = status.get("observedGeneration")
    if observed is not None and observed != metadata.get("generation"):
        return "InProgress"
    conditions = status.get("conditions", [])
    for condition in conditions:
        if condition["type"] == "Reconciling" and condition["status"] == "True":
            return "InProgress"
        if condition["type"] == "Stalled" and condition["status"] == "True":
            return "Failed"
    for condition in conditions:
        if condition["type"] == "Ready":
            return "Current" if condition["status"] == "True" else "InProgress"
    return "Current"


def broken_rules(resource: Mapping[str, Any]) -> list[str]:
    """Return violations of kstatus and states on which two tools would disagree; an empty list if there are none."""
    conditions = resource.get("status", {}).get("conditions", [])
    by_type = {condition["type"]: condition["status"] for condition in conditions}
    broken = []
    if len(by_type) != len(conditions):
        broken.append("a condition type stands twice")
    if "Ready" not in by_type:
        broken.append("Ready is missing, so the object looks current")
    if by_type.get("Reconciling") == "True" and by_type.get("Stalled") == "True":
        broken.append("Reconciling and Stalled at once")
    broken += [
        f"{name} is present and not True" for name in ("Reconciling", "Stalled") if by_type.get(name, "True") != "True"
    ]
    if by_type.get("Ready") == "True" and ("Reconciling" in by_type or "Stalled" in by_type):
        broken.append("Ready although something is in flight or in the way")
    if ("Finished" in by_type) != ("Complete" in by_type or "Failed" in by_type):
        broken.append("Finished is not the same as Complete or Failed")
    if "Complete" in by_type and "Failed" in by_type:
        broken.append("Complete and Failed at once")
    return broken
