"""Automatic limit of history: fast start, then small steps up while all targets hold, and a proportional cut while one is broken.

observation                                        limit of rows
------------------------------------------------   -----------------------------------------------------------------
a target is broken, the first time in a row        unchanged: one slow commit is no trend
a target is broken again                           95 % of the limit that would have held if values grow with the limit;
                                                   at least half of the limit, at most nine tenths, never below the floor; with a share of
                                                   refused requests 85 % of the rows that the job achieved, at least half of the limit
all targets hold, and the job uses its limit       before any target was broken: times 1.1 to 4, as far as the values are below their
                                                   targets, and doubled with a share of refused requests, which is 0 up to the capacity;
                                                   afterwards plus a fifth of the distance to the highest limit that may hold
all targets hold, and the job is slower            unchanged: a limit that is not used proves nothing
a target has no new measurement, none is broken    unchanged

The highest limit that may hold is the ceiling at first, then 95 % of the lowest limit that broke a target. After a minute in which
all targets hold at this limit it grows by 5 %, after the next one by 10 %, then by 20 % and 40 %, because a store may recover.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

FASTEST, FAST, LEAST_GROWTH = 4.0, 2.0, 1.1

SLOWEST, LEAST_CUT = 0.5, 0.9
STEP, STEP_MIN = 0.2, 0.02
"""Part of the distance to the highest limit that may hold, and least part of that limit, by which the limit rises."""

DRAINING = 0.85
"""Part of a store's capacity after a cut, so that waiting requests end soon."""

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
    is_refused_share: bool = False
    """True for the percentage of requests that a store refuses. It is 0 up to the store's capacity, and depends on the client's retries
    above it. So the rows that the job achieves meanwhile show the capacity."""

    def growth(self, value: float) -> float:
        """Return how many times as high the limit may be next, by a measurement that holds."""
        if self.is_refused_share:
            return FAST
        return FASTEST if value <= 0 else max(LEAST_GROWTH, min(FASTEST, MARGIN * self.most / value))

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
    broken_target: str = ""
    """Name of the target that was broken last; empty if none was."""

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

    def observe(
        self, measured: Mapping[str, float | None], *, used: bool, now_s: float, achieved: float | None = None
    ) -> AutoThrottle:
        """Return the limit after one observation.

        Args:
            measured: Measurements under this limit, by target; `None` or absent without one.
            used: True if the job read about as many rows as its limit permits.
            now_s: Monotonic time.
            achieved: Rows per second that the job committed lately under this limit; `None` if unknown.
        """
        targets = self.settings.targets
        values = {name: value for name in targets if (value := measured.get(name)) is not None}
        ratios = {name: value / targets[name].most for name, value in values.items()}
        worst = max(ratios, key=lambda name: ratios[name], default=None)
        if worst is not None and ratios[worst] > 1:
            return self._broken(worst, values[worst], achieved)
        if len(values) < len(targets):
            row = 0 if self.broken_target in values else self.broken_in_a_row
            top_s = None if worst is None else self.at_the_top_since_s
            return replace(self, broken_in_a_row=row, at_the_top_since_s=top_s)
        if not used:
            return replace(self, broken_in_a_row=0)
        return self._held(min(targets[name].growth(value) for name, value in values.items()), now_s)

    def without_evidence(self) -> AutoThrottle:
        """Return the floor: the limit of a job that cannot measure a target."""
        return replace(self, rate=float(self.settings.floor), broken_in_a_row=0, at_the_top_since_s=None)

    def _broken(self, name: str, value: float, achieved: float | None) -> AutoThrottle:
        """Lower the limit, if this is not the first broken observation in a row."""
        seen = replace(self, broken_in_a_row=self.broken_in_a_row + 1, broken_target=name, at_the_top_since_s=None)
        if not self.broken_in_a_row:
            return seen
        target, rate, broken = self.settings.targets[name], self.rate, self.rate
        if not target.is_refused_share:
            lower = rate * max(SLOWEST, min(LEAST_CUT, MARGIN * target.most / value))
        elif achieved is None:
            lower = rate * (SLOWEST if self.lowest_broken is None else DRAINING)
        else:
            lower = max(SLOWEST * rate, DRAINING * min(rate, achieved))
            broken = min(rate, max(SLOWEST * rate, achieved) / MARGIN)
        return replace(
            seen,
            rate=max(self.settings.floor, lower),
            lowest_broken=broken if self.lowest_broken is None else min(self.lowest_broken, broken),
            probes=0,
            binding=target.describe(value),
        )

    def _held(self, growth: float, now_s: float) -> AutoThrottle:
        """Raise the limit, at most to the highest one that may hold; `growth` applies before any target was broken."""
        top = self._top()
        calm = replace(self, broken_in_a_row=0)
        if self.rate < top:
            higher = (
                self.rate * growth
                if self.lowest_broken is None
                else self.rate + max(STEP_MIN * top, STEP * (top - self.rate))
            )
            return replace(calm, rate=min(top, higher), at_the_top_since_s=None)
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
    if value < 1:
        return f"{value:.2g}"
    return f"{value:.1f}".removesuffix(".0") if value < 100 else f"{value:,.0f}"
