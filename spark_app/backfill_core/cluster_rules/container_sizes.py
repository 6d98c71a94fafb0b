"""Converts a container's resources from Kubernetes quantities into heap and cores for Spark."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from backfill_api.crd.explain import shown
from backfill_core.cluster_rules.finding import Finding, ManifestRefusedError

MIB: Final = 1 << 20
DRIVER_DEFAULT: Final = {"requests": {"cpu": "500m", "memory": "2Gi"}, "limits": {"memory": "2Gi"}}
EXECUTOR_DEFAULT: Final = {"requests": {"cpu": "500m", "memory": "2Gi"}, "limits": {"memory": "2Gi"}}

_QUANTITY = re.compile(r"([0-9]{1,15}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})(m|k|[KMGTPE]i?|[eE][0-9]{1,2})?", flags=re.ASCII)
_FACTORS: Final = {"": Decimal(1), "m": Decimal("0.001"), "k": Decimal(1000)} | {
    f"{letter}{binary}": Decimal(1024 if binary else 1000) ** power
    for power, letter in enumerate("KMGTPE", start=1)
    for binary in ("", "i")
    if letter + binary != "K"
}

HEAP_MIB_MIN: Final = 460
MEMORY_MIB_MIN: Final = 768
"""The minimum memory with which Spark starts: 450 MiB of heap, and the off-heap memory."""


@dataclass(frozen=True, slots=True)
class Size:
    """Memory and CPU of a container."""

    heap_mib: int
    overhead_mib: int
    """Off-heap memory for the JVM and Python."""

    cores: int
    cpu_request: str
    cpu_limit: str | None


def quantity(text: object, path: str) -> Decimal:
    """Return the value of a Kubernetes quantity.

    Raises:
        ManifestRefusedError: it is not a quantity.
    """
    match = _QUANTITY.fullmatch(str(text))
    if match is None or isinstance(text, bool):
        raise ManifestRefusedError(Finding(path, "is not a quantity", "write it as 500m, 2 or 2Gi", shown(text)))
    suffix = match[2] or ""
    factor = Decimal(10) ** int(suffix[1:]) if suffix[1:].isdigit() else _FACTORS[suffix]
    return Decimal(match[1]) * factor


def size(
    resources: Mapping[str, Any], path: str, *, off_heap_mib: int, off_heap_per_cent: int, heap_per_cent: int = 60
) -> Size:
    """Return the heap and cores that fit into container resources.

    Args:
        resources: `requests` and `limits`.
        path: Path of the field, for refusals.
        off_heap_mib: Minimum off-heap memory, in MiB.
        off_heap_per_cent: Minimum off-heap memory, in per cent of the whole.
        heap_per_cent: Minimum heap of a small container, in per cent of the whole.

    Raises:
        ManifestRefusedError: a quantity cannot be read, or the memory is too small.
    """
    requests, limits = _part(resources, "requests", path), _part(resources, "limits", path)
    # A container is killed at its limit, so the heap must fit into the limit.
    memory = limits.get("memory", requests.get("memory", "2Gi"))
    which = f"{path}.{'limits' if 'memory' in limits else 'requests'}.memory"
    memory_mib = int(quantity(memory, which) / MIB)
    if memory_mib < MEMORY_MIB_MIN:
        raise ManifestRefusedError(Finding(which, "is too small", f"give at least {MEMORY_MIB_MIN}Mi", shown(memory)))
    off_heap = max(off_heap_mib, memory_mib * off_heap_per_cent // 100)
    heap = max(memory_mib - off_heap, memory_mib * heap_per_cent // 100, HEAP_MIB_MIN)
    cpu = limits.get("cpu", requests.get("cpu", "1"))
    cores = max(1, math.ceil(quantity(cpu, f"{path}.cpu")))
    request = str(requests.get("cpu", cpu))
    return Size(heap, memory_mib - heap, cores, request, str(limits["cpu"]) if "cpu" in limits else None)


def check_size(resources: Mapping[str, Any], default: Mapping[str, Any], path: str) -> None:
    """Refuse resources that no container can have.

    Raises:
        ManifestRefusedError: a quantity cannot be read, or the memory is too small.
    """
    size(with_defaults(resources, default, path), path, off_heap_mib=0, off_heap_per_cent=0)


def with_defaults(resources: Mapping[str, Any], default: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return the resources with defaults for missing values; a default request never exceeds a given limit."""
    if not resources:
        return {name: dict(part) for name, part in default.items()}
    made = {name: value for name, value in resources.items() if name not in ("requests", "limits")}
    requests, limits = dict(_part(resources, "requests", path)), dict(_part(resources, "limits", path))
    for name in ("cpu", "memory"):
        if name not in requests:
            requests[name] = limits.get(name, default["requests"][name])
    limits.setdefault("memory", requests["memory"])
    return made | {"requests": requests, "limits": limits}


def _part(resources: Mapping[str, Any], name: str, path: str) -> Mapping[str, Any]:
    part = resources.get(name) or {}
    if not isinstance(part, Mapping):
        raise ManifestRefusedError(Finding(f"{path}.{name}", "must be a mapping", "write cpu and memory below it"))
    return part
