"""Judges an installation by what could be read of it: one line for each check."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from backfill_api.amounts import counted
from backfill_kubectl.decisions.attention import JobLine

Verdict = Literal["ok", "warning", "fault", "unknown"]

WATCHED: Final = "BACKFILL_OPERATOR_NAMESPACES"
SELECTED: Final = "BACKFILL_OPERATOR_NAMESPACE_SELECTOR"
LEASE_S_DEFAULT: Final = 15
SHOWN_MAX: Final = 5
_VERSION: Final = re.compile(r"^(\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the page."""

    verdict: Verdict
    title: str
    detail: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A part that could not be read."""

    why: str
    absent: bool = False
    """True if it does not exist, and false if the user may not read it."""


@dataclass(frozen=True, slots=True)
class OperatorNamespaces:
    """Namespaces that an operator watches; all without names and without a selector."""

    names: frozenset[str]
    selector: str = ""
    """Label selector of further namespaces; empty for none."""

    def __str__(self) -> str:
        """List them."""
        parts = [",".join(sorted(self.names))] if self.names else []
        parts += [f"those with the labels {self.selector}"] if self.selector else []
        return " and ".join(parts) or "all"


def check_crd(served: Mapping[str, Any] | Unreadable, expected: Mapping[str, Any]) -> Check:
    """Compare the fields that the cluster's CRD defines with those that this version knows.

    Args:
        served: Schema of a Backfill on the cluster.
        expected: Schema of this version.
    """
    title = "CRD"
    if isinstance(served, Unreadable):
        if served.absent:
            return Check("fault", title, served.why, "Install the chart, or apply crds/backfills.yaml.")
        return Check("unknown", title, served.why)
    missing = list(_missing(served, expected, ""))
    if not missing:
        return Check("ok", title, "has all fields of this client")
    shown = ", ".join(missing[:SHOWN_MAX]) + (
        f" and {len(missing) - SHOWN_MAX} more" if len(missing) > SHOWN_MAX else ""
    )
    return Check(
        "warning", title, f"is older than this client and lacks {shown}", "Upgrade the chart, which contains the CRD."
    )


def _missing(served: Mapping[str, Any], expected: Mapping[str, Any], path: str) -> list[str]:
    found: list[str] = []
    ours, theirs = expected.get("properties", {}), served.get("properties", {})
    for name, below in ours.items():
        place = f"{path}.{name}" if path else name
        if place == "metadata":
            continue
        if name not in theirs:
            found.append(place)
        else:
            found += _missing(theirs[name], below, place)
    return found


def check_operator(deployments: Sequence[Mapping[str, Any]] | Unreadable, client: str) -> list[Check]:
    """Judge the operator's Deployments: pods, version and watched namespaces."""
    title = "operator"
    if isinstance(deployments, Unreadable):
        return [Check("unknown", title, deployments.why)]
    if not deployments:
        return [Check("fault", title, "no Deployment was found", "Install the chart, or give --operator-namespace.")]
    return [check for deployment in deployments for check in _of_deployment(deployment, client)]


def _of_deployment(deployment: Mapping[str, Any], client: str) -> list[Check]:
    metadata, spec, status = (deployment.get(part) or {} for part in ("metadata", "spec", "status"))
    name = f"{metadata.get('namespace')}/{metadata.get('name')}"
    wanted, ready = spec.get("replicas", 1), status.get("readyReplicas", 0)
    container: Mapping[str, Any] = next(iter(spec.get("template", {}).get("spec", {}).get("containers", [])), {})
    version = (metadata.get("labels") or {}).get("app.kubernetes.io/version", "")
    shown = f"{name}, {version or 'unknown version'}, image {container.get('image', '?')}"
    verdict: Verdict = "ok" if ready >= wanted > 0 else "warning" if ready else "fault"
    remedy = (
        "" if verdict == "ok" else f"kubectl describe deployment {metadata.get('name')} -n {metadata.get('namespace')}"
    )
    checks = [Check(verdict, "operator", f"{shown}: {ready} of {counted(wanted, 'pod')} ready", remedy)]
    if version and _release(version) != _release(client):
        detail = f"operator {version}, client {client}"
        checks.append(
            Check("warning", "versions differ", detail, "Upgrade the older one; commands may use unknown fields.")
        )
    checks.append(Check("ok", "watched namespaces", str(watched_namespaces(deployment))))
    return checks


