"""Parser of Backfills in YAML; every error names the field's path, its value and a hint."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import yaml
from pydantic import ValidationError

from backfill_api.crd.explain import FieldError, child, explain, nearest, shown
from backfill_api.names import API_VERSION, GROUP, KIND
from backfill_api.spec.spec import BackfillResource

__all__ = ["FieldError", "SpecError", "load_backfill"]

T = TypeVar("T")

DOCUMENT: Final = "(document)"
LISTS: Final = frozenset({"List", f"{KIND}List"})
NAMED_MAX: Final = 5
"""Objects of a file that a message names."""

TEMPLATED: Final = re.compile(r"\{\{[^{}\n]{1,200}\}\}")
RENDER: Final = "render the template first, as in `helm template CHART | backfill validate -f -`"
TEXT_CHARACTERS_MAX: Final = 1_048_576
LINE_CHARACTERS_MAX: Final = 100
NODES_MAX: Final = 100_000
"""Nodes of a document. An alias counts each time that it is used: a short text can stand for an endless one."""

NUMBER_CHARACTERS_MAX: Final = 64
"""No field of ours has a longer number, and Python's time for one of base 60 grows with the square of its length."""

NUMBERS: Final = frozenset({"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"})

DEPTH_MAX: Final = 64
KEYS_MAX: Final = 10_000
"""Maximum of keys in a mapping; no field of a Backfill needs more."""

ERRORS_MAX: Final = 50
"""Errors that are explained. More are not read at once, and each is compared with all names of fields."""

LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's where it is installed: it is ten times as fast, and reports the same positions."""


class SpecError(ValueError):
    """The document is not a Backfill; `errors` says why, field by field."""

    def __init__(self, errors: tuple[FieldError, ...], excerpt: str = "") -> None:
        """Keep the parts; the message has one line each. `excerpt`: the place in the text, with a caret below it."""
        super().__init__("\n".join(str(error) for error in errors))
        self.errors = errors
        self.excerpt = excerpt


def load_backfill(source: str | Mapping[str, Any]) -> BackfillResource:
    """Parse and validate one document.

    Fields are spelled in camelCase only. A field that is null counts as absent, as in a cluster.

    Args:
        source: YAML or JSON text, or the parsed document.

    Raises:
        SpecError: it is not YAML, not one document, or not a valid Backfill.
    """
    document = _only_item((_json(source) or _parse(source)) if isinstance(source, str) else source)
    if not isinstance(document, Mapping):
        raise _refused(DOCUMENT, "must be a mapping", document, f"start with apiVersion: {API_VERSION}")
    _check_kind(document)
    try:
        return BackfillResource.model_validate(_without_nulls(document), by_alias=True, by_name=False)
    except ValidationError as error:
        details = error.errors(include_url=False)
        errors = [_of_template(explain(BackfillResource, detail)) for detail in details[:ERRORS_MAX]]
        if len(details) > ERRORS_MAX:
            errors.append(
                FieldError(DOCUMENT, f"has {len(details) - ERRORS_MAX:,} further errors", "", "correct these first")
            )
        raise SpecError(tuple(errors)) from error


def _only_item(document: Any) -> Any:
    """Return the only Backfill of a `List`, as `kubectl get -o yaml` writes one; any other document unchanged."""
    items = document.get("items") if isinstance(document, Mapping) and document.get("kind") in LISTS else None
    if not isinstance(items, list):
        return document
    objects = [item for item in items if isinstance(item, Mapping)]
    return _only([(str(item.get("kind", "?")), _name(item.get("metadata")), item) for item in objects])


def _name(metadata: Any) -> str:
    return str(metadata.get("name", "?")) if isinstance(metadata, Mapping) else "?"


def _only(objects: Sequence[tuple[str, str, T]]) -> T:
    """Return the only Backfill of several objects, each with its kind and name.

    Raises:
        SpecError: there is none, or there are several.
    """
    ours = [(name, document) for kind, name, document in objects if kind == KIND]
    if len(ours) == 1:
        return ours[0][1]
    if ours:
        names = ", ".join(name for name, _ in ours[:NAMED_MAX])
        message = f"must hold one {KIND}, found {len(ours)}: {names}"
        raise _refused(DOCUMENT, message, None, f"give each {KIND} a separate file")
    kinds = ", ".join(dict.fromkeys(kind for kind, _, _ in objects[:NAMED_MAX])) or "0"
    raise _refused(DOCUMENT, f"must hold one {KIND}, found {kinds}", None, f"give the file of the {KIND}")


