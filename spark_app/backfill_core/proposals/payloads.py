"""The format of a topic's payloads, from some records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, Literal

Format = Literal["Json", "Registry", "Text", "Binary", "Empty"]

FIELDS_MAX: Final = 200
TYPES: Final = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "STRING"}
REGISTRY_BYTES: Final = 5
"""A schema registry puts a zero and four bytes of the schema's id before each payload."""


def format_of(values: Sequence[bytes]) -> Format:
    """Return the format that all payloads have in common."""
    if not values:
        return "Empty"
    if all(_object(value) is not None for value in values):
        return "Json"
    if all(len(value) > REGISTRY_BYTES and value[0] == 0 for value in values):
        return "Registry"
    return "Text" if all(_text(value) is not None for value in values) else "Binary"


def json_fields(values: Sequence[bytes]) -> tuple[tuple[str, str], ...]:
    """Return name and SQL type of each field of JSON payloads, in the order of their first occurrence.

    A field with values of several types, or with an object or a list, is a STRING, which holds it as JSON.
    """
    fields: dict[str, str] = {}
    for value in values:
        for name, item in (_object(value) or {}).items():
            if item is None or (name not in fields and len(fields) >= FIELDS_MAX):
                continue
            fields[name] = _common(fields.get(name), TYPES.get(type(item), "STRING"))
    return tuple(fields.items())


def _common(known: str | None, new: str) -> str:
    if known is None or known == new:
        return new
    return "DOUBLE" if {known, new} == {"BIGINT", "DOUBLE"} else "STRING"


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _object(value: bytes) -> dict[str, Any] | None:
    text = _text(value)
    if text is None or not text.lstrip().startswith("{"):
        return None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
