"""Executors that a job lost, counted by reason from the messages with which Spark explains each removal."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile

from backfill_core.pacing.executors import LOOK_EVERY_S

OOM_KILLED, KILLED, JAVA_OUT_OF_MEMORY = "OOMKilled", "Killed", "JavaOutOfMemory"
DELETED, UNRESPONSIVE, DISCONNECTED, ENDED = "Deleted", "Unresponsive", "Disconnected", "Ended"
DECOMMISSIONED = "Decommissioned"

RELEASED = ("killed by driver", "spark scale down", "all executors")
"""Parts of Spark's messages about executors that the job released itself: their number follows the load, or the driver ends."""

BRIEF = "the api gave the following brief reason:"
"""Start of the line with the pod's `status.reason`, as a kubelet sets it."""

POD_REASONS = (
    "Evicted", "NodeAffinity", "NodeLost", "NodeShutdown", "OutOfcpu", "OutOfmemory", "OutOfpods", "Preempted", "Preempting",
    "Shutdown", "Terminated", "UnexpectedAdmissionError",
)  # fmt: skip

EXITED, DIGITS_MAX = "exited with exit code ", 4
EXIT_CODES = {50: ENDED, 51: ENDED, 52: JAVA_OUT_OF_MEMORY, 137: KILLED, 143: KILLED}
"""Exit codes: Spark's own code for a full heap, and those of SIGKILL and SIGTERM."""

PARTS = {
    "was deleted by a user or the framework": DELETED,
    "was not found in the": DELETED,
    "is decommissioned": DECOMMISSIONED,
    "heartbeat": UNRESPONSIVE,
    "exceeds timeout": UNRESPONSIVE,
    "client disassociated": DISCONNECTED,
    "process lost": DISCONNECTED,
    "unable to create executor": ENDED,
}
MESSAGE_MAX = 8192
"""Characters of a message that are read."""


def reason_of(message: str) -> str | None:
    """Return the reason of a removal as one word; `None` if the job released the executor itself.

    Args:
        message: Spark's message. It quotes the pod and its containers, so it may contain text from any user.
    """
    text = message[:MESSAGE_MAX].lower()
    if any(part in text for part in RELEASED):
        return None
    if "oomkilled" in text:
        return OOM_KILLED
    brief = text.partition(BRIEF)[2].strip().partition("\n")[0].strip()
    pod_reason = next((reason for reason in POD_REASONS if reason.lower() == brief), None)
    return (
        pod_reason or _by_exit_code(text) or next((reason for part, reason in PARTS.items() if part in text), "Unknown")
    )


def _by_exit_code(text: str) -> str | None:
    digits = "".join(takewhile(str.isdigit, text.partition(EXITED)[2][:DIGITS_MAX]))
    return EXIT_CODES.get(int(digits), ENDED) if digits.isascii() and digits else None


@dataclass(frozen=True, slots=True)
class ExecutorLosses:
    """Executors lost by this driver, by reason; `seen` adds those of a newer list."""

    watched: bool = False
    """True if the job has executors; `False` for a driver without executors."""

    counts: Mapping[str, int] = field(default_factory=dict)
    listed: Collection[str] = frozenset()
    """Ids in the newest list; Spark keeps the last hundred removed executors."""

    seen_s: float | None = None

    def due(self, now_s: float) -> bool:
        """Return whether the list must be read again."""
        return self.watched and (self.seen_s is None or now_s - self.seen_s >= LOOK_EVERY_S)

    def seen(self, removed: Mapping[str, str], now_s: float) -> ExecutorLosses:
        """Count the executors that are new in a list.

        Args:
            removed: Spark's message for each removed executor that it still lists, by id; an id is never used again.
            now_s: Time of the list, monotonic seconds.
        """
        counts = dict(self.counts)
        for executor, message in removed.items():
            reason = None if executor in self.listed else reason_of(message)
            if reason is not None:
                counts[reason] = counts.get(reason, 0) + 1
        return replace(self, counts=counts, listed=frozenset(removed), seen_s=now_s)
