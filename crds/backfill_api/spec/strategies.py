"""How a backfill is done: one class of parameters a strategy, found through `STRATEGIES`.

A strategy of name `N` is an entry of `STRATEGIES`, a value of `Strategy.type` and a member of `Strategy`;
a test says that the three agree, and that they are the strategies that are built: what is not built is not offered. `PACE` of a class names the parameters that only change how fast the job is:
they may differ between two attempts at the same job, all others are part of the job's identity.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, StrictInt, model_serializer, model_validator

from backfill_api.model import Model, cel, member_of, refused
from backfill_api.spec.params import StrategyParams


class SnapshotParams(StrategyParams):
    """One pinned version in splits, then its changes."""

    PACE: ClassVar[frozenset[str]] = frozenset({"split_target_seconds", "max_in_flight", "change_batch_seconds"})

    split_target_seconds: Annotated[StrictInt, Field(ge=1, le=600)] = 4
    """How long one split should take at full speed; a change counts from the next attempt."""

    max_in_flight: Annotated[StrictInt, Field(ge=1, le=64)] = 2
    """Splits that are read at the same time; a change counts from the next attempt."""

    change_batch_seconds: Annotated[StrictInt, Field(ge=1, le=3600)] = 10
    """How long one batch of changes should take; a change counts from the next attempt."""

    def rows_per_split(self, rows_per_s: float) -> int:
        """As `maxInFlight` splits share the rate."""
        return max(1, int(rows_per_s * self.split_target_seconds / self.max_in_flight))


STRATEGIES: Final[Mapping[str, type[StrategyParams]]] = {
    "Snapshot": SnapshotParams,
}


def _same_job() -> str:
    """Return the CEL expression that says that nothing has changed but the pace.

    What is left out has its default: a server asks before it fills in all of them.
    """
    same = [_equal(("type",), next(iter(STRATEGIES)))]
    for name, params in STRATEGIES.items():
        for field, info in params.model_fields.items():
            if field not in params.PACE:
                same.append(_equal((member_of(name), str(info.alias)), info.default))
    return " && ".join(same)


def _equal(path: tuple[str, ...], default: str | int) -> str:
    now, before = (
        "("
        + " && ".join(f"has({one}.{'.'.join(path[:depth])})" for depth in range(1, len(path) + 1))
        + f" ? {one}.{'.'.join(path)} : {json.dumps(default)})"
        for one in ("self", "oldSelf")
    )
    return f"{now} == {before}"


ABSENT: Final[dict[str, Any]] = {"default": None}
"""A cluster must not fill in a member: a member of another type is refused."""


class Strategy(Model):
    """How the backfill is done; of the result it changes nothing.

    In Python every member is there, with its defaults; in a document only the member named by `type` may be.
    """

    model_config = cel(
        (_same_job(), "strategy is immutable, except its pace: make a new Backfill"),
        *(
            (
                f"self.type == '{name}' || !has(self.{member_of(name)})",
                f"{member_of(name)} must be left out, unless type is {name}",
            )
            for name in STRATEGIES
            if len(STRATEGIES) > 1
        ),
    )

    type: Literal["Snapshot"] = "Snapshot"
    """Which member applies; a member that is left out has its defaults."""

    snapshot: SnapshotParams = Field(default=SnapshotParams(), json_schema_extra=ABSENT)
    """Parameters of `Snapshot`."""

    @property
    def params(self) -> StrategyParams:
        """Parameters of the chosen strategy."""
        for field in type(self).model_fields:
            member = getattr(self, field)
            if type(member) is STRATEGIES[self.type]:
                return member
        raise AssertionError(f"no member for {self.type}")

    @model_validator(mode="after")
    def _checked(self) -> Self:
        for name in STRATEGIES:
            given = any(_camel(field) == member_of(name) for field in self.model_fields_set)
            if given and name != self.type:
                hint = f"remove it, or set type: {name}"
                raise refused(member_of(name), f"must be left out, because type is {self.type}", hint=hint)
        return self

    @model_serializer(mode="wrap")
    def _only_the_member(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write `type` and its member only, so that what is written can be read again."""
        written: dict[str, Any] = handler(self)
        wanted = {"type", member_of(self.type)}
        return {name: value for name, value in written.items() if _camel(name) in wanted}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
