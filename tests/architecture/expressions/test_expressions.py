"""Regular expressions take linear time: one input of a user must not block the operator or a driver for hours."""

import re
from functools import cache
from pathlib import Path

import pytest
from pydantic import BaseModel
from support.expressions.cost import cost_of
from support.expressions.used import UnknownPatternError, uses_in
from support.repository import ROOT, SOURCE_ROOTS, name

BOUNDED = {
    r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])": "what the second part gives back, the first part takes",
    r"(?P<group>[^_]+)_(?P<name>.+?)-(?P<version>\d+\.\d[^_]*)\.jar": "names of files, which have at most 255 characters",
}
"""Expressions that the check rejects although they are cheap, with the reason."""

QUADRATIC_USERS = r"((?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,31}:/*)[^\s@\"]*:[^\s@\"]*@"


def sources():
    """Yield file, module and content of each module in the packages."""
    for root in SOURCE_ROOTS:
        for path in sorted((ROOT / root).rglob("*.py")):
            module = ".".join(path.relative_to(ROOT / root).with_suffix("").parts).removesuffix(".__init__")
            yield name(path), module, path.read_text()


@cache
def uses():
    """Return each use of a regular expression in the packages."""
    return uses_in(list(sources()))


class TestEachExpression:
    """Each regular expression of the packages takes linear time."""

    def test_each_expression_takes_linear_time(self):
        """Nested quantifiers, or two in a row that match the same input, cost the square of its length or more."""
        costly = {
            f"{use.where}: {use.how} of {use.pattern!r} {cost}"
            for use in uses()
            if use.pattern not in BOUNDED and (cost := cost_of(use.pattern, use.how, use.flags))
        }

        assert not costly, "\n".join(sorted(costly))

    def test_each_exception_is_still_in_use(self):
        """A stale exception would excuse the next expression with the same pattern."""
        assert BOUNDED.keys() <= {use.pattern for use in uses()}

    def test_expressions_of_models_are_matched_by_rust(self):
        """pydantic's own engine is linear by construction, but can be configured to use Python's."""
        assert BaseModel.model_config.get("regex_engine") is None
        assert not [file for file, _, text in sources() if "regex_engine" in text]


class TestTheCheck:
    """The check rejects expressions that may take superlinear time, and no others."""

    @pytest.mark.parametrize(
        ("how", "pattern"),
        [
            ("search", r"(a+)+$"),
            ("match", r"(a|a)*b"),
            ("match", r"(a|ab|b)*c"),
            ("search", r"(a*b?)*c"),
            ("fullmatch", r"(?:[0-9]{1,9}[smhd]?)+"),
            ("match", r"\d+\d+x"),
            ("match", r"\s*,?\s*x"),
            ("search", r"x*y"),
            ("search", r"\s+$"),
            ("sub", QUADRATIC_USERS),
            ("finditer", rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'),
            ("search", r"A.*B|B.*A"),
            ("search", r"(a)\1"),
        ],
    )
    def test_the_check_rejects_superlinear_expressions(self, how, pattern):
        """A lint that never rejected anything proves nothing; some of these were in the product."""
        assert cost_of(pattern, how)

    @pytest.mark.parametrize(
        ("how", "pattern"),
        [
            ("sub", "/+"),
            ("match", "a*a*"),
            ("fullmatch", r"[^\s,:/@]+:[0-9]{1,5}(,[^\s,:/@]+:[0-9]{1,5})*"),
            ("search", r"(?<=/)([^/=\s]+)=[^/\n]*(?=/)"),
            ("search", r"\[([A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]"),
            ("search", r"(?:^|/)d-([0-9a-f]{32})-[^/]*/"),
            ("finditer", rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'),
        ],
    )
    def test_the_check_accepts_linear_expressions(self, how, pattern):
        """Users switch off a lint that rejects ordinary expressions."""
        assert not cost_of(pattern, how)

    def test_the_check_rejects_an_expression_that_it_cannot_read(self):
        """An expression in an argument is checked where it is written, or not at all."""
        text = Path(__file__).with_name("none.py")
        with pytest.raises(UnknownPatternError, match="not written there"):
            uses_in([(text.name, re.__name__, "import re\ndef find(given):\n    return re.search(given, 'a')\n")])
