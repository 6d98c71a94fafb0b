"""Parses JSON from untrusted users: values nested deeper than `DEPTH_MAX` become null, and the rest is read.

An API server accepts 4,000 levels. Python's parsers, copies and comparisons recurse, so one such object could end the
process. The limit for specs is lower, so a spec that was cut here is refused by name.
"""

from __future__ import annotations

import re
from typing import Any, Final

from pydantic_core import from_json

DEPTH_MAX: Final = 120
"""Depth at which values are cut. The parser itself accepts 200 levels, which our own recursion can handle."""

LEVELS_MAX: Final = 210_000
"""Deeper JSON is refused, which bounds the time for a megabyte of brackets; an API server accepts 4,000 levels."""

_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]+|[\]}]+', flags=re.DOTALL)
"""A string, even a truncated one. Otherwise each of its quotes would start another search, which could take hours."""

_OPENING: Final = b"[{"
_CLOSING: Final = b"]}"


def loads(text: bytes | str) -> Any:
    """Parse JSON; if the parser refuses it, parse it again with null for values beyond `DEPTH_MAX`.

    Raises:
        ValueError: it is not JSON.
    """
    try:
        return from_json(text)
    except ValueError:
        return from_json(shallow(text.encode(errors="replace") if isinstance(text, str) else text))


def shallow(text: bytes) -> bytes:
    """Return the JSON with null for values nested deeper than `DEPTH_MAX`; linear, without recursion.

    Raises:
        ValueError: it has more than `LEVELS_MAX` levels.
    """
    parts: list[bytes] = []
    depth, kept_from = 0, 0
    for token in _TOKEN.finditer(text):
        start, end = token.span()
        sign = text[start]
        if sign in _OPENING:
            if depth <= DEPTH_MAX < depth + end - start:
                parts += (text[kept_from : start + DEPTH_MAX - depth], b"null")
            depth += end - start
            if depth > LEVELS_MAX:
                raise ValueError(f"the JSON has more than {LEVELS_MAX:,} levels")
        elif sign in _CLOSING:
            if depth - (end - start) <= DEPTH_MAX < depth:
                kept_from = start + depth - DEPTH_MAX
            depth -= end - start
    return b"".join((*parts, text[kept_from:]))
