"""Combinations of strategy, source and target: a strategy works with those that have the required abilities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from backfill_api.model import member_of, refused
from backfill_api.spec.auto_throttle import AutoThrottleSpec
from backfill_api.spec.locations import place
from backfill_api.spec.params import Ability, SourceAbility, TargetAbility, Variant
from backfill_api.spec.sources import Source
from backfill_api.spec.strategies import Strategy
from backfill_api.spec.targets import Target

MODES = ("Upsert", "Append", "Changelog")

ENDS: tuple[tuple[str, type[Source | Target], type[Ability]], ...] = (
    ("source", Source, SourceAbility),
    ("target", Target, TargetAbility),
)

AS_THE_SOURCE = {
    "write_mode": "files come and go as in the source, and no row is written in a mode",
    "partition_by": "the target has the partitions of the source",
    "cluster_by": "files are copied as the source has clustered them",
}
"""Fields of a target that gets the source's files: why each is left out."""

FOLLOWS_NOT = "columns are followed only where the target gets the files of its source"
COUNTS_REQUESTS = "s3a"
"""Scheme of stores whose client counts requests that were refused because there were too many."""

PUBLISHED_AT_ONCE = "Continuously"
MIXES = "changes rows of the target while it copies, so the copied rows must be visible"
COPIES_NO_FILES = "rows are hidden in copied files, and this strategy writes all rows again"
SCOPE_PUBLISHES = "the rows of the scope are replaced by the one commit that makes the copied rows visible"
SCOPE_REPLACES = "with a scope, the rows outside of it are kept and those inside are replaced"
SCOPE_HIDES = "a copied file may have hidden rows outside of the scope, and no later job could replace the scope"
SCOPE_FITS = (
    "scope needs publish: WhenComplete or WhenVerified, existingRows: Refuse, filteredRows: Rewritten and after: Exit"
)
SCOPE_ENDS = "a job with a scope copies one version of the source, and applies no later changes"
NO_SNAPSHOT = "no snapshot is read"
COMPARES_NOT = "a receipt compares whole tables, and rows that never change are not copied"
NO_LAG = "applies no changes while it copies, so a slower copy would only lengthen the lag"
NO_BYTES = "is a limit of the bytes of files, and this source has its rows in none"

OF_OFFSETS = [source.name for source in Source.VARIANTS.values() if SourceAbility.OFFSETS in source.abilities]
"""Sources with offsets: a target of theirs is appended to, unless it says otherwise."""


def check_combination(source: Source, target: Target, strategy: Strategy, mode: str) -> None:
    """Refuse a source or a target without the abilities that the strategy requires, or a write mode without those of the source.

    Raises:
        PydanticCustomError: with the path of `source.type` or `target.type`, and with values that work.
    """
    for (end, union, kind), given in zip(ENDS, (source, target), strict=True):
        missing = _missing(strategy.variant, given.variant, kind)
        if missing:
            message = f"strategy {strategy.type} needs {' and '.join(missing)} of the {end}"
            others = [other.name for other in Strategy.VARIANTS.values() if not _missing(other, given.variant, kind)]
            hints = (
                _use(f"{end}.type", _fitting(strategy.variant, union.VARIANTS.values(), kind)),
                _use("strategy.type", others),
            )
            raise refused(f"{end}.type", message, hint=" or ".join(filter(None, hints)), value=given.type)
    why = strategy.params.WRITES_NOT.get(mode)
    if why is not None:
        left = [other for other in MODES if other not in strategy.params.WRITES_NOT]
        message = f"strategy {strategy.type} does not write in this mode: {why}"
        raise refused(
            f"target.{member_of(target.type)}.writeMode", message, hint=f"use {' or '.join(left)}", value=mode
        )
    if ships(strategy.variant):
        _check_as_the_source(target, strategy)
    if getattr(source.params, "schema_change", None) == "Follow" and not ships(strategy.variant):
        raise refused(
            f"source.{member_of(source.type)}.schemaChange", FOLLOWS_NOT, hint="use Fail or Ignore, or strategy.type: Replica",
            value="Follow",
        )  # fmt: skip
    _check_publish(target, strategy)
    if target.params.hides_rows and not strategy.params.COPIES_BEFORE_CHANGES:
        hint = f"remove it, or use strategy.type: {' or '.join(_copying_first())}"
        raise refused(f"target.{member_of(target.type)}.filteredRows", COPIES_NO_FILES, hint=hint, value="Hidden")
    if _keeps_what_must_go(target, strategy):
        message = f"strategy {strategy.type} takes all rows out when it begins anew, and these would be kept"
        raise refused(
            f"target.{member_of(target.type)}.existingRows", message, hint="use an empty target and set existingRows: Refuse",
            value=target.params.existing_rows,
        )  # fmt: skip


