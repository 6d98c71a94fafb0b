"""The code uses standard terms and plain English.

A word that only this project understands costs every new reader a question. The list holds words without another use
here; it is not a style guide. A discarded word must not come back with the next copied sentence.
"""

import ast
import re

import pytest
from support.repository import name, program, tracked

TEXTS = {".py", ".md", ".yaml", ".yml", ".toml", ".sh", ".tpl", ".txt", ".json"}
OURSELVES = {"tests/architecture/test_words.py", "build-tools/prose.py"}
LOCKS = {"requirements/dev.txt", "requirements/image.txt"}

# Name the actor: the user, the operator, the reader. Say which action did not happen: "is not read", not "is read by
# none".
VAGUE = ["nobody", "somebody", "whoever", "what was told", "what it was told", "what was said", "last words"]
# Replaced names and images, each with the standard term.
REPLACED = {
    "SparkHands": "action executor",
    "pair of hands": "executor",
    "pairs of hands": "executors",
    "the hands": "the executor or the shell",
    "last_words": "termination message",
    "harvest": "prepare_commit",
    "yardstick": "PendingLimit",
    "rendezvous": "local registry",
    "cure": "hint",
    "LookAtHead": "PollSource",
    "HeadMoved": "SourcePolled",
    "LookFailed": "PollFailed",
    "LookLive": "RefetchPods",
    "WriteStatusFirst": "PersistIntent",
    "KeepObjects": "EnsureObjects",
    "stands_still": "stalled",
    "touch_base": "follow_current_driver",
    "deeds": "transitions",
    "nudge": "wake",
    "operator_run": "operator_attempt",
    "run_number": "attempt",
    "PastRun": "PastAttempt",
}
# Meaningless names of classes and functions; sentences may use them.
CLASSES = {
    "Charged", "ControlSeat", "Face", "Gate", "Parts", "Piece", "Room", "Sight", "Spoken", "Stock", "Turn", "Yardstick",
}  # fmt: skip
FUNCTIONS = {"aloft", "depart", "fly", "heard", "landed", "told"}

WORDS = [word.lower() for word in (*VAGUE, *REPLACED)]
FORBIDDEN = re.compile(r"(?<![a-z])(?:" + "|".join(map(re.escape, WORDS)) + r")s?(?![a-z])")
"""Matches text in lower case."""


DEFINITION = re.compile(r"\b(?:class|def)\s+_*(?:" + "|".join(sorted(CLASSES | FUNCTIONS)) + r")_*\b")
"""A definition with a forbidden name, or a sentence that resembles one; modules without a match are not parsed."""

LOOP = re.compile(r"\bfor\b[^:]*\bone\b")
"""A loop over `one`, or a sentence that resembles one; modules without a match are not parsed."""


def idiom(text):
    """Return the forbidden words in a string."""
    lower = text.lower()
    # A search for strings takes a tenth of the time of the expression, and most files have none of them.
    return sorted(set(FORBIDDEN.findall(lower))) if any(word in lower for word in WORDS) else []


def odd_names(text):
    """Return the classes and functions of a module that have a forbidden name."""
    if DEFINITION.search(text) is None:
        return []
    nodes = list(ast.walk(ast.parse(text)))
    classes = {node.name for node in nodes if isinstance(node, ast.ClassDef)} & CLASSES
    functions = {node.name.strip("_") for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    return sorted(classes | (functions & FUNCTIONS))


def read(path):
    """Return the content of a file with its path, because a path may contain a forbidden word too."""
    return f"{name(path)}\n{path.read_text(errors='replace')}"


def texts():
    """Return the project's files with prose."""
    return [path for path in tracked() if path.suffix in TEXTS and name(path) not in OURSELVES | LOCKS]


class TestPlainEnglish:
    """Many readers learned English as a second language."""

    def test_no_text_contains_a_forbidden_word(self):
        """The check covers code, docstrings, comments, messages and pages."""
        assert {name(path): found for path in texts() if (found := idiom(read(path)))} == {}

    def test_no_class_or_function_has_a_forbidden_name(self):
        """Each of these things has a standard name."""
        modules = [path for path in texts() if path.suffix == ".py"]

        assert {name(path): found for path in modules if (found := odd_names(path.read_text()))} == {}

    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("# Nobody reads it.", ["nobody"]),
            ("def last_words(): ...", ["last_words"]),
            ("one = SparkHands()", ["sparkhands"]),
            ('raise Wrong("whoever wrote it")', ["whoever"]),
            ("| `a` | cures |", ["cures"]),
            ("Everybody is secure; procure two.", []),
        ],
    )
    def test_a_planted_word_is_caught(self, text, found):
        """A longer word that contains a forbidden one passes."""
        assert idiom(text) == found

    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("class Sight: ...", ["Sight"]),
            ("class Sights: ...", []),
            ("def _landed(): ...", ["landed"]),
            ("turn = landed()", []),
        ],
    )
    def test_a_planted_name_is_caught(self, text, found):
        """The check covers definitions; uses follow."""
        assert odd_names(text) == found


