"""Hold of a source: its retention is longer while jobs need its old versions, and afterwards as before.

One log entry changes the properties and records the earlier values in the property `backfill.hold`, so no kill separates the two. The last
job of a hold restores the values. A value that was changed meanwhile stays.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from backfill_core.errors import BackfillError, FencedError, UnsupportedSourceFeatureError
from backfill_core.source_fence.fence import LogEntry, Request, TableHead, held_by, property_entry
from backfill_core.source_fence.fenceable import check_fenceable
from backfill_core.source_fence.table_protocol import HOLD, typed_fields

LOG_RETENTION: Final = "delta.logRetentionDuration"
FILE_RETENTION: Final = "delta.deletedFileRetentionDuration"
RETENTIONS: Final = (LOG_RETENTION, FILE_RETENTION)

HELD_DAYS: Final = 90
HELD_S: Final = HELD_DAYS * 86_400
HELD: Final = f"interval {HELD_DAYS * 24} hours"
"""In hours, so that a value that a user sets meanwhile, such as `interval 90 days`, is another one."""

HOLDS, ENDS = "HOLD", "END HOLD"
OPERATIONS: Final = (HOLDS, ENDS)
"""Operations in the table's history."""

WARN_HINT: Final = (
    f"Set hold: Warn in spec.source, and raise {LOG_RETENTION} and {FILE_RETENTION} of the source yourself."
)

Retention = Callable[[str, str | None], int]
"""Returns the seconds of a retention by the name of its property and its value; `None` as a value stands for Delta's default."""


@dataclass(frozen=True, slots=True)
class SourceHold:
    """A hold, as the property of the source describes it."""

    jobs: tuple[str, ...]
    """Ids of the jobs that need the old versions, in the order in which they came."""

    before: Mapping[str, str | None]
    """Values of the properties before the hold, by name; `None` if a property was not set."""

    def encode(self) -> str:
        """Return the value of the table property."""
        fields = {"jobs": list(self.jobs), "before": dict(self.before)}
        return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def decode(cls, text: str) -> Self | None:
        """Parse the value of the table property; `None` if it is not valid."""
        values = typed_fields(text, {"jobs": list, "before": dict})
        if values is None or not all(isinstance(job, str) for job in values["jobs"]):
            return None
        before = {name: value for name, value in values["before"].items() if name in RETENTIONS}
        if not all(value is None or isinstance(value, str) for value in before.values()):
            return None
        return cls(tuple(values["jobs"]), before)


@dataclass(frozen=True, slots=True)
class Held:
    """The source keeps its old versions for the job; `version` has the properties."""

    version: int


@dataclass(frozen=True, slots=True)
class Unheld:
    """The source has no hold of the job; `version` has the properties."""

    version: int


def short_retentions(properties: Mapping[str, str], retention: Retention) -> tuple[str, ...]:
    """Return the retentions that a hold would extend."""
    return tuple(name for name in RETENTIONS if retention(name, properties.get(name)) < HELD_S)


def hold_step(head: TableHead, request: Request, retention: Retention) -> Held | LogEntry:
    """Return that the source is held for a job, or the log entry that holds it.

    A job that holds the source already changes nothing, also if a user shortened the retention since: that is their decision.

    Raises:
        SourceFencedError: another job fences the source.
        UnsupportedSourceFeatureError: no log entry can be added to the table; names the reason.
    """
    hold = _hold_of(head)
    if hold is not None and request.job in hold.jobs:
        return Held(head.version)
    short = short_retentions(head.properties, retention)
    if not short and hold is None:
        return Held(head.version)
    _check(head, request)
    before = {name: head.properties.get(name) for name in short} if hold is None else {
        **hold.before, **{name: head.properties.get(name) for name in short},
    }  # fmt: skip
    joined = SourceHold((*(() if hold is None else hold.jobs), request.job), before)
    properties = {**head.properties, **dict.fromkeys(short, HELD), HOLD: joined.encode()}
    return property_entry(head, request, HOLDS, properties, {"job": request.job})


def end_hold_step(head: TableHead, request: Request) -> Unheld | LogEntry:
    """Return that a job does not hold the source, or the log entry that ends its hold.

    The values return with the last job, each one unless it was changed since.

    Raises:
        SourceFencedError: another job fences the source.
        UnsupportedSourceFeatureError: no log entry can be added to the table; names the reason.
    """
    hold = _hold_of(head)
    if hold is None or request.job not in hold.jobs:
        return Unheld(head.version)
    _check(head, request)
    left = tuple(job for job in hold.jobs if job != request.job)
    properties = {**head.properties, HOLD: SourceHold(left, hold.before).encode()}
    if not left:
        del properties[HOLD]
        for name, value in hold.before.items():
            if properties.get(name) == HELD:
                del properties[name]
                properties |= {} if value is None else {name: value}
    return property_entry(head, request, ENDS, properties, {"job": request.job})


def is_last(outcome: str, error: BackfillError | None) -> bool:
    """Return True if no later attempt needs the old versions of the source.

    A stopped job resumes, a retryable failure is retried, and a driver that was fenced has a successor.
    """
    if outcome == "Failed":
        return error is not None and not error.retryable and not isinstance(error, FencedError)
    return outcome == "Complete"


def _hold_of(head: TableHead) -> SourceHold | None:
    return SourceHold.decode(head.properties.get(HOLD, ""))


def _check(head: TableHead, request: Request) -> None:
    """Reject a table to which no entry of the job can be added."""
    if head.protocol.is_fenced:
        held_by(head, request.job)
        return
    try:
        check_fenceable(head.path, head.protocol, head.metadata)
    except UnsupportedSourceFeatureError as unfit:
        raise UnsupportedSourceFeatureError(
            f"spec.source: hold: Extend adds an entry to the log of the source, as a fence does, and {unfit.message}",
            hint=WARN_HINT,
        ) from unfit
