"""Every test says why it exists."""

import ast

from support.repository import ROOT, name

SUITES = sorted((ROOT / "tests").rglob("test_*.py"))
WORDS_MIN = 3


def silent(text):
    """Return the test functions of a module whose docstring is missing, too short or the name again."""
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    tests = [(node.name, (ast.get_docstring(node) or "").split("\n")[0]) for node in nodes if node.name[:5] == "test_"]
    return [test for test, said in tests if len(said.split()) < WORDS_MIN or letters(said) == letters(test[5:])]


def letters(text):
    """Return the letters of a text, to compare a name with a sentence."""
    return "".join(letter for letter in text.lower() if letter.isalpha())


class TestATestSaysWhy:
    """A test that fails in three years is deleted, unless it says what it protects."""

    def test_in_a_docstring(self):
        """The name says what happens; the docstring says why that matters."""
        assert {name(path): found for path in SUITES if (found := silent(path.read_text()))} == {}

    def test_planted_violations_are_caught(self):
        """In classes too, and a docstring that repeats the name is none."""
        text = (
            "def test_missing(): ...\n"
            'def test_short(): """No."""\n'
            "class TestOne:\n"
            "    async def test_in_a_class(self): ...\n"
            '    def test_the_name_again(self): """The name, again."""\n'
            '    def test_good(self): """A reader must learn the reason."""\n'
            "    def helper(self): ...\n"
        )

        assert sorted(silent(text)) == ["test_in_a_class", "test_missing", "test_short", "test_the_name_again"]
