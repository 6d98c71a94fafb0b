"""Fate of source and target when a Backfill is deleted: the model of `spec.deletionPolicy`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from backfill_api.model import member_of, refused
from backfill_api.spec.targets import Target
from backfill_api.spec.transforms.filling import filling

DeletionPolicy = Literal["Drain", "Retain", "Release", "Drop", "Immediate"]

DROPS: Final = "deletionPolicy: Drop removes the target with the Backfill"
RESULT_GOES: Final = f"{DROPS}, and ttlSecondsAfterFinished deletes the Backfill of a finished job"
ROWS_OF_OTHERS: Final = f"{DROPS}, and the target may have rows of other writers"
NAME_STAYS: Final = f"{DROPS}, and its name in the catalog would point to nothing"
FILLS: Final = f"{DROPS}, and a job that fills columns has no target of its own"


def check_deletion(policy: DeletionPolicy, target: Target, strategy: str, *, ttl_seconds: int | None) -> None:
    """Refuse to drop a target that `backfill drop` would never drop, or that would be dropped as soon as it is filled.

    Raises:
        PydanticCustomError: With the path of the field that does not fit.
    """
    if policy != "Drop":
        return
    hint = "set deletionPolicy: Release or Retain"
    params = target.params
    if ttl_seconds is not None:
        raise refused("deletionPolicy", RESULT_GOES, hint=f"{hint}, or remove ttlSecondsAfterFinished", value=policy)
    if strategy in filling():
        raise refused("deletionPolicy", FILLS, hint=hint, value=policy)
    if params.keeps_rows:
        raise refused("deletionPolicy", ROWS_OF_OTHERS, hint=hint, value=policy)
    if params.catalog_name is not None:
        raise refused("deletionPolicy", NAME_STAYS, hint=hint, value=policy)


def deletion_rules() -> Iterator[tuple[str, str]]:
    """Yield the CEL form of `check_deletion`."""
    drops = "has(self.deletionPolicy) && self.deletionPolicy == 'Drop'"
    yield f"!({drops}) || !has(self.ttlSecondsAfterFinished)", RESULT_GOES
    yield f"!({drops}) || !(self.strategy.type in {filling()})", FILLS
    targets = [f"self.target.{member_of(name)}" for name in Target.VARIANTS]
    kept = " || ".join(f"(has({name}) && ({name}.existingRows == 'Keep' || has({name}.scope)))" for name in targets)
    yield f"!({drops}) || !({kept})", ROWS_OF_OTHERS
    named = " || ".join(
        f"(has(self.target.{member_of(name)}) && has(self.target.{member_of(name)}.table))"
        for name, variant in Target.VARIANTS.items()
        if "table" in variant.params.model_fields
    )
    if named:
        yield f"!({drops}) || !({named})", NAME_STAYS
