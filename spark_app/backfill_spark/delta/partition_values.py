"""The partition values of a staged file, from its folder names, in the form in which Delta's own writer logs them.

The machine's time zone has no influence: Spark formats the folder names in UTC (`sink._write`), and an instant in the log has an explicit
zone (`Z`). Java's own parsers would use the zone of the JVM, and the calendar from before 1582.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from backfill_spark.delta.properties import physical_name

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"

ESCAPE = "~"
"""Prefix in folder names for an empty string, and for strings that begin with it. Spark would use null's folder for an empty string."""

_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029%/]")

_INSTANT = re.compile(r"([+-]?\d{4,}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?")
"""Spark's format of a timestamp; years after 9999 have a sign."""


def partition_of(path: str, columns: Sequence[str], texts: Collection[str] = ()) -> tuple[tuple[str, str | None], ...]:
    """Return the partition values in a path's `column=value` folders.

    Args:
        path: Path of a staged file.
        columns: The partition columns, in the order of the result.
        texts: Partition columns of type string, whose values are escaped.
    """
    folders = dict(part.split("=", 1) for part in path.split("/")[:-1] if "=" in part)
    named = {unquote(name): unquote(value) for name, value in folders.items()}
    values = {name: named[name].removeprefix(ESCAPE) if name in texts else named[name] for name in columns}
    return tuple((name, None if named[name] == NULL_PARTITION else value) for name, value in values.items())


def instant(text: str) -> str:
    """Return a UTC timestamp in the format of the log, with its zone: `2021-03-28T02:30:00.000000Z`.

    Raises:
        ValueError: the string is not a timestamp.
    """
    match = _INSTANT.fullmatch(text)
    if match is None:
        raise ValueError(f"no timestamp: {text!r}")
    day, time, fraction = match.groups(default="")
    return f"{day}T{time}.{fraction:0<6}Z"


def describe_partitions(files: Sequence[Mapping[str, str | None]], columns: Sequence[StructField]) -> tuple[str, ...]:
    """Return the partition of each file as one line for users, as Spark's folders: `day=2026-11-01/country=DE`; empty without columns.

    A slash or a percent sign in a value, and what cannot be printed, is percent-encoded, so different partitions differ.

    Args:
        files: Partition values of each file, by the physical names of the columns.
        columns: The partition columns.
    """
    names = [(column.name, physical_name(column)) for column in columns]
    lines: dict[tuple[str | None, ...], str] = {}
    for values in files if names else ():
        key = tuple(values.get(physical) for _, physical in names)
        if key not in lines:
            shown = (NULL_PARTITION if value is None else _UNSAFE.sub(_encoded, value) for value in key)
            lines[key] = "/".join(f"{name}={value}" for (name, _), value in zip(names, shown, strict=True))
    return tuple(lines[tuple(values.get(physical) for _, physical in names)] for values in files) if names else ()


def _encoded(match: re.Match[str]) -> str:
    return quote(match[0], safe="")
