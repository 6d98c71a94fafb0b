"""Does SQL reach beyond its row: a file, a URL, a host, a class? Read off the parsed text, before Spark analyzes it.

Spark reads some of them while it analyzes: the schema of a subquery's file, the URL of an Avro schema. So the check of the analyzed plan
comes too late for these.
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
"""Options by format, in lower case, as Spark compares them. A new option of Spark is refused until it is listed here."""

EXTERNAL: Final[Mapping[str, frozenset[str]]] = {
    "json": frozenset({"compression"}),
    "csv": frozenset({"compression", "codec", "extension", "inputbuffersize"}),
    "xml": frozenset({"rowvalidationxsdpath", "compression", "uselegacyxmlparser"}),
    "avro": frozenset({"avroschemaurl", "compression", "ignoreextension", "recordname", "recordnamespace"}),
}
"""Options of Spark that an expression may not have: they name a file or a URL, choose a parser without limits, or are of files only."""

READERS: Final = frozenset(f"{verb}_{form}" for form in OPTIONS for verb in ("from", "to", "schema_of"))
CALLS: Final = {
    "from_protobuf": "reads a file of descriptors",
    "to_protobuf": "reads a file of descriptors",
    "reflect": "calls Java",
    "try_reflect": "calls Java",
    "java_method": "calls Java",
}
"""Functions that reach a file or a class whatever their arguments are."""

_LITERAL, _FUNCTION = "Literal", "UnresolvedFunction"
_PLAIN: Final = frozenset(one for one in READERS if one.startswith("schema_of_")) | {"concat"}
"""Functions that an argument beside the value may have: they make no map of options."""


def outside(parser: Any, text: str) -> tuple[str, str] | None:
    """Return what an SQL text reaches beyond its row, and a hint; `None` if it reaches nothing, or is not SQL."""
    try:
        tree = _tree(json.loads(parser.parseExpression(text).toJSON()))
    except JAVA_ERRORS:
        return None  # the analysis says why
    return next((found for part in _all(tree) if (found := _of(part)) is not None), None)


def _of(part: dict[str, Any]) -> tuple[str, str] | None:
    name = _class(part)
    if "plan" in part or name.startswith("ExpressionWithUnresolvedIdentifier"):
        words = " has a subquery, not row-wise." if "plan" in part else " has IDENTIFIER(…), a name that is computed."
        return words, "Use only expressions over the columns of one row."
    if name != _FUNCTION:
        return None
    function = _called(part)
    if function in CALLS:
        return f" {CALLS[function]} ({function}).", "Use Spark's functions of one row."
    if function not in READERS:
        return None
    form = function.rpartition("_")[2]
    faults = (_fault_of_argument(one, form, first=number == 0) for number, one in enumerate(part["children"]))
    return next((found for found in faults if found is not None), None)


def _fault_of_argument(argument: dict[str, Any], form: str, *, first: bool) -> tuple[str, str] | None:
    """Return what is wrong with an argument of a function with options: only a map of literals is known before it is computed."""
    if _class(argument) == "NamedArgumentExpression":
        return " names the arguments of a function with options.", "Write them in their order, without names."
    if first:
        return None
    if _class(argument) == _FUNCTION and _called(argument) == "map":
        return _fault_of_options(argument["children"], form)
    if all(_class(one) == _LITERAL or (_class(one) == _FUNCTION and _called(one) in _PLAIN) for one in _all(argument)):
        return None
    hint = "Write the schema as a text, and options as map('name', 'value')."
    return f" computes the schema or the options of {form.upper()}.", hint


def _fault_of_options(entries: list[dict[str, Any]], form: str) -> tuple[str, str] | None:
    if any(_class(one) != _LITERAL for one in entries):
        return f" computes the options of {form.upper()}.", "Write them as map('name', 'value')."
    names = (str(one.get("value")) for one in entries[::2])
    name = next((name for name in names if name.lower() not in OPTIONS[form]), None)
    if name is None:
        return None
    reason = (
        "which may name a file or a URL"
        if name.lower() in EXTERNAL[form]
        else "which is not known to be of one row only"
    )
    return (
        f" has the option {name!r} of {form.upper()}, {reason}.",
        "Leave it out; an Avro schema belongs into the text.",
    )


def _class(part: dict[str, Any]) -> str:
    return str(part["class"]).rpartition(".")[2]


def _called(part: dict[str, Any]) -> str:
    """Return the name of a function, without its catalog."""
    return str(part["nameParts"]).strip("[]").rpartition(", ")[2].lower()


def _tree(listed: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the tree of nodes that are listed outermost first."""
    stack: list[dict[str, Any]] = []
    for fields in reversed(listed):
        stack.append({**fields, "children": [stack.pop() for _ in range(fields["num-children"])]})
    return stack[0]


def _all(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    waiting = [part]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += one["children"]
