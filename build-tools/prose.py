"""Count private idiom in docstrings, comments, messages and pages, per 1,000 words, folder by folder.

    python build-tools/prose.py                    a table: words, hits per 1,000 words, docstrings with a weak opening
    python build-tools/prose.py --worst 40 PATH    also the passages with the most hits, below some paths
    python build-tools/prose.py --rules            each pattern with what to write instead

`tests/architecture/test_words.py` fails if a folder exceeds `HITS_MAX` or `WEAK_MAX`.
"""

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
HITS_MAX = 4.0
"""Hits per 1,000 words of a folder."""

WEAK_MAX = 5.0
"""Percent of a folder's docstrings that begin as a question or a clause."""

WORDS_MIN = 200
"""Folders with fewer words have no rate."""

GENERATED = {"docs/fields.md", "CHANGELOG.md", "build-tools/prose.py", "tests/architecture/test_words.py"}
"""Files that are not counted: the list of patterns is one long hit."""


class Rule(NamedTuple):
    """A pattern of idiom, which matches text in lower case."""

    name: str
    pattern: re.Pattern[str]
    instead: str
    example: str


def _rule(name: str, pattern: str, instead: str, example: str) -> Rule:
    """Return a rule that ignores case.

    Pattern and text are compared in lower case, three times as fast as by an expression that ignores case.
    """
    return Rule(name, re.compile(pattern.lower()), instead, example)


SPEAKERS = (
    "spec|state|commit|log|table|schema|file|page|pages|docs|status|plan|target|source|footer|filter|topic|metadata|"
    "statistics|condition|message|job|receipt|pod|object|setting|value|field|row|that|which|what"
)
SPEECH = "says?|said|tells?|told|asks?|asked|knows?|knew|minds?|believes?|forgets?"
CLAUSES = (
    "is|was|are|were|comes?|came|goes|went|follows|it|they|that|else|an?|the|each|one|others|some|both|of|to|has|had|"
    "may|must|can|happened|stays|remains|lies|failed|arrived|passes"
)
RULES = (
    _rule("noun clause with what", rf"\bwhat (?:{CLAUSES})\b", "name the thing", "Return what is pending."),
    _rule("a thing that speaks", rf"\b(?:{SPEAKERS}) (?:{SPEECH})\b", "contains, records, defines", "The log says so."),
    _rule(
        "told, tells of",
        r"\b(?:is|are|was|were|be|been|being) told\b|\btells? of\b|\btold (?:by|in|of)\b",
        "receives, is configured with",
        "The driver is told.",
    ),
    _rule("None: clause", r"(?<!-> )(?<!>)\bNone: [a-z]", "`None` if ...", "None: no limit."),
    _rule(
        "inverted Of",
        r"(?:^|[.;:] )Of (?:a|an|the|each|those|these|all|what|many|its|rows|files|copies)\b",
        "put the subject first",
        "Of each file the rows are counted.",
    ),
    _rule(
        "is there",
        r"\b(?:is|are|was|were|be|been) (?:not )?there\b(?! (?:is|are|a|an|no|more))",
        "exists, is present",
        "The table is there.",
    ),
    _rule("anew", r"\banew\b", "again, from the start", "Begin anew."),
    _rule("beside", r"\bbeside\b", "with, next to, concurrently with", "A writer beside a job."),
    _rule(
        "as it is",
        r"\bas (?:it|they) (?:is|are|was|were|stands?|came|lies?)\b",
        "unchanged",
        "The file is copied as it is.",
    ),
    _rule("goes on", r"\b(?:go|goes|going|went|gone) on\b", "continues, resumes", "The job goes on."),
    _rule(
        "so many",
        r"\bso (?:many|long|much|few|large|old)\b(?! as)",
        "the number or the name of the limit",
        "Wait so long at most.",
    ),
    _rule(
        "words, texts",
        r"\b(?:in|our|its|their|own|these|other|by|of) words\b|\bwords (?:of|for|are|that)\b|\btexts\b|\ba text\b",
        "message, string, metadata",
        "A reason in words.",
    ),
    _rule(
        "others",
        r"\b(?:of|by|that|what|where|which|if|when|from) others\b|"
        r"\bothers (?:write|wrote|commit|committed|change|changed|made|make|brought|did|do|may|have)\b",
        "other writers",
        "Changes of others.",
    ),
    _rule("moment", r"\b(?:the|a|each|this|that|one|of) moments?\b", "time, timestamp", "At the moment of a commit."),
    _rule(
        "look",
        r"\b(?:a|the|one|each|every|another|last|first|next|this|two) looks?\b",
        "check, read, poll",
        "Each look takes a second.",
    ),
    _rule(
        "archaic",
        r"\b(?:mend|mends|mended|mending|bear|bears|borne|befall|befalls|heed|hastens?|nevertheless|hence|thereof|"
        r"therein|nor|lest|whatsoever)\b",
        "fix, tolerate, and not",
        "It can be mended.",
    ),
    _rule("in the mean", r"\bin the mean\b", "on average", "Two seconds in the mean."),
    _rule("people", r"\bpeople\b", "users, readers", "A message for people."),
    _rule(
        "of its own",
        r"\bof (?:its|their|his|our|one's|your|an?\w*) own\b",
        "separate, dedicated",
        "A thread of its own.",
    ),
    _rule("alone", r"\balone\b", "only", "The key alone decides."),
    _rule(
        "nobody and kin",
        r"\b(?:nobody|somebody|whoever|strangers?|neighbou?rs?|whomever)\b",
        "name the user, the writer, the client",
        "A stranger reads it.",
    ),
)
WEAK_OPENING = re.compile(
    r"^(?:What|Whatever|Whether|Where|Who|Whose|How|Which|When|Why|Of|By|In|From|With|Beside|Below)\b|"
    r"^(?:Is|Are|Was|Were|Does|Do|Did|Has|Have|Had|May|Must|Can|Could)\b[^.]*\?"
)

