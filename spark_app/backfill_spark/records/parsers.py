"""Parsers in the SQL of a transform: each runs once per record, in a separate column that replaces it in the SQL.

Parsers inside CASE, IF or COALESCE stay in place, because that expression handles unreadable payloads itself. The same is true
for `try_cast`, and for schemas with the column of corrupt records. Parsers below AND or OR stay too: SQL may skip them.
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
from backfill_spark.jvm.gateway import java, java_session
from backfill_spark.rows.transform import OURS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CORRUPT = f"{OURS}corrupt"
_CORRUPT_OPTION = "columnNameOfCorruptRecord"
_CORRUPT_DEFAULT = "spark.sql.columnNameOfCorruptRecord"
_PERMISSIVE = {"from_json": F.from_json, "from_csv": F.from_csv, "from_xml": F.from_xml}
"""Parsers that return a row of nulls, or a partial row, for an unreadable payload."""

_RAISING = {"parse_json", "to_binary", "to_date", "to_number", "to_time", "to_timestamp"}
"""Parsers that raise an error for an unreadable payload; their variant `try_…` returns null."""

_CASTS = {"bigint", "boolean", "date", "decimal", "double", "float", "int", "smallint", "timestamp", "tinyint"}
"""Functions that cast to the type of their name; those to STRING and BINARY accept every value."""

_CHOOSING = {"case", "coalesce", "if", "ifnull", "iff", "nullif", "nvl", "nvl2", "when"}
_CHOICES = {"And", "CaseWhen", "Coalesce", "If", "LambdaFunction", "Or"}
_AVRO_ONE = b"\x02"
"""The number 1 in Avro: a field before the record, which is null only if the payload is unreadable."""

SOURCE = f"{OURS}source"
"""Alias of a frame of records, which separates its columns from internal ones."""

_STARS = {"UnresolvedStar", "UnresolvedStarExceptOrReplace"}


@dataclass(frozen=True)
class Parser:
    """One parser, and the columns that replace it."""

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

    @property
    def levels(self) -> tuple[tuple[Parser, ...], ...]:
        """All parsers, by level."""
        parsers = self._by_sql.values()
        last = max((parser.level for parser in parsers), default=-1)
        return tuple(tuple(parser for parser in parsers if parser.level == level) for level in range(last + 1))

    # -------------------------------------------------------------- search
    def find(self, place: str, text: str) -> bool:
        """Add the parsers of an expression, the inner ones first; return True if it has any. `place` is its spec field."""
        has_parser = False
        for node in _inner_first(self._sql.parseExpression(text)):
            at = len(self._by_sql)
            reading = None if _sql_of(node) in self._by_sql else self._reading(node, F.col(f"{OURS}made{at}"))
            if reading is not None:
                reason = f"{place}: {_name(node)} cannot read the payload."
                columns = (reading.read, reading.refused, reading.value)
                self._by_sql[_sql_of(node)] = Parser(at, self._level(node), reason, *columns)
            has_parser = has_parser or _sql_of(node) in self._by_sql
        return has_parser

    def _level(self, node: Any) -> int:
        """Return the level of a parser: input that may fail is computed only after all earlier parsers read the record."""
        inner = [self._by_sql[_sql_of(part)].level for part in _all(node) if _sql_of(part) in self._by_sql]
        if all(_is_plain(part) or _sql_of(part) in self._by_sql for child in _children(node) for part in _all(child)):
            return max(inner, default=-1) + 1
        return max((parser.level for parser in self._by_sql.values()), default=-1) + 1

    def _reading(self, node: Any, made: Column) -> _Reading | None:
        """Return the columns of a parser; `None` if the node is not a parser."""
        name, children = _name(node), _children(node)
        given = [self._column(self._in_place(child)) for child in children]
        match node.nodeName(), name:
            case "Cast", _ if node.evalMode().toString() != "TRY" and node.dataType().sql() not in {"STRING", "BINARY"}:
                read = given[0].try_cast(node.dataType().sql())
                return _Reading(read, given[0].isNotNull() & made.isNull(), made)
            case "UnresolvedFunction", "from_avro":
                refused = given[0].isNotNull() & made["one"].isNull()
                return _Reading(_avro(node, given[0]), refused, made["record"])
            case "UnresolvedFunction", _ if name in _PERMISSIVE:
                return self._permissive(node, given[0], made)
            case "UnresolvedFunction", _ if name in _CASTS and len(given) == 1:
                return _Reading(given[0].try_cast(name), given[0].isNotNull() & made.isNull(), made)
            case "UnresolvedFunction", "decode" if _is_utf8(children):
                return _Reading(
                    F.try_validate_utf8(given[0].cast("string")), given[0].isNotNull() & made.isNull(), made
                )
            case "UnresolvedFunction", _ if name in _RAISING:
                read = F.call_function(f"try_{name}", *given)
                return _Reading(read, given[0].isNotNull() & made.isNull(), made)
        return None

    def _permissive(self, node: Any, payload: Column, made: Column) -> _Reading | None:
        """Return the columns of a parser that silently drops parts; `None` if its schema has the column of corrupt records."""
        schema = self._empty.select(self._column(node).alias("read")).schema["read"].dataType
        if not isinstance(schema, StructType):
            read = self._column(self._in_place(node))
            return _Reading(read, payload.isNotNull() & made.isNull(), made)
        session, options = java_session(self._session), _options(node)
        corrupt = next((value for name, value in options.items() if name.lower() == _CORRUPT_OPTION.lower()), None)
        if (corrupt or session.conf().get(_CORRUPT_DEFAULT)) in schema.names:
            return None
        with_corrupt = session.parseDataType(StructType([*schema]).add(_CORRUPT, "string").json()).toDDL()
        plain = {
            name: value for name, value in options.items() if name.lower() not in {"mode", _CORRUPT_OPTION.lower()}
        }
        read = _PERMISSIVE[_name(node)](payload, with_corrupt, plain | {_CORRUPT_OPTION: _CORRUPT})
        refused = payload.isNotNull() & (made.isNull() | made[_CORRUPT].isNotNull())
        fields = [made[name].alias(name) for name in schema.names]
        return _Reading(read, refused, F.when(made.isNotNull(), F.struct(*fields)))

    # -------------------------------------------------------------- replacement
    def columns(self, texts: tuple[str, ...]) -> list[Column]:
        """Return the columns that the expressions yield, in order, without names."""
        nodes = [self._sql.parseExpression(text) for text in texts]
        in_place = (self._in_place(item) for node in nodes for item in self._expanded(node))
        return [self._column(item.child() if item.nodeName() == "Alias" else item) for item in in_place]

    def _in_place(self, node: Any) -> Any:
        """Return an expression in which the parsers' columns replace the parsers."""
        parser = self._by_sql.get(_sql_of(node))
        if parser is not None:
            # Not the bare column: `struct(…)` would name its field after it.
            return self._sql.parseExpression(f"if(true, {quoted(parser.name)}, null)")
        if node.nodeName() == "LambdaFunction":
            return node
        children = _children(node)
        if not children:
            return node
        given = java(self._session).java.util.ArrayList()
        for child in children:
            given.add(self._star(child) if _is_star(child) else self._in_place(child))
        return node.withNewChildren(java(self._session).scala.jdk.javaapi.CollectionConverters.asScala(given).toSeq())

    def _expanded(self, node: Any) -> list[Any]:
        """Return the expressions that an expression stands for: a star expands to the source's columns, without internal ones."""
        if not _is_star(node):
            return [node]
        names = self._empty.select(self._column(node)).columns
        return [self._sql.parseExpression(quoted(name)) for name in names]

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
    if node.nodeName() in _CHOICES or _name(node) in _CHOOSING:
        return
    for child in _children(node):
        yield from _inner_first(child)
    yield node


