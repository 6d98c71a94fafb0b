"""CEL rules of the CRD, evaluated without a server: the part of the language that they use."""

import ast
import operator
import re
from functools import cache

TOKEN = re.compile(r"""\s*('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\d+|[A-Za-z_]\w*|&&|\|\||[=!<>]=|[?:!<>()\[\],.])""")
COMPARED = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "in": lambda item, items: item in items,
}  # fmt: skip
METHODS = {
    "size": len,
    "contains": lambda text, part: part in text,
    "startsWith": str.startswith,
    "matches": lambda text, pattern: re.search(pattern, text) is not None,
}


def broken(schema, value, path="spec"):
    """Yield (path, message) of each rule of a schema that a value breaks; rules about a change of a value are left out.

    The value has the defaults of the schema, as a server's.
    """
    for validation in schema.get("x-kubernetes-validations", ()):
        if "oldSelf" not in validation["rule"] and not holds(validation["rule"], value):
            yield path, validation["message"]
    below = value if isinstance(value, dict) else {}
    for name, field in schema.get("properties", {}).items():
        if name in below:
            yield from broken(field, below[name], f"{path}.{name}")
    for item in value if isinstance(value, list) else ():
        yield from broken(schema.get("items", {}), item, path)


def holds(rule, value):
    """Return whether a rule holds for a value.

    Raises:
        ValueError: the rule has a feature that this module does not know.
    """
    return _compiled(rule)({"self": value})


@cache
def _compiled(rule):
    reader = _Reader(rule)
    expression = reader.choice()
    if reader.next is not None:
        raise ValueError(f"unknown at {reader.next!r}: {rule}")
    return expression


class _Reader:
    """Compiles one rule to a function of its variables, by the precedence of CEL's operators."""

    def __init__(self, rule):
        self.tokens, at = [], 0
        while at < len(rule.rstrip()):
            token = TOKEN.match(rule, at)
            if token is None:
                raise ValueError(f"unknown at {rule[at:]!r}")
            self.tokens.append(token[1])
            at = token.end()

    @property
    def next(self):
        return self.tokens[0] if self.tokens else None

    def take(self, *expected):
        if not expected or self.next in expected:
            return self.tokens.pop(0)
        return None

    def need(self, token):
        if self.take(token) is None:
            raise ValueError(f"{token!r} is expected at {self.next!r}")

    def choice(self):
        condition = self.any_of()
        if not self.take("?"):
            return condition
        then = self.choice()
        self.need(":")
        other = self.choice()
        return lambda names: then(names) if condition(names) else other(names)

    def any_of(self):
        parts = [self.all_of()]
        while self.take("||"):
            parts.append(self.all_of())
        return parts[0] if len(parts) == 1 else lambda names: any(part(names) for part in parts)

    def all_of(self):
        parts = [self.comparison()]
        while self.take("&&"):
            parts.append(self.comparison())
        return parts[0] if len(parts) == 1 else lambda names: all(part(names) for part in parts)

    def comparison(self):
        left = self.unary()
        compared = COMPARED.get(self.take(*COMPARED))
        if compared is None:
            return left
        right = self.unary()
        return lambda names: compared(left(names), right(names))

    def unary(self):
        if self.take("!"):
            negated = self.unary()
            return lambda names: not negated(names)
        value = self.primary()
        while mark := self.take(".", "["):
            value = self.item_of(value) if mark == "[" else self.member_of(value)
        return value

    def item_of(self, value):
        key = self.choice()
        self.need("]")
        return lambda names: value(names)[key(names)]

    def member_of(self, value):
        name = self.take()
        if not self.take("("):
            return lambda names: value(names)[name]
        if name == "all":
            variable = self.take()
            self.need(",")
            (condition,) = self.until(")")
            return lambda names: all(condition(names | {variable: item}) for item in value(names))
        method, arguments = METHODS[name], self.until(")")
        return lambda names: method(value(names), *(argument(names) for argument in arguments))

    def until(self, end):
        """Compile a list of expressions up to its end."""
        expressions = []
        while not self.take(end):
            expressions.append(self.choice())
            self.take(",")
        return expressions

    def primary(self):
        token = self.take()
        if token == "(":
            inner = self.choice()
            self.need(")")
            return inner
        if token == "[":
            items = self.until("]")
            return lambda names: [item(names) for item in items]
        if token == "has":
            self.need("(")
            (field,) = self.until(")")
            return lambda names: _has(field, names)
        if token in ("true", "false"):
            return lambda names: token == "true"
        if token[0] in "'\"" or token.isdigit():
            literal = ast.literal_eval(token)
            return lambda names: literal
        return lambda names: names[token]


def _has(field, names):
    try:
        return field(names) is not None
    except KeyError:
        return False
