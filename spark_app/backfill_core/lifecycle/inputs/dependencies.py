"""Backfills that another one waits for: what is not reached yet, and cycles of Backfills that wait for each other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

VISITED_MAX: Final = 1000
"""Backfills that the search for a cycle reads. A longer cycle waits like a dependency that does not end."""

SHOWN_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class ObservedDependency:
    """An entry of `spec.dependsOn`, and the other Backfill as the operator last saw it."""

    name: str
    condition: str
    phase: str | None = None
    """Its phase; `None` if there is no such Backfill."""

    reason: str = ""
    """Reason of its state."""

    reached: bool = False
    """True if the condition is true."""

    @property
    def missing(self) -> bool:
        """True if no such Backfill exists."""
        return self.phase is None

    @property
    def failed(self) -> bool:
        """True if the other Backfill failed before it reached the condition."""
        return self.phase == "Failed" and not self.reached


@dataclass(frozen=True, slots=True)
class Wait:
    """The reason why a Backfill does not start yet."""

    reason: str
    message: str
    needs_a_person: bool


def wait_of(dependencies: tuple[ObservedDependency, ...], cycle: tuple[str, ...]) -> Wait | None:
    """Return the reason to wait; `None` if every dependency is reached."""
    if cycle:
        chain = " waits for ".join((*cycle, cycle[0]))
        message = f"no Backfill of a cycle can start: {chain}; remove one of them from spec.dependsOn"
        return Wait("DependencyCycle", message, needs_a_person=True)
    text = describe_unreached(dependencies)
    if not text:
        return None
    if any(dependency.failed for dependency in dependencies):
        message = f"{text}; correct it and run it again, or remove it from spec.dependsOn"
        return Wait("DependencyFailed", message, needs_a_person=True)
    if any(dependency.missing for dependency in dependencies):
        message = f"{text}; create it, or remove it from spec.dependsOn"
        return Wait("DependencyMissing", message, needs_a_person=False)
    return Wait("WaitingForDependency", text, needs_a_person=False)


def describe_unreached(dependencies: Iterable[ObservedDependency]) -> str:
    """Describe the dependencies that are not reached, each with the cause; empty if all are reached."""
    texts = [_describe(dependency) for dependency in dependencies if not dependency.reached]
    more = len(texts) - SHOWN_MAX
    return "; ".join(texts[:SHOWN_MAX]) + (f"; and {more} more" if more > 0 else "")


def _describe(dependency: ObservedDependency) -> str:
    if dependency.missing:
        return f"Backfill {dependency.name} does not exist in this namespace"
    if dependency.failed:
        return f"Backfill {dependency.name} failed with {dependency.reason or 'no reason'}"
    now = f"{dependency.phase or 'new'}{f', {dependency.reason}' if dependency.reason else ''}"
    return f"Backfill {dependency.name} is not {dependency.condition} yet ({now})"


def cycle_through(name: str, needed_by: Callable[[str], Iterable[str]]) -> tuple[str, ...]:
    """Return the shortest cycle through a Backfill, from it to the last one before it comes again; empty if there is none.

    Args:
        name: The Backfill.
        needed_by: Returns the names that a Backfill waits for; none for a Backfill that waits for nothing.
    """
    came_from: dict[str, str] = {}
    queue = deque([name])
    while queue and len(came_from) < VISITED_MAX:
        current = queue.popleft()
        for needed in needed_by(current):
            if needed == name:
                return _path(name, current, came_from)
            if needed not in came_from:
                came_from[needed] = current
                queue.append(needed)
    return ()


def _path(first: str, last: str, came_from: dict[str, str]) -> tuple[str, ...]:
    path = [last]
    while path[-1] != first:
        path.append(came_from[path[-1]])
    return tuple(reversed(path))
