"""Executors that a job requested and does not have. Spark repeats the request, and reports it only in its log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from backfill_core.protocol.strategy import JobWarning

LATE_S = 60.0
"""Seconds after which missing executors are reported. An executor on a node that has its image starts in a fraction of it."""

LOOK_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class ExecutorCount:
    """Number of executors, as an immutable value; `seen` updates it."""

    wanted: int
    """Requested executors; 0 if the driver works without executors."""

    there: int = 0
    missing_since_s: float | None = None
    """Monotonic time since which executors are missing; `None` if none is missing or none was counted."""

    seen_s: float | None = None

    def due(self, now_s: float) -> bool:
        """Return whether the executors must be counted again; never if none is requested."""
        return self.wanted > 0 and (self.seen_s is None or now_s - self.seen_s >= LOOK_EVERY_S)

    def seen(self, there: int, now_s: float) -> ExecutorCount:
        """Return the value with a new count."""
        since_s = now_s if self.missing_since_s is None else self.missing_since_s
        return replace(self, there=there, seen_s=now_s, missing_since_s=None if there >= self.wanted else since_s)

    @property
    def warnings(self) -> tuple[JobWarning, ...]:
        """Warn that executors are late, according to the newest count."""
        if self.missing_since_s is None or self.seen_s is None or self.seen_s - self.missing_since_s < LATE_S:
            return ()
        effect = "nothing is read until one starts" if not self.there else "the job is slower without the rest"
        message = f"{self.there} of {self.wanted} executors are running, and {effect}: the driver's log has the reason, such as a full quota"
        return (JobWarning("ExecutorsMissing", message),)


def on_kubernetes(setting: Callable[[str, str], str | None]) -> bool:
    """Return whether a session gets its executors from Kubernetes."""
    return (setting("spark.master", "") or "").startswith("k8s:")


def executors_wanted(setting: Callable[[str, str], str | None]) -> int:
    """Return the minimum number of executors that a session on Kubernetes requests; 0 if its driver may work without any.

    Args:
        setting: Returns a setting of the session by name, or the given default.
    """
    if not on_kubernetes(setting):
        return 0
    follows_load = setting("spark.dynamicAllocation.enabled", "false") == "true"
    name = "spark.dynamicAllocation.minExecutors" if follows_load else "spark.executor.instances"
    return int(setting(name, "0") or 0)