def watched_namespaces(deployment: Mapping[str, Any]) -> OperatorNamespaces:
    """Return the namespaces that an operator watches."""
    pod: Mapping[str, Any] = ((deployment.get("spec") or {}).get("template") or {}).get("spec") or {}
    entries = [entry for container in pod.get("containers") or [] for entry in container.get("env") or []]
    values = {str(entry.get("name")): str(entry.get("value") or "") for entry in reversed(entries)}
    names = frozenset(name.strip() for name in values.get(WATCHED, "").split(",") if name.strip())
    return OperatorNamespaces(names, values.get(SELECTED, "").strip())


def _release(version: str) -> tuple[str, ...]:
    match = _VERSION.match(version)
    return (version,) if match is None else match.groups()[:2]


def check_leader(lease: Mapping[str, Any] | Unreadable, now: datetime) -> Check:
    """Judge the lease of the operator: a leader must hold it, and renew it."""
    title = "leader"
    if isinstance(lease, Unreadable):
        return Check("unknown", title, lease.why)
    spec = lease.get("spec") or {}
    holder, renewed = spec.get("holderIdentity"), spec.get("renewTime")
    length_s = spec.get("leaseDurationSeconds") or LEASE_S_DEFAULT
    if not holder:
        return Check("fault", title, "no operator holds the lease", "Check the operator's pods and their logs.")
    try:
        age_s = (now - datetime.fromisoformat(str(renewed))).total_seconds()
    except (ValueError, TypeError):
        return Check("warning", title, f"{holder}, with an unreadable time of renewal")
    # The clocks of this machine and of the operator differ, so an expired lease must be old by twice its length.
    if age_s > 2 * length_s:
        return Check(
            "fault",
            title,
            f"{holder} has not renewed its lease for {round(age_s)} s",
            "Check the operator's pods and their logs.",
        )
    return Check("ok", title, f"{holder}, renewed {max(0, round(age_s))} s ago")


def check_drivers(pods: Sequence[Mapping[str, Any]] | Unreadable) -> Check:
    """List the images of driver pods, because a driver keeps its version until the next attempt."""
    title = "drivers"
    if isinstance(pods, Unreadable):
        return Check("unknown", title, pods.why)
    running = [pod for pod in pods if (pod.get("status") or {}).get("phase") in ("Pending", "Running")]
    images: dict[str, int] = {}
    for pod in running:
        containers = (pod.get("spec") or {}).get("containers") or []
        image = next((str(each.get("image")) for each in containers if each.get("name") == "driver"), "?")
        images[image] = images.get(image, 0) + 1
    listed = ", ".join(f"{number} with {image}" for image, number in sorted(images.items()))
    detail = f"{counted(len(running), 'pod')}{f': {listed}' if listed else ''}"
    return Check(
        "warning" if len(images) > 1 else "ok",
        title,
        detail,
        "Drivers of several versions run." if len(images) > 1 else "",
    )


def check_jobs(lines: Sequence[JobLine] | Unreadable) -> list[Check]:
    """List the jobs that need a person."""
    title = "jobs"
    if isinstance(lines, Unreadable):
        return [Check("unknown", title, lines.why)]
    needy = [line for line in lines if line.group == "needs a person"]
    unseen = [line for line in lines if line.why == "no operator has seen it"]
    checks = [
        Check("warning", line.key, f"{line.phase}: {line.why}", f"kubectl backfill get {line.key}") for line in needy
    ]
    if unseen:
        keys = ", ".join(line.key for line in unseen[:SHOWN_MAX])
        checks.append(
            Check("warning", "not watched", f"no operator has seen {keys}", "Add their namespaces to watch.namespaces.")
        )
    total = Check("ok", title, f"{counted(len(lines), 'Backfill')}, {len(needy)} need a person")
    return [total, *checks]
