"""The order of launches: Backfills that must come first."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from backfill_api.model import Model

BackfillName = Annotated[
    str, StringConstraints(strict=True, min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
]
Reached = Literal["Complete", "Finished", "CaughtUp", "Verified"]


class Dependency(Model):
    """A Backfill of the same namespace that comes first."""

    name: BackfillName
    """Name of the other Backfill."""

    condition: Reached = "Complete"
    """Condition of the other Backfill that must be true: `Complete`, `Finished` (succeeded or failed), `CaughtUp` or `Verified`."""


Dependencies = Annotated[tuple[Dependency, ...], Field(max_length=16)]
