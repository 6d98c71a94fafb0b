"""Delta logs as other writers write them: files by Parquet's writer, and commits that are written here, line by line.

The protocol allows each choice, or a writer made it and plain Spark reads it. The choices are spellings of partition values,
statistics that are absent, malformed or slightly wrong, paths that are relative, encoded or absolute, commits with blank lines, and
checksum files that are cut.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

from support.tables.foreign_files import write_file

ROWS = 4
"""Rows of a file."""

PARTITIONS: dict[str, tuple[str | None, ...]] = {
    "string": ("", "a", "A", " ", "~", "~a", "007", "é", None),
    "integer": ("7", "007", "+7", " 7", "7.9", "7e0", "abc", "-3", "2147483648", "", None),
    "double": ("0.5", "5e-1", "NaN", "Infinity", "-0.0", "0.0", "1.5d", "x", "", None),
    "decimal(10,2)": ("1.5", "1.50", "1.005", "1e0", "99999999999", "x", "", None),
    "boolean": ("true", "TRUE", "t", "0", "x", "", None),
    "date": ("2024-01-01", "2024-1-1", "20240101", "9999-12-31", "x", "", None),
    "timestamp": (
        "2024-01-01 00:00:00", "2024-01-01T00:00:00.000000Z", "2024-01-01T01:00:00.000+01:00", "2024-01-01",
        "9999-12-31T23:59:59.999999Z", "x", "", None,
    ),
    "timestamp_ntz": ("2024-01-01 00:00:00", "2024-01-01T00:00:00.5", "2024-01-01", "9999-12-31 23:59:59.999999", "x", "", None),
}  # fmt: skip
"""Strings of partition values by the type of the column."""


def readable(spark: Any, kind: str) -> tuple[str | None, ...]:
    """Return the strings that plain Spark can read in ANSI mode; it cannot read a table with any other."""
    spellings = PARTITIONS[kind]
    if kind == "string":
        return spellings
    literals = {text: "''" if text is None else f"'{text}'" for text in spellings}
    row = spark.sql(
        f"SELECT {', '.join(f'try_cast({literal} AS {kind}) IS NOT NULL' for literal in literals.values())}"
    ).first()
    return tuple(text for text, is_read in zip(spellings, row, strict=True) if is_read or text is None)


LITERALS = {
    "string": ("''", "'a'", "'007'"), "integer": ("7", "-3"), "double": ("0.5D", "0D", "double('NaN')"),
    "decimal(10,2)": ("1.5BD", "1.01BD"), "boolean": ("true",), "date": ("DATE '2024-01-01'", "DATE '9999-12-31'"),
    "timestamp": ("TIMESTAMP '2024-01-01 00:00:00Z'", "TIMESTAMP '9999-12-31 23:59:59.999Z'"),
    "timestamp_ntz": ("TIMESTAMP_NTZ '2024-01-01 00:00:00'", "TIMESTAMP_NTZ '9999-12-31 23:59:59.999'"),
    "long": ("3", "1000", "9007199254740993"),
}  # fmt: skip

ZONES = {"Z": 0, "+01:00": 3600, "-03:30": -12_600, "+00:09": 561, "-00:44": -2670}
"""Offsets in statistics and the true ones in seconds: the last two lack their seconds, as Delta 3.2 and 3.3 wrote them."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
OLD, LAST = datetime(1910, 1, 1, 9, 50, 39, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)


def _longs(rng: Random) -> list[int]:
    first = rng.choice([0, 1000, 9_007_199_254_740_991, -(2**63), 2**63 - ROWS])
    return [first + at for at in range(ROWS)]


def _moments(rng: Random) -> list[datetime]:
    first = rng.choice([OLD, datetime(1971, 1, 1, 10, 44, 30, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC), LAST])
    return [first + timedelta(microseconds=at * rng.choice([1, 200])) for at in range(ROWS)]


def _texts(rng: Random) -> list[str]:
    return [rng.choice(["", "a", "b", "é" * 40, "a" * 40 + str(at), "\U0001f600" * 33]) for at in range(ROWS)]


def _stored(value: Any) -> Any:
    return (value - EPOCH) // timedelta(microseconds=1) if isinstance(value, datetime) else value


@dataclass(frozen=True)
class Values:
    """Kinds of the column `v`."""

    type: str
    parquet: str
    """Its type in a file, with a placeholder for the name."""

    draw: Callable[[Random], list[Any]]
    bound: Callable[[Random, Any, bool], Any]
    """Convert a value of the file to a value of statistics; the last argument is true for the largest one."""


def _moment_bound(rng: Random, value: datetime, largest: bool) -> str:
    zone = rng.choice([name for name in ZONES if value.year in (1910, 1971) or name in ("Z", "+01:00", "-03:30")])
    if value.year == 9999 or value.microsecond % 1000:
        zone = "Z"
    clock = (value + timedelta(seconds=ZONES[zone])).replace(tzinfo=None)
    return f"{clock:%Y-%m-%dT%H:%M:%S}.{clock.microsecond // 1000:03}{zone}"


def _text_bound(rng: Random, value: str, largest: bool) -> str:
    return value if len(value) <= 32 else value[:32] + ("\U0010ffff" if largest else "")