def _of_template(error: FieldError) -> FieldError:
    """Return an error with the remedy for a placeholder of a template."""
    return replace(error, hint=RENDER) if TEMPLATED.search(error.value) else error


def _check_kind(document: Mapping[str, Any]) -> None:
    """Refuse another kind first: all of its fields would be unknown."""
    kind, group = (document.get(name) for name in ("kind", "apiVersion"))
    if isinstance(kind, str) and isinstance(group, str) and not nearest(kind, [KIND]) and not group.startswith(GROUP):
        _only([(kind, "", document)])
    errors = []
    for field, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if field not in document:
            near = nearest(field, [str(name) for name in document])
            hint = f"rename {near!r}" if near else f"add {field}: {expected}"
            errors.append(FieldError(field, "is required", "", hint))
        elif document[field] != expected:
            errors.append(
                FieldError(field, f"must be {expected}", shown(document[field]), f"write {field}: {expected}")
            )
    if errors:
        raise SpecError(tuple(errors))


def _without_nulls(document: Mapping[Any, Any]) -> dict[Any, Any]:
    """Leave out null fields, except inside pod templates, which we pass on unread."""
    return {
        name: _without_nulls(value) if isinstance(value, Mapping) and name != "template" else value
        for name, value in document.items()
        if value is not None
    }


# ------------------------------------------------------------------ JSON
def _json(text: str) -> Any:
    """Return the value of a JSON document; `None` if YAML reads it: as YAML, or to name the place of a mistake.

    JSON is not a part of YAML: it writes a letter beyond the first plane as two escapes, as Python's `json.dumps` does.
    """
    if len(text) > TEXT_CHARACTERS_MAX or not text.lstrip("\ufeff \t\r\n").startswith("{"):
        return None
    try:
        document = json.loads(text.lstrip("\ufeff"), object_pairs_hook=_without_repeats, parse_constant=_no_constant)
        return document if _fits(document) else None
    except (ValueError, RecursionError):
        return None


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs) or len(mapping) > KEYS_MAX:
        raise ValueError("a key is repeated, or there are too many")
    return mapping


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _fits(document: Any) -> bool:
    """Return whether a document is within the bounds and all of its strings are valid Unicode, without lone surrogates."""
    nodes, level = 0, [document]
    for _ in range(DEPTH_MAX + 1):
        if not level:
            return True
        nodes += len(level)
        for text in (node for node in level if isinstance(node, str)):
            text.encode()
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in ((*node, *node.values()) if isinstance(node, dict) else node)
        ]
        if nodes + len(level) > NODES_MAX:
            return False
    return False


# ------------------------------------------------------------------ YAML
@dataclass(slots=True)
class _Budget:
    """Nodes that may still be looked at."""

    nodes: int = NODES_MAX


def _parse(text: str) -> Any:
    if len(text) > TEXT_CHARACTERS_MAX:
        hint = f"keep it below {TEXT_CHARACTERS_MAX:,}"
        raise _refused(DOCUMENT, f"has {len(text):,} characters", None, hint)
    try:
        _check_size(text)
        roots = [node for node in yaml.compose_all(text, Loader=LOADER) if not _is_null(node)]
        root = roots[0] if len(roots) == 1 else _only([(*_kind_and_name(node), node) for node in roots])
        _check_node(root, "", 0, _Budget())
        return _built(root)
    except RecursionError as error:
        raise _refused(DOCUMENT, "is nested too deeply", None, f"keep it below {DEPTH_MAX} levels") from error
    except (yaml.YAMLError, ValueError) as error:
        if isinstance(error, SpecError):
            raise
        raise _not_yaml(error, text) from error


