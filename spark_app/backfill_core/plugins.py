"""A folder is a plug-in: it is found because it is there, and named in no list."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar

from backfill_core.errors import InvalidSpecError


class Plugin(Protocol):
    """What a folder offers."""

    @property
    def name(self) -> str:
        """The word in the spec that chooses it."""


P = TypeVar("P", bound=Plugin)


def discover(package: str, folders: Iterable[str], door: str, kind: type[P]) -> Mapping[str, P]:
    """Return the plug-ins of a package by name: each folder in it has a `door` of `kind` in its `__init__`.

    Args:
        package: Name of the package whose folders are looked at.
        folders: Its `__path__`.
        door: Name of the variable.
        kind: Type of the variable.

    Raises:
        TypeError: a folder has no such door, or two have the same name.
    """
    found: dict[str, P] = {}
    for module in sorted(pkgutil.iter_modules(folders), key=lambda one: one.name):
        if not module.ispkg:
            continue
        plugin = getattr(importlib.import_module(f"{package}.{module.name}"), door, None)
        if not isinstance(plugin, kind):
            raise TypeError(f"{package}.{module.name} has no {door} of type {kind.__name__}")
        if plugin.name in found:
            raise TypeError(f"{package}.{module.name}: there is a {plugin.name!r} already")
        found[plugin.name] = plugin
    return found


def choose(found: Mapping[str, P], name: str, field: str) -> P:
    """Return the plug-in that a spec names.

    Raises:
        InvalidSpecError: it is a word of the contract that nobody has built yet.
    """
    if name in found:
        return found[name]
    there = " or ".join(sorted(found))
    raise InvalidSpecError(f"{field}: {name!r} is not built yet, there is: {there}.", hint=f"Use {there}.")
