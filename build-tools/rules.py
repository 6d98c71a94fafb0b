"""Print each numbered rule with the code and the tests that cite it, or the reason why it cannot apply (`make rules`).

A citation is the rule's id: `R-SNAP-7`, or `R-SNAP-7, 22 and 35` and `R-SNAP-23 to 28` for several rules of one executor.
In code, it counts anywhere in a file. In tests, it counts only in the name or the docstring of a test.
"""

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from backfill_core import strategies

ROOT = Path(__file__).parent.parent
RULES_TOML = Path(__file__).parent / "rules.toml"
READMES = ROOT / "spark_app" / "backfill_core" / "strategies"
SOURCE_ROOTS = ("spark_app", "operator", "crds")
REFERENCE = ("tests/support/reference", "tests/simulation/reference")
"""The reference machines and their tests: they define a rule, but do not prove that a strategy follows it."""

NOT_TESTS = "tests/architecture"
CITATION = re.compile(r"R-([A-Z]+)-(\d+(?:(?:, and |, | and |/| to )(?:R-\1-)?\d+)*)")
SPAN = re.compile(r"(\d+)(?: to (?:R-[A-Z]+-)?(\d+))?")
NOT_BUILT = "not built yet"

INTRODUCTION = """\
# Rules, with their code and tests

The strategies port the backfill executors of a streaming database. Numbered rules define the behaviour of those executors.
For each rule, this page lists the code that follows it, the tests that check it, and the reference machine: a row-by-row
model that shares no code with the strategy. A rule that cannot apply here has a reason.

Each rule of an available strategy has a test or a reason, and no file cites an unlisted rule
(`tests/architecture/pages/test_rules.py`).
"""


@dataclass(frozen=True)
class Section:
    """The rules of one executor."""

    title: str
    strategy: str | None
    """The strategy that follows the rules; `None` if they apply to every job."""

    words: str
    rules: Mapping[str, str]
    """The rules, by their ids."""

    reasons: Mapping[str, str]
    """The reasons why rules cannot apply, by their ids."""

    @property
    def built(self) -> bool:
        """True if its strategy is available."""
        return self.strategy is None or self.strategy in strategies.discover()


@dataclass
class Cited:
    """The files that cite a rule."""

    code: list[str] = field(default_factory=list)
    tests: list[str] = field(default_factory=list)
    reference: list[str] = field(default_factory=list)


def ids(text: str) -> list[str]:
    """Return the ids of the rules that a string cites, in their order."""
    cited = [(citation[1], span) for citation in CITATION.finditer(text) for span in SPAN.finditer(citation[2])]
    return [f"R-{kind}-{number}" for kind, span in cited for number in range(int(span[1]), int(span[2] or span[1]) + 1)]


def reasons_of(readme: str) -> Iterator[tuple[str, str]]:
    """Yield the rules of a README's table of rules that cannot apply, each with its reason; a row may name several."""
    for line in readme.splitlines():
        if line.startswith("| R-"):
            cited, reason = line.strip("| ").split("|", 1)
            yield from ((rule, reason.strip()) for rule in ids(cited))


def sections() -> list[Section]:
    """Return all rules."""
    documents = tomllib.loads(RULES_TOML.read_text())
    given = dict(pair for path in sorted(READMES.glob("*/README.md")) for pair in reasons_of(path.read_text()))
    return [
        Section(
            section["title"],
            section.get("strategy"),
            section["words"],
            section["rules"],
            {rule: reason for rule, reason in (given | section.get("reasons", {})).items() if rule in section["rules"]},
        )
        for section in documents.values()
    ]


def tested(source: str) -> Iterator[str]:
    """Yield name and docstring of each test in a module; a class, a helper or a comment asserts nothing."""
    if CITATION.search(source) is None:  # Most modules cite no rule, and to parse all takes seconds.
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            yield f"{node.name} {ast.get_docstring(node) or ''}"


def citations() -> dict[str, Cited]:
    """Return the files that cite each id, including ids without a rule."""
    cited_by_rule: dict[str, Cited] = {}
    for folder in (*SOURCE_ROOTS, "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if name.startswith(NOT_TESTS):
                continue
            source = path.read_text()
            text = source if folder != "tests" else "\n".join(tested(source))
            for rule in dict.fromkeys(ids(text)):
                cited = cited_by_rule.setdefault(rule, Cited())
                if folder != "tests":
                    cited.code.append(name)
                elif name.startswith(REFERENCE):
                    cited.reference.append(name)
                else:
                    cited.tests.append(name)
    return cited_by_rule


def links(names: list[str]) -> str:
    """Return the names of files as one cell."""
    return ", ".join(names)


def row(rule: str, section: Section, cited: Cited) -> str:
    """Return the row of a rule."""
    code = [links(cited.code)] if cited.code else []
    reason = section.reasons.get(rule)
    if reason is not None:
        code.append(f"*{reason}*")
    elif not code:
        code.append("" if section.built else NOT_BUILT)
    cells = (section.rules[rule], "; ".join(code), links(cited.tests), links(cited.reference))
    return f"| {rule} | " + " | ".join(cells) + " |"


def render() -> str:
    """Return all rules as Markdown tables."""
    cited_by_rule = citations()
    lines = [INTRODUCTION]
    for section in sections():
        head = "rule | requirement | code, or *why it cannot apply* | tests | reference machine"
        state = "" if section.built else f" {NOT_BUILT.capitalize()}."
        lines += [f"## {section.title}", "", section.words + state, "", f"| {head} |", "|---|---|---|---|---|"]
        lines += [row(rule, section, cited_by_rule.get(rule, Cited())) for rule in section.rules]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(render())
