"""Finds each regular expression in the project's packages, with the called method."""

from __future__ import annotations

import ast
import importlib
import re
from dataclasses import dataclass

METHODS = {"search", "match", "fullmatch", "sub", "subn", "findall", "finditer", "split"}
ANYTHING = "a"
"""Stands for a part that is known only at run time; `re.escape` turns it into plain text."""


@dataclass(frozen=True)
class Use:
    """One use of an expression."""

    where: str
    pattern: str | bytes
    how: str
    flags: int


class UnknownPatternError(ValueError):
    """An expression that is not written where it is used."""


def uses_in(sources):
    """Return each use in modules, given as `(file, module name, text)`.

    Raises:
        UnknownPatternError: an expression cannot be read.
    """
    trees = [(file, module, ast.parse(text)) for file, module, text in sources]
    called = _methods_by_name([tree for _, _, tree in trees])
    uses = []
    for file, module, tree in trees:
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _of_re(node)]
        names = vars(importlib.import_module(module)) if calls else {}
        assigned = _names_of_compiled(tree)
        for call in calls:
            where = f"{file}:{call.lineno}"
            pattern, flags = _value(call.args[0], names, where), _flags(call, names)
            method = call.func.attr
            name = assigned.get(id(call))
            # An expression without a name, or with its use elsewhere, may be searched for.
            methods = {method} if method != "compile" else called.get(name, {"search"}) if name else {"search"}
            uses += [Use(where, pattern, how, flags) for how in sorted(methods)]
    return uses


def _of_re(call):
    function = call.func
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == "re"
        and function.attr in METHODS | {"compile"}
    )


def _methods_by_name(trees):
    """Return the methods that are called on each name, in all modules: a name may be imported."""
    methods = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in METHODS:
                name = getattr(node.value, "id", None) or getattr(node.value, "attr", None)
                methods.setdefault(name, set()).add(node.attr)
    return methods


def _names_of_compiled(tree):
    """Return the name that each compiled expression is assigned to."""
    names = {}
    for node in ast.walk(tree):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            pairs = (
                zip(target.elts, node.value.elts, strict=True)
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                else [(target, node.value)]
            )
            for name, value in pairs:
                names[id(value)] = getattr(name, "id", None) or getattr(name, "attr", None)
    return names


def _flags(call, names):
    position = {"compile": 1, "sub": 4, "subn": 4, "split": 3}.get(call.func.attr, 2)
    given = [keyword.value for keyword in call.keywords if keyword.arg == "flags"] or call.args[position:]
    return int(_evaluated(given[0], names)) if given else 0


def _value(node, names, where):
    try:
        return _evaluated(_Filled(names).visit(node), names)
    except Exception as error:
        raise UnknownPatternError(f"{where}: the expression is not written there ({error})") from error


class _Filled(ast.NodeTransformer):
    """Replaces the parts of an f-string that are known only at run time."""

    def __init__(self, names):
        self._names = names

    def visit_FormattedValue(self, node):
        try:
            return ast.Constant(str(_evaluated(node.value, self._names)))
        except Exception:
            return ast.Constant(ANYTHING)


def _evaluated(node, names):
    return eval(compile(ast.fix_missing_locations(ast.Expression(node)), "<expression>", "eval"), {"re": re, **names})
