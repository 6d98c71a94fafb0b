"""Parsers in the SQL of a transform: each runs once per record, in a separate column that replaces it in the SQL.

Parsers inside CASE, IF or COALESCE stay in place, because that expression handles unreadable payloads itself. The same is true
for `try_cast`, and for schemas with the column of corrupt records. Parsers below AND or OR stay too: SQL may skip them.

A parser may use the name of an earlier expression of the transform. Then that expression gets a separate column too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import StructType

from backfill_spark.delta.types import quoted
from backfill_spark.jvm.gateway import java, java_column, java_session
from backfill_spark.records.sql_nodes import (
    NAMES,
    STARS,
    children,
    function_of,
    is_index,
    is_star,
    items,
    names_in,
    parts,
    subtree,
    variables_of,
    without_alias,
)
from backfill_spark.rows.transform import OURS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CORRUPT = f"{OURS}corrupt"
_CORRUPT_OPTION = "columnNameOfCorruptRecord"
_CORRUPT_DEFAULT = "spark.sql.columnNameOfCorruptRecord"
_PERMISSIVE = {"from_json": F.from_json, "from_csv": F.from_csv, "from_xml": F.from_xml}
"""Parsers that return a row of nulls, or a partial row, for an unreadable payload."""

_RAISING = {
    "aes_decrypt", "decode", "parse_json", "str_to_map", "to_binary", "to_date", "to_number", "to_time", "to_timestamp",
    "to_timestamp_ltz", "to_timestamp_ntz", "to_unix_timestamp", "unbase64", "unhex", "unix_timestamp", "url_decode", "validate_utf8",
}  # fmt: skip
"""Parsers that raise an error, or return null, for an unreadable payload."""

_NULLABLE = {
    "element_at", "elt", "make_date", "make_timestamp", "make_timestamp_ltz", "make_timestamp_ntz", "map_from_arrays",
    "map_from_entries", "parse_url", "variant_get", "xpath", "xpath_boolean", "xpath_double", "xpath_float", "xpath_int",
    "xpath_long", "xpath_number", "xpath_short", "xpath_string",
}  # fmt: skip
"""Functions that raise an error for an unreadable payload, and may return null for a readable one. So does an index of an array."""

_CASTS = {"bigint", "boolean", "date", "decimal", "double", "float", "int", "smallint", "timestamp", "tinyint"}
"""Functions that cast to the type of their name; those to STRING and BINARY accept every value."""

_CHOOSING = {"case", "coalesce", "if", "ifnull", "iff", "nullif", "nvl", "nvl2", "when"}
_CHOICES = {"And", "CaseWhen", "Coalesce", "If", "LambdaFunction", "Or"}
_AVRO_ONE = b"\x02"
"""The number 1 in Avro: a field before the record, which is null only if the payload is unreadable."""

SOURCE = f"{OURS}source"
"""Alias of a frame of records, which separates its columns from internal ones."""


@dataclass(frozen=True)
class Parser:
    """One parser, and the columns that replace it. Or an expression whose name a parser uses, which refuses no record."""

    at: int
    level: int
    """Its input uses only parsers of lower levels, and can fail only if one of them cannot read the record."""

    reason: str
    """Message for a record that it cannot read."""

    read: Column
    """Result of the parser; never an error, for any record."""

    refused: Column
    """True if it cannot read the record, or only a part of it. Computed from the column `made`."""

    value: Column
    """Replacement in the transform, for a readable record. Computed from the column `made`."""

    @property
    def made(self) -> str:
        """Name of the column of `read`."""
        return f"{OURS}made{self.at}"

    @property
    def name(self) -> str:
        """Name of the column of `value`."""
        return f"{OURS}value{self.at}"


@dataclass(frozen=True)
class _Reading:
    """The columns of a `Parser`."""

    read: Column
    refused: Column
    value: Column


class Parsers:
    """The parsers of one transform."""

    def __init__(self, empty: DataFrame) -> None:
        """Start without parsers; `empty` has the columns of the source."""
        self._empty, self._session = empty, empty.sparkSession
        self._sql = java_session(self._session).sessionState().sqlParser()
        self._by_sql: dict[str, Parser] = {}
        self._by_name: dict[str, Parser] = {}
        """Expressions whose names parsers use."""

        self._expressions: dict[str, Any] = {}
        """Expressions by their names in lower case; without names of the source's columns, which Spark prefers."""

        self._lowest = 0
        """Lowest level of the next parser."""

    @property
    def levels(self) -> tuple[tuple[Parser, ...], ...]:
        """All parsers, by level."""
        parsers = (*self._by_sql.values(), *self._by_name.values())
        last = max((parser.level for parser in parsers), default=-1)
        return tuple(tuple(parser for parser in parsers if parser.level == level) for level in range(last + 1))

    # -------------------------------------------------------------- search
    def find(self, place: str, text: str) -> bool:
        """Add the parsers of an expression, the inner ones first; return True if it has any. `place` is its spec field."""
        has_parser = False
        for node in _inner_first(self._sql.parseExpression(text)):
            if _is_parser(node) and _sql_of(node) not in self._by_sql:
                self._add(node, f"{place}: {_failure(node)}.")
            has_parser = has_parser or _sql_of(node) in self._by_sql
        return has_parser

    def begin_level(self) -> None:
        """Put the parsers found from now on above all others."""
        self._lowest = len(self.levels)

    def name(self, text: str, names: Iterator[str]) -> None:
        """Take the names of an expression's columns from `names`; expressions after it may use them."""
        columns = {name.lower() for name in self._empty.columns}
        for node, name in zip(self._nodes((text,)), names, strict=False):
            if name.lower() not in columns:
                self._expressions[name.lower()] = without_alias(node)

    def _add(self, node: Any, reason: str) -> None:
        """Add a parser, and before it the expressions whose names it uses."""
        self._add_named(node)
        at = self._next()
        reading = self._reading(node, F.col(f"{OURS}made{at}"))
        if reading is not None:
            level = self._level(children(node), caught=_may_be_null(node))
            self._by_sql[_sql_of(node)] = Parser(at, level, reason, reading.read, reading.refused, reading.value)

    def _add_named(self, node: Any) -> None:
        """Add the expressions whose names a node uses, and those whose names these use."""
        for name in names_in(node):
            expression = self._expressions.get(name)
            if expression is None or name in self._by_name:
                continue
            self._add_named(expression)
            at, level = self._next(), self._level([expression])
            read = self._column(self._in_place(expression))
            self._by_name[name] = Parser(at, level, "", read, F.lit(False), F.col(f"{OURS}made{at}"))

    def _next(self) -> int:
        return len(self._by_sql) + len(self._by_name)

    def _level(self, inputs: list[Any], *, caught: bool = False) -> int:
        """Return the level for inputs: those that may fail are computed only after all earlier parsers read the record.

        Args:
            inputs: Expressions.
            caught: True if the parser catches the errors of its inputs too.
        """
        nodes = [node for tree in inputs for node in subtree(tree)]
        used = [self._used(node) for node in nodes]
        if caught or all(_is_plain(node) or parser is not None for node, parser in zip(nodes, used, strict=True)):
            return max((self._lowest, *(parser.level + 1 for parser in used if parser is not None)))
        return len(self.levels)

    def _used(self, node: Any) -> Parser | None:
        """Return the parser whose column replaces a node; `None` if the node stays."""
        if node.nodeName() in NAMES:
            return self._by_name.get(parts(node)[0].lower())
        return self._by_sql.get(_sql_of(node))

    def _reading(self, node: Any, made: Column) -> _Reading | None:
        """Return the columns of a parser; `None` if its schema has the column of corrupt records."""
        name, given = function_of(node), [self._column(self._in_place(child)) for child in children(node)]
        if name == "from_avro":
            return _Reading(_avro(node, given[0]), given[0].isNotNull() & made["one"].isNull(), made["record"])
        if name in _PERMISSIVE:
            return self._permissive(node, given[0], made)
        if _may_be_null(node):
            # A struct is null only after an error.
            read = self._caught(F.struct(self._column(self._in_place(node)).alias("it")))
            return _Reading(read, made.isNull(), made["it"])
        if name in _RAISING or _is_nested_cast(node):
            read = self._caught(self._column(self._in_place(node)))
        else:
            read = given[0].try_cast(node.dataType().sql() if name == "cast" else name)
        return _Reading(read, given[0].isNotNull() & made.isNull(), made)

    def _caught(self, column: Column) -> Column:
        """Return a column that is null where this column raises an error."""
        sql = java(self._session).org.apache.spark.sql
        return self._column(
            sql.catalyst.expressions.TryEval(sql.classic.ExpressionUtils.expression(java_column(column)))
        )

    def _permissive(self, node: Any, payload: Column, made: Column) -> _Reading | None:
        """Return the columns of a parser that silently drops parts; `None` if its schema has the column of corrupt records."""
        # Not of this payload: its names may be those of other expressions.
        kind, *rest = map(self._column, children(node)[1:])
        parsed = F.call_function(function_of(node), F.lit(None).cast("string"), kind, *rest)
        schema = self._empty.select(parsed.alias("read")).schema["read"].dataType
        session, options = java_session(self._session), _options(node)
        if not isinstance(schema, StructType):
            # In its other modes it returns null for an unreadable element of an array or a map.
            strict = {**{name: value for name, value in options.items() if name.lower() != "mode"}, "mode": "FAILFAST"}
            pairs = (F.lit(text) for option in strict.items() for text in option)
            read = self._caught(F.call_function(function_of(node), payload, kind, F.create_map(*pairs)))
            return _Reading(read, payload.isNotNull() & made.isNull(), made)
        corrupt = next((value for name, value in options.items() if name.lower() == _CORRUPT_OPTION.lower()), None)
        if (corrupt or session.conf().get(_CORRUPT_DEFAULT)) in schema.names:
            return None
        with_corrupt = session.parseDataType(StructType([*schema]).add(_CORRUPT, "string").json()).toDDL()
        plain = {
            name: value for name, value in options.items() if name.lower() not in {"mode", _CORRUPT_OPTION.lower()}
        }
        read = _PERMISSIVE[function_of(node)](payload, with_corrupt, plain | {_CORRUPT_OPTION: _CORRUPT})
        refused = payload.isNotNull() & (made.isNull() | made[_CORRUPT].isNotNull())
        fields = [made[name].alias(name) for name in schema.names]
        return _Reading(read, refused, F.when(made.isNotNull(), F.struct(*fields)))

    # -------------------------------------------------------------- replacement
    def columns(self, texts: tuple[str, ...]) -> list[Column]:
        """Return the columns that the expressions yield, in order, without names."""
        return [self._output(node) for node in self._nodes(texts)]

    def used(self, texts: tuple[str, ...]) -> list[frozenset[int]]:
        """Return the numbers of the parsers that these columns use, apart from those behind names of other expressions."""
        return [
            frozenset(used.at for part in subtree(node) if (used := self._used(part))) for node in self._nodes(texts)
        ]

    def _nodes(self, texts: tuple[str, ...]) -> Iterator[Any]:
        return (node for text in texts for node in self._expanded(self._sql.parseExpression(text)))

    def _output(self, node: Any) -> Column:
        """Return the column of an expression of the projection; an expression whose name parsers use has one already."""
        parser = self._by_name.get(str(node.name()).lower()) if node.nodeName() == "Alias" else None
        return self._column(self._in_place(without_alias(node))) if parser is None else F.col(parser.name)

    def _in_place(self, node: Any, variables: frozenset[str] | None = None) -> Any:
        """Return an expression in which the parsers' columns replace the parsers and the names that parsers use.

        Args:
            node: The expression.
            variables: Variables of the lambda functions that contain it, in which parsers stay. `None` outside of them.
        """
        parser = self._used(node)
        if node.nodeName() == "LambdaFunction":
            variables = variables_of(node) | (variables or frozenset())
        elif parser is not None and node.nodeName() in NAMES:
            return node if variables and parts(node)[0].lower() in variables else self._renamed(node, parser)
        elif parser is not None and variables is None:
            # Not the bare column: `struct(…)` would name its field after it.
            return self._sql.parseExpression(f"if(true, {quoted(parser.name)}, null)")
        inner = children(node)
        if not inner:
            return node
        given = java(self._session).java.util.ArrayList()
        for child in inner:
            given.add(self._star(child) if is_star(child) else self._in_place(child, variables))
        return node.withNewChildren(java(self._session).scala.jdk.javaapi.CollectionConverters.asScala(given).toSeq())

    def _renamed(self, node: Any, parser: Parser) -> Any:
        """Return a name, or a field of it, in which the column of a parser replaces its first part."""
        first, *fields = parts(node)
        path = ".".join(map(quoted, (parser.name, *fields)))
        # `struct(…)` names its field after the last part.
        return self._sql.parseExpression(path if fields else f"{path} AS {quoted(first)}")

    def _expanded(self, node: Any) -> list[Any]:
        """Return the expressions that an expression stands for: a star expands to the source's columns, without internal ones."""
        if str(node.nodeName()) not in STARS:
            return [node]
        names = self._empty.select(self._column(node)).columns
        struct = items(node.target().get()) if node.target().isDefined() else []
        return [self._sql.parseExpression(".".join(map(quoted, (*struct, name)))) for name in names]

    def _star(self, node: Any) -> Any:
        """Return a star inside a function with variable arguments, limited to the columns of the source."""
        star = self._sql.parseExpression(f"{SOURCE}.*")
        if node.nodeName() == star.nodeName():
            return star
        stars = java(self._session).org.apache.spark.sql.catalyst.analysis
        return stars.UnresolvedStarExceptOrReplace(star.target(), node.excepts(), node.replacements())

    def _column(self, node: Any) -> Column:
        return Column(java(self._session).org.apache.spark.sql.classic.ExpressionUtils.column(node))  # type: ignore[abstract]


