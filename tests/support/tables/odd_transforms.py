"""Random transforms of an odd table and layouts of targets, with the expected rows; the actual rows are read by independent code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from deltalake import DeltaTable, QueryBuilder
from support.tables.odd_tables import ID, OddTable, Row, in_utc, may_be_a_folder, quoted, ticked
from support.tables.odd_values import BINARY, DOUBLE, FLOAT, FOLDERS, LONG, STRING, Flat

OP = "_op"
REMOVALS = ("delete", "update_preimage")
LONG_NAME = 200
"""Bytes of a string from which on the folder `column=string` may have a longer name than a file system allows."""


@dataclass(frozen=True)
class Output:
    """One column that a transform yields: SQL for the product, a function for the model."""

    name: str
    sql: str
    of: Callable[[Row], Any]
    type: Any


@dataclass(frozen=True)
class OddTransform:
    """A random select and where, and their meaning for a row of the model."""

    outputs: tuple[Output, ...]
    where: str | None
    passes: Callable[[Row], bool]
    selects: bool

    @property
    def spec(self) -> dict[str, Any]:
        """Return it as `spec.transform`."""
        chosen: dict[str, Any] = {"select": [output.sql for output in self.outputs]} if self.selects else {}
        return chosen | ({"where": self.where} if self.where else {})

    def into(self, folders: Collection[str]) -> OddTransform:
        """Return it for a target that is partitioned by these outputs: Delta stores an empty string as null there."""
        outputs = (
            replace(output, of=lambda row, of=output.of: None if of(row) == "" else of(row))
            if output.name in folders
            else output
            for output in self.outputs
        )
        return replace(self, outputs=tuple(outputs))

    def unfit(self, rows: list[Row], folders: Collection[str]) -> bool:
        """Return whether a job may be rejected for these rows: a string in a partition column cannot name a folder."""
        values = [
            output.of(row) for row in rows if self.passes(row) for output in self.outputs if output.name in folders
        ]
        return any(isinstance(value, str) and not _names_a_folder(value) for value in values)

    def expected(self, rows: list[Row]) -> Counter[tuple[Any, ...]]:
        """Return the expected rows of a target, as a multiset of comparable tuples in the order of `outputs`."""
        return Counter(
            tuple(output.type.meant(output.of(row)) for output in self.outputs) for row in rows if self.passes(row)
        )


def _names_a_folder(text: str) -> bool:
    return text != "__HIVE_DEFAULT_PARTITION__" and "\0" not in text and len(text.encode()) < LONG_NAME


def draw_transform(rng: Random, table: OddTable) -> OddTransform:
    """Return a transform that keeps the columns `id` and `kéy` unchanged."""
    keys = [ID, "k\u00e9y"]
    others = [name for name in table.columns if name not in keys]
    outputs = [
        Output(name, ticked(name), lambda row, name=name: row[name], table.columns[name]) for name in [*keys, *others]
    ]
    selects = rng.random() < 0.6
    if selects:
        kept = rng.sample(others, rng.randrange(len(others) + 1))
        outputs = [output for output in outputs if output.name in (*keys, *kept)]
        rng.shuffle(outputs)
        outputs += [_computed(name, table) for name in rng.sample(others, rng.randrange(len(others) + 1))]
    where, passes = _draw_filter(rng, table)
    return OddTransform(tuple(outputs), where, passes, selects)


def _computed(name: str, table: OddTable) -> Output:
    column, sql = table.columns[name], ticked(name)
    alias = f"of_{sorted(table.columns).index(name)}"
    if column == STRING:
        return Output(
            alias, f"coalesce({sql}, 'none') AS {alias}", lambda row: "none" if row[name] is None else row[name], STRING
        )
    if column == BINARY:
        return Output(
            alias, f"hex({sql}) AS {alias}", lambda row: None if row[name] is None else row[name].hex().upper(), STRING
        )
    return Output(
        alias, f"CASE WHEN {sql} IS NULL THEN 0L ELSE id + 1 END AS {alias}", lambda row: 0 if row[name] is None else row[ID] + 1, LONG
    )  # fmt: skip


def _draw_filter(rng: Random, table: OddTable) -> tuple[str | None, Callable[[Row], bool]]:
    drawn = rng.random()
    if drawn < 0.5:
        return None, lambda row: True
    if drawn < 0.75:
        return "id % 3 <> 0", lambda row: row[ID] % 3 != 0
    name = rng.choice([name for name in table.columns if name not in (ID, "k\u00e9y")])
    return f"{ticked(name)} IS NOT NULL", lambda row: row[name] is not None


def held(spark: Any, path: str, outputs: tuple[Output, ...]) -> Counter[tuple[Any, ...]]:
    """Return the rows of a table, in the form of `OddTransform.expected`; a changelog is replayed.

    delta-rs reads it, or plain Spark if columns are mapped.
    """
    names = [output.name for output in outputs]
    table = DeltaTable(path)
    changelog = [OP] if any(field.name == OP for field in table.schema().fields) else []
    if "delta.columnMapping.mode" in str(table.metadata().configuration):
        with in_utc(spark):
            read = spark.read.format("delta").load(path).select(*map(ticked, [*names, *changelog]))
            values = [tuple(row) for row in read.collect()]
    else:
        chosen = ", ".join(map(quoted, [*names, *changelog]))
        result = QueryBuilder().register("held", table).execute(f"SELECT {chosen} FROM held").read_all()
        values = list(zip(*([value.as_py() for value in column] for column in result.columns), strict=True))
    counted: Counter[tuple[Any, ...]] = Counter()
    for row in values:
        key = tuple(output.type.meant(value) for output, value in zip(outputs, row, strict=False))
        counted[key] += -1 if changelog and row[-1] in REMOVALS else 1
    return Counter({row: count for row, count in counted.items() if count})


def badly_skipped(spark: Any, rng: Random, path: str, outputs: tuple[Output, ...], rows: list[Row]) -> str:
    """Filter rows by one random value, so that files with wrong statistics or folders are skipped; return the error, if any."""
    flat = [
        output for output in outputs if isinstance(output.type, Flat) and output.type not in (FLOAT, DOUBLE, BINARY)
    ]
    column = rng.choice(flat)
    values = [column.of(row) for row in rows if column.of(row) is not None]
    if not values:
        return ""
    value, sign = rng.choice(values), rng.choice(("=", "<=", ">="))
    if column.type == STRING:
        sign = "="  # engines order strings by bytes, Python by code points
    fits = {
        "=": lambda actual: actual == value,
        "<=": lambda actual: actual <= value,
        ">=": lambda actual: actual >= value,
    }[sign]
    should = sum(1 for candidate in values if fits(candidate))
    with in_utc(spark):
        where = f"{ticked(column.name)} {sign} {column.type.spark_sql(value)}"
        count = spark.read.format("delta").load(path).where(where).count()
    return "" if count == should else f"{count} rows where {where} ({value!r}), should be {should}"


def draw_target(rng: Random, transform: OddTransform) -> dict[str, Any]:
    """Return a random layout for the target: partitioned, clustered or neither; mapped if its names are odd."""
    fits = [
        output.name
        for output in transform.outputs
        if output.type in FOLDERS and may_be_a_folder(output.name) and output.name not in (ID, "k\u00e9y")
    ]
    mapped = any(set(output.name) & set(" ,;{}()\n\t=") for output in transform.outputs) or rng.random() < 0.2
    layout: dict[str, Any] = {"properties": {"delta.columnMapping.mode": "name"}} if mapped else {}
    if fits and rng.random() < 0.5:
        layout["partitionBy"] = rng.sample(fits, min(len(fits), rng.choice((1, 1, 2))))
    return layout
