"""Parameters of the replica strategy."""

from __future__ import annotations

from backfill_api.spec.params import SourceAbility, SplitParams, TargetAbility, Variant


class ReplicaParams(SplitParams):
    """The files of one pinned version as they are, then those that come and go; the source needs no key and no change feed."""


VARIANT = Variant(
    "Replica",
    ReplicaParams,
    needs=frozenset({SourceAbility.PIN, SourceAbility.LOG, TargetAbility.SEGMENTS, TargetAbility.SHIPPING}),
)