# -------------------------------------------------------------- Spark's unresolved expressions
def _inner_first(node: Any) -> Iterator[Any]:
    """Yield the nodes that SQL always computes, inner ones first."""
    if node.nodeName() in _CHOICES or function_of(node) in _CHOOSING or _is_lookup(node):
        return
    for child in children(node):
        yield from _inner_first(child)
    yield node


def _is_parser(node: Any) -> bool:
    """Return True for a parser: it has its own column, unless its schema has the column of corrupt records."""
    match node.nodeName():
        case "Cast":
            return str(node.evalMode()) != "TRY" and str(node.dataType().sql()) not in {"STRING", "BINARY"}
        case "UnresolvedFunction":
            name, arguments = function_of(node), len(children(node))
            readers = {"from_avro", *_PERMISSIVE, *_RAISING, *_NULLABLE}
            return (name in readers and arguments > 0) or (name in _CASTS and arguments == 1)
    return is_index(node)


def _may_be_null(node: Any) -> bool:
    """Return True for a parser that may return null for a readable payload; its errors and those of its input are caught."""
    return function_of(node) in _NULLABLE or is_index(node)


def _is_nested_cast(node: Any) -> bool:
    """Return True for a cast to an array, a map or a struct; its variant `try_cast` returns null for an unreadable element."""
    return node.nodeName() == "Cast" and str(node.dataType().typeName()) in {"array", "map", "struct"}


