"""Schemas as a log stores them. The writers of a table decide what its log holds, and a job reads it with its own rights."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql.types import StructType

USER_DEFINED = "udt"
_TYPES = ("type", "elementType", "keyType", "valueType", "sqlType")


class UserDefinedTypeError(Exception):
    """A schema names a class for the values of a column."""


def schema_of(text: str) -> StructType:
    """Return a schema from its JSON.

    Raises:
        UserDefinedTypeError: pyspark would import the module that the schema names, and so run its code.
        ValueError, KeyError, TypeError, AttributeError, RecursionError: it is no schema.
    """
    document = json.loads(text)
    refuse_classes(document)
    return StructType.fromJson(document)


def check_schema_text(text: str) -> None:
    """Refuse a schema that names a class; cheap for any other one, and no check of its form.

    Raises:
        UserDefinedTypeError: see `schema_of`.
    """
    # JSON may spell a letter by its number.
    if USER_DEFINED in text or "\\u" in text:
        try:
            refuse_classes(json.loads(text))
        except (ValueError, RecursionError):
            return  # it is no schema, which its reader says


def refuse_classes(node: Any) -> None:
    """Refuse a part of a schema that names a class, at any depth; metadata of columns holds no types.

    Raises:
        UserDefinedTypeError: see `schema_of`.
    """
    if isinstance(node, list):
        for one in node:
            refuse_classes(one)
    elif isinstance(node, dict):
        if node.get("type") == USER_DEFINED:
            raise UserDefinedTypeError("a column has a user-defined type, whose class a reader would load")
        for name in (*_TYPES, "fields"):
            refuse_classes(node.get(name))
