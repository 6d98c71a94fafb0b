"""Automatic limit of the snapshot's speed, as a spec has it."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, StrictInt, StringConstraints, model_validator

from backfill_api.model import Model, cel, refused
from backfill_api.spec.bounds import URL_FORM
from backfill_api.spec.override import ThrottleSpec

RowRate = Annotated[StrictInt, Field(ge=1, le=1_000_000_000)]
ORDER = "must not exceed ceiling"
TARGETS = ("commitSeconds", "lagSecondsMax", "storeErrors", "query")
NO_TARGET = f"needs a target: {', '.join(TARGETS[:-1])} or {TARGETS[-1]}"


class QuerySpec(Model):
    """A number of a monitoring system, from its HTTP API for PromQL; it is queried every 15 seconds."""

    url: Annotated[str, StringConstraints(strict=True, max_length=1024, pattern=URL_FORM)]
    """Address before `/api/v1/query`, such as `http://prometheus.monitoring:9090`; on a cluster `limits.allowedQueryUrls` must have it."""

    expression: Annotated[str, StringConstraints(strict=True, min_length=1, max_length=4096)]
    """Expression that returns one number, over a short time, such as `100 * max(rate(disk_busy_seconds_total[1m]))`."""

    max: Annotated[StrictInt, Field(ge=1, le=1_000_000_000_000)]
    """Largest number that holds. Multiply the expression if it returns a fraction."""


class AutoThrottleSpec(Model):
    """Limit that adapts: it rises step by step while each target below holds, and falls fast while one is broken."""

    model_config = cel(
        ("self.floor <= self.ceiling", f"floor {ORDER}"),
        (" || ".join(f"has(self.{target})" for target in TARGETS), NO_TARGET),
    )

    commit_seconds: Annotated[StrictInt, Field(ge=1, le=3600)] | None = None
    """Target: a commit takes at most this long. Two slower ones in a row lower the limit."""

    lag_seconds_max: Annotated[StrictInt, Field(ge=1, le=604_800)] | None = None
    """Target: the lag of live changes is at most this long; for strategies that apply changes while they copy."""

    store_errors: Annotated[StrictInt, Field(ge=1, le=100)] | None = None
    """Target: an S3 store (`s3a://`) refuses at most this percentage of the driver's requests because there are too many (503)."""

    query: QuerySpec | None = None
    """Target: a number of a monitoring system is at most `max`."""

    floor: RowRate
    """Lowest limit, in rows a second. Each attempt starts with it, and it applies while a target cannot be measured for a minute."""

    ceiling: RowRate
    """Highest limit, in rows a second. A lower `rowsPerSecond`, of the spec or a command, applies instead."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.floor > self.ceiling:
            raise refused("floor", f"{ORDER} ({self.ceiling})", hint="lower it, or raise ceiling", value=self.floor)
        return self

    @model_validator(mode="after")
    def _has_a_target(self) -> Self:
        if all(target is None for target in (self.commit_seconds, self.lag_seconds_max, self.store_errors, self.query)):
            raise refused("", NO_TARGET, hint="add commitSeconds: 2")
        return self


class SpecThrottle(ThrottleSpec):
    """Limit of the snapshot's speed in a spec; an override and commands have the manual part only."""

    auto: AutoThrottleSpec | None = None
    """Limit that follows measurements; absent: none."""
