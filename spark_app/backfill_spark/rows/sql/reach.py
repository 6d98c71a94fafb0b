"""Detects SQL that reaches beyond its row, to a file, a URL, a host or a class, from the parsed SQL before the analysis.

Spark already reads some of them during the analysis: a subquery's file for its schema, the URL of an Avro schema. So a check
of the analyzed plan comes too late for these.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from backfill_spark.jvm.errors import JAVA_ERRORS

_TIMES: Final = frozenset({"timezone", "dateformat", "timestampformat", "timestampntzformat", "timeformat", "locale"})
_RECORDS: Final = frozenset(
    {"mode", "columnnameofcorruptrecord", "samplingratio", "encoding", "charset", "multiline", "inferschema"}
)
_BOTH: Final = (
    _TIMES
    | _RECORDS
    | {"enabledatetimeparsingfallback", "prefersdecimal", "preferdate", "singlevariantcolumn", "nullvalue"}
)

OPTIONS: Final[Mapping[str, frozenset[str]]] = {
    "json": _BOTH | {
        "primitivesasstring", "allowcomments", "allowunquotedfieldnames", "allowsinglequotes", "allownumericleadingzeros",
        "allowbackslashescapinganycharacter", "allowunquotedcontrolchars", "allownonnumericnumbers", "dropfieldifallnull",
        "ignorenullfields", "pretty", "infertimestamp", "linesep", "sortkeys", "writenonasciicharacterascodepoint", "useunsaferow",
    },
    "csv": _BOTH | {
        "sep", "delimiter", "quote", "escape", "comment", "header", "enforceschema", "ignoreleadingwhitespace", "ignoretrailingwhitespace",
        "nanvalue", "positiveinf", "negativeinf", "maxcolumns", "maxcharspercolumn", "chartoescapequoteescaping", "emptyvalue", "linesep",
        "unescapedquotehandling", "quoteall", "escapequotes", "columnpruning",
    },
    "xml": _BOTH | {
        "rowtag", "roottag", "excludeattribute", "attributeprefix", "valuetag", "ignoresurroundingspaces", "ignorenamespace", "declaration",
        "arrayelementname", "wildcardcolname", "validatename", "indent",
    },
    "avro": frozenset({
        "mode", "datetimerebasemode", "recursivefieldmaxdepth", "enablestableidentifiersforuniontype", "stableidentifierprefixforuniontype",
        "positionalfieldmatching", "avroschema",
    }),
}  # fmt: skip
"""Allowed options by format, in lower case, as Spark compares them. New options of Spark are rejected until listed here."""

EXTERNAL: Final[Mapping[str, frozenset[str]]] = {
    "json": frozenset({"compression"}),
    "csv": frozenset({"compression", "codec", "extension", "inputbuffersize"}),
    "xml": frozenset({"rowvalidationxsdpath", "compression", "uselegacyxmlparser"}),
    "avro": frozenset({"avroschemaurl", "compression", "ignoreextension", "recordname", "recordnamespace"}),
}
"""Forbidden options of Spark: they name a file or a URL, select a parser without limits, or apply to files only."""

READERS: Final = frozenset(f"{verb}_{form}" for form in OPTIONS for verb in ("from", "to", "schema_of"))
CALLS: Final = {
    "from_protobuf": "reads a file of descriptors",
    "to_protobuf": "reads a file of descriptors",
    "reflect": "calls Java",
    "try_reflect": "calls Java",
    "java_method": "calls Java",
}
"""Functions that reach a file or a class with any arguments."""

_LITERAL, _FUNCTION = "Literal", "UnresolvedFunction"
_PLAIN: Final = frozenset(name for name in READERS if name.startswith("schema_of_")) | {"concat"}
"""Functions that are allowed in the arguments after the value: they yield no map of options."""


def outside(parser: Any, text: str) -> tuple[str, str] | None:
    """Return a message and a hint for SQL that reaches beyond its row; `None` if it does not, or is not SQL."""
    try:
        tree = _tree(json.loads(parser.parseExpression(text).toJSON()))
    except JAVA_ERRORS:
        return None  # the analysis reports the syntax error
    return next((fault for part in _all(tree) if (fault := _of(part)) is not None), None)


def _of(part: dict[str, Any]) -> tuple[str, str] | None:
    name = _class(part)
    if "plan" in part or name.startswith("ExpressionWithUnresolvedIdentifier"):
        message = " has a subquery, not row-wise." if "plan" in part else " has IDENTIFIER(…), a name that is computed."
        return message, "Use only expressions over the columns of one row."
    if name != _FUNCTION:
        return None
    function = _called(part)
    if function in CALLS:
        return f" {CALLS[function]} ({function}).", "Use Spark's functions of one row."
    if function not in READERS:
        return None
    form = function.rpartition("_")[2]
    faults = (_fault_of_argument(child, form, first=number == 0) for number, child in enumerate(part["children"]))
    return next((fault for fault in faults if fault is not None), None)


def _fault_of_argument(argument: dict[str, Any], form: str, *, first: bool) -> tuple[str, str] | None:
    """Return the fault of an argument of a function with options; only a map of literals can be checked in advance."""
    if _class(argument) == "NamedArgumentExpression":
        return " names the arguments of a function with options.", "Write them in their order, without names."
    if first:
        return None
    if _class(argument) == _FUNCTION and _called(argument) == "map":
        return _fault_of_options(argument["children"], form)
    if all(
        _class(node) == _LITERAL or (_class(node) == _FUNCTION and _called(node) in _PLAIN) for node in _all(argument)
    ):
        return None
    hint = "Write the schema as a string literal, and options as map('name', 'value')."
    return f" computes the schema or the options of {form.upper()}.", hint


def _fault_of_options(entries: list[dict[str, Any]], form: str) -> tuple[str, str] | None:
    if any(_class(entry) != _LITERAL for entry in entries):
        return f" computes the options of {form.upper()}.", "Write them as map('name', 'value')."
    names = (str(entry.get("value")) for entry in entries[::2])
    name = next((name for name in names if name.lower() not in OPTIONS[form]), None)
    if name is None:
        return None
    reason = (
        "which may name a file or a URL"
        if name.lower() in EXTERNAL[form]
        else "which is not known to concern one row only"
    )
    return (
        f" has the option {name!r} of {form.upper()}, {reason}.",
        "Leave it out; write an Avro schema into the expression.",
    )


def _class(part: dict[str, Any]) -> str:
    return str(part["class"]).rpartition(".")[2]


def _called(part: dict[str, Any]) -> str:
    """Return the name of a function, without its catalog."""
    return str(part["nameParts"]).strip("[]").rpartition(", ")[2].lower()


def _tree(listed: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the tree of nodes that Spark lists in pre-order."""
    stack: list[dict[str, Any]] = []
    for fields in reversed(listed):
        stack.append({**fields, "children": [stack.pop() for _ in range(fields["num-children"])]})
    return stack[0]


def _all(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    waiting = [part]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += part["children"]
