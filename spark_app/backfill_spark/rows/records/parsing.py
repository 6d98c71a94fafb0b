"""Which records a transform cannot parse: its parsers are found in its SQL, and each is asked about each record.

A bad record is one of which a parser makes null, or less than it holds, though what it was given is not null. A parser inside
CASE, IF or COALESCE is not asked: that expression says itself what becomes of such a record. So does `try_cast`, and a schema
that has the column of corrupt records.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import StructType

from backfill_core.errors import BadRecordError
from backfill_spark.jvm.gateway import java, java_session
from backfill_spark.rows.transform import OURS, Transform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REASON = f"{OURS}reason"
BAD_RECORD_HINT = (
    "Set onBadRecord: Quarantine and quarantinePath in the source, leave such records out with spec.transform.where, or say in "
    "spec.transform.select what becomes of them (try_cast, coalesce)."
)
_CORRUPT = f"{OURS}corrupt"
_CORRUPT_OPTION = "columnNameOfCorruptRecord"
_CORRUPT_DEFAULT = "spark.sql.columnNameOfCorruptRecord"
_PERMISSIVE = {"from_json": F.from_json, "from_csv": F.from_csv, "from_xml": F.from_xml}
"""What they cannot read becomes a row of nulls, or of less than there was."""

_RAISING = {"parse_json", "to_binary", "to_date", "to_number", "to_time", "to_timestamp"}
"""What they cannot read is an error, and `try_…` makes null of it."""

_CHOOSING = {"case", "coalesce", "if", "ifnull", "iff", "nullif", "nvl", "nvl2", "when"}
_CHOICES = {"And", "CaseWhen", "Coalesce", "If", "Or"}
_AVRO_ONE = b"\x02"
"""The number 1 in Avro: a field before the record that is null only where the whole was not read."""


@dataclass(frozen=True)
class ParsingTransform(Transform):
    """A transform that parses records: what it cannot parse is no row of it."""

    reason: Column = field(kw_only=True)
    """Why a record is bad, as a text; null: it is good."""

    filters_first: bool = field(kw_only=True)
    """Does the filter parse nothing? Then a record that it leaves out is not looked at."""

    def apply(self, rows: DataFrame, *kept: str) -> DataFrame:
        """See `Transform`, of the good records."""
        return self.rows(self.judged(rows), *kept)

    def judged(self, records: DataFrame) -> DataFrame:
        """Return records, without those that the filter leaves out unparsed, and column `REASON`; lazy."""
        kept = records.where(self.where) if self.where is not None and self.filters_first else records
        return kept.withColumn(REASON, self.reason)

    def rows(self, judged: DataFrame, *kept: str) -> DataFrame:
        """Return the good ones, transformed; lazy."""
        return super().apply(judged.where(F.col(REASON).isNull()).drop(REASON), *kept)


def parsing(transform: Transform, empty: DataFrame) -> Transform:
    """Return a transform that knows the records that it cannot parse; the same one, where it has no parsers.

    Args:
        transform: It is checked already.
        empty: A frame with the columns of the source.
    """
    fields = [(f"spec.transform.select[{at}]", text) for at, text in enumerate(transform.select or ())]
    where = [] if transform.where is None else _parsers(empty, "spec.transform.where", transform.where)
    found = [*where, *(one for name, text in fields for one in _parsers(empty, name, text))]
    if not found:
        return transform
    reason = reduce(lambda cases, one: cases.when(*one), found[1:], F.when(*found[0]))
    return ParsingTransform(transform.select, transform.where, reason=reason, filters_first=not where)


def fates(transform: Transform) -> tuple[Column, Column]:
    """Return two conditions on records of the source: is it bad, and is it a row of the target? Neither: it is left out."""
    passes = F.lit(True) if transform.where is None else F.coalesce(F.expr(transform.where), F.lit(False))
    if not isinstance(transform, ParsingTransform):
        return F.lit(False), passes
    refused = transform.reason.isNotNull()
    is_bad = F.when(passes, refused).otherwise(F.lit(False)) if transform.filters_first else refused
    return is_bad, F.when(is_bad, F.lit(False)).otherwise(passes)


def bad(judged: DataFrame) -> DataFrame:
    """Return the bad records with column `REASON`; lazy."""
    return judged.where(F.col(REASON).isNotNull())


def bad_record(records: DataFrame, rows: int, what: str) -> BadRecordError:
    """Return the error of bad records; names the first one of the first partition. Runs a job."""
    where = ("partition", "offset")
    one = records.select(*where, REASON).orderBy(*where).first()
    place = what if one is None else f"offset {one['offset']} of partition {one['partition']}"
    reason = "" if one is None else f" {one[REASON]}"
    more = f" {what} has {rows:,} such records." if rows > 1 else ""
    return BadRecordError(f"the record at {place} cannot be parsed.{reason}{more}", hint=BAD_RECORD_HINT)


Case = tuple[Column, Column]
"""A condition that a record is bad, and the reason."""


def _parsers(empty: DataFrame, place: str, text: str) -> list[Case]:
    """Return a case for each parser of an expression, the inner ones first: an outer one may fail on what they yield."""
    parser = java_session(empty.sparkSession).sessionState().sqlParser()
    cases = []
    for node in _inner_first(parser.parseExpression(text)):
        condition = _refuses(empty, node)
        if condition is not None:
            cases.append((condition, F.lit(f"{place}: {_name(node)} cannot read the payload.")))
    return cases


def _inner_first(node: Any) -> Iterator[Any]:
    """Yield what is computed for every record, whatever the others are."""
    if node.nodeName() in _CHOICES or _name(node) in _CHOOSING:
        return
    for child in _children(node):
        yield from _inner_first(child)
    yield node


def _children(node: Any) -> list[Any]:
    children = node.children()
    return [children.apply(at) for at in range(children.size())]


def _name(node: Any) -> str:
    """Return the name of a function, as it is called; of any other node that of its class."""
    if node.nodeName() != "UnresolvedFunction":
        return str(node.nodeName()).lower()
    return str(node.nameParts().last()).lower()


def _refuses(empty: DataFrame, node: Any) -> Column | None:
    """Return the condition that a parser cannot read what it is given; None: the node is no parser."""
    name, session = _name(node), empty.sparkSession
    given = [_column(session, child) for child in _children(node)]
    match node.nodeName(), name:
        case "Cast", _ if node.evalMode().toString() != "TRY" and node.dataType().sql() not in {"STRING", "BINARY"}:
            return given[0].isNotNull() & given[0].try_cast(node.dataType().sql()).isNull()
        case "UnresolvedFunction", "from_avro":
            return given[0].isNotNull() & _avro_is_null(node, given[0])
        case "UnresolvedFunction", _ if name in _PERMISSIVE:
            read = _column(session, node)
            loses = _loses(empty, node, given[0], read)
            return None if loses is None else given[0].isNotNull() & (read.isNull() | loses)
        case "UnresolvedFunction", _ if name in _RAISING:
            return given[0].isNotNull() & F.call_function(f"try_{name}", *given).isNull()
    return None


def _column(session: SparkSession, node: Any) -> Column:
    return Column(java(session).org.apache.spark.sql.classic.ExpressionUtils.column(node))  # type: ignore[abstract]


def _options(node: Any) -> dict[str, str]:
    """Return the options of a parser: its third argument, a map of literals."""
    texts = [str(one.value()) for one in _children(_children(node)[2])] if len(_children(node)) > 2 else []
    return dict(zip(texts[::2], texts[1::2], strict=True))


def _loses(empty: DataFrame, node: Any, payload: Column, read: Column) -> Column | None:
    """Return the condition that a permissive parser gives up a part; None: its own schema asks for what it gives up."""
    schema = empty.select(read.alias("read")).schema["read"].dataType
    if not isinstance(schema, StructType):
        return F.lit(False)
    session, options = java_session(empty.sparkSession), _options(node)
    corrupt = next((value for name, value in options.items() if name.lower() == _CORRUPT_OPTION.lower()), None)
    if (corrupt or session.conf().get(_CORRUPT_DEFAULT)) in schema.names:
        return None
    told = session.parseDataType(StructType([*schema]).add(_CORRUPT, "string").json()).toDDL()
    without = {name: value for name, value in options.items() if name.lower() not in {"mode", _CORRUPT_OPTION.lower()}}
    return _PERMISSIVE[_name(node)](payload, told, without | {_CORRUPT_OPTION: _CORRUPT})[_CORRUPT].isNotNull()


def _avro_is_null(node: Any, payload: Column) -> Column:
    """Return the condition that Avro reads no record; one in which all is null is read."""
    options = {name: value for name, value in _options(node).items() if name.lower() != "mode"}
    options["mode"] = "PERMISSIVE"
    for name in options.keys() & {"avroSchema"}:
        options[name] = _wrapped(options[name])
    wrapped = _wrapped(str(_children(node)[1].value()))
    return from_avro(F.concat(F.lit(_AVRO_ONE), payload), wrapped, options)["one"].isNull()


def _wrapped(schema: str) -> str:
    fields = [{"name": "one", "type": "int"}, {"name": "record", "type": json.loads(schema)}]
    return json.dumps({"type": "record", "name": "BackfillChecked", "fields": fields})
