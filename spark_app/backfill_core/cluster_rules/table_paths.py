"""Refuses a path that no pod can resolve, and a target that would be deleted with the pod that writes it.

So every started attempt can reach its tables, and `Complete` always means that the target exists.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any, Final

from backfill_api.crd.explain import shown
from backfill_api.spec.locations import place
from backfill_api.spec.params import OffsetSourceParams
from backfill_api.spec.spec import BackfillSpec
from backfill_core.cluster_rules.finding import Finding
from backfill_core.cluster_rules.shapes import entries, mapping

SCRATCH_DIR: Final = "/var/lib/backfill"
TEMPORARY_DIR: Final = "/tmp"  # noqa: S108 - an emptyDir of the pod

OWN: Final = (SCRATCH_DIR, TEMPORARY_DIR, "/dev")
"""Folders in which every pod may write: its scratch volumes, and each container's shared memory."""

FLEETING: Final = frozenset({"configMap", "downwardAPI", "emptyDir", "ephemeral", "image", "projected", "secret"})
"""Types of volumes that are deleted with their pod."""


def relative_paths(spec: BackfillSpec) -> Iterator[Finding]:
    """Yield each path that is relative or begins with `~`: unlike the command line, a pod has no such folder and no home."""
    source = spec.source
    read = {f"spec.source.{source.member}.{field}": path for field, path in source.params.paths.items()}
    for field, path in (read | _written(spec)).items():
        if not place(path).is_absolute:
            yield Finding(
                field,
                "is relative, and a pod has no folder that it could be relative to",
                "use an object store, or the whole path of a folder that driver.template and executor.template mount",
                shown(path),
            )


def fleeting_paths(spec: BackfillSpec, template: Mapping[str, Any], path: str, container: str) -> Iterator[Finding]:
    """Yield each written table or log in a folder that is deleted with the pod; other folders cannot be checked here.

    Args:
        spec: The spec; the fields are those of the target and of the table of bad records.
        template: The pod template.
        path: Path of the template's field.
        container: Name of our container in it.
    """
    for field, folder in _written(spec).items():
        if place(folder).is_local and "spark.hadoop.fs.defaultFS" not in spec.spark.conf:
            where = posixpath.normpath(place(folder).path)
            if _is_fleeting(where, _mounts(template, path, container)):
                yield Finding(
                    field,
                    "is in a folder that is deleted with its pod",
                    "use an object store, or a claim that driver.template and executor.template mount",
                    shown(folder),
                )


def _written(spec: BackfillSpec) -> dict[str, str]:
    """Return the path of each table that the job writes, and of its event log, by its field."""
    target, source = spec.target, spec.source
    paths = {f"spec.target.{target.member}.{field}": path for field, path in target.params.paths.items()}
    if isinstance(source.params, OffsetSourceParams) and source.params.quarantine_path is not None:
        paths[f"spec.source.{source.member}.quarantinePath"] = source.params.quarantine_path
    if spec.spark.event_log is not None:
        paths["spec.spark.eventLog.path"] = spec.spark.event_log.path
    return paths


def _is_fleeting(path: str, mounts: Mapping[str, str]) -> bool:
    where = max((mount for mount in mounts if _covers(mount, path)), key=len, default="")
    return any(_covers(folder, path) for folder in OWN) or mounts.get(where, "") in FLEETING


def _mounts(template: Mapping[str, Any], path: str, container: str) -> dict[str, str]:
    """Return the type of volume at each mount path of our container; entries without a name or a path are left out."""
    spec, at = mapping(template, "spec", path), f"{path}.spec"
    types = {
        str(volume.get("name")): next(
            (kind for kind in volume if kind != "name" and volume[kind] is not None), "emptyDir"
        )
        for volume in entries(spec, "volumes", at)
    }
    return {
        posixpath.normpath(mount["mountPath"]): types.get(str(mount.get("name")), "")
        for number, entry in enumerate(entries(spec, "containers", at))
        if entry.get("name") == container
        for mount in entries(entry, "volumeMounts", f"{at}.containers[{number}]")
        if isinstance(mount.get("mountPath"), str)
    }


def _covers(folder: str, path: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
