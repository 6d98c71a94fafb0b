"""Last refresh of a job: a later run of a finished job, from the position that its target held."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from backfill_api.amounts import counted
from backfill_core.protocol.stored_fields import StoredFields, check_numbers
from backfill_core.protocol.work import Position


@dataclass(frozen=True, slots=True)
class Refresh:
    """A refresh that wrote to the target; its end is the state's `consumed` and `committed_ms`."""

    after: Position
    """Position that the target held before the refresh."""

    began_ms: int
    """Time at which the refresh began, in milliseconds since 1970."""

    changes_before: int
    """Changes that the job had applied before the refresh."""

    def encode(self) -> dict[str, Any]:
        """Return the JSON value."""
        return {"after": self.after, "beganMs": self.began_ms, "changesBefore": self.changes_before}

    @classmethod
    def decode(cls, value: Any) -> Self | None:
        """Read the output of `encode`; `None` for `None`.

        Raises:
            StateMismatchError: the message contains the first invalid field.
            ValueError, TypeError: the value is not an object, or a number is out of range.
        """
        if value is None:
            return None
        check_numbers(value)
        fields = StoredFields("state.refresh", value)
        after = value["after"]
        if type(after) is not dict:
            after = fields.count("after")
        return cls(after, fields.count("beganMs"), fields.count("changesBefore"))

    def describe(self, consumed: Position | None, changes: int, say: Callable[[Position | None], str]) -> str:
        """Describe the finished refresh.

        Args:
            consumed: Position that the target holds now.
            changes: Changes that the job has applied so far.
            say: Formats a position as the source displays it.
        """
        applied = counted(changes - self.changes_before, "change")
        return f"refreshed from {say(self.after)} to {say(consumed)} with {applied}"
