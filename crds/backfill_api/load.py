"""From YAML to a Backfill; every error names the path of the field, the value and the cure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from backfill_api.names import API_VERSION, KIND
from backfill_api.spec import Backfill

VALUE_SHOWN_MAX = 80


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing that is wrong with one field."""

    path: str
    message: str
    value: str = ""
    cure: str = ""

    def __str__(self) -> str:
        """Return it on one line."""
        shown = f" (got {self.value})" if self.value else ""
        return f"{self.path}: {self.message}{shown}" + (f"; {self.cure}" if self.cure else "")


class SpecError(ValueError):
    """The document is no Backfill; `errors` says why, field by field."""

    def __init__(self, errors: tuple[FieldError, ...]) -> None:
        """Keep the parts; the message has one line each."""
        super().__init__("\n".join(str(error) for error in errors))
        self.errors = errors


class _StrictLoader(yaml.SafeLoader):
    """YAML in which a key may stand once: the second one would silently win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)  # type: ignore[no-untyped-call]
            if key in seen:
                line = key_node.start_mark.line + 1
                raise SpecError((FieldError(str(key), f"stands twice (line {line})", cure="remove one of them"),))
            seen.add(key)
        return super().construct_mapping(node, deep)


def load_backfill(source: str | Mapping[str, Any]) -> Backfill:
    """Parse and validate one document.

    Args:
        source: YAML text, or what it parses to.

    Raises:
        SpecError: it is not YAML, not one document, or not a valid Backfill.
    """
    document = _parse(source) if isinstance(source, str) else source
    if not isinstance(document, Mapping):
        raise SpecError((FieldError("(document)", "is no mapping", cure=f"start with apiVersion: {API_VERSION}"),))
    for field, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        if document.get(field) != wanted:
            raise SpecError((FieldError(field, f"must be {wanted}", repr(document.get(field))),))
    try:
        return Backfill.model_validate(document)
    except ValidationError as error:
        raise SpecError(tuple(_explain(one) for one in error.errors())) from error


def _parse(text: str) -> Any:
    try:
        documents = [one for one in yaml.load_all(text, Loader=_StrictLoader) if one is not None]  # noqa: S506
    except yaml.YAMLError as error:
        raise SpecError((FieldError("(document)", f"is not YAML: {error}"),)) from error
    if len(documents) != 1:
        words = f"holds {len(documents)} documents"
        raise SpecError((FieldError("(document)", words, cure="give exactly one Backfill a file"),))
    return documents[0]


def _explain(error: Any) -> FieldError:
    location = [part for part in error["loc"] if not (isinstance(part, str) and "[" in part)]
    path = _path(location)
    value = repr(error["input"])
    value = value if len(value) <= VALUE_SHOWN_MAX else value[:VALUE_SHOWN_MAX] + "…"
    match error["type"]:
        case "extra_forbidden":
            names = _siblings(location[:-1])
            near = difflib.get_close_matches(str(location[-1]), names, n=1, cutoff=0.5)
            cure = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
            return FieldError(path, "unknown field", "", cure)
        case "missing":
            return FieldError(path, "is required", "", "add it")
        case "value_error":
            inner, _, words = str(error["ctx"]["error"]).partition(": ")
            return FieldError(f"{path}.{inner}" if path else inner, words)
        case "literal_error":
            return FieldError(path, f"must be {error['ctx']['expected']}", value)
        case "greater_than_equal" | "less_than_equal":
            bound = error["ctx"].get("ge", error["ctx"].get("le"))
            side = "at least" if error["type"] == "greater_than_equal" else "at most"
            return FieldError(path, f"must be {side} {bound:,}", value)
        case "int_type" | "int_parsing" | "int_from_float":
            return FieldError(path, "must be a whole number", value)
        case "string_type":
            return FieldError(path, "must be text", value, "put it in quotes")
        case "bool_type":
            return FieldError(path, "must be true or false", value)
        case "tuple_type":
            return FieldError(path, "must be a list", value, "write it as [a, b]")
        case _:
            return FieldError(path, error["msg"][:1].lower() + error["msg"][1:], value)


def _path(location: list[Any]) -> str:
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path


def _siblings(location: list[Any]) -> list[str]:
    """Return the field names at a place in the document."""
    model: type[BaseModel] = Backfill
    for part in location:
        for name, field in model.model_fields.items():
            if part in (name, field.alias):
                candidates = [field.annotation, *getattr(field.annotation, "__args__", ())]
                found = [one for one in candidates if isinstance(one, type) and issubclass(one, BaseModel)]
                model = found[0] if found else model
    return [field.alias or name for name, field in model.model_fields.items()]
