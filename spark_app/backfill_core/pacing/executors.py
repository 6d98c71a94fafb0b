"""Executors that a job asked for and does not have: Spark asks for them again and again, and says so in its log alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from backfill_core.protocol.strategy import JobWarning

LATE_S = 60.0
"""How long some may be missing before it is said: the start of one on a node that has its image takes a fraction of it."""

LOOK_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class ExecutorCount:
    """How many executors there are; a value, told by `seen`."""

    wanted: int
    """Asked for; 0: the driver works alone."""

    there: int = 0
    missing_since_s: float | None = None
    """When they became fewer than wanted, monotonic seconds; None: all are there, or none were counted yet."""

    seen_s: float | None = None

    def due(self, now_s: float) -> bool:
        """Is it time to count? Never where none is wanted."""
        return self.wanted > 0 and (self.seen_s is None or now_s - self.seen_s >= LOOK_EVERY_S)

    def seen(self, there: int, now_s: float) -> ExecutorCount:
        """Take a count."""
        since_s = now_s if self.missing_since_s is None else self.missing_since_s
        return replace(self, there=there, seen_s=now_s, missing_since_s=None if there >= self.wanted else since_s)

    @property
    def warnings(self) -> tuple[JobWarning, ...]:
        """Say that some are late, as of the newest count."""
        if self.missing_since_s is None or self.seen_s is None or self.seen_s - self.missing_since_s < LATE_S:
            return ()
        some = "nothing is read until one comes" if not self.there else "the job is slower without the others"
        words = f"{self.there} of {self.wanted} executors are there, and {some}: the driver's log says why, such as a quota that is full"
        return (JobWarning("ExecutorsMissing", words),)


def on_kubernetes(setting: Callable[[str, str], str | None]) -> bool:
    """Return whether a session has its executors from Kubernetes."""
    return (setting("spark.master", "") or "").startswith("k8s:")


def executors_wanted(setting: Callable[[str, str], str | None]) -> int:
    """Return how many executors a session on Kubernetes asks for at least; 0: its driver may work alone.

    Args:
        setting: Returns a setting of the session by name, or what is given beside the name.
    """
    if not on_kubernetes(setting):
        return 0
    follows_load = setting("spark.dynamicAllocation.enabled", "false") == "true"
    name = "spark.dynamicAllocation.minExecutors" if follows_load else "spark.executor.instances"
    return int(setting(name, "0") or 0)
