"""A Backfill on a cluster, as a task of a workflow: apply it, and wait until it is complete."""

from typing import Any

from kubernetes.client import ApiClient
from kubernetes.dynamic import DynamicClient


class BackfillFailedError(Exception):
    """The job failed, or a person is needed; the message is that of its status."""


def apply(client: ApiClient, backfill: dict[str, Any]) -> str:
    """Create or update a Backfill, and return its name. A complete one with the same spec stays complete."""
    kind = DynamicClient(client).resources.get(api_version=backfill["apiVersion"], kind=backfill["kind"])
    kind.server_side_apply(body=backfill, field_manager="workflow", force_conflicts=True)
    return str(backfill["metadata"]["name"])


def is_complete(backfill: dict[str, Any]) -> bool:
    """Return whether a Backfill, as the API server returns it, has copied all rows of its current spec.

    Raises:
        BackfillFailedError: it will not be complete unless a person acts.
    """
    status = backfill.get("status") or {}
    if status.get("observedGeneration") != backfill["metadata"]["generation"]:
        return False
    conditions = {each["type"]: each for each in status.get("conditions", []) if each["status"] == "True"}
    if stalled := conditions.get("Stalled"):
        raise BackfillFailedError(f"{stalled['reason']}: {stalled.get('message', '')}")
    return "Complete" in conditions
