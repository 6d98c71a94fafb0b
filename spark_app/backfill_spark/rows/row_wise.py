"""Checks that SQL is row-wise and always computes the same values, from Spark's analyzed plans, before any job runs.

A plan may contain only a projection, one filter and the relation. Spark has optimizer rules that replace clocks, users and
`'now'` by constants of one query; an expression that such a rule changes is rejected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import NullType, StructType

from backfill_api.crd.explain import nearest
from backfill_spark.delta.types import every_type
from backfill_spark.jvm.errors import first_line
from backfill_spark.jvm.gateway import java, java_frame, java_session
from backfill_spark.rows.columns import unused
from backfill_spark.rows.sql.reach import outside

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROW_WISE_HINT = "Use only expressions over the columns of one row."
FIXED_HINT = "Every retry and the verification must compute the same value: take it from a column."
SUBSTITUTED = "${"
SPECIAL_TIME = " has a date or time that differs at each run (now, today, epoch …)."

NODES = {
    "Aggregate": "is an aggregate",
    "Window": "is a window function",
    "Generate": "is a generator (explode)",
    "Expand": "is an overlapping time window, which yields several rows for one",
    "Filter": "is a time window, which drops rows without a time",
    "Join": "is a join",
    "Sort": "is an order",
    "Distinct": "is a distinct",
}
"""Descriptions of plan nodes that are not row-wise. Messages name other nodes by Spark's name."""

WORLD = {
    "CurrentCatalog", "CurrentDatabase", "CurrentDate", "CurrentPath", "CurrentTime", "CurrentTimeZone", "CurrentTimestamp",
    "CurrentUser", "InputFileBlockLength", "InputFileBlockStart", "InputFileName", "LocalTimestamp", "Now", "SparkPartitionID",
    "SparkVersion",
}  # fmt: skip
"""Expressions that Catalyst mostly calls deterministic, because one query sees one value; a job runs many queries."""

OF_SPARK = ("org.apache.spark.sql.catalyst.", "org.apache.spark.sql.avro.", "org.apache.spark.sql.protobuf.")
FROM_OUTSIDE = re.compile(r"UDF|UserDefined|^ApplyFunction|^V2ScalarFunction")
CHANCE = re.compile(r"KllSketchMerge")
"""Functions that Spark declares deterministic although they use random numbers."""

_TYPED = re.compile(r"(?i)\b(?:date|timestamp(?:_ltz|_ntz)?)\b")
_TIME_TYPES = {"DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"}
_STRINGS = {"STRING_LITERAL", "DOUBLEQUOTED_STRING"}


@dataclass(frozen=True, slots=True)
class Fault:
    """A problem of an expression: `message` is a predicate that follows the expression in a message, `hint` is the advice."""

    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Part:
    """One node of an expression or a plan, from Spark's JSON."""

    kind: str
    """Class with its package."""

    fields: dict[str, Any]
    children: tuple[Part, ...]

    @property
    def name(self) -> str:
        """Class without its package."""
        return self.kind.rpartition(".")[2].rstrip("$")

    def all(self) -> Iterator[Part]:
        """Yield this node and all its descendants."""
        waiting = [self]
        while waiting:
            part = waiting.pop()
            yield part
            waiting += part.children


def find_fault(empty: DataFrame, texts: Sequence[str], *, filters: bool) -> Fault | None:
    """Return why SQL expressions are no row-wise projection or filter of a frame; `None` if they are valid.

    Args:
        empty: A frame with the columns of the source; a relation, so that the plan has exactly one leaf.
        texts: Expressions of a projection, or one condition.
        filters: True if `texts` is a condition.
    """
    parser: Any = java_session(empty.sparkSession).sessionState().sqlParser()
    for text in texts:
        reached = outside(parser, text)
        if reached is not None:
            return Fault(*reached)
        if SUBSTITUTED in text:
            message = f" has {SUBSTITUTED}, which Spark SQL replaces by a variable of the driver's environment."
            return Fault(message, "For the two characters themselves, write concat('$', '{…').")
        if _has_special_time(empty.sparkSession, text):
            return Fault(SPECIAL_TIME, FIXED_HINT)
    try:
        frame = _applied(empty, texts, filters=filters)
        plan: Any = java_frame(frame).queryExecution().analyzed()
    except PySparkException as error:
        return Fault(f": {_first_sentence(error)}", _hint(error, empty.columns))
    except Py4JJavaError as error:
        # Raised by a library that Spark calls, for example for an invalid schema.
        return Fault(f": {first_line(error)}", "Correct the expression, and the schema in it.")
    if _sees_all(empty, texts, filters=filters):
        message = " has a * inside an expression, which includes columns that only some reads have."
        return Fault(message, "Name the columns.")
    return (
        _shape(plan, filters=filters) or _world(empty.sparkSession, plan) or (None if filters else void(frame.schema))
    )