def _is_star(node: Any) -> bool:
    """Return True for a star that stands for all columns; False for the star of a struct."""
    return str(node.nodeName()) in _STARS and not node.target().isDefined()


def _all(node: Any) -> Iterator[Any]:
    yield node
    for child in _children(node):
        yield from _all(child)


def _children(node: Any) -> list[Any]:
    children = node.children()
    return [children.apply(at) for at in range(children.size())]


def _name(node: Any) -> str:
    """Return the name of a called function; for other nodes, the name of the class."""
    if node.nodeName() != "UnresolvedFunction":
        return str(node.nodeName()).lower()
    return str(node.nameParts().last()).lower()


def _sql_of(node: Any) -> str:
    """Return the SQL that identifies a parser; empty if the node cannot be one."""
    return str(node.sql()) if node.nodeName() in {"Cast", "UnresolvedFunction"} else ""


def _is_plain(node: Any) -> bool:
    """Return True if the node can be computed for every record, without an error."""
    match node.nodeName():
        case "UnresolvedAttribute" | "Literal":
            return True
        case "Cast":
            return str(node.dataType().sql()) in {"STRING", "BINARY"}
        case "UnresolvedExtractValue":  # a field; an element of an array may be missing
            field = _children(node)[1]
            return str(field.nodeName()) == "Literal" and str(field.dataType().sql()) == "STRING"
    return False


def _is_utf8(children: list[Any]) -> bool:
    """Return True for the arguments of a `decode` that reads UTF-8."""
    return (
        len(children) == 2
        and children[1].nodeName() == "Literal"
        and str(children[1].value()).upper() in {"UTF-8", "UTF8"}
    )


def _options(node: Any) -> dict[str, str]:
    """Return the options of a parser: its third argument, a map of literals."""
    literals = [str(literal.value()) for literal in _children(_children(node)[2])] if len(_children(node)) > 2 else []
    return dict(zip(literals[::2], literals[1::2], strict=True))


def _avro(node: Any, payload: Column) -> Column:
    """Return an Avro record wrapped with a number, which is null only for an unreadable payload, not for a record of nulls."""
    options = {name: value for name, value in _options(node).items() if name.lower() != "mode"}
    options["mode"] = "PERMISSIVE"
    for name in options.keys() & {"avroSchema"}:
        options[name] = _wrapped(options[name])
    wrapped = _wrapped(str(_children(node)[1].value()))
    return from_avro(F.concat(F.lit(_AVRO_ONE), payload), wrapped, options)


def _wrapped(schema: str) -> str:
    fields = [{"name": "one", "type": "int"}, {"name": "record", "type": json.loads(schema)}]
    return json.dumps({"type": "record", "name": "BackfillChecked", "fields": fields})
