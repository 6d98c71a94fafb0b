"""Which strategy works with which source and which target: those that promise what it needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from backfill_api.model import member_of, refused
from backfill_api.spec.params import Ability, SourceAbility, TargetAbility, Variant
from backfill_api.spec.sources import Source
from backfill_api.spec.strategies import Strategy
from backfill_api.spec.targets import Target

MODES = ("Upsert", "Append", "Changelog")

ENDS: tuple[tuple[str, type[Source | Target], type[Ability]], ...] = (
    ("source", Source, SourceAbility),
    ("target", Target, TargetAbility),
)

OF_OFFSETS = [one.name for one in Source.VARIANTS.values() if SourceAbility.OFFSETS in one.abilities]
"""Sources with offsets: a target of theirs is appended to, unless it says otherwise."""


def check_combination(source: Source, target: Target, strategy: Strategy, mode: str) -> None:
    """Refuse a source or a target that does not promise what the strategy needs, or a write mode that the source has not.

    Raises:
        PydanticCustomError: with the path of `source.type` or `target.type`, and with what would work.
    """
    for (end, union, kind), given in zip(ENDS, (source, target), strict=True):
        missing = _missing(strategy.variant, given.variant, kind)
        if missing:
            words = f"strategy {strategy.type} needs {' and '.join(missing)} of the {end}"
            others = [one.name for one in Strategy.VARIANTS.values() if not _missing(one, given.variant, kind)]
            hints = (
                _use(f"{end}.type", _fitting(strategy.variant, union.VARIANTS.values(), kind)),
                _use("strategy.type", others),
            )
            raise refused(f"{end}.type", words, hint=" or ".join(filter(None, hints)), value=given.type)
    why = strategy.params.WRITES_NOT.get(mode)
    if why is not None:
        left = [one for one in MODES if one not in strategy.params.WRITES_NOT]
        words = f"strategy {strategy.type} does not write in this mode: {why}"
        raise refused(f"target.{member_of(target.type)}.writeMode", words, hint=f"use {' or '.join(left)}", value=mode)
    if _keeps_what_must_go(target, strategy):
        words = f"strategy {strategy.type} takes all rows out when it begins anew, and these would be kept"
        raise refused(
            f"target.{member_of(target.type)}.existingRows", words, hint="use an empty target and set existingRows: Refuse",
            value=target.params.existing_rows,
        )  # fmt: skip


def _keeps_what_must_go(target: Target, strategy: Strategy) -> bool:
    return TargetAbility.START_OVER in strategy.variant.needs and target.params.existing_rows == "Keep"


def rules() -> Iterator[tuple[str, str]]:
    """Yield the CEL form of `check_combination`, for each strategy, and each source, that does not work with all that there is."""
    for strategy in Strategy.VARIANTS.values():
        for end, union, kind in ENDS:
            fitting = _fitting(strategy, union.VARIANTS.values(), kind)
            if len(fitting) < len(union.VARIANTS):
                words = f"strategy {strategy.name} works with {end} {' or '.join(fitting) or 'none of these'}"
                yield f"self.strategy.type != '{strategy.name}' || self.{end}.type in {fitting}", words
        for mode in getattr(strategy.params, "WRITES_NOT", ()):
            written = " || ".join(
                f"(has({one}) && has({one}.writeMode) && {one}.writeMode == '{mode}')" for one in _targets()
            )
            yield (
                f"self.strategy.type != '{strategy.name}' || !({written})",
                f"strategy {strategy.name} does not write {mode}",
            )
        if TargetAbility.START_OVER in strategy.needs:
            for target in _fitting(strategy, Target.VARIANTS.values(), TargetAbility):
                field = f"self.target.{member_of(target)}"
                kept = f"has({field}) && has({field}.existingRows) && {field}.existingRows == 'Keep'"
                words = f"strategy {strategy.name} takes all rows out when it begins anew: existingRows cannot be Keep"
                yield f"self.strategy.type != '{strategy.name}' || !({kept})", words


def _targets() -> list[str]:
    return [f"self.target.{member_of(name)}" for name in Target.VARIANTS]


def _missing(strategy: Variant, end: Variant, kind: type[Ability]) -> list[str]:
    return sorted(one for one in strategy.needs - end.abilities if isinstance(one, kind))


def _fitting(strategy: Variant, ends: Iterable[Variant], kind: type[Ability]) -> list[str]:
    return [one.name for one in ends if not _missing(strategy, one, kind)]


def _use(field: str, names: list[str]) -> str:
    return f"use {field}: {' or '.join(names)}" if names else ""
