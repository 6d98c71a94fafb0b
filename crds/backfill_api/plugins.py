"""Discovery of strategies, sources and sinks: each module or entry point is found; no list names them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol, TypeVar

NOT_OFFERED = "NOT_OFFERED"
"""Variable of a module that is no plug-in yet."""


class Plugin(Protocol):
    """Object that a plug-in's module declares."""

    @property
    def name(self) -> str:
        """The `type` in the spec that chooses it."""


P = TypeVar("P", bound=Plugin)


def discover(package: str, folders: Iterable[str], *, group: str, attribute: str, kind: type[P]) -> dict[str, P]:
    """Return the plug-ins by name, in the order of their names.

    A module or folder of the package is a plug-in, unless it has `NOT_OFFERED`. So is each entry point of an installed distribution.

    Args:
        package: Name of the package whose modules are looked at.
        folders: Its `__path__`.
        group: Group of the entry points; each names an object, as `my_plugin.source:SOURCE`.
        attribute: Name of the variable that each module of the package has.
        kind: Type of each plug-in.

    Raises:
        TypeError: a plug-in is of another type, or two have the same name.
    """
    plugins: dict[str, P] = {}
    for place, plugin in (*_in_package(package, folders, attribute), *_in_distributions(group)):
        if not isinstance(plugin, kind):
            raise TypeError(f"{place} has no {attribute} of type {kind.__name__}")
        if plugin.name in plugins:
            raise TypeError(f"{place}: there is a {plugin.name!r} already")
        plugins[plugin.name] = plugin
    return dict(sorted(plugins.items()))


def _in_package(package: str, folders: Iterable[str], attribute: str) -> Iterator[tuple[str, Any]]:
    for info in pkgutil.iter_modules(folders, f"{package}."):
        module = importlib.import_module(info.name)
        if not hasattr(module, NOT_OFFERED):
            yield info.name, getattr(module, attribute, None)


def _in_distributions(group: str) -> Iterator[tuple[str, Any]]:
    for point in _installed().select(group=group):
        yield f"entry point {point.value}", _loaded(point)


def _loaded(point: EntryPoint) -> Any:
    try:
        return point.load()
    except (ImportError, AttributeError) as error:
        error.add_note(f"It is the entry point {point.name!r} of {point.group!r}: repair or remove that distribution.")
        raise


@cache
def _installed() -> Any:
    # One walk over all distributions takes 2 ms, and there are six groups.
    return entry_points()
