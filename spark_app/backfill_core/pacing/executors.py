"""The number of executors of a job: requested by a width, missing, or too many. Spark reports missing ones only in its log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from backfill_api.spec.spec import BackfillSpec
from backfill_api.width import fixed_width, width_of
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

    def under(self, executors: int | None) -> ExecutorCount:
        """Return the value for the number of executors in force; `None` if the number cannot change.

        New executors get as long as the first ones before they are reported missing.
        """
        if executors is None or executors == self.wanted:
            return self
        return replace(self, wanted=executors, missing_since_s=None, seen_s=None)

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


@dataclass(frozen=True, slots=True)
class ExecutorRequest:
    """Number of executors that Spark was asked for, as an immutable value; `answered` updates it."""

    number: int
    """Number of the settings, and later that of the newest request."""

    changed: bool = False
    """True once a request succeeded. Until then Spark follows its settings, and no executor is removed."""

    failure: str = ""
    """Reason why the newest request failed; empty if it did not."""

    tried_s: float | None = None

    def due(self, count: ExecutorCount, now_s: float) -> bool:
        """Return whether Spark must be asked: another number is in force, a request failed, or a late executor makes one too many."""
        too_many = self.changed and count.there > count.wanted
        waits = self.tried_s is not None and now_s - self.tried_s < LOOK_EVERY_S
        return count.wanted > 0 and (count.wanted != self.number or self.failure != "" or too_many) and not waits

    def answered(self, number: int, failure: str, now_s: float) -> ExecutorRequest:
        """Return the value after a request; a failed one is repeated."""
        if failure:
            return replace(self, failure=failure, tried_s=now_s)
        return ExecutorRequest(number, changed=True, tried_s=now_s)

    @property
    def warnings(self) -> tuple[JobWarning, ...]:
        """Warn that the number of executors did not change."""
        if not self.failure:
            return ()
        message = f"the number of executors stays {self.number}, because Spark refused another one ({self.failure}): the driver asks again"
        return (JobWarning("ExecutorsUnchanged", message),)


def surplus(busy: Mapping[str, bool], wanted: int) -> tuple[str, ...]:
    """Return the executors to remove: those without a task first, then the newest ones.

    Args:
        busy: For each executor, by its id, whether it runs a task. Spark numbers executors in the order of their start.
        wanted: Number of executors that stay.
    """
    by_loss = sorted(busy, key=lambda executor: (busy[executor], -int(executor) if executor.isdigit() else 0))
    return tuple(by_loss[: max(0, len(busy) - wanted)])


def fixed_for_session(
    spec: BackfillSpec, setting: Callable[[str, str], str | None], *, ours: bool
) -> Mapping[str, str]:
    """Return why values of the width cannot change in a session, by the names of the fields of `Width`.

    Args:
        spec: The spec of the job.
        setting: Returns a setting of the session by name, or the given default.
        ours: True if the driver opened the session.
    """
    reason = _fixed_executors(spec, setting, ours=ours)
    return {**({"executors": reason} if reason else {}), **fixed_width(spec)}


def _fixed_executors(spec: BackfillSpec, setting: Callable[[str, str], str | None], *, ours: bool) -> str:
    if not ours:
        return "the session belongs to the caller, who decides their number"
    if not on_kubernetes(setting):
        return "the driver gets none from Kubernetes"
    if _follows_load(setting):
        return "their number follows the load, by spark.dynamicAllocation.enabled"
    if (requested := executors_wanted(setting)) != width_of(spec).executors:
        # Such as a session that no operator configured. A number that no user set must not end executors.
        return f"the session requests {requested}, and not the number of executor.instances"
    return ""


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
    name = "spark.dynamicAllocation.minExecutors" if _follows_load(setting) else "spark.executor.instances"
    return int(setting(name, "0") or 0)


def _follows_load(setting: Callable[[str, str], str | None]) -> bool:
    return setting("spark.dynamicAllocation.enabled", "false") == "true"