COMMENT = re.compile(r"#\S*(?:[ \t]+\S+){3}")
"""A comment of more than three words, or a string that resembles one; modules without a match need not be split into tokens."""


class Passage(NamedTuple):
    """A docstring, comment, message or paragraph."""

    path: str
    line: int
    kind: str
    text: str


@dataclass
class Score:
    """Counts of one folder."""

    words: int = 0
    hits: int = 0
    docstrings: int = 0
    weak: int = 0
    worst: list[tuple[Passage, list[str]]] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Hits per 1,000 words."""
        return 1000 * self.hits / max(1, self.words)

    @property
    def weak_percent(self) -> float:
        """Share of docstrings with a weak opening."""
        return 100 * self.weak / max(1, self.docstrings)


def hits_in(text: str) -> list[str]:
    """Return the name of the rule of each hit in a text."""
    lower = text.lower()
    return [rule.name for rule in RULES for _ in rule.pattern.findall(lower)]


def in_python(source: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, kind and text of each docstring, message and comment of a module."""
    nodes: list[tuple[ast.AST, bool]] = [(ast.parse(source), False)]
    while nodes:
        node, in_message = nodes.pop()
        in_message = in_message or isinstance(node, ast.Raise | ast.Call)
        for name in node._fields:
            value = getattr(node, name, None)
            children = value if isinstance(value, list) else [value]
            nodes += [(child, in_message) for child in children if isinstance(child, ast.AST)]
            for child in value if name == "body" and isinstance(value, list) else ():
                constant = child.value if isinstance(child, ast.Expr) else None
                if isinstance(constant, ast.Constant) and isinstance(constant.value, str):
                    yield child.lineno, "docstring", constant.value
        if (
            in_message
            and isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and len(node.value.split()) > 4
        ):
            yield node.lineno, "message", node.value
    if COMMENT.search(source) is None:
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and len(token.string.split()) > 3:
            yield token.start[0], "comment", token.string.lstrip("# ")


