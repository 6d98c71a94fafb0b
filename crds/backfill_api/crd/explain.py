"""pydantic's errors, translated for the author of the YAML: path, value and hint."""

from __future__ import annotations

import difflib
import json
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from backfill_api.amounts import whole_number
from backfill_api.model import REFUSED, member_of
from backfill_api.spec.bounds import UNTIL_FORM, URL_FORM
from backfill_api.spec.locations import without_user
from backfill_api.spec.secret_settings import holds_a_secret
from backfill_api.spec.union import TaggedUnion

VALUE_CHARACTERS_MAX: Final = 80
LOOKED_AT_CHARACTERS_MAX: Final = 4096
"""Characters of a value that are searched for passwords; paths and variables are shorter."""

NAME_CHARACTERS_MAX: Final = 64
"""Longest misspelt word that is compared; a longer one would take minutes."""

PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")

TYPES: Final = {
    "int_type": ("must be a whole number", "write it as 1000, without quotes, point or unit"),
    "string_type": ("must be text", "put it in quotes"),
    "bool_type": ("must be true or false", "write true or false, without quotes"),
    "tuple_type": ("must be a list", "write it as [a, b]"),
    "dict_type": ("must be a mapping", "write name: value pairs below it"),
    "model_type": ("must be a mapping", "write its fields below it, or leave it out"),
    "invalid_key": ("has a name that is not text", "put the name in quotes"),
}
"""Message and hint for a value of the wrong type, by pydantic's error type."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One error in one field."""

    path: str
    """Path in camelCase, with `[i]` for items of a list."""

    message: str
    """Message without the path."""

    value: str = ""
    """The value, as JSON, shortened; empty: there was none."""

    hint: str = ""
    """Remedy for the user."""

    def __str__(self) -> str:
        """Return it on one line."""
        got = f" (got {self.value})" if self.value else ""
        return f"{self.path}: {self.message}{got}" + (f"; {self.hint}" if self.hint else "")


def explain(root: type[BaseModel], error: ErrorDetails) -> FieldError:
    """Translate one of pydantic's errors.

    Args:
        root: The model that was validated.
        error: What pydantic found, with camelCase locations.
    """
    location, kind, context = error["loc"], error["type"], error.get("ctx", {})
    secret = any(isinstance(part, str) and holds_a_secret(part) for part in location)
    path = path_of(location)
    if kind == REFUSED:
        inner = ".".join(part for part in (path, context["path"]) if part)
        refused = context["value"]
        return FieldError(inner, context["message"], "" if refused is None else shown(refused), context["hint"])
    if kind == "missing":
        choices = _choices_at(root, location)
        return FieldError(path, "is required", "", f"add {location[-1]}: {' or '.join(choices) or '…'}")
    value = "" if secret else shown(error["input"])
    if kind == "extra_forbidden":
        return FieldError(path, "unknown field", value, _instead(str(location[-1]), _fields_at(root, location[:-1])))
    if kind == "literal_error":
        choices = _choices_at(root, location)
        return FieldError(path, f"must be {' or '.join(choices)}", value, _instead(str(error["input"]), choices))
    if kind in TYPES:
        message, hint = TYPES[kind]
        return FieldError(path, message, value, _instead_of_text(root, location, error["input"]) or hint)
    return FieldError(path, *_bound(kind, context, error["msg"], value))


def path_of(location: Sequence[int | str]) -> str:
    """Write a location as a path: `spec.transform.select[2]`."""
    path = ""
    for part in location:
        # pydantic marks errors in the key of a mapping with an extra part.
        path = path if part == "[key]" else child(path, part)
    return path


def child(path: str, part: int | str) -> str:
    """Return the path of an item or a field below `path`."""
    if isinstance(part, int):
        return f"{path}[{part}]"
    if not PLAIN_NAME.fullmatch(part):
        return f"{path}[{json.dumps(part, ensure_ascii=False)}]"
    return f"{path}.{part}" if path else part


