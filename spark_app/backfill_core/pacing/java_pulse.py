"""Responsiveness of Spark's Java process. A process that hangs reports no error: every call into it waits indefinitely."""

from __future__ import annotations

from dataclasses import dataclass, replace

from backfill_core.protocol.strategy import JobWarning

ASK_EVERY_S = 5.0
"""Seconds between an answer and the next request."""

TICK_S = 1.0
"""Seconds between two checks of the silence."""

LATE_S = 15.0
"""Seconds of silence that are reported. A garbage collection takes a fraction of it."""

UNHEALTHY_S = 30.0
"""Seconds after which the liveness probe fails. A kubelet ends the driver a minute later, if the driver does not end itself."""

GIVEN_UP_S = 60.0
"""Seconds after which the driver ends its own Java. The attempt fails as `JavaDied`, and the next one resumes."""


@dataclass(frozen=True, slots=True)
class JavaPulse:
    """Time without an answer from Java, as an immutable value; `passed` and `answered` update it."""

    ours: bool = True
    """True if the driver may end the Java process. The Java of a caller's session runs other work, too."""

    silent_s: float = 0.0

    def passed(self, seconds: float) -> JavaPulse:
        """Add the time since the last check. A long gap counts only in part, because the whole machine was stopped."""
        return replace(self, silent_s=self.silent_s + min(seconds, 2 * TICK_S))

    def answered(self) -> JavaPulse:
        """Return the value after an answer from Java."""
        return replace(self, silent_s=0.0)

    @property
    def late(self) -> bool:
        """True if the silence is longer than a busy Java explains."""
        return self.silent_s >= LATE_S

    @property
    def healthy(self) -> bool:
        """True if the liveness probe succeeds."""
        return self.silent_s < UNHEALTHY_S

    @property
    def given_up(self) -> bool:
        """True if the driver must end its Java."""
        return self.ours and self.silent_s >= GIVEN_UP_S

    @property
    def warnings(self) -> tuple[JobWarning, ...]:
        """Warn that nothing is read or committed, and describe the next step."""
        if not self.late:
            return ()
        next_step = (
            f"after {GIVEN_UP_S:.0f} s the driver ends it, and the next attempt continues from the last commit"
            if self.ours
            else "if this continues, end the process and run the job again: it continues from the last commit"
        )
        problem = (
            f"the Java process of Spark has not answered for more than {LATE_S:.0f} s, so nothing is read or committed"
        )
        return (JobWarning("JavaSilent", f"{problem}; {next_step}"),)
