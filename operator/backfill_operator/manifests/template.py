"""Pod templates: a user's, merged over defaults and under what must be.

Merged as Kubernetes merges: mappings by key, lists of named things (containers, volumes, env …) by name, mounts by path;
other lists are appended when they are of the kind that collects (tolerations), else the template's takes the place.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

from backfill_operator.manifests.launch import ManifestRefusedError

KEYED_BY: Final = {
    "containers": "name", "initContainers": "name", "volumes": "name", "env": "name", "imagePullSecrets": "name",
    "volumeMounts": "mountPath", "ports": "name", "hostAliases": "ip", "resourceClaims": "name",
}  # fmt: skip
COLLECTED: Final = frozenset({"tolerations", "topologySpreadConstraints", "envFrom", "readinessGates"})
DEPTH_MAX: Final = 32


def merge(below: Any, above: Any, *, key: str = "", depth: int = 0) -> Any:
    """Return `above` laid over `below`; neither is changed. None above leaves what is below."""
    if above is None:
        return deepcopy(below)
    if depth > DEPTH_MAX:
        raise ManifestRefusedError("template", "is nested too deeply", cure=f"keep it below {DEPTH_MAX} levels")
    if isinstance(below, Mapping) and isinstance(above, Mapping):
        names = [*below, *(name for name in above if name not in below)]
        return {name: merge(below.get(name), above.get(name), key=str(name), depth=depth + 1) for name in names}
    if isinstance(below, list) and isinstance(above, list):
        if key in COLLECTED:
            return deepcopy([*below, *(one for one in above if one not in below)])
        if key in KEYED_BY and all(isinstance(one, Mapping) for one in (*below, *above)):
            return _by_name(below, above, KEYED_BY[key], depth)
    return deepcopy(above)


def _by_name(below: list[Any], above: list[Any], field: str, depth: int) -> list[Any]:
    made = {str(one.get(field)): one for one in below}
    for one in above:
        name = str(one.get(field))
        made[name] = merge(made.get(name), one, depth=depth + 1)
    return [deepcopy(one) for one in made.values()]


# ------------------------------------------------------------------ what a template may not say
POD_RESERVED: Final = {
    "restartPolicy": "attempts are spec.backoffLimit",
    "activeDeadlineSeconds": "use spec.activeDeadlineSeconds",
    "terminationGracePeriodSeconds": "use spec.drainTimeoutSeconds",
    "serviceAccountName": "use spec.driver.serviceAccountName",
    "serviceAccount": "use spec.driver.serviceAccountName",
    "automountServiceAccountToken": "remove it",
    "enableServiceLinks": "remove it",
    "hostNetwork": "remove it",
    "hostPID": "remove it",
    "hostIPC": "remove it",
    "hostname": "remove it",
    "subdomain": "remove it",
    "ephemeralContainers": "use kubectl debug",
}
METADATA_RESERVED: Final = ("name", "generateName", "namespace", "ownerReferences", "finalizers", "uid")
CONTAINER_RESERVED: Final = {
    "image": "use spec.spark.image",
    "imagePullPolicy": "use spec.spark.imagePullPolicy",
    "command": "remove it",
    "args": "remove it",
    "workingDir": "remove it",
    "resources": "use spec.driver.resources or spec.executor.resources",
    "livenessProbe": "remove it",
    "readinessProbe": "remove it",
    "startupProbe": "remove it",
    "terminationMessagePath": "remove it",
    "terminationMessagePolicy": "remove it",
}
LABEL_PREFIXES: Final = ("backfill.dev/", "spark-")
ENV_PREFIXES: Final = ("BACKFILL_", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "_SPARK_AUTH")
SECURITY_OF_ALL: Final = {"privileged": False, "allowPrivilegeEscalation": False, "runAsNonRoot": True}
"""What a container may say of itself only in this one way: restricted Pod Security."""


def check_template(template: Mapping[str, Any], path: str, container: str, *, mounts: frozenset[str]) -> None:
    """Refuse a template that says what belongs to the operator, or what is no template.

    Args:
        template: The user's.
        path: Of the spec's field.
        container: Name of the container that is ours.
        mounts: Paths at which the operator mounts something.

    Raises:
        ManifestRefusedError: with the path of the first field that is wrong.
    """
    for name in template:
        if name not in ("metadata", "spec", "apiVersion", "kind", "template"):
            raise ManifestRefusedError(f"{path}.{name}", "is no part of a pod template", cure="use metadata and spec")
    meta, spec = _mapping(template, "metadata", path), _mapping(template, "spec", path)
    for name in METADATA_RESERVED:
        if name in meta:
            raise _reserved(f"{path}.metadata.{name}", "remove it")
    for name in _mapping(meta, "labels", f"{path}.metadata"):
        if str(name).startswith(LABEL_PREFIXES):
            raise _reserved(f'{path}.metadata.labels["{name}"]', "use another prefix")
    for name, cure in POD_RESERVED.items():
        if spec.get(name) is not None:
            raise _reserved(f"{path}.spec.{name}", cure)
    _check_security(_mapping(spec, "securityContext", f"{path}.spec"), f"{path}.spec.securityContext")
    for kind in ("containers", "initContainers"):
        for number, one in enumerate(_list(spec, kind, f"{path}.spec")):
            ours = kind == "containers" and one.get("name") == container
            _check_container(one, f"{path}.spec.{kind}[{number}]", ours=ours, mounts=mounts)
    for number, one in enumerate(_list(spec, "volumes", f"{path}.spec")):
        if str(one.get("name", "")).startswith("backfill-"):
            raise _reserved(f"{path}.spec.volumes[{number}].name", "use a name that does not begin with backfill-")


def _check_container(container: Mapping[str, Any], path: str, *, ours: bool, mounts: frozenset[str]) -> None:
    if not isinstance(container.get("name"), str):
        raise ManifestRefusedError(f"{path}.name", "is required", cure="name the container")
    _check_security(_mapping(container, "securityContext", path), f"{path}.securityContext")
    env, mounted = _list(container, "env", path), _list(container, "volumeMounts", path)
    for field in ("ports", "envFrom"):
        _list(container, field, path)
    if not ours:
        return
    for name, cure in CONTAINER_RESERVED.items():
        if container.get(name) is not None:
            raise _reserved(f"{path}.{name}", cure)
    for number, one in enumerate(env):
        if str(one.get("name", "")).startswith(ENV_PREFIXES):
            raise _reserved(f"{path}.env[{number}].name", "remove it")
    for number, one in enumerate(mounted):
        if str(one.get("mountPath", "")).rstrip("/") in mounts:
            raise _reserved(f"{path}.volumeMounts[{number}].mountPath", "mount it elsewhere")


def _check_security(context: Mapping[str, Any], path: str) -> None:
    for name, only in SECURITY_OF_ALL.items():
        if context.get(name) is not None and context[name] is not only:
            raise _reserved(f"{path}.{name}", f"remove it, or write {str(only).lower()}")
    capabilities = _mapping(context, "capabilities", path)
    if capabilities.get("add"):
        raise _reserved(f"{path}.capabilities.add", "remove it")
    if str(context.get("runAsUser")) == "0":
        raise _reserved(f"{path}.runAsUser", "use a user other than root")


def _reserved(path: str, cure: str) -> ManifestRefusedError:
    return ManifestRefusedError(path, "is set by the operator", cure=cure)


def _mapping(holder: Mapping[str, Any], name: str, path: str) -> Mapping[str, Any]:
    value = holder.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ManifestRefusedError(f"{path}.{name}", "must be a mapping", cure="see the Pod reference")
    return value


def _list(holder: Mapping[str, Any], name: str, path: str) -> list[Mapping[str, Any]]:
    value = holder.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, Mapping) for one in value):
        raise ManifestRefusedError(f"{path}.{name}", "must be a list of mappings", cure="see the Pod reference")
    return value
