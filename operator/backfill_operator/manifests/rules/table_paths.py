"""Refuses a path that no pod can resolve, and a target that would be deleted with the pod that writes it.

So every started attempt can reach its tables, and `Complete` always means that the target exists.
"""

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


def check_absolute(launch: Launch) -> None:
    """Refuse a path that is relative or begins with `~`: unlike the command line, a pod has no such folder and no home.

    Raises:
        ManifestRefusedError: with the path of the field.
    """
    source = launch.spec.source
    read = {f"spec.source.{source.member}.{field}": text for field, text in source.params.paths.items()}
    for field, text in (read | _written(launch)).items():
        if not place(text).is_absolute:
            raise ManifestRefusedError(
                field,
                f"{text[:200]} is relative, and a pod has no folder that it could be relative to",
                hint="use an object store, or the whole path of a folder that driver.template and executor.template mount",
            )


def check_lasting(launch: Launch, template: Mapping[str, Any], container: str) -> None:
    """Refuse a target in a folder that is deleted with the pod; other folders cannot be checked here.

    Args:
        launch: The attempt.
        template: The pod template; its fields are checked already.
        container: Name of our container in it.

    Raises:
        ManifestRefusedError: with the path of the field, of the target or of the table of bad records.
    """
    for field, text in _written(launch).items():
        if place(text).is_local and "spark.hadoop.fs.defaultFS" not in launch.spec.spark.conf:
            _check_path(field, place(text).path, template, container)


def _written(launch: Launch) -> dict[str, str]:
    """Return the path of each table that the attempt writes, by its field."""
    target, source = launch.spec.target, launch.spec.source
    paths = {f"spec.target.{target.member}.{field}": text for field, text in target.params.paths.items()}
    if isinstance(source.params, OffsetSourceParams) and source.params.quarantine_path is not None:
        paths[f"spec.source.{source.member}.quarantinePath"] = source.params.quarantine_path
    return paths


def _check_path(field: str, path: str, template: Mapping[str, Any], container: str) -> None:
    path = posixpath.normpath(path)
    where = max((mount for mount in _mounts(template, container) if _covers(mount, path)), key=len, default="")
    if any(_covers(folder, path) for folder in OWN) or _mounts(template, container).get(where, "") in FLEETING:
        raise ManifestRefusedError(
            field,
            f"{path[:200]} is in a folder that is deleted with its pod",
            hint="use an object store, or a claim that driver.template and executor.template mount",
        )


def _mounts(template: Mapping[str, Any], container: str) -> dict[str, str]:
    """Return the type of volume at each mount path of our container."""
    spec = mapping(template, "spec", "template")
    types = {
        volume["name"]: next((kind for kind in volume if kind != "name" and volume[kind] is not None), "emptyDir")
        for volume in entries(spec, "volumes", "template")
    }
    return {
        posixpath.normpath(mount["mountPath"]): types.get(mount["name"], "")
        for entry in entries(spec, "containers", "template")
        if entry["name"] == container
        for mount in entries(entry, "volumeMounts", "template")
    }


def _covers(folder: str, path: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
