"""Random transforms of an odd table and layouts of targets, and what must be there then; what is there is read apart from us."""

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
"""Bytes of a text from which on the folder `column=text` may have a longer name than a file system takes."""


@dataclass(frozen=True)
class Output:
    """One column that a transform yields: SQL for the product, a function for the model."""

    name: str
    sql: str
    of: Callable[[Row], Any]
    type: Any


@dataclass(frozen=True)
class OddTransform:
    """A random select and where, and what they mean for a row of the model."""

    outputs: tuple[Output, ...]
    where: str | None
    passes: Callable[[Row], bool]
    selects: bool

    @property
    def spec(self) -> dict[str, Any]:
        """Return it as `spec.transform`."""
        chosen: dict[str, Any] = {"select": [one.sql for one in self.outputs]} if self.selects else {}
        return chosen | ({"where": self.where} if self.where else {})

    def into(self, folders: Collection[str]) -> OddTransform:
        """Return it for a target that is partitioned by these outputs: an empty text is null there, as Delta has it."""
        outputs = (
            replace(one, of=lambda row, of=one.of: None if of(row) == "" else of(row)) if one.name in folders else one
            for one in self.outputs
        )
        return replace(self, outputs=tuple(outputs))

    def unfit(self, rows: list[Row], folders: Collection[str]) -> bool:
        """May a job be refused for these rows: has a text no folder of its name, in an output that is a partition?"""
        values = [one.of(row) for row in rows if self.passes(row) for one in self.outputs if one.name in folders]
        return any(isinstance(value, str) and not _names_a_folder(value) for value in values)

    def expected(self, rows: list[Row]) -> Counter[tuple[Any, ...]]:
        """Return what a target must hold, as a multiset of comparable tuples in the order of `outputs`."""
        return Counter(tuple(one.type.meant(one.of(row)) for one in self.outputs) for row in rows if self.passes(row))


def _names_a_folder(text: str) -> bool:
    return text != "__HIVE_DEFAULT_PARTITION__" and "\0" not in text and len(text.encode()) < LONG_NAME


def draw_transform(rng: Random, table: OddTable) -> OddTransform:
    """Return a transform that keeps the columns `id` and `kéy` as they are."""
    keys = [ID, "k\u00e9y"]
    others = [name for name in table.columns if name not in keys]
    outputs = [
        Output(name, ticked(name), lambda row, name=name: row[name], table.columns[name]) for name in [*keys, *others]
    ]
    selects = rng.random() < 0.6
    if selects:
        kept = rng.sample(others, rng.randrange(len(others) + 1))
        outputs = [one for one in outputs if one.name in (*keys, *kept)]
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
    """Return what a table holds, as `OddTransform.expected` says it; a changelog holds what replaying it arrives at.

    It is read by delta-rs, or by plain Spark where columns are mapped.
    """
    names = [one.name for one in outputs]
    table = DeltaTable(path)
    changelog = [OP] if any(field.name == OP for field in table.schema().fields) else []
    if "delta.columnMapping.mode" in str(table.metadata().configuration):
        with in_utc(spark):
            read = spark.read.format("delta").load(path).select(*map(ticked, [*names, *changelog]))
            values = [tuple(row) for row in read.collect()]
    else:
        chosen = ", ".join(map(quoted, [*names, *changelog]))
        found = QueryBuilder().register("held", table).execute(f"SELECT {chosen} FROM held").read_all()
        values = list(zip(*([value.as_py() for value in column] for column in found.columns), strict=True))
    counted: Counter[tuple[Any, ...]] = Counter()
    for row in values:
        key = tuple(one.type.meant(value) for one, value in zip(outputs, row, strict=False))
        counted[key] += -1 if changelog and row[-1] in REMOVALS else 1
    return Counter({row: count for row, count in counted.items() if count})


def badly_skipped(spark: Any, rng: Random, path: str, outputs: tuple[Output, ...], rows: list[Row]) -> str:
    """Ask for rows by one random value: a file whose statistics or folder lie is passed over. Say what is wrong, or nothing."""
    flat = [one for one in outputs if isinstance(one.type, Flat) and one.type not in (FLOAT, DOUBLE, BINARY)]
    column = rng.choice(flat)
    values = [column.of(row) for row in rows if column.of(row) is not None]
    if not values:
        return ""
    value, sign = rng.choice(values), rng.choice(("=", "<=", ">="))
    if column.type == STRING:
        sign = "="  # engines order texts by bytes, Python by code points
    fits = {"=": lambda one: one == value, "<=": lambda one: one <= value, ">=": lambda one: one >= value}[sign]
    should = sum(1 for one in values if fits(one))
    with in_utc(spark):
        where = f"{ticked(column.name)} {sign} {column.type.spark_sql(value)}"
        there = spark.read.format("delta").load(path).where(where).count()
    return "" if there == should else f"{there} rows where {where} ({value!r}), should be {should}"


def draw_target(rng: Random, transform: OddTransform) -> dict[str, Any]:
    """Return a random layout for the target: partitioned, clustered or neither; mapped where its names are odd."""
    fits = [
        one.name
        for one in transform.outputs
        if one.type in FOLDERS and may_be_a_folder(one.name) and one.name not in (ID, "k\u00e9y")
    ]
    mapped = any(set(one.name) & set(" ,;{}()\n\t=") for one in transform.outputs) or rng.random() < 0.2
    layout: dict[str, Any] = {"properties": {"delta.columnMapping.mode": "name"}} if mapped else {}
    if fits and rng.random() < 0.5:
        layout["partitionBy"] = rng.sample(fits, min(len(fits), rng.choice((1, 1, 2))))
    return layout
