"""An executor pod as Spark would create it, for a dry run on the API server before the driver starts."""

from __future__ import annotations

from typing import Any

from backfill_operator.manifests.attempt import Launch
from backfill_operator.manifests.driver_pod import executor_template
from backfill_operator.manifests.names import executor_prefix


def tried_executor(launch: Launch) -> dict[str, Any] | None:
    """Return an executor's pod; `None` if the driver works without executors.

    Spark counts its executors from 1, so none of them has this name.

    Raises:
        ManifestRefusedError: the spec's template or resources cannot be used.
    """
    if launch.local:
        return None
    pod = executor_template(launch)
    pod["metadata"] |= {"name": f"{executor_prefix(launch)}-exec-0", "namespace": launch.namespace}
    return pod
