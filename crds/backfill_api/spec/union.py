"""`{type: X, x: {…}}`: a union whose members are the plug-ins that were discovered."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, Self, TypeVar

from pydantic import Field, GetJsonSchemaHandler, create_model, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema

from backfill_api.model import Model, cel, member_of, refused
from backfill_api.spec.params import Params, Variant

Rule = tuple[str, str]
"""CEL expression, and the error of the API server if it does not hold."""


class TaggedUnion(Model):
    """`type` names the one member that may be set; a member may be left out when its defaults are valid."""

    VARIANTS: ClassVar[Mapping[str, Variant]] = {}
    type: str = ""

    @property
    def variant(self) -> Variant:
        """The plug-in that `type` names."""
        return self.VARIANTS[self.type]

    @property
    def member(self) -> str:
        """Name of the member that belongs to `type`."""
        return member_of(self.type)

    @property
    def params(self) -> Params:
        """Parameters of the chosen plug-in; the defaults if its member is omitted."""
        given: Params | None = getattr(self, self.member)
        return self.variant.params() if given is None else given

    @classmethod
    def changeable(cls) -> list[str]:
        """Return the fields of all members that may change, as `member.field`."""
        members = [(member_of(name), variant.params) for name, variant in cls.VARIANTS.items()]
        return [
            f"{member}.{_alias(params, field)}" for member, params in members for field in sorted(params.MAY_CHANGE)
        ]

    @model_validator(mode="after")
    def _only_the_member(self) -> Self:
        for name, variant in self.VARIANTS.items():
            field = member_of(name)
            given = getattr(self, field) is not None
            if name != self.type and given:
                hint = f"remove it, or set type: {name}"
                raise refused(field, f"must be left out, because type is {self.type}", hint=hint)
            if name == self.type and not given and not variant.has_defaults:
                raise refused(field, f"is required, because type is {name}", hint=f"add {field}: …")
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Add the CEL rules: those of `_only_the_member`, and those for fields that may change."""
        schema = handler(core_schema)
        handler.resolve_ref_schema(schema).update(cel(*cls._rules())["json_schema_extra"])  # type: ignore[arg-type]
        return schema

    @classmethod
    def _rules(cls) -> Iterator[Rule]:
        for name, variant in cls.VARIANTS.items():
            field = member_of(name)
            if not variant.has_defaults:
                yield (
                    f"(self.type == '{name}') == has(self.{field})",
                    f"{field} must be set if and only if type is {name}",
                )
            elif len(cls.VARIANTS) > 1:
                yield f"self.type == '{name}' || !has(self.{field})", f"{field} must be left out, unless type is {name}"
        yield cls._immutable()

    @classmethod
    def _immutable(cls) -> Rule:
        """Return the rule that nothing changes but the fields that may; `self == oldSelf` where none may."""
        free = list(dict.fromkeys(path.rpartition(".")[2] for path in cls.changeable()))
        noun = cls.__name__.lower()
        if not free:
            return "self == oldSelf", f"{noun} is immutable: make a new Backfill"
        same = [_same(("type",), cls.model_fields["type"])]
        for name, variant in cls.VARIANTS.items():
            for field, info in variant.params.model_fields.items():
                if field not in variant.params.MAY_CHANGE:
                    same.append(_same((member_of(name), _alias(variant.params, field)), info))
        return " && ".join(same), f"{noun} is immutable, except {', '.join(free)}: make a new Backfill"


U = TypeVar("U", bound=TaggedUnion)


def tagged_union(base: type[U], variants: Mapping[str, Variant]) -> type[U]:
    """Return the union of variants, which has the name and the docstring of its base.

    Args:
        base: What all of them have in common.
        variants: By their `type`; at most one is the default.
    """
    default = next((name for name, variant in variants.items() if variant.default), ...)
    description = "Which member applies"
    if any(variant.has_defaults for variant in variants.values()):
        description += "; one that is left out has its defaults"
    fields: dict[str, Any] = {"type": (Literal[tuple(variants)], Field(default=default, description=f"{description}."))}
    for name, variant in variants.items():
        fields[member_of(name)] = (variant.params | None, Field(default=None, alias=member_of(name)))
    made = create_model(
        base.__name__.removeprefix("_"), __base__=base, __doc__=base.__doc__, __module__=base.__module__, **fields
    )
    made.VARIANTS = variants
    return made


def _alias(params: type[Params], field: str) -> str:
    return str(params.model_fields[field].alias)


def _same(path: tuple[str, ...], info: FieldInfo) -> str:
    """Return the CEL expression that a field is unchanged.

    A field that is left out has its default: a server evaluates rules before it fills in all defaults. A required field of a
    member is missing where the member is. `self.?a == oldSelf.?a` means the same, but a server estimates its cost as unbounded.
    """
    here, there = (
        (
            " && ".join(f"has({root}.{'.'.join(path[:end])})" for end in range(1, len(path) + 1)),
            f"{root}.{'.'.join(path)}",
        )
        for root in ("self", "oldSelf")
    )
    if info.is_required() and len(path) == 1:
        return f"{here[1]} == {there[1]}"
    if isinstance(info.default, str | int):
        now, before = (f"({has} ? {value} : {json.dumps(info.default)})" for has, value in (here, there))
        return f"{now} == {before}"
    return f"({here[0]}) == ({there[0]}) && (!({here[0]}) || {here[1]} == {there[1]})"
