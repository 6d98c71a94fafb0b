"""Is SQL row-wise, and does it yield the same at any time and place? Read off Spark's own plans, before anything runs.

What may be in a plan is listed, not what may not: a projection, one filter, the relation. What Spark freezes for the length
of one query (clocks, users, `'now'` as a time) it has rules for; an expression that such a rule touches is refused.
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
from backfill_spark.jvm.errors import first_line
from backfill_spark.jvm.gateway import java, java_frame, java_session
from backfill_spark.rows.columns import every_type, unused
from backfill_spark.rows.sql.reach import outside

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROW_WISE_HINT = "Use only expressions over the columns of one row."
FIXED_HINT = "Every retry and the verification must compute the same value: take it from a column."
SUBSTITUTED = "${"

NODES = {
    "Aggregate": "is an aggregate",
    "Window": "is a window function",
    "Generate": "is a generator (explode)",
    "Expand": "is a time window that overlaps, and makes several rows of one",
    "Filter": "is a time window, and leaves out rows without a time",
    "Join": "is a join",
    "Sort": "is an order",
    "Distinct": "is a distinct",
}
"""What makes a node of a plan that is not row-wise. Any other node is named as Spark does."""

WORLD = {
    "CurrentCatalog", "CurrentDatabase", "CurrentDate", "CurrentPath", "CurrentTime", "CurrentTimeZone", "CurrentTimestamp",
    "CurrentUser", "InputFileBlockLength", "InputFileBlockStart", "InputFileName", "LocalTimestamp", "Now", "SparkPartitionID",
    "SparkVersion",
}  # fmt: skip
"""Catalyst calls most of these deterministic, because one query sees one value; a job is many queries."""

OF_SPARK = ("org.apache.spark.sql.catalyst.", "org.apache.spark.sql.avro.", "org.apache.spark.sql.protobuf.")
FROM_OUTSIDE = re.compile(r"UDF|UserDefined|^ApplyFunction|^V2ScalarFunction")
CHANCE = re.compile(r"KllSketchMerge")
"""Says that it is deterministic, and throws dice."""

_TYPED = re.compile(r"(?i)\b(?:date|timestamp(?:_ltz|_ntz)?)\b")
_TIME_WORDS = {"DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"}
_TEXTS = {"STRING_LITERAL", "DOUBLEQUOTED_STRING"}


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with an expression (words that follow it in a sentence), and the hint."""

    words: str
    hint: str


@dataclass(frozen=True, slots=True)
class Part:
    """One node of an expression or a plan, as Spark writes it in JSON."""

    kind: str
    """Class with its package."""

    fields: dict[str, Any]
    children: tuple[Part, ...]

    @property
    def name(self) -> str:
        """Class without its package."""
        return self.kind.rpartition(".")[2].rstrip("$")

    def all(self) -> Iterator[Part]:
        """Yield it and all below it."""
        waiting = [self]
        while waiting:
            one = waiting.pop()
            yield one
            waiting += one.children


def find_fault(empty: DataFrame, texts: Sequence[str], *, filters: bool) -> Fault | None:
    """Say what keeps SQL texts from being a row-wise projection, or a filter, of a frame; None where nothing does.

    Args:
        empty: A frame with the columns of the source; a relation, so that the plan's only leaf is its own.
        texts: Expressions of a projection, or one condition.
        filters: Are they a condition?
    """
    parser: Any = java_session(empty.sparkSession).sessionState().sqlParser()
    for text in texts:
        reached = outside(parser, text)
        if reached is not None:
            return Fault(*reached)
        if SUBSTITUTED in text:
            words = f" has {SUBSTITUTED}, which stands for a variable of the driver's environment in Spark's own SQL."
            return Fault(words, "Write concat('$', '{…') where the two characters are meant.")
        if _is_moment(empty.sparkSession, text):
            return Fault(" has a date or time that is another one at each run (now, today, epoch …).", FIXED_HINT)
    try:
        frame = _applied(empty, texts, filters=filters)
        plan: Any = java_frame(frame).queryExecution().analyzed()
    except PySparkException as error:
        return Fault(f": {_first_sentence(error)}", _hint(error, empty.columns))
    except Py4JJavaError as error:
        # Of a library that Spark asks: a schema that is none.
        return Fault(f": {first_line(error)}", "Correct the expression, and the schema in it.")
    if _sees_all(empty, texts, filters=filters):
        words = " has a * inside an expression, which takes in columns that only some reads have."
        return Fault(words, "Name the columns.")
    return (
        _shape(plan, filters=filters) or _world(empty.sparkSession, plan) or (None if filters else void(frame.schema))
    )


