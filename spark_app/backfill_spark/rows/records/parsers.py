"""The parsers in the SQL of a transform: each is computed once a record, in a column of its own, and that column stands in its place.

A parser inside CASE, IF or COALESCE is not asked: that expression says itself what becomes of what it cannot read. So does
`try_cast`, and a schema that has the column of corrupt records. Nor is one behind AND or OR, which may not need it: such a filter
parses for itself.
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

from backfill_spark.jvm.gateway import java, java_session
from backfill_spark.rows.columns import quoted
from backfill_spark.rows.transform import OURS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CORRUPT = f"{OURS}corrupt"
_CORRUPT_OPTION = "columnNameOfCorruptRecord"
_CORRUPT_DEFAULT = "spark.sql.columnNameOfCorruptRecord"
_PERMISSIVE = {"from_json": F.from_json, "from_csv": F.from_csv, "from_xml": F.from_xml}
"""What they cannot read becomes a row of nulls, or of less than there was."""

_RAISING = {"parse_json", "to_binary", "to_date", "to_number", "to_time", "to_timestamp"}
"""What they cannot read is an error, and `try_…` makes null of it."""

_CHOOSING = {"case", "coalesce", "if", "ifnull", "iff", "nullif", "nvl", "nvl2", "when"}
_CHOICES = {"And", "CaseWhen", "Coalesce", "If", "LambdaFunction", "Or"}
_AVRO_ONE = b"\x02"
"""The number 1 in Avro: a field before the record that is null only where the whole was not read."""

SOURCE = f"{OURS}source"
"""What a frame of records is called where columns of ours are beside its own."""

_STARS = {"UnresolvedStar", "UnresolvedStarExceptOrReplace"}


@dataclass(frozen=True)
class Parser:
    """One parser, and the columns that it becomes."""

    at: int
    level: int
    """It is given only what parsers of lower levels yield, and fails only on what they cannot read."""

    reason: str
    """Why a record is bad that it cannot read."""

    read: Column
    """What it makes of a record; no error, whatever the record holds."""

    refused: Column
    """Can it not read the record, or not all of it? Of the column `made`."""

    value: Column
    """What stands in its place in the transform, of a record that it can read. Of the column `made`."""

    @property
    def made(self) -> str:
        """The column of `read`."""
        return f"{OURS}made{self.at}"

    @property
    def name(self) -> str:
        """The column of `value`."""
        return f"{OURS}value{self.at}"


@dataclass(frozen=True)
class _Reading:
    """`Parser` without its place."""

    read: Column
    refused: Column
    value: Column


class Parsers:
    """The parsers of one transform."""

    def __init__(self, empty: DataFrame) -> None:
        """Begin with none; `empty` has the columns of the source."""
        self._empty, self._session = empty, empty.sparkSession
        self._sql = java_session(self._session).sessionState().sqlParser()
        self._known: dict[str, Parser] = {}

    @property
    def levels(self) -> tuple[tuple[Parser, ...], ...]:
        """All of them, by level."""
        found = self._known.values()
        last = max((one.level for one in found), default=-1)
        return tuple(tuple(one for one in found if one.level == level) for level in range(last + 1))

    # -------------------------------------------------------------- finding them
    def find(self, place: str, text: str) -> bool:
        """Look for those of an expression, the inner ones first; return whether it has any. `place` is its field in the spec."""
        found = False
        for node in _inner_first(self._sql.parseExpression(text)):
            at = len(self._known)
            reading = None if _said(node) in self._known else self._reading(node, F.col(f"{OURS}made{at}"))
            if reading is not None:
                reason = f"{place}: {_name(node)} cannot read the payload."
                given = (reading.read, reading.refused, reading.value)
                self._known[_said(node)] = Parser(at, self._level(node), reason, *given)
            found = found or _said(node) in self._known
        return found

    def _level(self, node: Any) -> int:
        """Return the level of a parser: what may fail on a record is computed only when the parsers before it have read that."""
        inner = [self._known[_said(one)].level for one in _all(node) if _said(one) in self._known]
        if all(_is_plain(one) or _said(one) in self._known for child in _children(node) for one in _all(child)):
            return max(inner, default=-1) + 1
        return max((one.level for one in self._known.values()), default=-1) + 1

    def _reading(self, node: Any, made: Column) -> _Reading | None:
        """Return how a parser is asked; None: the node is no parser."""
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
            case "UnresolvedFunction", _ if name in _RAISING:
                read = F.call_function(f"try_{name}", *given)
                return _Reading(read, given[0].isNotNull() & made.isNull(), made)
        return None

    def _permissive(self, node: Any, payload: Column, made: Column) -> _Reading | None:
        """Return how a parser is asked that gives up a part without a word; None: its own schema asks for what it gives up."""
        schema = self._empty.select(self._column(node).alias("read")).schema["read"].dataType
        if not isinstance(schema, StructType):
            read = self._column(self._in_place(node))
            return _Reading(read, payload.isNotNull() & made.isNull(), made)
        session, options = java_session(self._session), _options(node)
        corrupt = next((value for name, value in options.items() if name.lower() == _CORRUPT_OPTION.lower()), None)
        if (corrupt or session.conf().get(_CORRUPT_DEFAULT)) in schema.names:
            return None
        told = session.parseDataType(StructType([*schema]).add(_CORRUPT, "string").json()).toDDL()
        plain = {
            name: value for name, value in options.items() if name.lower() not in {"mode", _CORRUPT_OPTION.lower()}
        }
        read = _PERMISSIVE[_name(node)](payload, told, plain | {_CORRUPT_OPTION: _CORRUPT})
        refused = payload.isNotNull() & (made.isNull() | made[_CORRUPT].isNotNull())
        fields = [made[name].alias(name) for name in schema.names]
        return _Reading(read, refused, F.when(made.isNotNull(), F.struct(*fields)))

    # -------------------------------------------------------------- the transform with their columns
    def columns(self, texts: tuple[str, ...]) -> list[Column]:
        """Return what expressions yield, one column after the other, without names."""
        nodes = [self._sql.parseExpression(text) for text in texts]
        in_place = (self._in_place(one) for node in nodes for one in self._expanded(node))
        return [self._column(one.child() if one.nodeName() == "Alias" else one) for one in in_place]

    def _in_place(self, node: Any) -> Any:
        """Return an expression with the columns of the parsers in their places."""
        known = self._known.get(_said(node))
        if known is not None:
            # Not the bare column: its name would become that of a field in `struct(…)`.
            return self._sql.parseExpression(f"if(true, {quoted(known.name)}, null)")
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
        """Return what an expression stands for: a star for the columns of the source, beside which are ours by then."""
        if not _is_star(node):
            return [node]
        names = self._empty.select(self._column(node)).columns
        return [self._sql.parseExpression(quoted(name)) for name in names]

    def _star(self, node: Any) -> Any:
        """Return a star within a function, which has as many arguments as it likes, for the columns of the source."""
        star = self._sql.parseExpression(f"{SOURCE}.*")
        if node.nodeName() == star.nodeName():
            return star
        stars = java(self._session).org.apache.spark.sql.catalyst.analysis
        return stars.UnresolvedStarExceptOrReplace(star.target(), node.excepts(), node.replacements())

    def _column(self, node: Any) -> Column:
        return Column(java(self._session).org.apache.spark.sql.classic.ExpressionUtils.column(node))  # type: ignore[abstract]


# -------------------------------------------------------------- Spark's expressions, not resolved yet
def _inner_first(node: Any) -> Iterator[Any]:
    """Yield what is computed for every record, whatever the others are."""
    if node.nodeName() in _CHOICES or _name(node) in _CHOOSING:
        return
    for child in _children(node):
        yield from _inner_first(child)
    yield node


def _is_star(node: Any) -> bool:
    """Does it stand for all columns there are? Not that of a struct."""
    return str(node.nodeName()) in _STARS and not node.target().isDefined()


def _all(node: Any) -> Iterator[Any]:
    yield node
    for child in _children(node):
        yield from _all(child)


def _children(node: Any) -> list[Any]:
    children = node.children()
    return [children.apply(at) for at in range(children.size())]


def _name(node: Any) -> str:
    """Return the name of a function, as it is called; of any other node that of its class."""
    if node.nodeName() != "UnresolvedFunction":
        return str(node.nodeName()).lower()
    return str(node.nameParts().last()).lower()


def _said(node: Any) -> str:
    """Return the text by which two parsers are the same; empty: it is none."""
    return str(node.sql()) if node.nodeName() in {"Cast", "UnresolvedFunction"} else ""


def _is_plain(node: Any) -> bool:
    """Can it be computed of every record, without an error?"""
    match node.nodeName():
        case "UnresolvedAttribute" | "Literal":
            return True
        case "Cast":
            return str(node.dataType().sql()) in {"STRING", "BINARY"}
        case "UnresolvedExtractValue":  # a field; an element of an array may not be there
            field = _children(node)[1]
            return str(field.nodeName()) == "Literal" and str(field.dataType().sql()) == "STRING"
    return False


def _options(node: Any) -> dict[str, str]:
    """Return the options of a parser: its third argument, a map of literals."""
    texts = [str(one.value()) for one in _children(_children(node)[2])] if len(_children(node)) > 2 else []
    return dict(zip(texts[::2], texts[1::2], strict=True))


def _avro(node: Any, payload: Column) -> Column:
    """Return a record of Avro beside a number: null where none was read; one in which all is null is read."""
    options = {name: value for name, value in _options(node).items() if name.lower() != "mode"}
    options["mode"] = "PERMISSIVE"
    for name in options.keys() & {"avroSchema"}:
        options[name] = _wrapped(options[name])
    wrapped = _wrapped(str(_children(node)[1].value()))
    return from_avro(F.concat(F.lit(_AVRO_ONE), payload), wrapped, options)


def _wrapped(schema: str) -> str:
    fields = [{"name": "one", "type": "int"}, {"name": "record", "type": json.loads(schema)}]
    return json.dumps({"type": "record", "name": "BackfillChecked", "fields": fields})
