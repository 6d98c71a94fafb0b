"""Choice of the plug-in that a spec names, among the installed ones."""

from __future__ import annotations

from collections.abc import Mapping

from backfill_api.plugins import P
from backfill_core.errors import InvalidSpecError


def choose(installed: Mapping[str, P], name: str, field: str) -> P:
    """Return the plug-in that a spec names.

    Raises:
        InvalidSpecError: The installation has the plug-in's parameters, but not its code.
    """
    if name in installed:
        return installed[name]
    names = " or ".join(sorted(installed))
    raise InvalidSpecError(
        f"{field}: {name!r} is not installed here; installed: {names}.",
        hint=f"Use {names}, or install the package that contains it.",
    )