def void(schema: StructType) -> Fault | None:
    """Say which column has no type, or a part without one: nothing can hold it."""
    for field in schema:
        if any(isinstance(one, NullType) for one in every_type(field.dataType)):
            words = (
                f" yields the column {field.name!r} of type {field.dataType.simpleString()}, which no table can hold."
            )
            return Fault(
                words, "Give it a type, as in CAST(NULL AS STRING); what only checks belongs inside another expression."
            )
    return None


def stray_node(plan: Any) -> str | None:
    """Return the name of a node of a plan that is neither a projection nor a filter, where it is not a leaf."""
    return next((part.name for part in _plan(plan) if part.children and part.name not in {"Project", "Filter"}), None)


def taken(projection: DataFrame) -> dict[str, str | None]:
    """Return the columns of a projection of a relation, each with the column of the relation that it is; None: it is computed."""
    plan: Any = java_frame(projection).queryExecution().analyzed()
    top, *below = _plan(plan)
    if len(below) != 1 or below[0].children:
        return dict.fromkeys(projection.columns)
    known = {_id(one): str(one["name"]) for (one,) in below[0].fields["output"]}
    roots = (root.children[0] if root.name == "Alias" else root for root in _roots(top))
    found = (known.get(_id(one.fields)) if one.name == "AttributeReference" else None for one in roots)
    return dict(zip(projection.columns, found, strict=True))


def asked(frame: DataFrame) -> frozenset[str]:
    """Return the columns of a relation that its projection computes with, or its filter asks for; not those taken as they are."""
    plan: Any = java_frame(frame).queryExecution().analyzed()
    nodes = list(_plan(plan))
    known = {_id(one): str(one["name"]) for node in nodes if not node.children for (one,) in node.fields["output"]}
    takes = len(nodes) == 2 and nodes[0].name == "Project"
    bodies = (root.children[0] if root.name == "Alias" else root for node in nodes for root in _roots(node))
    computed = (body for body in bodies if not (takes and body.name == "AttributeReference"))
    parts = (part for body in computed for part in body.all() if part.name == "AttributeReference")
    return frozenset(known[_id(part.fields)] for part in parts if _id(part.fields) in known)


def expressions(plan: Any) -> list[Part]:
    """Return the expressions at the top of a plan, in their order."""
    return _roots(next(_plan(plan)))


def _id(attribute: dict[str, Any]) -> Any:
    return attribute["exprId"]["id"]


def _applied(rows: DataFrame, texts: Sequence[str], *, filters: bool) -> DataFrame:
    return rows.where(texts[0]) if filters else rows.selectExpr(*texts)


# ---------------------------------------------------------------------- plans
def _shape(plan: Any, *, filters: bool) -> Fault | None:
    """Is it a projection of the relation, or with `filters` one filter of it?"""
    nodes = list(_plan(plan))
    expected = nodes[0].name if filters else "Project"
    inner = [node.name for node in nodes if node.children][1 if filters else 0 :]
    strange = [name for name in inner if name != "Project"]
    if strange or expected not in {"Project", "Filter"} or sum(not node.children for node in nodes) != 1:
        name = min(strange, key=lambda one: one in {"Filter", "Project"}, default=expected)
        return Fault(f" {NODES.get(name, f'is a {name}')}, not row-wise.", ROW_WISE_HINT)
    return None


def _world(spark: SparkSession, plan: Any) -> Fault | None:
    """Does a value depend on more than the row: on a clock, on chance, on who runs it and where?"""
    jvm = java(spark)
    rules = jvm.org.apache.spark.sql.catalyst.optimizer
    replaced = rules.ReplaceExpressions.apply(plan)
    for one in (plan, replaced):
        for part in (part for node in _plan(one) for root in _roots(node) for part in root.all()):
            found = _of_part(part)
            if found is not None:
                return found
    if not (plan.deterministic() and replaced.deterministic()):
        return Fault(" is not deterministic.", FIXED_HINT)
    if not rules.ComputeCurrentTime.apply(replaced).fastEquals(replaced):
        return Fault(" depends on when or where it runs.", FIXED_HINT)
    if not rules.SpecialDatetimeValues.apply(replaced).fastEquals(replaced):
        return Fault(" has a date or time that is another one at each run (now, today, epoch …).", FIXED_HINT)
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
        words = f" has a function from outside Spark ({name}): it may not yield the same value again."
        return Fault(words, "Use Spark's own functions.")
    return None