PROSE = program("prose")


class TestTheRateOfIdiom:
    """Each folder stays readable for engineers who see the project for the first time."""

    def test_every_folder_has_few_hits_and_few_weak_openings(self):
        """`python build-tools/prose.py --worst 40 FOLDER` lists the passages to rewrite."""
        counted = {folder: score for folder, score in PROSE.scores().items() if score.words >= PROSE.WORDS_MIN}

        assert {folder: score.rate for folder, score in counted.items() if score.rate > PROSE.HITS_MAX} == {}
        weak = {folder: score.weak_percent for folder, score in counted.items()}
        assert {folder: percent for folder, percent in weak.items() if percent > PROSE.WEAK_MAX} == {}

    @pytest.mark.parametrize("rule", PROSE.RULES, ids=lambda rule: rule.name)
    def test_each_pattern_finds_its_example(self, rule):
        """The advice of the rule is free of its pattern."""
        assert rule.name in PROSE.hits_in(rule.example)
        assert rule.pattern.search(rule.instead.lower()) is None

    @pytest.mark.parametrize(
        ("opening", "weak"),
        [
            ("What a commit contains.", True),
            ("Is the table empty?", True),
            ("Of each file, its rows.", True),
            ("Return the rows of a file.", False),
            ("Metadata of a source table.", False),
        ],
    )
    def test_an_opening_is_a_sentence_or_a_noun_phrase(self, opening, weak):
        """A question or a clause makes the reader guess the subject."""
        assert bool(PROSE.WEAK_OPENING.search(opening)) is weak

    def test_planted_idiom_is_found_in_each_kind_of_text(self):
        """Docstrings, comments and messages of code, paragraphs of pages, comments of YAML."""
        code = '"""The log says so."""\nraise E("the other table is there before ours")\n# it is made anew by the job\n'
        kinds = [(passage.kind, PROSE.hits_in(passage.text)) for passage in PROSE.passages("a.py", code)]

        assert kinds == [
            ("docstring", ["a thing that speaks"]),
            ("message", ["is there"]),
            ("comment", ["anew"]),
        ]
        page, document = "The job goes on after a kill, as before.\n", "# Each table is copied as it is\na: 1\n"
        assert [PROSE.hits_in(passage.text) for passage in PROSE.passages("a.md", page)] == [["goes on"]]
        assert [PROSE.hits_in(passage.text) for passage in PROSE.passages("a.yaml", document)] == [["as it is"]]


def loops_over_one(text):
    """Return the lines of a module whose loop variable is called `one`."""
    if LOOP.search(text) is None:
        return []
    targets = [
        node.target
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension)
    ]
    names = [name for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
    return [name.lineno for name in names if name.id == "one"]


class TestLoopVariables:
    """A loop variable has the name of the element: a file, a split, a column."""

    def test_no_loop_variable_is_called_one(self):
        """The check covers loops and comprehensions of all modules."""
        modules = [path for path in texts() if path.suffix == ".py"]

        assert {name(path): lines for path in modules if (lines := loops_over_one(path.read_text()))} == {}

    @pytest.mark.parametrize(
        ("text", "lines"),
        [
            ("for one in rows: ...", [1]),
            ("a = [one for one in rows]", [1]),
            ("for at, one in enumerate(rows): ...", [1]),
            ("for row in rows: one = row", []),
        ],
    )
    def test_a_planted_loop_is_caught(self, text, lines):
        """Also in a comprehension, and as one of two names."""
        assert loops_over_one(text) == lines