def check_scope(target: Target, after: str) -> None:
    """Refuse a scope whose rows could not be replaced by one commit.

    Raises:
        PydanticCustomError: with the path of the field.
    """
    params, member = target.params, f"target.{member_of(target.type)}"
    if params.scope is None:
        return
    if params.hides_rows:
        raise refused(f"{member}.filteredRows", SCOPE_HIDES, hint="set filteredRows: Rewritten", value="Hidden")
    if params.publish == PUBLISHED_AT_ONCE:
        hint = "set publish: WhenVerified or WhenComplete"
        raise refused(f"{member}.publish", SCOPE_PUBLISHES, hint=hint, value=params.publish)
    if params.existing_rows == "Keep":
        raise refused(f"{member}.existingRows", SCOPE_REPLACES, hint="remove it", value=params.existing_rows)
    if after == "Follow":
        raise refused("after", SCOPE_ENDS, hint=f"set after: Exit, or remove {member}.scope", value=after)


def check_changes_only(source: Source, target: Target, strategy: Strategy, verify: str, switch_when: str) -> None:
    """Refuse what needs a snapshot in a job that reads none.

    Raises:
        PydanticCustomError: with the path of the field.
    """
    if not source.params.skips_snapshot:
        return
    field, member = f"source.{member_of(source.type)}.changesOnly", f"target.{member_of(target.type)}"
    if not strategy.params.TAKES_CHANGES_ALONE:
        hint = f"remove it, or use strategy.type: {' or '.join(_taking_changes_alone())}"
        raise refused(field, f"strategy {strategy.type} needs the rows of a snapshot", hint=hint, value=True)
    if verify != "None":
        raise refused("verify", COMPARES_NOT, hint=f"set verify: None, or remove {field}", value=verify)
    if switch_when != "Manual":
        raise refused("switch.when", COMPARES_NOT, hint=f"remove it, or remove {field}", value=switch_when)
    if target.params.publish != PUBLISHED_AT_ONCE or target.params.scope is not None:
        given = "publish" if target.params.scope is None else "scope"
        raise refused(
            f"{member}.{given}", f"{NO_SNAPSHOT}, so no commit can show it", hint=f"remove it, or remove {field}"
        )


def _taking_changes_alone() -> list[str]:
    return [
        name for name, variant in Strategy.VARIANTS.items() if getattr(variant.params, "TAKES_CHANGES_ALONE", False)
    ]


def changes_only() -> str:
    """Return the CEL expression that a job reads no snapshot."""
    fields = [
        f"self.source.{member_of(source.name)}"
        for source in Source.VARIANTS.values()
        if "changes_only" in source.params.model_fields
    ]
    return " || ".join(f"(has({field}) && has({field}.changesOnly) && {field}.changesOnly)" for field in fields)


def _changes_only_rules() -> Iterator[tuple[str, str]]:
    alone, skips = _taking_changes_alone(), changes_only()
    yield f"!({skips}) || self.strategy.type in {alone}", f"changesOnly works with strategy {' or '.join(alone)}"
    yield f"!({skips}) || self.verify == 'None'", f"verify: None is needed with changesOnly: {COMPARES_NOT}"
    manual = "!has(self.switch) || !has(self.switch.when) || self.switch.when == 'Manual'"
    yield f"!({skips}) || {manual}", f"switch.when: WhenVerified does not work with changesOnly: {COMPARES_NOT}"
    for target in _targets():
        plain = f"(!has({target}.publish) || {target}.publish == '{PUBLISHED_AT_ONCE}') && !has({target}.scope)"
        yield (
            f"!({skips}) || !has({target}) || ({plain})",
            f"publish and scope do not work with changesOnly: {NO_SNAPSHOT}",
        )


def _check_publish(target: Target, strategy: Strategy) -> None:
    if target.params.publish != PUBLISHED_AT_ONCE and not strategy.params.COPIES_BEFORE_CHANGES:
        message = f"strategy {strategy.type} {MIXES}"
        hint = f"remove it, or use strategy.type: {' or '.join(_copying_first())}"
        raise refused(f"target.{member_of(target.type)}.publish", message, hint=hint, value=target.params.publish)


