"""Specs that fill columns of one table, instead of copying a source to a target."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from backfill_api.model import member_of, refused
from backfill_api.spec.params import TargetAbility, Variant
from backfill_api.spec.sources import Source
from backfill_api.spec.strategies import Strategy
from backfill_api.spec.targets import Target
from backfill_api.spec.transforms.transform import TransformSpec

NOT_OF_TARGET: Final = {
    "write_mode": "rows stay in the table, and none is written in a mode",
    "partition_by": "the table keeps its partitions",
    "cluster_by": "the table keeps its clustering",
    "properties": "the table keeps its properties",
    "scope": "transform.setWhere chooses the rows",
}
"""Fields of a target that have no meaning for an existing table with its rows: why each is left out."""

NOT_OF_SOURCE: Final = {
    "version": "the job reads the newest version of each file",
    "timestamp": "the job reads the newest version of each file",
    "hold": "the job needs no old version of the table",
    "allow_files_outside": "files of another folder are not replaced",
}
ONE_TABLE: Final = "must name the table of the source, because the strategy fills columns of one table"


def fills(strategy: Variant) -> bool:
    """Return whether a strategy fills columns of the source itself."""
    return TargetAbility.IN_PLACE in strategy.needs


def filling() -> list[str]:
    """Return the names of the strategies that fill columns."""
    return [name for name, variant in Strategy.VARIANTS.items() if fills(variant)]


def check_filling(
    source: Source, target: Target, strategy: Strategy, transform: TransformSpec, *, after: str, key: tuple[str, ...]
) -> None:
    """Refuse a spec that copies and fills at once, or that fills columns of no single table.

    Raises:
        PydanticCustomError: with the path of the field.
    """
    if not fills(strategy.variant):
        if transform.set:
            message = f"fills columns of the source itself, and strategy {strategy.type} copies rows"
            hint = f"use transform.select, or strategy.type: {' or '.join(filling())}"
            raise refused("transform.set", message, hint=hint)
        if not getattr(target.params, "data_change", True):
            message = f"is for strategies that fill columns, and each commit of strategy {strategy.type} adds rows"
            raise refused(f"target.{member_of(target.type)}.dataChange", message, hint="remove it", value=False)
        return
    _check_transform(transform, strategy, key)
    _check_ends(source, target, strategy)
    if after == "Follow":
        message = f"strategy {strategy.type} follows no source: the job ends once no file is left to fill"
        raise refused("after", message, hint="set after: Exit", value=after)


def _check_transform(transform: TransformSpec, strategy: Strategy, key: tuple[str, ...]) -> None:
    if not transform.set:
        hint = "name each column with its SQL expression: {status_norm: upper(status)}"
        raise refused("transform.set", f"is required with strategy {strategy.type}", hint=hint)
    for name, value in (("select", transform.select), ("where", transform.where)):
        if value:
            message = f"is for copied rows, and strategy {strategy.type} fills columns of rows that stay"
            raise refused(f"transform.{name}", message, hint="use transform.set and transform.setWhere", value=value)
    for name in transform.set:
        if name.lower() in {column.lower() for column in key}:
            message = "is a key column: its values identify rows"
            raise refused(f"transform.set.{name}", message, hint="fill another column", value=transform.set[name])


def _check_ends(source: Source, target: Target, strategy: Strategy) -> None:
    member = f"target.{member_of(target.type)}"
    for field in ("path", "table"):
        name = getattr(target.params, field, None)
        if name != getattr(source.params, field, None):
            hint = f"give the same {field} as in source.{member_of(source.type)}"
            raise refused(f"{member}.{field}", ONE_TABLE, hint=hint, value=name)
    for params, of, fields in (
        (target.params, member, NOT_OF_TARGET),
        (source.params, f"source.{member_of(source.type)}", NOT_OF_SOURCE),
    ):
        for name, why in fields.items():
            described = type(params).model_fields.get(name)
            value = getattr(params, name, None)
            if described is not None and value != described.default:
                alias = described.alias
                raise refused(
                    f"{of}.{alias}",
                    f"must be left out with strategy {strategy.type}: {why}",
                    hint="remove it",
                    value=value,
                )
    if target.params.existing_rows == "Keep":
        message = f"must be left out with strategy {strategy.type}: every row of the table stays"
        raise refused(f"{member}.existingRows", message, hint="remove it", value="Keep")


def filling_rules() -> Iterator[tuple[str, str]]:
    """Yield the CEL form of `check_filling`."""
    names = filling()
    fills_columns = f"self.strategy.type in {names}"
    has_set = "has(self.transform) && has(self.transform.set) && self.transform.set.size() > 0"
    yield f"({fills_columns}) == ({has_set})", f"transform.set and strategy {' or '.join(names)} need each other"
    copies = "has(self.transform) && (has(self.transform.where) || (has(self.transform.select) && self.transform.select.size() > 0))"
    yield (
        f"!({fills_columns}) || !({copies})",
        f"strategy {' or '.join(names)} takes transform.set, not select and where",
    )
    yield (
        f"!({fills_columns}) || self.after == 'Exit'",
        f"strategy {' or '.join(names)} follows no source: set after: Exit",
    )
    for name in _both_ends():
        source, target = f"self.source.{member_of(name)}", f"self.target.{member_of(name)}"
        same = " && ".join(
            f"has({source}.{field}) == has({target}.{field}) && (!has({source}.{field}) || {source}.{field} == {target}.{field})"
            for field in ("path", "table")
        )
        yield (
            f"!({fills_columns}) || !has({source}) || !has({target}) || ({same})",
            f"strategy {' or '.join(names)} fills one table: source and target must name the same one",
        )
        if "data_change" in Target.VARIANTS[name].params.model_fields:
            yield (
                f"({fills_columns}) || !has({target}) || !has({target}.dataChange) || {target}.dataChange",
                f"dataChange: false is for strategy {' or '.join(names)}: each commit of other strategies adds rows",
            )
        yield from _left_out(fills_columns, names, Target, NOT_OF_TARGET, name, "target")
        yield from _left_out(fills_columns, names, Source, NOT_OF_SOURCE, name, "source")


def _both_ends() -> list[str]:
    return [
        name
        for name, variant in Target.VARIANTS.items()
        if TargetAbility.IN_PLACE in variant.abilities and name in Source.VARIANTS
    ]


def _left_out(
    fills_columns: str, names: list[str], union: Any, fields: dict[str, str], name: str, end: str
) -> Iterator[tuple[str, str]]:
    params = union.VARIANTS[name].params
    member = f"self.{end}.{member_of(name)}"
    aliases = [(field, params.model_fields[field].alias) for field in fields if field in params.model_fields]
    given = " || ".join(
        f"(has({member}.{alias}){_filled(params, field, f'{member}.{alias}')})" for field, alias in aliases
    )
    kept = f" || (has({member}.existingRows) && {member}.existingRows == 'Keep')" if end == "target" else ""
    yield (
        f"!({fills_columns}) || !has({member}) || !({given}{kept})",
        f"strategy {' or '.join(names)} needs no {', '.join(alias for _, alias in aliases)} of the {end}",
    )


def _filled(params: Any, field: str, path: str) -> str:
    default = params.model_fields[field].default
    if isinstance(default, str):
        return f" && {path} != '{default}'"
    return f" && {path}.size() > 0" if default is not None else ""
