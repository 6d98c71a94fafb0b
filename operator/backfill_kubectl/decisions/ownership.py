"""Finds the tool that owns the spec of a Backfill, because it would undo a change of the spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from backfill_kubectl.decisions.stored import StoredBackfill

ARGO_CD, FLUX, HELM = "Argo CD", "Flux", "Helm"

HELM_MANAGED: Final = "app.kubernetes.io/managed-by"

SIGNS: Final[tuple[tuple[str, str, str], ...]] = (
    (ARGO_CD, "annotation", "argocd.argoproj.io/tracking-id"),
    (ARGO_CD, "label", "argocd.argoproj.io/instance"),
    (FLUX, "label", "kustomize.toolkit.fluxcd.io/name"),
    (FLUX, "label", "helm.toolkit.fluxcd.io/name"),
    (HELM, "annotation", "meta.helm.sh/release-name"),
)
"""Labels and annotations with which tools mark their objects; the value names the application or the release."""

MANAGERS: Final[Mapping[str, str]] = {
    "argocd-controller": ARGO_CD, "argocd-application-controller": ARGO_CD,
    "kustomize-controller": FLUX, "helm-controller": FLUX, "helm": HELM,
}  # fmt: skip
"""Names with which tools write fields."""


@dataclass(frozen=True, slots=True)
class SpecOwner:
    """The tool that applies the spec."""

    tool: str
    name: str = ""
    """Name of its application, kustomization or release; empty if unknown."""

    def __str__(self) -> str:
        """Name the tool and its object."""
        return f"{self.tool} ({self.name})" if self.name else self.tool


def spec_owner(backfill: StoredBackfill) -> SpecOwner | None:
    """Return the tool that owns the spec; `None` if users apply it."""
    for tool, kind, name in SIGNS:
        marks = backfill.labels if kind == "label" else backfill.annotations
        if value := marks.get(name):
            return SpecOwner(tool, value.partition(":")[0])
    if backfill.labels.get(HELM_MANAGED) == HELM:
        return SpecOwner(HELM)
    return next((SpecOwner(MANAGERS[manager]) for manager in backfill.managers if manager in MANAGERS), None)