def _copying_first() -> list[str]:
    return [
        name for name, variant in Strategy.VARIANTS.items() if getattr(variant.params, "COPIES_BEFORE_CHANGES", False)
    ]


def knows_bytes(source: Source) -> bool:
    """Return whether a limit of bytes is possible: the source stores its rows in files."""
    return SourceAbility.PIN in source.variant.abilities


def check_knows_bytes(source: Source) -> None:
    """Refuse a limit of bytes where none can be counted.

    Raises:
        PydanticCustomError: with the path of the limit.
    """
    if not knows_bytes(source):
        raise refused("throttle.bytesPerSecond", NO_BYTES, hint="set throttle.rowsPerSecond")


def check_throttle_auto(auto: AutoThrottleSpec, source: Source, target: Target, strategy: Strategy) -> None:
    """Refuse a target of the automatic limit that this job cannot measure.

    Raises:
        PydanticCustomError: with the path of the target.
    """
    if auto.lag_seconds_max is not None and not strategy.params.APPLIES_WHILE_COPYING:
        others = " or ".join(_applying_while_copying())
        message = f"strategy {strategy.type} {NO_LAG}"
        hint = f"remove it, or use strategy.type: {others}"
        raise refused("throttle.auto.lagSecondsMax", message, hint=hint, value=auto.lag_seconds_max)
    paths = (*source.params.paths.values(), *target.params.paths.values())
    in_catalogs = any(
        not end.params.paths and SourceAbility.OFFSETS not in end.variant.abilities for end in (source, target)
    )
    if auto.store_errors is not None and not in_catalogs and not any(counts_requests(path) for path in paths):
        message = "only S3 stores (s3a://) count refused requests, and the job uses none"
        raise refused(
            "throttle.auto.storeErrors", message, hint="remove it, or use commitSeconds", value=auto.store_errors
        )


def counts_requests(path: str) -> bool:
    """Return whether refused requests to the store of a path are counted."""
    return place(path).scheme == COUNTS_REQUESTS


def _applying_while_copying() -> list[str]:
    return [
        name for name, variant in Strategy.VARIANTS.items() if getattr(variant.params, "APPLIES_WHILE_COPYING", False)
    ]


def ships(strategy: Variant) -> bool:
    """Return whether the target gets the files of the source, and with them its layout."""
    return TargetAbility.SHIPPING in strategy.needs


def _check_as_the_source(target: Target, strategy: Strategy) -> None:
    for name, why in AS_THE_SOURCE.items():
        given = getattr(target.params, name, None)
        if given:
            field = f"target.{member_of(target.type)}.{_alias(target.variant, name)}"
            raise refused(
                field, f"must be left out with strategy {strategy.type}: {why}", hint="remove it", value=given
            )
    if target.params.existing_rows == "Keep":
        message = f"with strategy {strategy.type} the target has the rows of the source and no others"
        raise refused(
            f"target.{member_of(target.type)}.existingRows", message, hint="use an empty target and set existingRows: Refuse",
            value="Keep",
        )  # fmt: skip


def _alias(variant: Variant, field: str) -> str:
    return str(variant.params.model_fields[field].alias)


def _keeps_what_must_go(target: Target, strategy: Strategy) -> bool:
    return TargetAbility.START_OVER in strategy.variant.needs and target.params.existing_rows == "Keep"


