"""Pods that a job lost, counted by reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import Field

from backfill_api.model import Model
from backfill_api.spec.bounds import COUNT_MAX, Count

REASONS_MAX: Final = 16
"""Reasons of one list, `Other` included."""

OTHER: Final = "Other"
"""Stands for all reasons for which a list has no room."""


class PodLoss(Model):
    """Pods that ended although the job still needed them, for one reason."""

    reason: Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9]*$")]
    """Why, in one CamelCase word, such as `OOMKilled`, `Evicted` or `Deleted`."""

    count: Count
    """How many."""


Losses = Annotated[tuple[PodLoss, ...], Field(max_length=REASONS_MAX)]
"""One entry for each reason, in the order of the reasons."""


def losses_of(counts: Mapping[str, int]) -> tuple[PodLoss, ...]:
    """Return counts by reason as a list that is never too long; what has no room counts as `Other`."""
    kept = sorted((reason for reason in counts if reason != OTHER), key=lambda reason: (-counts[reason], reason))
    named = kept[: REASONS_MAX - 1]
    other = counts.get(OTHER, 0) + sum(counts[reason] for reason in kept[REASONS_MAX - 1 :])
    listed = {reason: counts[reason] for reason in named} | ({OTHER: other} if other else {})
    return tuple(PodLoss(reason=reason, count=min(listed[reason], COUNT_MAX)) for reason in sorted(listed))
