"""Parts of a pod that we pass on: any fields, but bounded in depth and size."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field

from backfill_api.model import refused

DEPTH_MAX: Final = 64
"""No real pod has a quarter of it."""

TEMPLATE_BYTES_MAX: Final = 64 * 1024
RESOURCES_BYTES_MAX: Final = 8 * 1024


def depth_of(value: Any, most: int) -> int:
    """Return how deep a value is nested, at most one level beyond `most`. It does not recurse."""
    level, depth = [value], 0
    while depth <= most:
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return depth
        depth += 1
    return depth


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _bounded(bytes_max: int) -> AfterValidator:
    def check(value: dict[str, Any]) -> dict[str, Any]:
        if depth_of(value, DEPTH_MAX) > DEPTH_MAX:
            raise refused("", f"is nested deeper than {DEPTH_MAX} levels", hint="write it as a pod has it")
        size = len(json.dumps(value, separators=(",", ":"), default=str))
        if size > bytes_max:
            message = f"has {size:,} bytes, and may have {bytes_max:,}"
            raise refused("", message, hint="put large values into a ConfigMap or a Secret, and mount it")
        return value

    return AfterValidator(check)


Template = Annotated[dict[str, Any], Field(max_length=8), _bounded(TEMPLATE_BYTES_MAX)]
Resources = Annotated[dict[str, Any], Field(max_length=8), _bounded(RESOURCES_BYTES_MAX)]