def _kind_and_name(node: yaml.Node) -> tuple[str, str]:
    """Return kind and name of one of several documents, without building it."""
    fields = _fields(node)
    kind, name = (_plain(value) for value in (fields.get("kind"), _fields(fields.get("metadata")).get("name")))
    return kind or "a document without a kind", name or "?"


def _fields(node: yaml.Node | None) -> dict[str, yaml.Node]:
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return {key.value: value for key, value in pairs if isinstance(key, yaml.ScalarNode)}


def _check_size(text: str) -> None:
    """Refuse deep nesting and endless lists first: on these, libyaml's recursive composer would end the process."""
    depth = nodes = 0
    for event in yaml.parse(text, Loader=LOADER):
        nodes += isinstance(event, yaml.NodeEvent)
        if nodes > NODES_MAX:
            raise _refused(DOCUMENT, f"has more than {NODES_MAX:,} values", None, "make it shorter")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEPTH_MAX + 1:
                raise _refused(DOCUMENT, "is nested too deeply", None, f"keep it below {DEPTH_MAX} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _built(node: yaml.Node) -> Any:
    """Return the value of a composed document."""
    builder = LOADER("")
    try:
        return builder.construct_document(node)
    finally:
        builder.dispose()


def _not_yaml(error: yaml.YAMLError | ValueError, text: str) -> SpecError:
    """Return the error for text that is not YAML, with its line and a caret below the place."""
    hint = RENDER if TEMPLATED.search(text) else "check indentation and quotes there"
    mark = getattr(error, "problem_mark", None)
    if mark is None:  # PyYAML answers an impossible date with a bare ValueError
        return _refused(DOCUMENT, f"is not YAML: {' '.join(str(error).split())}", None, hint)
    context, problem = getattr(error, "context", None), getattr(error, "problem", None)
    message = ", ".join(part for part in (context, problem) if part)
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    start = max(0, mark.column - LINE_CHARACTERS_MAX // 2)
    excerpt = f"  {line[start : start + LINE_CHARACTERS_MAX]}\n  {' ' * (mark.column - start)}^"
    where = f"line {mark.line + 1}, column {mark.column + 1}"
    return SpecError((FieldError(DOCUMENT, f"is not YAML: {message} ({where})", "", hint),), excerpt)


def _check_node(node: yaml.Node, path: str, depth: int, budget: _Budget) -> None:
    """Refuse repeated keys, keys that are not text, and documents that are too large."""
    budget.nodes -= 1
    if budget.nodes < 0 or depth > DEPTH_MAX:
        raise _refused(path or DOCUMENT, "is too large or refers to itself", None, "write it out without anchors")
    if isinstance(node, yaml.ScalarNode) and node.tag in NUMBERS and len(node.value) > NUMBER_CHARACTERS_MAX:
        message = f"is a number of {len(node.value):,} characters"
        raise _refused(path or DOCUMENT, message, node.value, "write a shorter one, or put a string in quotes")
    if isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            _check_node(item, child(path, number), depth + 1, budget)
    elif isinstance(node, yaml.MappingNode):
        if len(node.value) > KEYS_MAX:
            raise _refused(path or DOCUMENT, f"has {len(node.value):,} keys", None, f"keep it below {KEYS_MAX:,}")
        lines: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                # `{{ .Values.name }}` is a mapping whose key is a mapping.
                hint = RENDER if isinstance(key, yaml.MappingNode) else "use a plain name"
                raise _refused(path or DOCUMENT, f"has a key that is no text (line {line})", None, hint)
            name = child(path, key.value)
            if key.value in lines:
                message = f"is repeated (lines {lines[key.value]} and {line})"
                raise _refused(name, message, _plain(value), "remove one of them")
            lines[key.value] = line
            _check_node(value, name, depth + 1, budget)


def _is_null(node: yaml.Node | None) -> bool:
    return node is None or node.tag == "tag:yaml.org,2002:null"


def _plain(node: yaml.Node | None) -> Any:
    return node.value if isinstance(node, yaml.ScalarNode) else None


def _refused(path: str, message: str, value: Any, hint: str) -> SpecError:
    return SpecError((FieldError(path, message, "" if value is None else shown(value), hint),))
