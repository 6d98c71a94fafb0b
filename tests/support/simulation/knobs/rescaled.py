"""A job whose parallelism changes: each attempt has another `maxInFlight`, as after an edit of the spec."""

from __future__ import annotations

from random import Random

from support.simulation.scenario import Scenario

from backfill_api.spec.spec import BackfillSpec

DEFAULT = 2
"""`maxInFlight` of a spec that does not set it."""

CHOICES = (1, 2, 3, 5)


def max_in_flight(given: Scenario, attempt: int) -> int:
    """Return the `maxInFlight` of an attempt."""
    return Random(f"{given.seed}/parallelism/{attempt}").choice(CHOICES) if given.rescaled else DEFAULT


def spec_of(spec: BackfillSpec, given: Scenario, attempt: int) -> BackfillSpec:
    """Return the spec of an attempt."""
    if not given.rescaled:
        return spec
    strategy = spec.strategy
    params = strategy.params.model_copy(update={"max_in_flight": max_in_flight(given, attempt)})
    return spec.model_copy(update={"strategy": strategy.model_copy(update={strategy.member: params})})