def void(schema: StructType) -> Fault | None:
    """Return the fault of a column whose type contains NullType, which no table can store; `None` if there is none."""
    for field in schema:
        if any(isinstance(data_type, NullType) for data_type in every_type(field.dataType)):
            type_name = field.dataType.simpleString()
            message = f" yields the column {field.name!r} of type {type_name}, which no table can hold."
            hint = "Give it a type, as in CAST(NULL AS STRING); put a pure check inside another expression."
            return Fault(message, hint)
    return None


def stray_node(plan: Any) -> str | None:
    """Return the name of an inner plan node that is neither a projection nor a filter; `None` if there is none."""
    return next((part.name for part in _plan(plan) if part.children and part.name not in {"Project", "Filter"}), None)


def taken(projection: DataFrame) -> dict[str, str | None]:
    """Return the columns of a projection, each with the relation's column that it copies; `None` if it is computed."""
    plan: Any = java_frame(projection).queryExecution().analyzed()
    top, *below = _plan(plan)
    if len(below) != 1 or below[0].children:
        return dict.fromkeys(projection.columns)
    names = {_id(attribute): str(attribute["name"]) for (attribute,) in below[0].fields["output"]}
    roots = (root.children[0] if root.name == "Alias" else root for root in _roots(top))
    sources = (names.get(_id(root.fields)) if root.name == "AttributeReference" else None for root in roots)
    return dict(zip(projection.columns, sources, strict=True))


def columns_read(frame: DataFrame) -> frozenset[str]:
    """Return the columns of a relation that computed columns and the filter use, without columns that are only copied."""
    plan: Any = java_frame(frame).queryExecution().analyzed()
    nodes = list(_plan(plan))
    attributes = (attribute for node in nodes if not node.children for (attribute,) in node.fields["output"])
    names = {_id(attribute): str(attribute["name"]) for attribute in attributes}
    takes = len(nodes) == 2 and nodes[0].name == "Project"
    bodies = (root.children[0] if root.name == "Alias" else root for node in nodes for root in _roots(node))
    computed = (body for body in bodies if not (takes and body.name == "AttributeReference"))
    parts = (part for body in computed for part in body.all() if part.name == "AttributeReference")
    return frozenset(names[_id(part.fields)] for part in parts if _id(part.fields) in names)


def expressions(plan: Any) -> list[Part]:
    """Return the expressions of a plan's top node, in their order."""
    return _roots(next(_plan(plan)))


def _id(attribute: dict[str, Any]) -> Any:
    return attribute["exprId"]["id"]


def _applied(rows: DataFrame, texts: Sequence[str], *, filters: bool) -> DataFrame:
    return rows.where(texts[0]) if filters else rows.selectExpr(*texts)


# ---------------------------------------------------------------------- plans
def _shape(plan: Any, *, filters: bool) -> Fault | None:
    """Return the fault of a plan that is no projection of the relation, or with `filters` not one filter of it."""
    nodes = list(_plan(plan))
    expected = nodes[0].name if filters else "Project"
    inner = [node.name for node in nodes if node.children][1 if filters else 0 :]
    strange = [name for name in inner if name != "Project"]
    if strange or expected not in {"Project", "Filter"} or sum(not node.children for node in nodes) != 1:
        name = min(strange, key=lambda node: node in {"Filter", "Project"}, default=expected)
        return Fault(f" {NODES.get(name, f'is a {name}')}, not row-wise.", ROW_WISE_HINT)
    return None


def _world(spark: SparkSession, plan: Any) -> Fault | None:
    """Return the fault of a value that depends on a clock, random numbers, the user or the host; `None` if none does."""
    jvm = java(spark)
    rules = jvm.org.apache.spark.sql.catalyst.optimizer
    replaced = rules.ReplaceExpressions.apply(plan)
    for checked in (plan, replaced):
        for part in (part for node in _plan(checked) for root in _roots(node) for part in root.all()):
            fault = _of_part(part)
            if fault is not None:
                return fault
    if not (plan.deterministic() and replaced.deterministic()):
        return Fault(" is not deterministic.", FIXED_HINT)
    if not rules.ComputeCurrentTime.apply(replaced).fastEquals(replaced):
        return Fault(" depends on when or where it runs.", FIXED_HINT)
    if not rules.SpecialDatetimeValues.apply(replaced).fastEquals(replaced):
        return Fault(SPECIAL_TIME, FIXED_HINT)
    return None


