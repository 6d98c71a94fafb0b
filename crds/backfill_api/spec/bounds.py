"""The scalar types: every text and list has a longest length, every number a range, so that the cluster can bound its own work."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StrictInt, StringConstraints

DAY_S = 24 * 3600

Column = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=255, pattern=r"\S")]
Columns = Annotated[tuple[Column, ...], Field(max_length=64)]
Sql = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=8192, pattern=r"\S")]
Path = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=2048, pattern=r"\S")]
Name = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=253, pattern=r"\S")]
Value = Annotated[str, StringConstraints(strict=True, max_length=4096)]
Settings = Annotated[dict[str, Value], Field(max_length=64)]

Seconds = Annotated[StrictInt, Field(ge=1, le=7 * DAY_S)]
Duration = Annotated[int, Field(ge=0, le=2**53)]
"""Seconds that something takes, as measured or estimated."""

Drain = Annotated[StrictInt, Field(ge=1, le=3600)]
"""A node that is drained waits for its pods so long, and an upgrade of a cluster waits for the node."""

Version = Annotated[StrictInt, Field(ge=0, le=2**53)]
Rate = Annotated[StrictInt, Field(ge=0, le=1_000_000_000)]
Vnodes = Annotated[StrictInt, Field(ge=1, le=32768)]
Percent = Annotated[int, Field(ge=0, le=100)]

COUNT_MAX = 2**53
"""What every JSON reader holds exactly; nothing that we count comes near."""

Count = Annotated[int, Field(ge=0, le=COUNT_MAX)]
"""A number that another program may have written: a driver, or a person in a status."""

Balance = Annotated[int, Field(ge=-COUNT_MAX, le=COUNT_MAX)]
"""Rows that came minus rows that went: below zero where a changelog has lost what came."""


def count(value: float) -> int:
    """Return a measured number as a Count: clocks go back, and a rate of nearly nothing makes times without end."""
    return min(max(0, round(value)), COUNT_MAX)


Revision = Annotated[int, Field(ge=0, le=2**62)]
"""Of a command; above what a driver may say, because the next one is numbered above what it says."""

Generation = Annotated[int, Field(ge=-1, le=2**62)]
ExitCode = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
Moment = Annotated[str, Field(max_length=40)]
"""RFC 3339."""

MESSAGE_MAX = 4096
Message = Annotated[str, Field(max_length=MESSAGE_MAX)]
