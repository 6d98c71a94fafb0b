"""The partition values of a staged file: from the names of its folders, as Delta's own writer puts them into the log.

No clock of the machine is asked: a folder's name is what Spark made of the value in UTC (`sink._write`), and the log's form of
an instant says so itself (`Z`). Java's own parsers read such a text in the zone of the JVM and by the calendar of before 1582.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from urllib.parse import unquote

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"

ESCAPE = "~"
"""Precedes an empty text, and a text that begins with it, in the name of a folder. Spark would name the folder of an empty text as null's."""

_INSTANT = re.compile(r"([+-]?\d{4,}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?")
"""As Spark writes a timestamp; beyond the year 9999 with a sign."""


def partition_of(path: str, columns: Sequence[str], texts: Collection[str] = ()) -> tuple[tuple[str, str | None], ...]:
    """Return the partition values in a path's `column=value` folders.

    Args:
        path: Of a staged file.
        columns: The partition columns, in the order of the result.
        texts: Those of them whose values are texts, and escaped.
    """
    folders = dict(part.split("=", 1) for part in path.split("/")[:-1] if "=" in part)
    named = {unquote(name): unquote(value) for name, value in folders.items()}
    values = {name: named[name].removeprefix(ESCAPE) if name in texts else named[name] for name in columns}
    return tuple((name, None if named[name] == NULL_PARTITION else value) for name, value in values.items())


def instant(text: str) -> str:
    """Return a timestamp in UTC as the log has it, with its zone: `2021-03-28T02:30:00.000000Z`.

    Raises:
        ValueError: it is no timestamp.
    """
    found = _INSTANT.fullmatch(text)
    if found is None:
        raise ValueError(f"no timestamp: {text!r}")
    day, time, fraction = found.groups(default="")
    return f"{day}T{time}.{fraction:0<6}Z"