def _of_part(part: Part) -> Fault | None:
    name = part.name
    if "Subquery" in name or name == "Exists":
        return Fault(" has a subquery.", ROW_WISE_HINT)
    if name in WORLD:
        return Fault(f" depends on when or where it runs ({_spelt(name)}).", FIXED_HINT)
    if CHANCE.search(name) or (name == "AesEncrypt" and _draws_lots(part)):
        return Fault(f" is not deterministic ({_spelt(name)}).", FIXED_HINT)
    if not part.kind.startswith(OF_SPARK) or FROM_OUTSIDE.search(name):
        message = f" has a function from outside Spark ({name}): it may not yield the same value again."
        return Fault(message, "Use Spark's own functions.")
    return None


def _draws_lots(encrypted: Part) -> bool:
    """Return True if `aes_encrypt` uses a random initialization vector: mode is not ECB, and no vector is given."""
    _, _, mode, _, vector, _ = encrypted.children
    given = [part.fields.get("value") for part in vector.all() if part.name == "Literal"]
    return str(mode.fields.get("value")).upper() != "ECB" and given == [""]


def _spelt(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _plan(plan: Any) -> Iterator[Part]:
    return _tree(json.loads(plan.toJSON())).all()


def _roots(node: Part) -> list[Part]:
    """Return the expressions of a plan node."""
    roots: list[Part] = []
    for value in node.fields.values() if node.children else ():
        for item in value if isinstance(value, list) and value and isinstance(value[0], list) else [value]:
            if isinstance(item, list) and item and isinstance(item[0], dict) and "num-children" in item[0]:
                roots.append(_tree(item))
    return roots


def _tree(listed: list[dict[str, Any]]) -> Part:
    """Return the tree of nodes that Spark lists in pre-order."""
    stack: list[Part] = []
    for fields in reversed(listed):
        count = fields["num-children"]
        children = tuple(stack.pop() for _ in range(count))
        stack.append(Part(fields["class"], fields, children))
    (root,) = stack
    return root


def _sees_all(empty: DataFrame, texts: Sequence[str], *, filters: bool) -> bool:
    """Return True if an expression computes a value from all columns; a bare star only copies them."""
    if not any("*" in text for text in texts):
        return False
    probe = unused("__backfill_probe", empty.columns)
    wide = empty.withColumn(probe, F.lit(0))
    try:
        plan: Any = java_frame(_applied(wide, texts, filters=filters)).queryExecution().analyzed()
    except PySparkException:
        return True  # valid without an extra column, invalid with it
    top = next(_plan(plan))
    computed = [root for root in _roots(top) if not _is_column(root, probe)]
    return any(_is_column(part, probe) for root in computed for part in root.all())


def _is_column(part: Part, name: str) -> bool:
    return part.name == "AttributeReference" and part.fields["name"] == name


# ---------------------------------------------------------------------- SQL strings
def _has_special_time(spark: SparkSession, text: str) -> bool:
    """Return True for a literal like `date'today'`; the parser turns it into a plain date, so plans do not show it."""
    if not _TYPED.search(text):
        return False
    jvm = java(spark)
    parser, times = jvm.org.apache.spark.sql.catalyst.parser, jvm.org.apache.spark.sql.catalyst.util.DateTimeUtils
    utc = jvm.java.time.ZoneId.of("UTC")
    for literal in _typed_literals(parser, jvm.org.antlr.v4.runtime.CharStreams, text):
        if times.convertSpecialTimestamp(literal, utc).isDefined():
            return True
    return False


def _typed_literals(parser: Any, streams: Any, text: str) -> Iterator[str]:
    """Yield the string literals that follow the name of a date or timestamp type."""
    lexer = parser.SqlBaseLexer(parser.UpperCaseCharStream(streams.fromString(text)))
    lexer.removeErrorListeners()
    names = lexer.getVocabulary()
    before, literal = "", ""
    for token in lexer.getAllTokens():
        if token.getChannel():
            continue  # blanks and comments
        name = names.getSymbolicName(token.getType())
        if name in _STRINGS and before in _TIME_TYPES:
            literal += parser.ParserUtils.unescapeSQLString(token.getText(), False)
            continue
        if literal:
            yield literal
        before, literal = str(name), ""
    if literal:
        yield literal


def _first_sentence(error: PySparkException) -> str:
    message = str(error.getMessage() if hasattr(error, "getMessage") else error) or str(error)
    message = re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", message.strip())
    return message.splitlines()[0].split(" SQLSTATE")[0]


def _hint(error: PySparkException, columns: list[str]) -> str:
    if re.search(r"name `_metadata`", str(error)):
        return "Leave _metadata out: the file of a row is not a value of the row."
    match = re.search(r"name `([^`]+)`", str(error))
    near = nearest(match[1], columns) if match else None
    if near:
        return f"Did you mean {near!r}?"
    if "GROUP" in str(error) or "AGGREGATE" in str(error):
        return ROW_WISE_HINT
    return f"The source has the columns {', '.join(columns[:20])}."