def in_markdown(page: str) -> Iterator[tuple[int, str, str]]:
    """Yield the paragraphs of a page, without its code."""
    line, prose = 1, re.sub(r"```.*?```", lambda block: "\n" * block.group().count("\n"), page, flags=re.DOTALL)
    for paragraph in re.split(r"(\n\s*\n)", prose):
        if len(paragraph.split()) > 6:
            yield line, "prose", paragraph
        line += paragraph.count("\n")


def in_yaml(document: str) -> Iterator[tuple[int, str, str]]:
    """Yield the comments of a document."""
    for number, line in enumerate(document.splitlines(), 1):
        comment = re.match(r"\s*#+ ?([A-Za-z].{12,})", line)
        if comment:
            yield number, "comment", comment[1]


READERS = {".py": in_python, ".md": in_markdown, ".yaml": in_yaml, ".yml": in_yaml, ".toml": in_yaml}


def passages(path: str, text: str) -> Iterator[Passage]:
    """Yield each passage of a file once."""
    found = dict.fromkeys(
        (line, kind, re.sub(r"\s+", " ", text.strip())) for line, kind, text in READERS[Path(path).suffix](text)
    )
    seen = set()
    for line, kind, words in found:
        if (line, words) not in seen:
            seen.add((line, words))
            yield Passage(path, line, kind, words)


def folder_of(path: str) -> str:
    """Return the folder that a file is counted in."""
    folders = Path(path).parts[:-1]
    return "/".join(folders[: 3 if folders[:1] in [("spark_app",), ("operator",), ("crds",)] else 2]) or "."


def tracked(paths: Iterable[str] = ()) -> list[str]:
    """Return the files that are counted, below some paths."""
    listed = subprocess.run(["git", "ls-files", *paths], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for path in listed.stdout.splitlines() if Path(path).suffix in READERS and path not in GENERATED]


def scores(paths: Iterable[str] = ()) -> dict[str, Score]:
    """Return the counts of each folder."""
    found: defaultdict[str, Score] = defaultdict(Score)
    for path in tracked(paths):
        if not (ROOT / path).exists():
            continue
        score = found[folder_of(path)]
        for passage in passages(path, (ROOT / path).read_text(errors="replace")):
            names = hits_in(passage.text)
            weak = passage.kind == "docstring" and WEAK_OPENING.search(passage.text) is not None
            score.words += len(passage.text.split())
            score.hits += len(names)
            score.docstrings += passage.kind == "docstring"
            score.weak += weak
            if names or weak:
                score.worst.append((passage, names + ["weak opening"] * weak))
    return dict(found)


def main(arguments: list[str]) -> int:
    """Run the program as the module's docstring shows."""
    parser = argparse.ArgumentParser(description="Count private idiom per 1,000 words.")
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="print the N passages with the most hits")
    parser.add_argument("--rules", action="store_true", help="print the patterns and what to write instead")
    given = parser.parse_args(arguments)
    if given.rules:
        print("\n".join(f"{rule.name:24} {rule.instead:40} {rule.example}" for rule in RULES))
        return 0
    counted = scores(given.paths)
    print(f"{'folder':44} {'words':>7} {'per 1,000':>9} {'weak':>6}")
    for folder, score in sorted(counted.items(), key=lambda item: -item[1].rate):
        print(f"{folder:44} {score.words:7} {score.rate:9.1f} {score.weak_percent:4.0f} %")
    worst = sorted((item for score in counted.values() for item in score.worst), key=lambda item: -len(item[1]))
    for passage, names in worst[: given.worst]:
        print(f"\n{passage.path}:{passage.line}  ({', '.join(sorted(set(names)))})\n  {passage.text[:300]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
