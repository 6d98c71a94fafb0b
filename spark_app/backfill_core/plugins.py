"""The plug-in that a spec names, of those that were discovered."""

from __future__ import annotations

from collections.abc import Mapping

from backfill_api.plugins import P
from backfill_core.errors import InvalidSpecError


def choose(found: Mapping[str, P], name: str, field: str) -> P:
    """Return the plug-in that a spec names.

    Raises:
        InvalidSpecError: this installation has its parameters, but not the code that runs it.
    """
    if name in found:
        return found[name]
    there = " or ".join(sorted(found))
    raise InvalidSpecError(
        f"{field}: {name!r} is not installed here, there is: {there}.",
        hint=f"Use {there}, or install the package that has it.",
    )
