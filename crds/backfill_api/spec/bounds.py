"""The scalar types. Every text and list has a longest length and every number a range, so a cluster can bound its work."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, StrictInt, StringConstraints

from backfill_api.timestamps import ms_of, rfc3339

DAY_S = 24 * 3600

COUNT_MAX = 2**53 - 1
"""Largest integer that every JSON reader and every tool that compares CRDs represents exactly."""

Column = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=255, pattern=r"\S")]
Columns = Annotated[tuple[Column, ...], Field(max_length=64)]
Sql = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=8192, pattern=r"\S")]
Path = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=2048, pattern=r"\S")]
Name = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=253, pattern=r"\S")]
QueueName = Annotated[
    str,
    StringConstraints(
        strict=True,
        min_length=1,
        max_length=253,
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    ),
]
Value = Annotated[str, StringConstraints(strict=True, max_length=4096)]
Settings = Annotated[dict[str, Value], Field(max_length=64)]

Seconds = Annotated[StrictInt, Field(ge=1, le=7 * DAY_S)]
Duration = Annotated[int, Field(ge=0, le=COUNT_MAX)]
"""Seconds that something takes, measured or estimated."""

Drain = Annotated[StrictInt, Field(ge=1, le=3600)]
"""Seconds. A node that is drained waits this long for its pods, and an upgrade of the cluster waits for the node."""

Version = Annotated[StrictInt, Field(ge=0, le=COUNT_MAX)]
Rate = Annotated[StrictInt, Field(ge=0, le=1_000_000_000)]
ByteRate = Annotated[StrictInt, Field(ge=0, le=1_000_000_000_000)]
IN_FLIGHT_MAX = 64
InFlight = Annotated[StrictInt, Field(ge=1, le=IN_FLIGHT_MAX)]
"""Pieces of history that run at the same time, at most."""

SPLIT_SECONDS_MAX, CHUNK_ROWS_MAX, EXECUTORS_MAX = 600, 1_000_000_000, 10_000

SplitSeconds = Annotated[StrictInt, Field(ge=1, le=SPLIT_SECONDS_MAX)]
"""Target duration of a split."""

ChunkRows = Annotated[StrictInt, Field(ge=0, le=CHUNK_ROWS_MAX)]
"""Rows of a chunk, at most; 0: as many as take a fixed time."""

Executors = Annotated[StrictInt, Field(ge=1, le=EXECUTORS_MAX)]

Vnodes = Annotated[StrictInt, Field(ge=1, le=32768)]
Percent = Annotated[int, Field(ge=0, le=100)]

Count = Annotated[int, Field(ge=0, le=COUNT_MAX)]
"""A number that comes from outside: from a driver, or from a person who edited a status."""

Balance = Annotated[int, Field(ge=-COUNT_MAX, le=COUNT_MAX)]
"""Rows added minus rows removed; below zero where a changelog lost additions."""


def count(value: float) -> int:
    """Return a measured number as a Count. A clock may go back, and a rate near zero makes endless times."""
    return min(max(0, round(value)), COUNT_MAX)


Revision = Annotated[int, Field(ge=0, le=COUNT_MAX)]
"""Number of a command."""

REVISION_MAX = 2**52
REVISIONS_AHEAD_MAX = 2**32
"""A revision this far above the newest one that a driver knows was given by no operator: it would use up all numbers."""

ReportedRevision = Annotated[int, Field(ge=0, le=REVISION_MAX)]
"""Number of a command in a driver's answer. Its bound is below that of `Revision`, because the next command gets a higher number."""

Generation = Annotated[int, Field(ge=-1, le=COUNT_MAX)]
ExitCode = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
Moment = Annotated[str, Field(max_length=40)]
"""RFC 3339."""


def _text_of(value: object) -> object:
    """Return a time as a string: a YAML parser reads one without quotes as a time."""
    return value.isoformat() if hasattr(value, "isoformat") else value


def _in_calendar(text: str) -> str:
    """Return a time unchanged.

    Raises:
        ValueError: The calendar does not contain it, such as 30 February.
    """
    day, ms = ms_of(f"{text[:10]}T00:00:00Z"), ms_of(text)
    if day is None or ms is None or rfc3339(day)[:10] != text[:10]:
        raise ValueError("is not in the calendar")
    return text


URL_FORM = r"^https?://[A-Za-z0-9.:\[\]_-]+(/[A-Za-z0-9._~/-]*)?$"
"""An address without a user, a query and percent signs."""

UNTIL_FORM = r"^2[0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})$"
Timestamp = Annotated[
    str,
    StringConstraints(strict=True, max_length=40, pattern=UNTIL_FORM),
    BeforeValidator(_text_of),
    AfterValidator(_in_calendar),
    Field(json_schema_extra={"format": "date-time"}),
]
"""A time that a user writes, RFC 3339 with a time zone: `2026-11-26T18:00:00Z`."""

Until = Timestamp
"""End of a limit."""

PlanName = Annotated[str, Field(max_length=16, pattern="^[0-9a-f]{16}$")]
"""Name of a plan: a hash of the planned fields."""

MESSAGE_MAX = 4096
Message = Annotated[str, Field(max_length=MESSAGE_MAX)]

By = Annotated[str, Field(max_length=64)]
"""Name of a person or tool, as an annotation claims it."""

NOTE_MAX = 256
Note = Annotated[str, Field(max_length=NOTE_MAX)]
"""Reason of a change, as its author wrote it."""
