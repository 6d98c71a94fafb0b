"""How steps hand over to each other: in one direction, within a bound, and never by a call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from support.operators.lifecycle_space import SPECS, STATUSES, observations_of
from support.operators.observations import T0

from backfill_core.lifecycle.decide import NEXT, STEPS_MAX, Step, first_step
from backfill_core.lifecycle.inputs.context import classify
from backfill_core.lifecycle.steps.finalizing import finalize, reconcile_finished
from backfill_core.lifecycle.steps.idle import reconcile_idle
from backfill_core.lifecycle.steps.running import reconcile_running
from backfill_core.lifecycle.steps.step import Ended, Outcome, StepResult

FIRST: tuple[Step, ...] = (finalize, reconcile_finished, reconcile_running, reconcile_idle)


def outcomes(step: Step) -> set[str]:
    """Return the outcomes that a step's type lets it answer; mypy holds the step to them."""
    answer: Any = get_type_hints(step)["return"]
    ended = [one for one in (answer, *get_args(answer)) if get_origin(one) is Ended]
    return {name for one in ended for literal in get_args(one) for name in get_args(literal)}


def ways(step: Step, before: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    """Yield every way from a step to a final answer, as the types allow it."""
    assert step not in before, f"{step.__name__} comes back"
    yield (*before, step)
    for outcome in outcomes(step):
        yield from ways(NEXT[outcome], (*before, step))  # type: ignore[index]


class TestTheHandover:
    """`decide` is total only if the steps come to an end, whatever they see."""

    def test_never_comes_back(self) -> None:
        """Two steps that each call the situation the other's would decide for ever."""
        assert {step.__name__ for first in FIRST for way in ways(first) for step in way} >= {"launch", "plan_attempt"}

    def test_has_the_bound_of_its_longest_way(self) -> None:
        """A smaller bound would stop a legal way, a larger one would hide a new step."""
        assert max(len(way) for first in FIRST for way in ways(first)) == STEPS_MAX

    def test_knows_every_outcome(self) -> None:
        """An outcome without a next step is a crash; one that no step answers is dead."""
        answered = {one for first in FIRST for way in ways(first) for step in way for one in outcomes(step)}

        assert answered == set(NEXT) == set(get_args(Outcome))

    @pytest.mark.parametrize("spec", SPECS)
    @pytest.mark.parametrize("status", STATUSES)
    def test_answers_nothing_but_what_its_type_says(self, spec: str, status: str) -> None:
        """The types are what the bound is computed from."""
        for name, observation in observations_of(spec, status):
            context = classify(observation, T0)
            step, taken = first_step(context), 0
            while isinstance(answer := step(context), Ended):
                assert answer.outcome in outcomes(step), name
                step, context, taken = NEXT[answer.outcome], answer.context, taken + 1
            assert isinstance(answer, StepResult)
            assert taken < STEPS_MAX, name