KINDS = (
    Values("long", "int64 {}", _longs, lambda rng, value, largest: value),
    Values("timestamp", "int64 {} (TIMESTAMP(MICROS,true))", _moments, _moment_bound),
    Values("string", "binary {} (STRING)", _texts, _text_bound),
)

STATISTICS = (
    "exact",
    "exact",
    "exact",
    "none",
    "null",
    "empty",
    "object",
    "garbage",
    "count",
    "nulls",
    "bounds of null",
)


@dataclass
class ForeignTable:
    """A table, version by version."""

    spark: Any
    path: Path
    rng: Random
    partition: str = ""
    """Type of the partition column `p`."""

    values: Values = KINDS[0]
    version: int = -1
    _next: int = 0
    _paths: list[str] = field(default_factory=list)
    _texts: tuple[str | None, ...] = ()

    def __post_init__(self) -> None:
        """Choose the columns, and write version 0."""
        self.partition = self.partition or self.rng.choice([*PARTITIONS])
        self.values = self.rng.choice(KINDS)
        self._texts = readable(self.spark, self.partition)
        fields = [("id", "long"), ("p", self.partition), ("v", self.values.type)]
        schema = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields]
        ntz = ["timestampNtz"] if self.partition == "timestamp_ntz" else []
        features = {"readerFeatures": ntz, "writerFeatures": ntz} if ntz else {}
        self.commit(
            {"protocol": {"minReaderVersion": 3 if ntz else 1, "minWriterVersion": 7 if ntz else 2, **features}},
            {
                "metaData": {
                    "id": str(self.path), "format": {"provider": "parquet", "options": {}}, "configuration": {},
                    "schemaString": json.dumps({"type": "struct", "fields": schema}), "partitionColumns": ["p"],
                }
            },
            *self.adds(),
        )  # fmt: skip

    def commit(self, *actions: dict[str, Any]) -> None:
        """Write the next version."""
        self.version += 1
        log = self.path / "_delta_log"
        log.mkdir(parents=True, exist_ok=True)
        info = {"commitInfo": {"timestamp": 1_700_000_000_000 + self.version, "operation": "WRITE"}}
        blank = self.rng.choice(["", "", "", "\n", " \t\n"])
        text = "".join(f"{json.dumps(action)}\n{blank}" for action in (info, *actions))
        (log / f"{self.version:020d}.json").write_text(text)
        if self.rng.random() < 0.2:
            (log / f"{self.version:020d}.crc").write_text('{"tableSizeBytes":')

    def append(self) -> None:
        """Add some files in a version."""
        self.commit(*self.adds())

    def remove(self) -> None:
        """Remove a file in a version."""
        gone = self._paths.pop(self.rng.randrange(len(self._paths)))
        self.commit({"remove": {"path": gone, "deletionTimestamp": 1_700_000_000_000, "dataChange": True}})

    def adds(self) -> list[dict[str, Any]]:
        """Write some files, and return their actions."""
        return [{"add": self._add()} for _ in range(self.rng.randint(2, 4))]

    def _add(self) -> dict[str, Any]:
        number, self._next = self._next, self._next + 1
        drawn: list[Any] = self.values.draw(self.rng)
        values = [None if self.rng.random() < 0.1 else value for value in drawn]
        name = self.rng.choice(
            [f"part-{number}.parquet", f"p=x y/part {number}.parquet", f"p=%2F/part+{number}.parquet"]
        )
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        schema = f"message m {{ optional int64 id; optional {self.values.parquet.format('v')}; }}"
        rows = [
            {"id": number * ROWS + at} | ({} if value is None else {"v": _stored(value)})
            for at, value in enumerate(values)
        ]
        write_file(self.spark, str(file), schema, rows)
        begins = self.rng.choice(["", "", "", f"file://{self.path}/"])
        self._paths.append(quote(f"{begins}{name}", safe=":/=+"))
        add = {
            "path": self._paths[-1], "partitionValues": {"p": self.rng.choice(self._texts)},
            "size": file.stat().st_size, "modificationTime": 1_700_000_000_000, "dataChange": True,
        }  # fmt: skip
        stats = self._statistics([number * ROWS, (number + 1) * ROWS - 1], values)
        return add | ({} if stats is None else {"stats": stats})

    def _statistics(self, ids: list[int], values: list[Any]) -> str | None:
        held = [value for value in values if value is not None]
        low, high = {"id": ids[0]}, {"id": ids[1]}
        if held:
            by_bytes = (lambda value: value.encode()) if self.values.type == "string" else None
            low["v"] = self.values.bound(self.rng, min(held, key=by_bytes), False)
            high["v"] = self.values.bound(self.rng, max(held, key=by_bytes), True)
        exact: dict[str, Any] = {"numRecords": ROWS, "minValues": low, "maxValues": high,
                                 "nullCount": {"id": 0, "v": values.count(None)}}  # fmt: skip
        kind = self.rng.choice(STATISTICS)
        choices: dict[str, Any] = {
            "null": "null", "empty": "", "object": "{}", "garbage": "no statistics", "none": None,
            "count": {"numRecords": ROWS}, "nulls": {**exact, "nullCount": None},
            "bounds of null": {**exact, "minValues": None, "maxValues": None}, "exact": exact,
        }  # fmt: skip
        statistics = choices[kind]
        return json.dumps(statistics) if isinstance(statistics, dict) else statistics
