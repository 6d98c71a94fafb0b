"""Reader of the fields of a stored state; an invalid field is named in the error."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from backfill_api.spec.bounds import COUNT_MAX
from backfill_core.errors import StateMismatchError

T = TypeVar("T")
HINT: Final = "Use the release that wrote it, or another target."


def check_numbers(value: Any) -> None:
    """Refuse a JSON value with a number that not every reader holds exactly.

    Raises:
        ValueError: it has one.
    """
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in below:
        check_numbers(part)
    if isinstance(value, int | float) and not -COUNT_MAX <= value <= COUNT_MAX:
        raise ValueError("a number that is too large")


@dataclass(frozen=True, slots=True)
class StoredFields:
    """JSON value of a strategy's state, or a part of it.

    Each method raises StateMismatchError, which names the first field that does not fit.
    """

    where: str
    """Name of the state in messages."""

    value: Mapping[str, Any]

    def typed(self, name: str, kind: type[T]) -> T:
        """Return a field of exactly this type; a boolean is not a number."""
        found = self.value.get(name)
        if type(found) is not kind:
            raise self.unfit(name)
        return found

    def count(self, name: str, default: int | None = None) -> int:
        """Return a number of the range of every count; without a field the default."""
        if default is not None and name not in self.value:
            return default
        found = self.typed(name, int)
        if not 0 <= found <= COUNT_MAX:
            raise self.unfit(name)
        return found

    def optional_count(self, name: str) -> int | None:
        """Return a number of the range of every count; `None` if it is null, or not there."""
        return None if self.value.get(name) is None else self.count(name)

    def one_of(self, name: str, words: Collection[str]) -> str:
        """Return a string that must be one of `words`."""
        found = self.typed(name, str)
        if found not in words:
            raise self.unfit(name)
        return found

    def parsed(self, name: str, parse: Callable[[Any], T]) -> T:
        """Return the parsed field; an error of the parser means that the field does not fit."""
        try:
            return parse(self.value.get(name))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise self.unfit(name) from None

    def part(self, name: str) -> StoredFields | None:
        """Return a nested object; `None` if it is null or missing."""
        found = self.value.get(name)
        if found is None:
            return None
        if not isinstance(found, dict):
            raise self.unfit(name)
        return StoredFields(f"{self.where}.{name}", found)

    def unfit(self, name: str) -> StateMismatchError:
        """Return the error of a field."""
        return StateMismatchError(
            f"the target's state does not fit this release: {self.where}.{name} is {str(self.value.get(name))[:80]!r}.",
            hint=HINT,
        )
