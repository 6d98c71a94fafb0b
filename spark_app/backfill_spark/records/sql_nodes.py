"""Nodes of parsed SQL: Spark's expressions before their names are resolved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

STARS = frozenset({"UnresolvedStar", "UnresolvedStarExceptOrReplace"})
NAMES = frozenset({"UnresolvedAttribute", "UnresolvedNamedLambdaVariable"})
"""Nodes with a name; in a lambda function Spark makes a variable of each name."""


def children(node: Any) -> list[Any]:
    """Return the children of a node, in order."""
    return items(node.children())


def items(sequence: Any) -> list[Any]:
    """Return the items of a Scala sequence."""
    return [sequence.apply(at) for at in range(sequence.size())]


def subtree(node: Any) -> Iterator[Any]:
    """Yield a node and all nodes below it."""
    yield node
    for child in children(node):
        yield from subtree(child)


def function_of(node: Any) -> str:
    """Return the name of a called function; for other nodes, the name of the class."""
    if node.nodeName() != "UnresolvedFunction":
        return str(node.nodeName()).lower()
    return str(node.nameParts().last()).lower()


def is_index(node: Any) -> bool:
    """Return True for an element of an array or a map, such as `a[0]`; False for a field."""
    if node.nodeName() != "UnresolvedExtractValue":
        return False
    _, key = children(node)
    return str(key.nodeName()) != "Literal" or str(key.dataType().sql()) != "STRING"


def is_star(node: Any) -> bool:
    """Return True for a star that stands for all columns; False for the star of a struct."""
    return str(node.nodeName()) in STARS and not node.target().isDefined()


def without_alias(node: Any) -> Any:
    """Return the expression of an `AS`; other nodes unchanged."""
    return node.child() if node.nodeName() == "Alias" else node


def parts(name: Any) -> list[str]:
    """Return the parts of a name: `a.b` has two."""
    return list(map(str, items(name.nameParts())))


def variables_of(function: Any) -> frozenset[str]:
    """Return the variables of a lambda function, in lower case."""
    _, *arguments = children(function)
    return frozenset(parts(argument)[0].lower() for argument in arguments)


def names_in(node: Any, variables: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the first parts of the names in an expression, in lower case, without `variables` and those of lambda functions."""
    if node.nodeName() == "LambdaFunction":
        variables |= variables_of(node)
    if node.nodeName() in NAMES and parts(node)[0].lower() not in variables:
        yield parts(node)[0].lower()
    for child in children(node):
        yield from names_in(child, variables)
