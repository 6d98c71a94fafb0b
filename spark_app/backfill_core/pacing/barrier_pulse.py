"""Time without a barrier. A commit that hangs reports no error: Java answers, and the driver waits indefinitely.

A blocked loop passes no barrier either. The driver ends only a hanging commit, by ending the Java process that runs it:
a terminal that accepts no output may block the loop and release it again. On a cluster the operator replaces a driver with a blocked loop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from backfill_core.pacing.java_pulse import TICK_S
from backfill_core.protocol.strategy import JobWarning

LATE_S = 45.0
"""Seconds after which a commit without an answer is reported. Most commits take less than a second, and one retry of a store 20."""

GIVEN_UP_S = 120.0
"""Seconds after which the driver ends its own Java. With the start of the next attempt the job works again within three minutes."""

FILES_PER_S = 10
"""Files per second of extra time for a commit: it checks each file that it adds, and a slow store takes 0.1 s per check."""


class BarrierMark(NamedTuple):
    """Progress of a loop."""

    turns: int
    """Number of events that it has handled."""

    epoch: int | None = None
    """Barrier of the commit in flight, also between two tries; `None` without a commit."""

    files: int = 0
    """Number of files in this commit."""

    more_s: float = 0.0
    """Seconds of extra time for the present turn."""


BEFORE_THE_FIRST: Final = BarrierMark(-1)


@dataclass(frozen=True, slots=True)
class BarrierPulse:
    """Time for which a due barrier has not passed, as an immutable value; `passed` updates it."""

    ours: bool = True
    """True if the driver may end the Java process that commits. The Java of a caller's session runs other work, too."""

    silent_s: float = 0.0
    mark: BarrierMark = BEFORE_THE_FIRST

    def passed(self, seconds: float, mark: BarrierMark) -> BarrierPulse:
        """Add the time since the last check. A long gap counts only in part, because the whole machine was stopped."""
        idles = mark.turns == self.mark.turns
        waits = mark.epoch is not None and mark.epoch == self.mark.epoch
        silent_s = self.silent_s + min(seconds, 2 * TICK_S) if idles or waits else 0.0
        return replace(self, silent_s=silent_s, mark=mark)

    @property
    def _more_s(self) -> float:
        return self.mark.files / FILES_PER_S + self.mark.more_s

    @property
    def late(self) -> bool:
        """True if the silence is longer than a slow store explains."""
        return self.silent_s >= LATE_S + self._more_s

    @property
    def given_up(self) -> bool:
        """True if the driver must end the Java process that commits."""
        return self.ours and self.mark.epoch is not None and self.silent_s >= GIVEN_UP_S + self._more_s

    @property
    def warnings(self) -> tuple[JobWarning, ...]:
        """Warn that nothing is committed, and describe the next step."""
        if not self.late:
            return ()
        next_step = (
            f"after {GIVEN_UP_S:.0f} s the driver ends its Java, and the next attempt continues from the last commit"
            if self.ours
            else "if this continues, end the process and run the job again: it continues from the last commit"
        )
        problem = f"no barrier has passed for more than {LATE_S:.0f} s, so nothing is committed; the target's store may not answer"
        return (JobWarning("CommitStalled", f"{problem}; {next_step}"),)
