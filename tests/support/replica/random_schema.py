"""Random changes of a table's columns and rows, as statements that Delta may reject."""

import random
from typing import Any

from support.tables.odd_tables import ticked

MAPPED_NAMES = ("a", "b", "C", "d d", "e.f", "g`h", "ü", "i,j", "k=l", "m\nn")
PLAIN_NAMES = ("a", "b", "C", "ü", "e.f")
KINDS = (
    "tinyint", "smallint", "int", "float", "date", "decimal(5,2)", "string", "timestamp", "timestamp_ntz", "binary", "boolean",
    "struct<a: int, b: struct<c: smallint, d: string>>", "array<struct<x: int, y: string>>", "map<string, struct<k: tinyint>>",
)  # fmt: skip
WIDER = {
    "tinyint": ("smallint", "int", "bigint"), "smallint": ("int", "bigint"), "int": ("bigint", "double", "decimal(12,2)"),
    "float": ("double",), "date": ("timestamp_ntz",), "decimal(5,2)": ("decimal(9,2)", "decimal(20,5)"),
}  # fmt: skip
ROWS = 12
"""Rows of an INSERT."""


class RandomTable:
    """Generates statements about a table `{t}`; `spark` and `path` are used to read its current state."""

    def __init__(self, spark: Any, path: str, rng: random.Random) -> None:
        """Choose the features of the table."""
        self._spark, self._path, self._rng = spark, path, rng
        self.mapped, self.widens, self.defaults = rng.random() < 0.75, rng.random() < 0.7, rng.random() < 0.5
        self._names = MAPPED_NAMES if self.mapped else PLAIN_NAMES
        self._next = 0

    def made(self) -> list[str]:
        """Return the statements that make the table."""
        properties = {"delta.enableDeletionVectors": "true", "delta.feature.timestampNtz": "supported"}
        properties |= {"delta.columnMapping.mode": "name"} if self.mapped else {}
        properties |= {"delta.enableTypeWidening": "true"} if self.widens else {}
        properties |= {"delta.feature.allowColumnDefaults": "supported"} if self.defaults else {}
        names = self._rng.sample(self._names, 3)
        columns = ", ".join(["id BIGINT", *(f"{ticked(name)} {self._rng.choice(KINDS)}" for name in names)])
        settings = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        return [f"CREATE TABLE {{t}} ({columns}) USING delta TBLPROPERTIES ({settings})"]

    def change(self) -> list[str]:
        """Return the statements of one change; an empty list if this kind does not apply now."""
        fields = [field for field in self._schema() if field.name != "id"]
        names = {field.name.lower() for field in fields}
        free = [name for name in self._names if name.lower() not in names]
        if self._rng.random() < 0.45 or not fields:
            return self._of_rows(fields)
        return self._of_columns(self._rng.choice(fields), free, alone=len(fields) == 1)

    def insert(self) -> list[str]:
        """Return an INSERT of twelve rows, in one file or two."""
        first, self._next = self._next, self._next + ROWS
        values = ", ".join(
            "id" if field.name == "id" else self._value(field.dataType, first) for field in self._schema()
        )
        return [f"INSERT INTO {{t}} SELECT {values} FROM range({first}, {first + ROWS}, 1, {self._rng.choice([1, 2])})"]

    def _schema(self) -> Any:
        return self._spark.read.format("delta").load(self._path).schema

    def _of_rows(self, fields: list[Any]) -> list[str]:
        rng = self._rng
        kind = rng.choice(["insert", "insert", "delete", "update", "optimize", "restore"])
        if kind == "delete":
            return [f"DELETE FROM {{t}} WHERE id % {rng.choice([3, 5, 7])} = {rng.randrange(3)}"]
        if kind == "update" and fields:
            return [f"UPDATE {{t}} SET {ticked(rng.choice(fields).name)} = NULL WHERE id % 7 = {rng.randrange(7)}"]
        if kind == "optimize":
            return ["OPTIMIZE {t}"]
        if kind == "restore":
            history = self._spark.sql(f"DESCRIBE HISTORY delta.`{self._path}`").selectExpr("max(version)").first()[0]
            return [f"RESTORE TABLE {{t}} TO VERSION AS OF {rng.randint(max(0, history - 3), history)}"]
        return self.insert()

    def _of_columns(self, field: Any, free: list[str], *, alone: bool) -> list[str]:
        rng, name, kind = self._rng, ticked(field.name), field.dataType.typeName()
        new = f"{ticked(rng.choice(free))} {rng.choice(KINDS)}" if free else ""
        inside = f"{name}.element" if kind == "array" else name
        choices: dict[str, list[str]] = {
            "add": [f"ADD COLUMN {new} {rng.choice(['', 'FIRST', 'AFTER id'])}"] if new else [],
            "rename": [f"RENAME COLUMN {name} TO {ticked(rng.choice(free))}"] if new and self.mapped else [],
            "drop": [f"DROP COLUMN {name}"] if self.mapped and not alone else [],
            "again": [f"DROP COLUMN {name}", f"ADD COLUMN {name} {rng.choice(KINDS)}"] if self.mapped else [],
            "move": [f"ALTER COLUMN {name} {rng.choice(['FIRST', 'AFTER id'])}"],
            "comment": [f"ALTER COLUMN {name} COMMENT 'c{rng.randrange(9)}'"],
            "default": self._default(field, name) if self.defaults else [],
            "widen": self._widening(field) if self.widens else [],
            "inside": self._inside(field, inside) if kind in ("struct", "array") else [],
        }
        return [f"ALTER TABLE {{t}} {clause}" for clause in choices[rng.choice(sorted(choices))]]

    def _default(self, field: Any, name: str) -> list[str]:
        if self._rng.random() < 0.25:
            return [f"ALTER COLUMN {name} DROP DEFAULT"]
        return [f"ALTER COLUMN {name} SET DEFAULT CAST('{self._rng.randrange(9)}' AS {field.dataType.simpleString()})"]

    def _inside(self, field: Any, inside: str) -> list[str]:
        rng = self._rng
        inner = field.dataType if field.dataType.typeName() == "struct" else field.dataType.elementType
        field_path = f"{inside}.{ticked(rng.choice(list(inner)).name)}"
        choices = [f"ADD COLUMN {inside}.n{rng.randrange(9)} {rng.choice(KINDS[:8])}"]
        choices += (
            [f"RENAME COLUMN {field_path} TO r{rng.randrange(99)}", f"DROP COLUMN {field_path}"] if self.mapped else []
        )
        return [rng.choice(choices)]

    def _widening(self, field: Any) -> list[str]:
        paths = [(ticked(field.name), field.dataType)]
        if field.dataType.typeName() == "struct":
            paths += [(f"{ticked(field.name)}.{ticked(field_.name)}", field_.dataType) for field_ in field.dataType]
        if field.dataType.typeName() == "array":
            inner = field.dataType.elementType
            paths += [(f"{ticked(field.name)}.element.{ticked(field_.name)}", field_.dataType) for field_ in inner]
        wider = [(path, to) for path, kind in paths for to in WIDER.get(kind.simpleString(), ())]
        if not wider:
            return []
        path, to = self._rng.choice(wider)
        return [f"ALTER COLUMN {path} TYPE {to}"]

    def _value(self, kind: Any, first: int) -> str:
        match kind.typeName():
            case "struct":
                fields = ", ".join(f"'{field.name}', {self._value(field.dataType, first)}" for field in kind)
                return f"named_struct({fields})"
            case "array":
                return f"array({self._value(kind.elementType, first)})"
            case "map":
                return f"map('k', {self._value(kind.valueType, first)})"
        plain = {
            "string": f"concat('v', id + {first})",
            "binary": f"CAST(concat('v', id + {first}) AS BINARY)",
            "boolean": f"(id + {first}) % 2 = 0",
            "date": f"date_add(DATE '2024-01-01', CAST(id + {first} AS INT))",
            "timestamp": f"timestamp_micros(1700000000000001 + id + {first})",
            "timestamp_ntz": f"CAST(timestamp_micros(1700000000000001 + id + {first}) AS TIMESTAMP_NTZ)",
        }
        value = plain.get(kind.simpleString(), f"CAST((id + {first}) % 100 AS {kind.simpleString()})")
        return f"IF(id % 5 = {self._rng.randrange(5)}, NULL, {value})" if self._rng.random() < 0.5 else value