def shown(value: object) -> str:
    """Write a value as JSON, shortened to 80 characters; only its beginning is looked at."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", by_alias=True)
    try:
        text = "".join(_beginning(value))
    except ValueError:  # Python writes no integer of more than 4,300 digits
        text = f"({type(value).__name__})"
    text = without_user(text[:LOOKED_AT_CHARACTERS_MAX], cut=len(text) > LOOKED_AT_CHARACTERS_MAX)
    return text if len(text) <= VALUE_CHARACTERS_MAX else text[: VALUE_CHARACTERS_MAX - 1] + "…"


def _beginning(value: object) -> Iterator[str]:
    """Yield a value as JSON, in parts, until there is more than a reader sees."""
    characters = 0
    for part in json.JSONEncoder(ensure_ascii=False, default=_plain).iterencode(_cut(value)):
        yield part
        characters += len(part)
        if characters > LOOKED_AT_CHARACTERS_MAX:
            return


def _cut(value: object) -> object:
    """Return a string without invisible characters."""
    return value[: LOOKED_AT_CHARACTERS_MAX + 1] if isinstance(value, str) else value


def _plain(value: object) -> object:
    """Return the JSON form of a YAML value: a list for a set, a string for all others."""
    return sorted(map(str, value)) if isinstance(value, set | frozenset) else str(value)


def nearest(name: str, names: Sequence[str]) -> str | None:
    """Return the most similar name; `None` if no name is similar, or if the string is too long to compare."""
    if len(name) > NAME_CHARACTERS_MAX:
        return None
    small = {other.lower(): other for other in reversed(names)}
    plain = name.lower().replace("_", "").replace("-", "")
    near = difflib.get_close_matches(plain, small, n=1, cutoff=0.6)
    return small[near[0]] if near else None


def _bound(kind: str, context: Mapping[str, Any], message: str, value: str) -> tuple[str, str, str]:
    """Return message, value and hint of a value beyond its bounds."""
    match kind:
        case "greater_than_equal":
            return f"must be at least {context['ge']:,}", value, f"use {context['ge']} or more"
        case "less_than_equal":
            return f"must be at most {context['le']:,}", value, f"use {context['le']} or less"
        case "string_too_long" | "too_long":
            unit = "characters" if kind == "string_too_long" else "items"
            return f"must have at most {context['max_length']:,} {unit}", value, "make it shorter"
        case "string_too_short":
            return "must not be empty", value, "give a value, or leave it out"
        case "string_pattern_mismatch" if context["pattern"] == r"\S":
            return "must not be blank", value, "give a value, or leave it out"
        case "string_pattern_mismatch" if context["pattern"] == UNTIL_FORM:
            return "must be a time with its time zone, RFC 3339", value, "write it as 2026-11-26T18:00:00Z"
        case "string_pattern_mismatch" if context["pattern"] == URL_FORM:
            return (
                "must be an address of http or https, without a user and a query",
                value,
                "write it as http://prometheus:9090",
            )
        case "string_pattern_mismatch" if "0-9a-f" in context["pattern"]:
            return "must be hexadecimal digits, as status.planOf has them", value, "copy it from there"
        case "string_pattern_mismatch":
            dots = ", . and -" if "." in context["pattern"] else " and -"
            message = f"must consist of lower-case letters, digits{dots}, and begin and end with a letter or digit"
            return message, value, "write it as my-orders"
        case "value_error":
            return str(context["error"]), value, "see docs/fields.md"
        case _:
            return message[:1].lower() + message[1:], value, "see docs/fields.md"


def _instead(name: str, names: Sequence[str]) -> str:
    near = nearest(name, names)
    return f"did you mean {near!r}?" if near else f"use one of {', '.join(names)}"


def _instead_of_text(root: type[BaseModel], location: Sequence[int | str], value: object) -> str:
    """Return the value to write instead of a string that means a number or a type; empty if it means neither."""
    if not isinstance(value, str) or not location:
        return ""
    annotation, name = _annotation_at(root, location), str(location[-1])
    if not (isinstance(annotation, type) and issubclass(annotation, TaggedUnion)):
        number = whole_number(value[:VALUE_CHARACTERS_MAX], name) if annotation is int else None
        return "" if number is None else TYPES["int_type"][1].replace("1000", str(number))
    near = nearest(value, list(annotation.VARIANTS))
    if near is None:
        return f"write {name}: {{type: …}}, and use one of {', '.join(annotation.VARIANTS)}"
    member = "" if annotation.VARIANTS[near].has_defaults else f", {member_of(near)}: {{…}}"
    return f"write {name}: {{type: {near}{member}}}"


def _fields_at(root: type[BaseModel], location: Sequence[int | str]) -> list[str]:
    """Return the field names at a place in the document."""
    model = _annotation_at(root, location)
    return [field.alias or name for name, field in model.model_fields.items()] if _is_model(model) else []


def _choices_at(root: type[BaseModel], location: Sequence[int | str]) -> list[str]:
    annotation = _annotation_at(root, location)
    return [str(choice) for choice in get_args(annotation)] if get_origin(annotation) is Literal else []


def _annotation_at(root: type[BaseModel], location: Sequence[int | str]) -> Any:
    """Return the type of the field at a location, without None and item types."""
    here: Any = root
    for part in location:
        if _is_model(here) and isinstance(part, str):
            fields = {field.alias or name: field.annotation for name, field in here.model_fields.items()}
            here = _bare(fields.get(part))
        elif get_origin(here) is tuple:
            here = _bare(get_args(here)[0])
    return here


def _bare(annotation: Any) -> Any:
    while get_origin(annotation) in (Annotated, Union, types.UnionType):
        annotation = next(part for part in get_args(annotation) if part is not type(None))
    return annotation


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
