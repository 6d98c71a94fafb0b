"""Parses schemas from a log. A log is untrusted: the writers of a table decide its content, and the job's user reads it."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql.types import StructType

USER_DEFINED = "udt"
_TYPES = ("type", "elementType", "keyType", "valueType", "sqlType")


class UserDefinedTypeError(Exception):
    """A schema names a Python or Java class for the values of a column."""


def schema_of(text: str) -> StructType:
    """Return a schema from its JSON.

    Raises:
        UserDefinedTypeError: pyspark would import the module that the schema names, and so run its code.
        ValueError, KeyError, TypeError, AttributeError, RecursionError: the JSON is not a schema.
    """
    document = json.loads(text)
    refuse_classes(document)
    return StructType.fromJson(document)


def check_schema_text(text: str) -> None:
    """Reject a schema that names a class; cheap for all other schemas, and without a check of their form.

    Raises:
        UserDefinedTypeError: see `schema_of`.
    """
    # JSON may contain a letter as an escaped code point.
    if USER_DEFINED in text or "\\u" in text:
        try:
            refuse_classes(json.loads(text))
        except (ValueError, RecursionError):
            return  # it is not a schema; its reader reports that


def refuse_classes(node: Any) -> None:
    """Reject a part of a schema that names a class, at any depth; metadata of columns contains no types.

    Raises:
        UserDefinedTypeError: see `schema_of`.
    """
    if isinstance(node, list):
        for item in node:
            refuse_classes(item)
    elif isinstance(node, dict):
        if node.get("type") == USER_DEFINED:
            raise UserDefinedTypeError("a column has a user-defined type, whose class a reader would load")
        for name in (*_TYPES, "fields"):
            refuse_classes(node.get(name))
