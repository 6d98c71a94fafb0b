"""Predicates made of a table's values, and those for which a reader that skips files loses rows."""

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from random import Random
from typing import Any

from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, MapType, StructType

Lost = tuple[str, int, int]
"""A predicate, the number of rows that satisfy it, and the number that a reader returns."""

OPERATORS = ("<", "<=", ">", ">=", "<=>", "<>")
ODD = ("NaN", "Infinity", "-0.0", "+10000-", "0001-")
"""Parts of values that are always tested, if a column has them."""


def lost(spark: Any, path: str | Path, rng: Random, *, like: str) -> list[Lost]:
    """Return the predicates for which Spark does not return all rows; `like` selects the rows whose values are used.

    Only the log skips files: Parquet's filters do not treat NaN and -0.0 as Spark does, in any table.
    """
    table = spark.read.format("delta").load(str(path))
    predicates = list(_predicates(table, rng, like))
    before = spark.conf.get("spark.sql.parquet.filterPushdown")
    spark.conf.set("spark.sql.parquet.filterPushdown", "false")
    try:
        # A predicate that is selected as a column is evaluated for each row.
        expected = table.selectExpr(
            *(f"count_if({predicate}) AS c{at}" for at, predicate in enumerate(predicates))
        ).first()
        actual = [len(table.where(predicate).select("id").collect()) for predicate in predicates]
    finally:
        spark.conf.set("spark.sql.parquet.filterPushdown", before)
    return [
        (predicate, expected[at], actual[at]) for at, predicate in enumerate(predicates) if expected[at] != actual[at]
    ]


def lost_by_another_engine(path: str | Path, rng: Random, *, without: Collection[str] = ()) -> list[Lost]:
    """Return the same for delta-rs, for columns whose values its SQL can express; `without`: top-level columns to leave out."""
    held = QueryBuilder().register("t", DeltaTable(str(path)))

    def numbers(query: str) -> list[Any]:
        return list(held.execute(query).read_all()["v"].to_pylist())

    missed = []
    fields = json.loads(DeltaTable(str(path)).schema().to_json())["fields"]
    for name, kind in _spoken([column for column in fields if column["name"] not in without], ""):
        if kind == "binary":
            continue
        arrow = numbers(f"SELECT arrow_typeof({name}) AS v FROM t LIMIT 1")[0]
        spellings = sorted(numbers(f"SELECT DISTINCT CAST({name} AS STRING) AS v FROM t WHERE {name} IS NOT NULL"))
        predicates = [f"{name} IS NULL"]
        for text in rng.sample(spellings, min(2, len(spellings))):
            typed = "arrow_cast('{}', '{}')".format(text.replace("'", "''"), arrow)
            predicates += [f"{name} {operator} {typed}" for operator in ("=", rng.choice(("<", "<=", ">", ">=")))]
        for predicate in predicates:
            expected = numbers(f"SELECT sum(CASE WHEN {predicate} THEN 1 ELSE 0 END) AS v FROM t")[0]
            actual = numbers(f"SELECT count(*) AS v FROM t WHERE {predicate}")[0]
            missed += [(predicate, expected, actual)] if expected != actual else []
    return missed


def _predicates(table: DataFrame, rng: Random, like: str) -> Iterator[str]:
    """Yield predicates of each column outside lists: nulls, and comparisons with some of its values."""
    columns = list(_leaves(table.schema, ""))
    expressions = [f"hex({name})" if kind == "binary" else f"CAST({name} AS STRING)" for name, kind in columns]
    rows = table.where(like).selectExpr(*expressions).collect()
    for at, (name, kind) in enumerate(columns):
        yield f"{name} IS NULL"
        spellings = sorted({row[at] for row in rows} - {None})
        if kind == "struct" or not spellings:
            continue
        odd = [spelling for spelling in spellings if kind != "string" and any(part in spelling for part in ODD)]
        for spelling in [rng.choice(spellings), *odd[:2]]:
            value, other = _literal(spelling, kind), _literal(rng.choice(spellings), kind)
            yield f"{name} = {value}"
            yield rng.choice([
                *(f"{name} {operator} {value}" for operator in OPERATORS), f"NOT ({name} < {value})", f"{name} IN ({value}, {other})",
                f"{name} BETWEEN least({value}, {other}) AND greatest({value}, {other})",
                *([f"startswith({name}, substr({value}, 1, 33))"] if kind == "string" else []),
            ])  # fmt: skip


def _leaves(schema: StructType, inside: str) -> Iterator[tuple[str, str]]:
    for field in schema:
        name, kind = f"{inside}`{field.name.replace('`', '``')}`", field.dataType
        if isinstance(kind, StructType):
            yield name, "struct"
            yield from _leaves(kind, f"{name}.")
        elif not isinstance(kind, ArrayType | MapType):
            yield name, kind.simpleString()


def _literal(text: str, kind: str) -> str:
    match kind:
        case "binary":
            return f"unhex('{text}')"
        case "string":
            return f"decode(unhex('{text.encode().hex()}'), 'UTF-8')"
    return f"CAST('{text}' AS {kind})"


def _spoken(fields: list[dict[str, Any]], inside: str) -> Iterator[tuple[str, str]]:
    """Yield the columns outside lists in delta-rs's SQL, with their types in the log."""
    for field in fields:
        name = f"{inside}['{field['name']}']" if inside else f'"{field["name"]}"'
        kind = field["type"]
        if isinstance(kind, str):
            yield name, kind
        elif kind["type"] == "struct":
            yield from _spoken(kind["fields"], name)
