"""The base of every model: it refuses unknown fields, is frozen, and is camelCase in documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

REFUSED = "refused"
"""Type of the errors that our own validators raise; `load` reads path, message, value and hint from them."""


class Model(BaseModel):
    """A value of the contract; an unknown field is an error."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )


def known(model: type[BaseModel], value: Any) -> Any:
    """Return a document without the fields that a model does not define, at every depth.

    Models are closed. A driver of another version may report more fields; the known ones must be read.
    """
    if isinstance(value, list):
        return [known(model, item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = _fields(model)
    return {
        name: item if (below := fields[name]) is None else known(below, item)
        for name, item in value.items()
        if name in fields
    }


def leaves(model: type[BaseModel], document: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the path and the value of each field of a document that is no model itself; a mapping of free names is one value."""
    fields = _fields(model)
    for name, value in document.items():
        below = fields.get(name)
        if below is not None and isinstance(value, dict):
            yield from leaves(below, value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


@cache
def _fields(model: type[BaseModel]) -> Mapping[str, type[BaseModel] | None]:
    """Return the fields of a model by their names in documents, each with the model that its values have."""
    return {field.alias or name: _model_in(field.annotation) for name, field in model.model_fields.items()}


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((inner for part in get_args(annotation) if (inner := _model_in(part)) is not None), None)


def refused(path: str, message: str, *, hint: str, value: object = None) -> PydanticCustomError:
    """Return the error of a rule that spans fields.

    Args:
        path: Path of the field in camelCase, relative to the model that raises.
        message: The fault, without the path.
        hint: Remedy for the user.
        value: Value of the field; `None` hides it.
    """
    context: dict[str, Any] = {"path": path, "message": message, "hint": hint, "value": value}
    return PydanticCustomError(REFUSED, "{path}: {message}; {hint}", context)


def cel(*rules: tuple[str, str]) -> ConfigDict:
    """Return the part of a model's config that puts CEL rules into the CRD, as (expression, message).

    A rule is defined next to the Python validator of the same rule, so that both are changed together.
    """
    validations: list[Any] = [{"rule": rule, "message": message} for rule, message in rules]
    return ConfigDict(json_schema_extra={"x-kubernetes-validations": validations})


def unchanged(*fields: str) -> str:
    """Return the CEL expression that optional fields are unchanged.

    `self.?a == oldSelf.?a` means the same, but a cluster estimates its cost as unbounded.
    """
    return " && ".join(
        f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})"
        for field in fields
    )


def member_of(type_name: str) -> str:
    """Return the name of the union member that a type stands for: `Snapshot` -> `snapshot`."""
    return type_name[:1].lower() + type_name[1:]