def rules() -> Iterator[tuple[str, str]]:
    """Yield the CEL form of `check_combination`, for each strategy, and each source, that does not work with all that there is."""
    filed = [source.name for source in Source.VARIANTS.values() if SourceAbility.PIN in source.abilities]
    yield (
        f"!has(self.throttle) || !has(self.throttle.bytesPerSecond) || self.source.type in {filed}",
        f"throttle.bytesPerSecond is a limit of the bytes of files: it works with source {' or '.join(filed)}",
    )
    applying = _applying_while_copying()
    lag = "has(self.throttle) && has(self.throttle.auto) && has(self.throttle.auto.lagSecondsMax)"
    yield (
        f"!({lag}) || self.strategy.type in {applying}",
        f"throttle.auto.lagSecondsMax works with strategy {' or '.join(applying)}",
    )
    yield from _changes_only_rules()
    for target in _targets():
        yield from _of_a_target(target)
    following = [strategy.name for strategy in Strategy.VARIANTS.values() if ships(strategy)]
    for source in Source.VARIANTS.values():
        if "schema_change" in source.params.model_fields:
            field = f"self.source.{member_of(source.name)}"
            follows = f"has({field}) && has({field}.schemaChange) && {field}.schemaChange == 'Follow'"
            message = f"schemaChange: Follow works with strategy {' or '.join(following)}"
            yield f"self.strategy.type in {following} || !({follows})", message
    for strategy in Strategy.VARIANTS.values():
        for end, union, kind in ENDS:
            fitting = _fitting(strategy, union.VARIANTS.values(), kind)
            if len(fitting) < len(union.VARIANTS):
                message = f"strategy {strategy.name} works with {end} {' or '.join(fitting) or 'none of these'}"
                yield f"self.strategy.type != '{strategy.name}' || self.{end}.type in {fitting}", message
        for mode in getattr(strategy.params, "WRITES_NOT", ()):
            written = " || ".join(
                f"(has({target}) && has({target}.writeMode) && {target}.writeMode == '{mode}')" for target in _targets()
            )
            yield (
                f"self.strategy.type != '{strategy.name}' || !({written})",
                f"strategy {strategy.name} does not write {mode}",
            )
        if ships(strategy):
            yield from _as_the_source(strategy)
        if TargetAbility.START_OVER in strategy.needs:
            for target in _fitting(strategy, Target.VARIANTS.values(), TargetAbility):
                field = f"self.target.{member_of(target)}"
                kept = f"has({field}) && has({field}.existingRows) && {field}.existingRows == 'Keep'"
                message = (
                    f"strategy {strategy.name} takes all rows out when it begins anew: existingRows cannot be Keep"
                )
                yield f"self.strategy.type != '{strategy.name}' || !({kept})", message


def _of_a_target(target: str) -> Iterator[tuple[str, str]]:
    """Yield the rules for the rows that a target has, and for the time at which they are visible."""
    copying, field, hides = _copying_first(), f"{target}.publish", f"{target}.filteredRows == 'Hidden'"
    yield (
        f"!has({target}) || !has({field}) || {field} == '{PUBLISHED_AT_ONCE}' || self.strategy.type in {copying}",
        f"publish: WhenComplete and WhenVerified work with strategy {' or '.join(copying)}",
    )
    hidden = f"has({target}) && has({target}.filteredRows) && {hides}"
    message = f"filteredRows: Hidden works with strategy {' or '.join(copying)}"
    yield f"!({hidden}) || self.strategy.type in {copying}", message
    scoped = f"has({target}) && has({target}.scope)"
    # The schema has defaults for these fields.
    fits = f"{field} != '{PUBLISHED_AT_ONCE}' && {target}.existingRows != 'Keep' && self.after == 'Exit' && !({hides})"
    yield f"!({scoped}) || ({fits})", SCOPE_FITS


def _as_the_source(strategy: Variant) -> Iterator[tuple[str, str]]:
    for name in _fitting(strategy, Target.VARIANTS.values(), TargetAbility):
        field, variant = f"self.target.{member_of(name)}", Target.VARIANTS[name]
        fields = [_alias(variant, setting) for setting in AS_THE_SOURCE if setting in variant.params.model_fields]
        given = " || ".join(f"(has({field}.{setting}) && {field}.{setting}.size() > 0)" for setting in fields)
        kept = f"(has({field}.existingRows) && {field}.existingRows == 'Keep')"
        yield (
            f"self.strategy.type != '{strategy.name}' || !has({field}) || !({given} || {kept})",
            f"strategy {strategy.name} lays the target out as the source: leave {', '.join(fields)} and existingRows: Keep out",
        )


def _targets() -> list[str]:
    return [f"self.target.{member_of(name)}" for name in Target.VARIANTS]


def _missing(strategy: Variant, end: Variant, kind: type[Ability]) -> list[str]:
    return sorted(ability for ability in strategy.needs - end.abilities if isinstance(ability, kind))


def _fitting(strategy: Variant, ends: Iterable[Variant], kind: type[Ability]) -> list[str]:
    return [end.name for end in ends if not _missing(strategy, end, kind)]


def _use(field: str, names: list[str]) -> str:
    return f"use {field}: {' or '.join(names)}" if names else ""
