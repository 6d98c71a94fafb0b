"""Whether the Java process of Spark still answers. A process that hangs reports no error: every call into it waits for ever."""

from __future__ import annotations

from dataclasses import dataclass, replace

from backfill_core.protocol.strategy import JobWarning

ASK_EVERY_S = 5.0
"""Seconds between an answer and the next question."""

TICK_S = 1.0
"""Seconds between two looks at the silence."""

LATE_S = 15.0
"""Silence of so many seconds is reported: collecting garbage takes a fraction of it."""

UNHEALTHY_S = 30.0
"""From here on the liveness probe fails: a kubelet ends the driver a minute later, if the driver does not end itself."""

GIVEN_UP_S = 60.0
"""After so many seconds the driver ends its own Java. The attempt fails as `JavaDied`, and the next one goes on."""


@dataclass(frozen=True, slots=True)
class JavaPulse:
    """For how long Java has not answered; a value, told by `passed` and `answered`."""

    ours: bool = True
    """May the driver end it? The Java of a caller's session runs other work, too."""

    silent_s: float = 0.0

    def passed(self, seconds: float) -> JavaPulse:
        """Take the time since the last look. Of a long gap little counts: the whole machine was stopped, not Java alone."""
        return replace(self, silent_s=self.silent_s + min(seconds, 2 * TICK_S))

    def answered(self) -> JavaPulse:
        """Take an answer of Java's."""
        return replace(self, silent_s=0.0)

    @property
    def late(self) -> bool:
        """Is the silence longer than a busy Java explains?"""
        return self.silent_s >= LATE_S

    @property
    def healthy(self) -> bool:
        """Does the liveness probe succeed?"""
        return self.silent_s < UNHEALTHY_S

    @property
    def given_up(self) -> bool:
        """Must the driver end its Java?"""
        return self.ours and self.silent_s >= GIVEN_UP_S

    @property
    def warnings(self) -> tuple[JobWarning, ...]:
        """Say that nothing moves, and what happens next."""
        if not self.late:
            return ()
        then = (
            f"after {GIVEN_UP_S:.0f} s the driver ends it, and the next attempt goes on from the last commit"
            if self.ours
            else "if it stays so, end the process and run the job again: it goes on from the last commit"
        )
        what = (
            f"the Java process of Spark has not answered for more than {LATE_S:.0f} s, so nothing is read or committed"
        )
        return (JobWarning("JavaSilent", f"{what}; {then}"),)
