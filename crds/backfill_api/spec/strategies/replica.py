"""Parameters of the replica strategy."""

from __future__ import annotations

from typing import ClassVar

from backfill_api.spec.params import SourceAbility, SplitParams, TargetAbility, Variant


class ReplicaParams(SplitParams):
    """Copies the files of a pinned version unchanged, then adds and removes files as the source does. The source needs no key and no change feed."""

    ENDS_FOR_GOOD: ClassVar[str] = ""
    COPIES_BEFORE_CHANGES: ClassVar[bool] = True


VARIANT = Variant(
    "Replica",
    ReplicaParams,
    needs=frozenset({SourceAbility.PIN, SourceAbility.LOG, TargetAbility.SEGMENTS, TargetAbility.SHIPPING}),
)
