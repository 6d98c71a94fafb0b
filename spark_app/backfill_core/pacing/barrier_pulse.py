"""Time without a barrier. A commit that hangs reports no error: Java answers, and the driver waits for ever.

A loop that stands still passes no barrier either. The driver ends only a commit, by ending the Java that waits for it:
a terminal that takes no output may stop the loop, and continue it. On a cluster the operator replaces such a driver.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from backfill_core.pacing.java_pulse import TICK_S
from backfill_core.protocol.strategy import JobWarning

LATE_S = 45.0
"""A commit without an answer for so many seconds is reported; most take less than a second, and one retry of a store 20."""

GIVEN_UP_S = 120.0
"""After so many seconds the driver ends its own Java. With the next attempt's start the job works again within three minutes."""

FILES_PER_S = 10
"""A commit has more time for each file that it names: it looks at each, and a slow store takes a tenth of a second for that."""


class BarrierMark(NamedTuple):
    """How far a loop is."""

    turns: int
    """Events that it has taken."""

    epoch: int | None = None
    """Barrier of the commit in flight, also between two tries; `None` if there is none."""

    files: int = 0
    """Files that this commit names."""


BEFORE_THE_FIRST: Final = BarrierMark(-1)


@dataclass(frozen=True, slots=True)
class BarrierPulse:
    """For how long a due barrier has not passed; a value, told by `passed`."""

    ours: bool = True
    """May the driver end the Java that commits? The Java of a caller's session runs other work, too."""

    silent_s: float = 0.0
    mark: BarrierMark = BEFORE_THE_FIRST

    def passed(self, seconds: float, mark: BarrierMark) -> BarrierPulse:
        """Take the time since the last look. Of a long gap little counts: the whole machine was stopped."""
        idles = mark.turns == self.mark.turns
        waits = mark.epoch is not None and mark.epoch == self.mark.epoch
        silent_s = self.silent_s + min(seconds, 2 * TICK_S) if idles or waits else 0.0
        return replace(self, silent_s=silent_s, mark=mark)

    @property
    def _more_s(self) -> float:
        return self.mark.files / FILES_PER_S

    @property
    def late(self) -> bool:
        """Is the silence longer than a slow store explains?"""
        return self.silent_s >= LATE_S + self._more_s

    @property
    def given_up(self) -> bool:
        """Must the driver end the Java that commits?"""
        return self.ours and self.mark.epoch is not None and self.silent_s >= GIVEN_UP_S + self._more_s

    @property
    def warnings(self) -> tuple[JobWarning, ...]:
        """Say that nothing is committed, and what happens next."""
        if not self.late:
            return ()
        then = (
            f"after {GIVEN_UP_S:.0f} s the driver ends its Java, and the next attempt continues from the last commit"
            if self.ours
            else "if it stays so, end the process and run the job again: it continues from the last commit"
        )
        what = f"no barrier has passed for more than {LATE_S:.0f} s, so nothing is committed; the target's store may not answer"
        return (JobWarning("CommitStalled", f"{what}; {then}"),)