def _draws_lots(encrypted: Part) -> bool:
    """Does `aes_encrypt` choose an initial vector by chance? Not in ECB, nor when it is told one."""
    _, _, mode, _, vector, _ = encrypted.children
    told = [part.fields.get("value") for part in vector.all() if part.name == "Literal"]
    return str(mode.fields.get("value")).upper() != "ECB" and told == [""]


def _spelt(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _plan(plan: Any) -> Iterator[Part]:
    return _tree(json.loads(plan.toJSON())).all()


def _roots(node: Part) -> list[Part]:
    """Return the expressions of a node of a plan."""
    found: list[Part] = []
    for value in node.fields.values() if node.children else ():
        for one in value if isinstance(value, list) and value and isinstance(value[0], list) else [value]:
            if isinstance(one, list) and one and isinstance(one[0], dict) and "num-children" in one[0]:
                found.append(_tree(one))
    return found


def _tree(listed: list[dict[str, Any]]) -> Part:
    """Return the tree of nodes that are listed outermost first."""
    stack: list[Part] = []
    for fields in reversed(listed):
        count = fields["num-children"]
        children = tuple(stack.pop() for _ in range(count))
        stack.append(Part(fields["class"], fields, children))
    (root,) = stack
    return root


def _sees_all(empty: DataFrame, texts: Sequence[str], *, filters: bool) -> bool:
    """Is any value computed from whatever columns there are? A bare star computes nothing: it passes them on."""
    if not any("*" in text for text in texts):
        return False
    probe = unused("__backfill_probe", empty.columns)
    wide = empty.withColumn(probe, F.lit(0))
    try:
        plan: Any = java_frame(_applied(wide, texts, filters=filters)).queryExecution().analyzed()
    except PySparkException:
        return True  # right without one more column, wrong with it
    top = next(_plan(plan))
    computed = [root for root in _roots(top) if not _is_column(root, probe)]
    return any(_is_column(part, probe) for root in computed for part in root.all())


def _is_column(part: Part, name: str) -> bool:
    return part.name == "AttributeReference" and part.fields["name"] == name


# ---------------------------------------------------------------------- texts
def _is_moment(spark: SparkSession, text: str) -> bool:
    """Is there a literal like `date'today'`? The parser makes a plain date of it, which no plan tells from another."""
    if not _TYPED.search(text):
        return False
    jvm = java(spark)
    parser, moments = jvm.org.apache.spark.sql.catalyst.parser, jvm.org.apache.spark.sql.catalyst.util.DateTimeUtils
    utc = jvm.java.time.ZoneId.of("UTC")
    for words in _typed_literals(parser, jvm.org.antlr.v4.runtime.CharStreams, text):
        if moments.convertSpecialTimestamp(words, utc).isDefined():
            return True
    return False


def _typed_literals(parser: Any, streams: Any, text: str) -> Iterator[str]:
    """Yield the texts that stand behind the name of a type of time."""
    lexer = parser.SqlBaseLexer(parser.UpperCaseCharStream(streams.fromString(text)))
    lexer.removeErrorListeners()
    names = lexer.getVocabulary()
    before, words = "", ""
    for token in lexer.getAllTokens():
        if token.getChannel():
            continue  # blanks and comments
        name = names.getSymbolicName(token.getType())
        if name in _TEXTS and before in _TIME_WORDS:
            words += parser.ParserUtils.unescapeSQLString(token.getText(), False)
            continue
        if words:
            yield words
        before, words = str(name), ""
    if words:
        yield words


def _first_sentence(error: PySparkException) -> str:
    words = str(error.getMessage() if hasattr(error, "getMessage") else error) or str(error)
    words = re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", words.strip())
    return words.splitlines()[0].split(" SQLSTATE")[0]


def _hint(error: PySparkException, columns: list[str]) -> str:
    if re.search(r"name `_metadata`", str(error)):
        return "What file a row lies in is no value of the row: leave _metadata out."
    match = re.search(r"name `([^`]+)`", str(error))
    near = nearest(match[1], columns) if match else None
    if near:
        return f"Did you mean {near!r}?"
    if "GROUP" in str(error) or "AGGREGATE" in str(error):
        return ROW_WISE_HINT
    return f"The source has the columns {', '.join(columns[:20])}."
