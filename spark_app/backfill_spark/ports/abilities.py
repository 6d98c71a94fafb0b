"""Abilities of sources and sinks: requests an ability, and checks that a class implements those that its `VARIANT` names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from backfill_api.spec.params import Ability
from backfill_core.errors import InvalidSpecError
from backfill_spark.ports.sink import (
    SupportsMerge,
    SupportsReplacing,
    SupportsSegments,
    SupportsShipping,
    SupportsStartOver,
)
from backfill_spark.ports.source import (
    SupportsChanges,
    SupportsClose,
    SupportsKeyRanges,
    SupportsLog,
    SupportsOffsets,
    SupportsPin,
)

A = TypeVar("A")

PROTOCOLS: dict[str, type] = {
    protocol.__name__: protocol
    for protocol in (
        SupportsPin,
        SupportsChanges,
        SupportsOffsets,
        SupportsKeyRanges,
        SupportsLog,
        SupportsMerge,
        SupportsSegments,
        SupportsShipping,
        SupportsReplacing,
        SupportsStartOver,
    )
}
"""Protocols by the name that a `VARIANT` promises; a promise means that the class has the protocol's methods."""


@contextmanager
def closing(source: object) -> Iterator[None]:
    """Close the connections of a source after the block, because the caller's session may outlive the job."""
    try:
        yield
    finally:
        if isinstance(source, SupportsClose):
            source.close()


def ability(side: object, kind: type[A]) -> A:
    """Return a source or a sink, typed as a protocol that it implements.

    Raises:
        InvalidSpecError: it lacks the ability. The strategy uses an ability that its `VARIANT` does not name, or a plug-in breaks
            a promise.
    """
    if isinstance(side, kind):
        return side
    raise InvalidSpecError(
        f"{type(side).__name__} does not implement {kind.__name__}.",
        hint="Use another strategy, or another type of source or target.",
    )


def broken_promises(code: type, promised: Iterable[Ability]) -> list[str]:
    """Return the promised abilities that a class lacks, each with its missing methods."""
    broken = []
    for name in sorted(promised):
        methods = [method for method in vars(PROTOCOLS[name]) if not method.startswith("_")]
        missing = sorted(method for method in methods if not callable(getattr(code, method, None)))
        broken += [f"{name} ({', '.join(missing)})"] if missing else []
    return broken


def check_promises(side: object, promised: Iterable[Ability], *, field: str) -> None:
    """Reject a source or a sink that lacks an ability of its `VARIANT`, before it is used.

    Raises:
        InvalidSpecError: an ability is missing; names the field of the spec, the class and the ability.
    """
    broken = broken_promises(type(side), promised)
    if broken:
        raise InvalidSpecError(
            f"{field}: {type(side).__name__} promises {' and '.join(broken)}, but does not implement it.",
            hint="Install a release of that package that implements it, or use another type.",
        )
