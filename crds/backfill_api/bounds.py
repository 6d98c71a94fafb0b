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
"""Seconds that something takes, as somebody measured or estimated them."""

Version = Annotated[StrictInt, Field(ge=0, le=2**53)]
Rate = Annotated[StrictInt, Field(ge=0, le=1_000_000_000)]
Vnodes = Annotated[StrictInt, Field(ge=1, le=32768)]
Percent = Annotated[int, Field(ge=0, le=100)]
Moment = Annotated[str, Field(max_length=40)]
"""RFC 3339."""

Message = Annotated[str, Field(max_length=4096)]
