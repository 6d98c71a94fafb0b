"""Merges a user's pod template over defaults and under required values; `pod_rules` defines its allowed fields.

The merge follows Kubernetes: mappings by key, lists of named items (containers, volumes, env …) by name, mounts by path.
Other lists are appended if they collect items (tolerations); else the template's list replaces the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

from backfill_core.cluster_rules.finding import Finding, ManifestRefusedError

KEYED_BY: Final = {
    "containers": "name", "initContainers": "name", "volumes": "name", "env": "name", "imagePullSecrets": "name",
    "volumeMounts": "mountPath", "ports": "name", "hostAliases": "ip", "resourceClaims": "name",
}  # fmt: skip
COLLECTED: Final = frozenset({"tolerations", "topologySpreadConstraints", "envFrom", "readinessGates"})
REPLACED: Final = frozenset({"env", "volumes"})
"""Lists whose items are replaced as a whole: an item with the fields of both, such as `value` and `valueFrom`, is invalid."""

DEPTH_MAX: Final = 32


def merge(below: Any, above: Any, *, key: str = "", depth: int = 0) -> Any:
    """Return `above` merged over `below`; neither is changed. `None` in `above` keeps the value of `below`."""
    if above is None:
        return deepcopy(below)
    if depth > DEPTH_MAX:
        raise ManifestRefusedError(Finding("template", "is nested too deeply", f"keep it below {DEPTH_MAX} levels"))
    if isinstance(below, Mapping) and isinstance(above, Mapping):
        names = [*below, *(name for name in above if name not in below)]
        return {name: merge(below.get(name), above.get(name), key=str(name), depth=depth + 1) for name in names}
    if isinstance(below, list) and isinstance(above, list):
        if key in COLLECTED:
            return deepcopy([*below, *(item for item in above if item not in below)])
        if key in KEYED_BY and all(isinstance(item, Mapping) for item in (*below, *above)):
            return _by_name(below, above, key, depth)
    return deepcopy(above)


def _by_name(below: list[Any], above: list[Any], key: str, depth: int) -> list[Any]:
    field = KEYED_BY[key]
    made = {str(item.get(field)): item for item in below}
    for item in above:
        name = str(item.get(field))
        made[name] = item if key in REPLACED else merge(made.get(name), item, depth=depth + 1)
    return [deepcopy(item) for item in made.values()]
