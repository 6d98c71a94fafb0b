"""Predicates made of a table's own values, and those at which a reader that leaves out files loses rows of it."""

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from random import Random
from typing import Any

from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, MapType, StructType

Lost = tuple[str, int, int]
"""A predicate, how many rows it is true of, and how many a reader finds."""

OPERATORS = ("<", "<=", ">", ">=", "<=>", "<>")
ODD = ("NaN", "Infinity", "-0.0", "+10000-", "0001-")
"""Parts of values that are always asked for, where a column has them."""


def lost(spark: Any, path: str | Path, rng: Random, *, like: str) -> list[Lost]:
    """Return the predicates at which Spark does not find all rows; `like`: of which rows values are asked for.

    Files are left out by the log alone: Parquet's own filters know neither NaN nor -0.0 as Spark does, in any table.
    """
    table = spark.read.format("delta").load(str(path))
    asked = list(_predicates(table, rng, like))
    before = spark.conf.get("spark.sql.parquet.filterPushdown")
    spark.conf.set("spark.sql.parquet.filterPushdown", "false")
    try:
        # What is asked as a column is asked of each row.
        wanted = table.selectExpr(*(f"count_if({one}) AS c{at}" for at, one in enumerate(asked))).first()
        found = [len(table.where(one).select("id").collect()) for one in asked]
    finally:
        spark.conf.set("spark.sql.parquet.filterPushdown", before)
    return [(one, wanted[at], found[at]) for at, one in enumerate(asked) if wanted[at] != found[at]]


def lost_by_another_engine(path: str | Path, rng: Random, *, without: Collection[str] = ()) -> list[Lost]:
    """Return the same of delta-rs, for columns whose values it can say; `without`: top-level columns that are not asked."""
    held = QueryBuilder().register("t", DeltaTable(str(path)))

    def numbers(query: str) -> list[Any]:
        return list(held.execute(query).read_all()["v"].to_pylist())

    missed = []
    fields = json.loads(DeltaTable(str(path)).schema().to_json())["fields"]
    for name, kind in _spoken([one for one in fields if one["name"] not in without], ""):
        if kind == "binary":
            continue
        arrow = numbers(f"SELECT arrow_typeof({name}) AS v FROM t LIMIT 1")[0]
        texts = sorted(numbers(f"SELECT DISTINCT CAST({name} AS STRING) AS v FROM t WHERE {name} IS NOT NULL"))
        asked = [f"{name} IS NULL"]
        for text in rng.sample(texts, min(2, len(texts))):
            typed = "arrow_cast('{}', '{}')".format(text.replace("'", "''"), arrow)
            asked += [f"{name} {operator} {typed}" for operator in ("=", rng.choice(("<", "<=", ">", ">=")))]
        for one in asked:
            wanted = numbers(f"SELECT sum(CASE WHEN {one} THEN 1 ELSE 0 END) AS v FROM t")[0]
            found = numbers(f"SELECT count(*) AS v FROM t WHERE {one}")[0]
            missed += [(one, wanted, found)] if wanted != found else []
    return missed


def _predicates(table: DataFrame, rng: Random, like: str) -> Iterator[str]:
    """Yield predicates of each column that is in no list: nulls, and comparisons with some of its values."""
    columns = list(_leaves(table.schema, ""))
    asked = [f"hex({name})" if kind == "binary" else f"CAST({name} AS STRING)" for name, kind in columns]
    rows = table.where(like).selectExpr(*asked).collect()
    for at, (name, kind) in enumerate(columns):
        yield f"{name} IS NULL"
        texts = sorted({row[at] for row in rows} - {None})
        if kind == "struct" or not texts:
            continue
        odd = [one for one in texts if kind != "string" and any(part in one for part in ODD)]
        for one in [rng.choice(texts), *odd[:2]]:
            value, other = _literal(one, kind), _literal(rng.choice(texts), kind)
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
    """Yield the columns that are in no list as delta-rs's SQL says them, with their types in the log."""
    for field in fields:
        name = f"{inside}['{field['name']}']" if inside else f'"{field["name"]}"'
        kind = field["type"]
        if isinstance(kind, str):
            yield name, kind
        elif kind["type"] == "struct":
            yield from _spoken(kind["fields"], name)
