"""The code speaks the words of the field, and plain English.

A word that only this project understands costs every new reader a question. The list holds words that have no other use here; it is
no style guide. A word that was given up must not come back with the next copied sentence.
"""

import ast
import re

import pytest
from support.repository import name, tracked

TEXTS = {".py", ".md", ".yaml", ".yml", ".toml", ".sh", ".tpl", ".txt", ".json"}
OURSELVES = {"tests/architecture/test_words.py"}
LOCKS = {"requirements/dev.txt", "requirements/image.txt"}

# Say who: the user, the operator, the reader. Say what did not happen: "is not read", not "is read by none".
VAGUE = ["nobody", "somebody", "whoever", "what was told", "what it was told", "what was said", "last words"]
# Names and images that were replaced, with the word of the field.
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
# Names of classes and functions that say nothing to a reader of the field; as words of a sentence they are free.
CLASSES = {
    "Charged", "ControlSeat", "Face", "Gate", "Parts", "Piece", "Room", "Sight", "Spoken", "Stock", "Turn", "Yardstick",
}  # fmt: skip
FUNCTIONS = {"aloft", "depart", "fly", "heard", "landed", "told"}

FORBIDDEN = re.compile(
    r"(?<![a-z])(?:" + "|".join(re.escape(word) for word in [*VAGUE, *REPLACED]) + r")s?(?![a-z])", flags=re.IGNORECASE
)


def idiom(text):
    """Return the forbidden words of a text."""
    return sorted({found.group().lower() for found in FORBIDDEN.finditer(text)})


def odd_names(text):
    """Return the classes and functions of a module that have a forbidden name."""
    nodes = list(ast.walk(ast.parse(text)))
    classes = {node.name for node in nodes if isinstance(node, ast.ClassDef)} & CLASSES
    functions = {node.name.strip("_") for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    return sorted(classes | (functions & FUNCTIONS))


def read(path):
    """Return the text of a file with its path: a file may be named for an idiom too."""
    return f"{name(path)}\n{path.read_text(errors='replace')}"


def texts():
    """Return the files that hold words of ours."""
    return [path for path in tracked() if path.suffix in TEXTS and name(path) not in OURSELVES | LOCKS]


class TestPlainEnglish:
    """A sentence is read by people whose first language is another one."""

    def test_no_idiom_of_our_own(self):
        """In code, docstrings, comments, messages and pages alike."""
        assert {name(path): found for path in texts() if (found := idiom(read(path)))} == {}

    def test_no_name_of_our_own(self):
        """The dictionary of the field has a name for each of these things."""
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
        """And a longer word that contains one is not."""
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
        """Where it is defined; its uses follow."""
        assert odd_names(text) == found
