"""Automatic limit of the snapshot's speed, as a spec has it."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, StrictInt, model_validator

from backfill_api.model import Model, cel, refused
from backfill_api.spec.override import ThrottleSpec

RowRate = Annotated[StrictInt, Field(ge=1, le=1_000_000_000)]
ORDER = "must not exceed ceiling"


class AutoThrottleSpec(Model):
    """Limit that adapts: it rises step by step while the target below holds, and falls fast while it is broken."""

    model_config = cel(("self.floor <= self.ceiling", f"floor {ORDER}"))

    commit_seconds: Annotated[StrictInt, Field(ge=1, le=3600)]
    """Target: a commit takes at most this long. Two slower ones in a row lower the limit; a store that refuses requests slows commits."""

    floor: RowRate
    """Lowest limit, in rows a second; each attempt starts with it."""

    ceiling: RowRate
    """Highest limit, in rows a second. A lower `rowsPerSecond`, of the spec or a command, applies instead."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.floor > self.ceiling:
            raise refused("floor", f"{ORDER} ({self.ceiling})", hint="lower it, or raise ceiling", value=self.floor)
        return self


class SpecThrottle(ThrottleSpec):
    """Limit of the snapshot's speed in a spec; an override and commands have the manual part only."""

    auto: AutoThrottleSpec | None = None
    """Limit that follows the duration of commits; absent: none."""
