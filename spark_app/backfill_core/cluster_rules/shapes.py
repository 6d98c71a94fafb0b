"""Reads parts of a template as a mapping, a list of mappings or a string; any other type is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backfill_core.cluster_rules.finding import Finding, ManifestRefusedError

REFERENCE = "see the Pod reference"


def mapping(holder: Mapping[str, Any], name: str, path: str) -> Mapping[str, Any]:
    """Return the mapping of that name; empty if it is missing."""
    value = holder.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ManifestRefusedError(Finding(f"{path}.{name}", "must be a mapping", REFERENCE))
    return value


def entries(holder: Mapping[str, Any], name: str, path: str) -> list[Mapping[str, Any]]:
    """Return the list of mappings of that name; empty if it is missing."""
    value = holder.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
        raise ManifestRefusedError(Finding(f"{path}.{name}", "must be a list of mappings", REFERENCE))
    return value


def text(holder: Mapping[str, Any], name: str, path: str, *, hint: str) -> str:
    """Return the string of that name, which is required."""
    value = holder.get(name)
    if not isinstance(value, str) or not value:
        raise ManifestRefusedError(Finding(f"{path}.{name}", "is required, as text", hint))
    return value
