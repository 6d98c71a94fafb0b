"""Reads JSON that anybody may have written: what is nested beyond all use is cut off, and the rest is read.

An API server takes 4,000 levels. Python's parsers, copies and comparisons follow them by recursion, and one such object
ended the process for everybody. So nothing deeper than `DEPTH_MAX` comes in; the specs' own limit is lower, so that what
was cut is refused by name.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final

from pydantic_core import from_json

DEPTH_MAX: Final = 120
"""What is cut ends here. The parser itself takes 200 levels, which no recursion of ours minds."""

TOO_DEEP: Final = "recursion limit exceeded"
"""The parser's words."""

_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[{\]}]', flags=re.DOTALL)
_OPENING: Final = b"[{"
_CLOSING: Final = b"]}"


def loads(text: bytes) -> Any:
    """Return what a JSON text says; if it is nested too deeply, with null in the place of what is beyond `DEPTH_MAX`.

    Raises:
        ValueError: it is no JSON.
    """
    try:
        return from_json(text)
    except ValueError as error:
        if TOO_DEEP not in str(error):
            raise
    return from_json(shallow(text))


async def loads_aside(text: bytes) -> Any:
    """Return the same; what has to be cut is cut beside the event loop, because it may be a whole page of a list.

    Raises:
        ValueError: it is no JSON.
    """
    try:
        return from_json(text)
    except ValueError as error:
        if TOO_DEEP not in str(error):
            raise
    return await asyncio.to_thread(loads, text)


def shallow(text: bytes) -> bytes:
    """Return the text with null in the place of whatever is nested deeper than `DEPTH_MAX`; linear, without recursion."""
    parts: list[bytes] = []
    depth, kept_from = 0, 0
    for token in _TOKEN.finditer(text):
        sign = text[token.start()]
        if sign in _OPENING:
            depth += 1
            if depth == DEPTH_MAX + 1:
                parts += (text[kept_from : token.start()], b"null")
        elif sign in _CLOSING:
            if depth == DEPTH_MAX + 1:
                kept_from = token.end()
            depth -= 1
    return b"".join((*parts, text[kept_from:]))
