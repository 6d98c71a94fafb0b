"""The administrator's defaults for the pods of jobs: what they may contain, and what of them no job may change.

A job may add to the defaults and replace most of them, within the limits of `pod_rules`. Volumes and their mounts stay as
the administrator wrote them: a job could otherwise hide a certificate from itself and others.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any, Final

from backfill_api.crd.explain import shown
from backfill_core.cluster_rules.finding import Finding
from backfill_core.cluster_rules.limits import OPTIONAL_POD_FIELDS, named
from backfill_core.cluster_rules.shapes import entries, mapping, text
from backfill_core.cluster_rules.table_paths import SCRATCH_DIR, TEMPORARY_DIR

OURS: Final = "backfill-"
"""Prefix of the names of the operator's volumes."""

LABEL_PREFIXES: Final = ("backfill.dev/", "spark-")
FIELDS: Final = frozenset({
    "affinity", "containers", "hostUsers", "imagePullSecrets", "nodeSelector", "priorityClassName", "tolerations",
    "topologySpreadConstraints", "volumes", *OPTIONAL_POD_FIELDS,
})  # fmt: skip
CONTAINER_FIELDS: Final = frozenset({"name", "env", "envFrom", "volumeMounts"})

RESERVED_ENV: Final = (
    "BACKFILL_*", "SPARK_*", "PYSPARK_*", "HADOOP_*", "KUBERNETES_*", "HOME", "JAVA_TOOL_OPTIONS", "PATH", "PYTHONPATH", "PYTHONSAFEPATH",
)  # fmt: skip
"""Variables that the operator or the image sets, so another value would be lost or would break every job."""

RESERVED_FOLDERS: Final = (
    "/etc/backfill", "/etc/backfill-control", "/etc/backfill-source", SCRATCH_DIR, TEMPORARY_DIR, "/dev", "/opt/spark", "/proc", "/sys",
)  # fmt: skip
"""Folders of the operator and of the image, in which a mount would hide files that every job needs."""

FREE: Final = "see the values `jobs` of the chart"


def default_findings(template: Mapping[str, Any], path: str, container: str) -> Iterator[Finding]:
    """Yield each part of the administrator's template that would be lost, or would break every job.

    Args:
        template: The administrator's template.
        path: Name of the setting.
        container: Name of our container.
    """
    for label in mapping(mapping(template, "metadata", path), "labels", f"{path}.metadata"):
        if str(label).startswith(LABEL_PREFIXES):
            yield Finding(f'{path}.metadata.labels["{label}"]', "is set by the operator", "use another prefix")
    spec, path = mapping(template, "spec", path), f"{path}.spec"
    yield from _only(spec, FIELDS, path)
    for number, volume in enumerate(entries(spec, "volumes", path)):
        here = f"{path}.volumes[{number}].name"
        if text(volume, "name", f"{path}.volumes[{number}]", hint="name the volume").startswith(OURS):
            yield Finding(here, "is set by the operator", f"use a name that does not begin with {OURS}")
    for number, entry in enumerate(entries(spec, "containers", path)):
        yield from _container(entry, f"{path}.containers[{number}]", container)


def _container(entry: Mapping[str, Any], path: str, container: str) -> Iterator[Finding]:
    if entry.get("name") != container:
        yield Finding(f"{path}.name", "is not the container of the job", f"use {container}", shown(entry.get("name")))
    yield from _only(entry, CONTAINER_FIELDS, path)
    for number, variable in enumerate(entries(entry, "env", path)):
        here = f"{path}.env[{number}]"
        if named(name := text(variable, "name", here, hint="name the variable"), RESERVED_ENV):
            yield Finding(f"{here}.name", "is set by the operator or the image", "remove it", shown(name))
    for number, mount in enumerate(entries(entry, "volumeMounts", path)):
        here = f"{path}.volumeMounts[{number}]"
        folder = text(mount, "mountPath", here, hint="say where")
        if any(_overlap(folder, reserved) for reserved in RESERVED_FOLDERS):
            message = "would hide files of the image or of the operator"
            yield Finding(f"{here}.mountPath", message, "mount it elsewhere, as at /mnt/lake", shown(folder))


def held_findings(
    template: Mapping[str, Any], path: str, container: str, defaults: Mapping[str, Any]
) -> Iterator[Finding]:
    """Yield each part of a job's template that would replace, hide or reuse a volume of the administrator.

    Args:
        template: The job's template.
        path: Path of the spec's field.
        container: Name of our container.
        defaults: The administrator's template for these pods.
    """
    held = {str(volume.get("name")) for volume in entries(mapping(defaults, "spec", path), "volumes", path)}
    folders = _mount_paths(defaults, container)
    spec, path = mapping(template, "spec", path), f"{path}.spec"
    for number, volume in enumerate(entries(spec, "volumes", path)):
        if (name := str(volume.get("name"))) in held:
            here = f"{path}.volumes[{number}].name"
            yield Finding(here, "is a volume of the administrator", "use another name", shown(name))
    for kind in ("containers", "initContainers"):
        for number, entry in enumerate(entries(spec, kind, path)):
            yield from _mounts(entry, f"{path}.{kind}[{number}]", held, folders if _is(entry, container) else ())


def _mounts(entry: Mapping[str, Any], path: str, held: set[str], folders: tuple[str, ...]) -> Iterator[Finding]:
    for number, mount in enumerate(entries(entry, "volumeMounts", path)):
        here = f"{path}.volumeMounts[{number}]"
        if (name := str(mount.get("name"))) in held:
            yield Finding(f"{here}.name", "is a volume of the administrator", "remove it", shown(name))
        folder = str(mount.get("mountPath"))
        if any(_overlap(folder, taken) for taken in folders):
            yield Finding(
                f"{here}.mountPath", "would hide a folder of the administrator", "mount it elsewhere", shown(folder)
            )


def _mount_paths(template: Mapping[str, Any], container: str) -> tuple[str, ...]:
    return tuple(
        str(mount.get("mountPath"))
        for entry in entries(mapping(template, "spec", ""), "containers", "")
        if _is(entry, container)
        for mount in entries(entry, "volumeMounts", "")
    )


def _is(entry: Mapping[str, Any], container: str) -> bool:
    return entry.get("name") == container


def _overlap(first: str, second: str) -> bool:
    """Return whether one folder is the other one, or contains it."""
    one, other = (f"{posixpath.normpath(folder).rstrip('/')}/" for folder in (first, second))
    return one.startswith(other) or other.startswith(one)


def _only(holder: Mapping[str, Any], fields: frozenset[str], path: str) -> Iterator[Finding]:
    for name, value in holder.items():
        if value is not None and name not in fields:
            yield Finding(f"{path}.{name}", "is not for the defaults of all jobs", FREE)
