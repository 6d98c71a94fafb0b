"""Automatic limit of history: additive increase while all targets hold, multiplicative decrease while one is broken.

observation                                        limit of rows
------------------------------------------------   -----------------------------------------------------------------
a target is broken, the first time in a row        unchanged: one slow commit is no trend
a target is broken again                           times 0.7, times 0.5 beyond twice the target; never below the floor
all targets hold, and the job uses its limit       plus a fifth of the highest limit that may hold; a tenth, once a target was broken
all targets hold, and the job is slower            unchanged: a limit that is not used proves nothing
a target has no new measurement, none is broken    unchanged

The highest limit that may hold is the ceiling at first, then 95 % of the lowest limit that broke a target. After a minute in which
all targets hold at this limit it grows by 5 %, after the next one by 10 %, then by 20 % and 40 %, because a store may recover.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

SLOWER, MUCH_SLOWER, MUCH = 0.7, 0.5, 2.0
STEPS, STEPS_NEAR = 5, 10
MARGIN = 0.95
"""Part of the lowest limit that broke a target; the job stays below it."""

USED = 0.5
"""Part of its limit that a job must reach, so that a target that holds is a reason for more."""

PROBE_S = 60.0
PROBE, PROBE_MAX = 0.05, 0.4
"""Growth of the highest limit that may hold: the first time, and at most. It doubles each time."""


@dataclass(frozen=True, slots=True)
class Target:
    """A measured quantity, and the largest value that holds."""

    what: str
    """The quantity for users, with its verb, such as `commits take`."""

    unit: str
    most: float

    def describe(self, value: float) -> str:
        """Describe a measurement and the target."""
        return f"{self.what} {_number(value)}{self.unit}, target {_number(self.most)}{self.unit}"


@dataclass(frozen=True, slots=True)
class AutoSettings:
    """Targets by name, and the bounds of the limit in rows per second."""

    targets: Mapping[str, Target]
    floor: int
    ceiling: int


@dataclass(frozen=True, slots=True)
class AutoThrottle:
    """The limit, and the evidence that it follows; `begin` makes the first one, `observe` the next one."""

    settings: AutoSettings
    rate: float
    broken_in_a_row: int = 0
    lowest_broken: float | None = None
    """Lowest limit that broke a target, with later probes; `None` if none did."""

    at_the_top_since_s: float | None = None
    """Time since which all targets hold at the highest limit that may hold."""

    probes: int = 0
    """Number of times that the highest limit that may hold grew since a target was broken twice."""

    binding: str = ""
    """Description of the target that lowered the limit last; empty if none did."""

    @classmethod
    def begin(cls, settings: AutoSettings) -> AutoThrottle:
        """Return the limit of a job that has measured nothing: the floor, because a store may be busy already."""
        return cls(settings, float(settings.floor))

    @property
    def rows_per_s(self) -> int:
        """The limit in force, in whole rows per second."""
        return max(self.settings.floor, min(int(self.rate), self.settings.ceiling))

    def observe(self, measured: Mapping[str, float | None], *, used: bool, now_s: float) -> AutoThrottle:
        """Return the limit after one observation.

        Args:
            measured: New measurements by target; `None` or absent without one.
            used: True if the job read about as many rows as its limit permits.
            now_s: Monotonic time.
        """
        targets = self.settings.targets
        values = {name: value for name in targets if (value := measured.get(name)) is not None}
        ratios = {name: value / targets[name].most for name, value in values.items()}
        worst = max(ratios, key=lambda name: ratios[name], default=None)
        if worst is not None and ratios[worst] > 1:
            return self._broken(targets[worst].describe(values[worst]), ratios[worst])
        if len(values) < len(targets):
            return replace(self, at_the_top_since_s=None) if worst is None else self
        return self._held(now_s) if used else replace(self, broken_in_a_row=0)

    def _broken(self, binding: str, ratio: float) -> AutoThrottle:
        """Lower the limit, if this is not the first broken observation in a row."""
        if not self.broken_in_a_row:
            return replace(self, broken_in_a_row=1, at_the_top_since_s=None)
        lower = max(self.settings.floor, self.rate * (SLOWER if ratio <= MUCH else MUCH_SLOWER))
        return replace(
            self,
            rate=lower,
            broken_in_a_row=self.broken_in_a_row + 1,
            lowest_broken=self.rate if self.lowest_broken is None else min(self.lowest_broken, self.rate),
            at_the_top_since_s=None,
            probes=0,
            binding=binding,
        )

    def _held(self, now_s: float) -> AutoThrottle:
        """Raise the limit, at most to the highest one that may hold."""
        top = self._top()
        calm = replace(self, broken_in_a_row=0)
        if self.rate < top:
            return replace(
                calm,
                rate=min(top, self.rate + top / (STEPS if self.lowest_broken is None else STEPS_NEAR)),
                at_the_top_since_s=None,
            )
        since_s = now_s if self.at_the_top_since_s is None else self.at_the_top_since_s
        if self.lowest_broken is None or now_s - since_s < PROBE_S:
            return replace(calm, at_the_top_since_s=since_s)
        grown = self.lowest_broken * (1 + min(PROBE * 2**self.probes, PROBE_MAX))
        return replace(
            calm, lowest_broken=min(grown, 2.0 * self.settings.ceiling), probes=min(self.probes + 1, 8),
            at_the_top_since_s=now_s,
        )  # fmt: skip

    def _top(self) -> float:
        """Return the highest limit that may hold."""
        settings = self.settings
        broken = settings.ceiling if self.lowest_broken is None else self.lowest_broken * MARGIN
        return float(max(settings.floor, min(settings.ceiling, broken)))


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0") if value < 100 else f"{value:,.0f}"
