"""Refuses a target that would be deleted with the pod that fills it, so that `Complete` always means a table exists."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any, Final

from backfill_api.spec.locations import place
from backfill_api.spec.params import OffsetSourceParams
from backfill_operator.manifests.attempt import Launch, ManifestRefusedError
from backfill_operator.manifests.names import SCRATCH_DIR, TEMPORARY_DIR
from backfill_operator.manifests.rules.shapes import entries, mapping

OWN: Final = (SCRATCH_DIR, TEMPORARY_DIR, "/dev")
"""Folders in which every pod may write: its scratch volumes, and each container's shared memory."""

FLEETING: Final = frozenset({"configMap", "downwardAPI", "emptyDir", "ephemeral", "image", "projected", "secret"})
"""Types of volumes that are deleted with their pod."""


def check_lasting(launch: Launch, template: Mapping[str, Any], container: str) -> None:
    """Refuse a target in a folder that is deleted with the pod; other folders cannot be checked here.

    Args:
        launch: The attempt.
        template: The pod template; its fields are checked already.
        container: Name of our container in it.

    Raises:
        ManifestRefusedError: with the path of the field: of the target, or of the table of bad records.
    """
    target, source = launch.spec.target, launch.spec.source
    paths = {f"spec.target.{target.member}.{field}": text for field, text in target.params.paths.items()}
    if isinstance(source.params, OffsetSourceParams) and source.params.quarantine_path is not None:
        paths[f"spec.source.{source.member}.quarantinePath"] = source.params.quarantine_path
    for field, text in paths.items():
        if place(text).is_local and "spark.hadoop.fs.defaultFS" not in launch.spec.spark.conf:
            _check_path(field, place(text).path, template, container)


def _check_path(field: str, path: str, template: Mapping[str, Any], container: str) -> None:
    if path.startswith("~"):
        path = f"{SCRATCH_DIR}/{path}"
    path = posixpath.normpath(path)
    where = max((one for one in _mounts(template, container) if _covers(one, path)), key=len, default="")
    if any(_covers(one, path) for one in OWN) or _mounts(template, container).get(where, "") in FLEETING:
        raise ManifestRefusedError(
            field,
            f"{path[:200]} is in a folder that goes with its pod",
            hint="use an object store, or a claim that driver.template and executor.template mount",
        )


def _mounts(template: Mapping[str, Any], container: str) -> dict[str, str]:
    """Return the type of volume at each mount path of our container."""
    spec = mapping(template, "spec", "template")
    types = {
        one["name"]: next((kind for kind in one if kind != "name" and one[kind] is not None), "emptyDir")
        for one in entries(spec, "volumes", "template")
    }
    return {
        posixpath.normpath(mount["mountPath"]): types.get(mount["name"], "")
        for one in entries(spec, "containers", "template")
        if one["name"] == container
        for mount in entries(one, "volumeMounts", "template")
    }


def _covers(folder: str, path: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
