"""A Backfill waits for the Backfills of `spec.dependsOn`, with a reason that names them, until its first attempt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.operators.lifecycle_space import STATUSES
from support.operators.observations import after, checked, observed, reason

from backfill_core.lifecycle.actions import LaunchDriver
from backfill_core.lifecycle.inputs.dependencies import ObservedDependency, cycle_through
from backfill_core.lifecycle.observation import Observation

MISSING = ObservedDependency("items", "Complete")
RUNS = ObservedDependency("items", "Complete", "Running", "Running")
FAILED = ObservedDependency("items", "Complete", "Failed", "SourceDamaged")
REACHED = ObservedDependency("items", "Complete", "Succeeded", "Complete", reached=True)


def waiting_for(*dependencies: ObservedDependency, cycle: tuple[str, ...] = ()) -> Observation:
    """Return a new Backfill with these dependencies."""
    return observed(dependencies=dependencies, dependency_cycle=cycle)


def message(observation: Observation) -> str:
    """Return the message of Ready."""
    status = checked(observation).status
    return next(condition.message for condition in status.conditions if condition.type == "Ready")


class TestABackfillThatWaits:
    @pytest.mark.parametrize(
        ("dependency", "expected", "type_", "text"),
        [
            (MISSING, "DependencyMissing", "Reconciling", "Backfill items does not exist in this namespace"),
            (RUNS, "WaitingForDependency", "Reconciling", "Backfill items is not Complete yet (Running, Running)"),
            (FAILED, "DependencyFailed", "Stalled", "Backfill items failed with SourceDamaged"),
        ],
        ids=["missing", "running", "failed"],
    )
    def test_waiting_backfill_names_its_dependency(
        self, dependency: ObservedDependency, expected: str, type_: str, text: str
    ) -> None:
        """It launches nothing and uses no attempt."""
        decision = checked(waiting_for(REACHED, dependency))

        assert decision.actions == ()
        assert (reason(decision.status, type_), decision.status.attempts) == (expected, 0)
        assert text in message(waiting_for(REACHED, dependency))

    def test_backfill_starts_when_its_last_dependency_is_reached(self) -> None:
        """The reached ones need no more attention."""
        waits = waiting_for(RUNS)
        decision = checked(after(waits, checked(waits), dependencies=(REACHED,)))

        assert LaunchDriver(1, "Run") in decision.actions

    def test_failed_dependency_that_is_reached_counts(self) -> None:
        """`Finished` is true of a failed Backfill."""
        ended = ObservedDependency("items", "Finished", "Failed", "SourceDamaged", reached=True)
        assert LaunchDriver(1, "Run") in checked(waiting_for(ended)).actions

    def test_many_dependencies_are_counted(self) -> None:
        """A condition's message is short."""
        missing = tuple(ObservedDependency(f"items-{number}", "Complete") for number in range(5))
        assert "items-2" in message(waiting_for(*missing))
        assert "and 2 more" in message(waiting_for(*missing))

    @pytest.mark.parametrize("status", ["planned", "failed once", "suspended"])
    def test_backfill_that_has_begun_does_not_wait_again(self, status: str) -> None:
        """A dependency that is run again must not stop a job between two attempts."""
        begun = observed(status=STATUSES[status], dependencies=(RUNS,), live=True)
        assert checked(begun).status.attempts >= 1
        assert not any(condition.reason == "WaitingForDependency" for condition in checked(begun).status.conditions)


class TestACycle:
    def test_cycle_is_named_and_nothing_starts(self) -> None:
        """All Backfills of a cycle wait for ever, so a user is needed."""
        cycle = waiting_for(RUNS, cycle=("orders", "items"))
        decision = checked(cycle)

        assert (decision.actions, reason(decision.status, "Stalled")) == ((), "DependencyCycle")
        assert "orders waits for items waits for orders" in message(cycle)

    @pytest.mark.parametrize(
        ("edges", "cycle"),
        [
            ({}, ()),
            ({"a": ("a",)}, ("a",)),
            ({"a": ("b",), "b": ("c",)}, ()),
            ({"a": ("b", "c"), "b": ("d",), "c": ("a",), "d": ("a",)}, ("a", "c")),
            ({"a": ("b",), "b": ("c",), "c": ("b",)}, ()),
        ],
        ids=["nothing", "itself", "a chain", "the shortest of two", "a cycle of others"],
    )
    def test_cycle_through_a_backfill_is_found(self, edges: dict[str, tuple[str, ...]], cycle: tuple[str, ...]) -> None:
        """A Backfill that only leads into a cycle is not part of it."""
        assert cycle_through("a", lambda name: edges.get(name, ())) == cycle

    @given(st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdef"), max_size=3), max_size=6))
    def test_found_cycle_is_one(self, edges: dict[str, list[str]]) -> None:
        """Each member waits for the next one. Without a cycle, the Backfill cannot reach itself."""
        found = cycle_through("a", lambda name: edges.get(name, ()))
        reachable, more = set[str](), list(edges.get("a", ()))
        while more:
            if (name := more.pop()) not in reachable:
                reachable.add(name)
                more += edges.get(name, ())

        assert bool(found) == ("a" in reachable)
        assert all(later in edges[name] for name, later in zip(found, (*found[1:], *found[:1]), strict=True))
