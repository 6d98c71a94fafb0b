"""Transitions between steps: they go in one direction, have a maximum number, and steps never call each other."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
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


@cache
def outcomes(step: Step) -> set[str]:
    """Return the outcomes that the return type of a step allows; mypy checks the step against it."""
    answer: Any = get_type_hints(step)["return"]
    ended = [part for part in (answer, *get_args(answer)) if get_origin(part) is Ended]
    return {name for part in ended for literal in get_args(part) for name in get_args(literal)}


def ways(step: Step, before: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    """Yield every path from a step to a final result that the types allow."""
    assert step not in before, f"{step.__name__} comes back"
    yield (*before, step)
    for outcome in outcomes(step):
        yield from ways(NEXT[outcome], (*before, step))  # type: ignore[index]


class TestTheHandover:
    """`decide` is total only if the steps end for every observation."""

    def test_no_step_is_reached_twice(self) -> None:
        """Two steps that hand a situation to each other would decide forever."""
        assert {step.__name__ for first in FIRST for way in ways(first) for step in way} >= {"launch", "plan_attempt"}

    def test_the_limit_equals_the_longest_path(self) -> None:
        """A smaller limit would stop a legal path; a larger limit would hide a new step."""
        assert max(len(way) for first in FIRST for way in ways(first)) == STEPS_MAX

    def test_every_outcome_has_a_next_step(self) -> None:
        """An outcome without a next step is a crash; an outcome that no step returns is dead code."""
        answered = {outcome for first in FIRST for way in ways(first) for step in way for outcome in outcomes(step)}

        assert answered == set(NEXT) == set(get_args(Outcome))

    @pytest.mark.parametrize("spec", SPECS)
    @pytest.mark.parametrize("status", STATUSES)
    def test_a_step_returns_only_what_its_type_allows(self, spec: str, status: str) -> None:
        """The limit is computed from the types."""
        for name, observation in observations_of(spec, status):
            context = classify(observation, T0)
            step, taken = first_step(context), 0
            while isinstance(answer := step(context), Ended):
                assert answer.outcome in outcomes(step), name
                step, context, taken = NEXT[answer.outcome], answer.context, taken + 1
            assert isinstance(answer, StepResult)
            assert taken < STEPS_MAX, name
