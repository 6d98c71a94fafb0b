"""OpenShift's policy `restricted-v2`, by the rules of its documentation; no OpenShift runs here.

The policy chooses user and group of a pod from ranges of the namespace, and rejects a pod that asks for other ones. It adds the
dropped capabilities and the seccomp profile where a pod names none.
"""

import copy

FIRST_USER, USERS = 1_000_660_000, 10_000
"""Range of the annotation `openshift.io/sa.scc.uid-range`. The group of volumes is its first number."""

VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
HOST = ("hostNetwork", "hostPID", "hostIPC")


def admitted(pod):
    """Return the pod as the policy changes it, and the reasons for which the policy rejects it."""
    spec = copy.deepcopy(pod["spec"])
    context = spec.setdefault("securityContext", {})
    containers = [*spec.get("initContainers", ()), *spec["containers"]]
    reasons = [f"spec.{name}: not allowed" for name in HOST if spec.get(name)]
    reasons += _volumes(spec) + _identity("spec", context)
    for container in containers:
        reasons += _container(container, container.setdefault("securityContext", {}))
    context.setdefault("runAsUser", FIRST_USER)
    context.setdefault("fsGroup", FIRST_USER)
    context.setdefault("seccompProfile", {"type": "RuntimeDefault"})
    return {**pod, "spec": spec}, reasons


def _volumes(spec):
    kinds = {kind for volume in spec.get("volumes", ()) for kind in volume if kind != "name"}
    return [f"spec.volumes: {kind} is not allowed" for kind in sorted(kinds - VOLUMES)]


def _identity(path, context):
    user, group = context.get("runAsUser"), context.get("fsGroup")
    reasons = []
    if user is not None and not FIRST_USER <= user < FIRST_USER + USERS:
        reasons.append(f"{path}.runAsUser: {user} is outside of the range")
    if group is not None and group != FIRST_USER:
        reasons.append(f"{path}.fsGroup: {group} is outside of the range")
    if context.get("seccompProfile", {}).get("type", "RuntimeDefault") != "RuntimeDefault":
        reasons.append(f"{path}.seccompProfile: not allowed")
    if "seLinuxOptions" in context:
        reasons.append(f"{path}.seLinuxOptions: the namespace chooses them")
    return reasons


def _container(container, context):
    name, capabilities = container["name"], context.get("capabilities", {})
    reasons = _identity(name, context)
    if context.get("privileged") or context.setdefault("allowPrivilegeEscalation", False):
        reasons.append(f"{name}: privileges are not allowed")
    if set(capabilities.get("add", ())) - {"NET_BIND_SERVICE"}:
        reasons.append(f"{name}.capabilities: not allowed")
    if any(port.get("hostPort") for port in container.get("ports", ())):
        reasons.append(f"{name}.ports: no port of the host")
    context["capabilities"] = {**capabilities, "drop": sorted({"ALL", *capabilities.get("drop", ())})}
    return reasons
