"""The Service whose name executors use to reach the driver."""

from __future__ import annotations

from typing import Any

from backfill_api.names import ROLE_LABEL
from backfill_operator.manifests.attempt import Launch
from backfill_operator.manifests.names import BLOCK_MANAGER_PORT, CONTROL_PORT, DRIVER_PORT, UI_PORT, identity, metadata
from backfill_operator.manifests.spark_pages import has_ui


def service(launch: Launch) -> dict[str, Any]:
    """Return the headless Service; it resolves before the driver is ready, because the driver needs executors for that."""
    ports = {"driver": DRIVER_PORT, "blockmanager": BLOCK_MANAGER_PORT, "control": CONTROL_PORT}
    if has_ui(launch):
        ports["spark-ui"] = UI_PORT
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(launch),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {**identity(launch), ROLE_LABEL: "driver"},
            "ports": [
                {"name": name, "port": port, "targetPort": port, "protocol": "TCP"} for name, port in ports.items()
            ],
        },
    }
