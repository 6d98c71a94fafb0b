"""Every test has a docstring with its purpose."""

import ast

from support.repository import ROOT, name

SUITES = sorted((ROOT / "tests").rglob("test_*.py"))
WORDS_MIN = 3


def silent(text):
    """Return the test functions of a module whose docstring is missing, too short, or only repeats the name."""
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    tests = [(node.name, (ast.get_docstring(node) or "").split("\n")[0]) for node in nodes if node.name[:5] == "test_"]
    return [
        test for test, summary in tests if len(summary.split()) < WORDS_MIN or letters(summary) == letters(test[5:])
    ]


def letters(text):
    """Return the letters of a string, to compare a name with a sentence."""
    return "".join(letter for letter in text.lower() if letter.isalpha())


class TestATestSaysWhy:
    """A test that fails in three years is deleted unless its docstring names what it protects."""

    def test_every_test_has_a_docstring_with_its_purpose(self):
        """The name describes the behaviour; the docstring gives the reason for it."""
        assert {name(path): missing for path in SUITES if (missing := silent(path.read_text()))} == {}

    def test_planted_violations_are_caught(self):
        """Tests in classes count too, and a docstring that repeats the name does not."""
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