def _is_lookup(node: Any) -> bool:
    """Return True for a `decode` that compares values, as CASE does; False for one that reads bytes."""
    return function_of(node) == "decode" and len(children(node)) > 2


def _sql_of(node: Any) -> str:
    """Return the SQL that identifies a parser; empty for other nodes."""
    return str(node.sql()) if _is_parser(node) else ""


def _failure(node: Any) -> str:
    """Return why a record is bad: this parser cannot read it."""
    return "an array has no such element" if is_index(node) else f"{function_of(node)} cannot read the payload"


def _is_plain(node: Any) -> bool:
    """Return True if the node can be computed for every record, without an error."""
    match node.nodeName():
        case "UnresolvedAttribute" | "Literal":
            return True
        case "Cast":
            return str(node.dataType().sql()) in {"STRING", "BINARY"}
        case "UnresolvedExtractValue":
            return not is_index(node)
    return False


def _options(node: Any) -> dict[str, str]:
    """Return the options of a parser: its third argument, a map of literals."""
    literals = [str(literal.value()) for literal in children(children(node)[2])] if len(children(node)) > 2 else []
    return dict(zip(literals[::2], literals[1::2], strict=True))


def _avro(node: Any, payload: Column) -> Column:
    """Return an Avro record wrapped with a number, which is null only for an unreadable payload, not for a record of nulls."""
    options = {name: value for name, value in _options(node).items() if name.lower() != "mode"}
    options["mode"] = "PERMISSIVE"
    for name in options.keys() & {"avroSchema"}:
        options[name] = _wrapped(options[name])
    wrapped = _wrapped(str(children(node)[1].value()))
    return from_avro(F.concat(F.lit(_AVRO_ONE), payload), wrapped, options)


def _wrapped(schema: str) -> str:
    fields = [{"name": "one", "type": "int"}, {"name": "record", "type": json.loads(schema)}]
    return json.dumps({"type": "record", "name": "BackfillChecked", "fields": fields})
