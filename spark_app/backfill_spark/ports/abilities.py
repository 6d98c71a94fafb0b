"""What a source or a sink promised: asking it for an ability, and whether its code has what its `VARIANT` names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from backfill_api.spec.params import Ability
from backfill_core.errors import InvalidSpecError
from backfill_spark.ports.sink import SupportsMerge, SupportsSegments, SupportsShipping, SupportsStartOver
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
    one.__name__: one
    for one in (
        SupportsPin,
        SupportsChanges,
        SupportsOffsets,
        SupportsKeyRanges,
        SupportsLog,
        SupportsMerge,
        SupportsSegments,
        SupportsShipping,
        SupportsStartOver,
    )
}
"""By the name that a `VARIANT` promises; the methods of each are what the promise means."""


@contextmanager
def closing(source: object) -> Iterator[None]:
    """Close what a source keeps open after the block: a session of a caller's own lives on."""
    try:
        yield
    finally:
        if isinstance(source, SupportsClose):
            source.close()


def ability(side: object, kind: type[A]) -> A:
    """Return a source or a sink as what it can do.

    Raises:
        InvalidSpecError: it cannot; a strategy asks for what its `VARIANT` does not name, or a plug-in does not keep a promise.
    """
    if isinstance(side, kind):
        return side
    raise InvalidSpecError(
        f"{type(side).__name__} has not what {kind.__name__} promises.",
        hint="Use another strategy, or another kind of source or target.",
    )


def broken_promises(code: type, promised: Iterable[Ability]) -> list[str]:
    """Return the promised abilities that a class has not, each with the methods that are missing."""
    found = []
    for one in sorted(promised):
        methods = [name for name in vars(PROTOCOLS[one]) if not name.startswith("_")]
        missing = sorted(name for name in methods if not callable(getattr(code, name, None)))
        found += [f"{one} ({', '.join(missing)})"] if missing else []
    return found


def check_promises(side: object, promised: Iterable[Ability], *, field: str) -> None:
    """Refuse a source or a sink that has not what its `VARIANT` promises, before anything of it is used.

    Raises:
        InvalidSpecError: names the field of the spec, the class and the ability.
    """
    broken = broken_promises(type(side), promised)
    if broken:
        raise InvalidSpecError(
            f"{field}: {type(side).__name__} promises {' and '.join(broken)} and has it not.",
            hint="Use the release of that package that has it, or another type.",
        )
