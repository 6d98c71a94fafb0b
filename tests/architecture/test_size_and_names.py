"""Files and functions are short enough to read in one sitting, and have descriptive names."""

import tomllib
from collections import Counter

import pytest
from support.repository import ROOT, functions, name, packaged, python

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
MODULES_MAX = 16
NAMELESS = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "managers", "stuff", "data", "info"}
FOLDERS = ("crds", "operator", "spark_app", "tests")
EXCEPTIONS = tomllib.loads((ROOT / "tests" / "architecture" / "exceptions.toml").read_text())


def crowded(root):
    """Return the folders below the roots with too many modules, with their number; an `__init__` does not count."""
    modules = [path for folder in FOLDERS for path in (root / folder).rglob("*.py") if path.name != "__init__.py"]
    held = Counter(path.parent.relative_to(root).as_posix() for path in modules)
    return {folder: number for folder, number in held.items() if number > MODULES_MAX}


class TestNamesSayWhatThingsAre:
    """A module named `utils` grows and is never cleaned up."""

    @pytest.mark.parametrize("path", python(), ids=name)
    def test_a_file_has_a_descriptive_name(self, path):
        """The rule includes the folders on its path."""
        assert not NAMELESS & {part.removesuffix(".py") for part in path.relative_to(ROOT).parts}

    def test_source_roots_and_tests_are_no_packages(self):
        """An `operator/__init__.py` would shadow the standard library, and kopf could not be imported."""
        roots = [ROOT / "crds", ROOT / "operator", ROOT / "spark_app", ROOT / "tests", *(ROOT / "tests").iterdir()]

        assert [name(root) for root in roots if (root / "__init__.py").exists()] == []

    @pytest.mark.parametrize("path", [path for path in packaged() if path.name == "__init__.py"], ids=name)
    def test_a_package_has_a_docstring(self, path):
        """A new developer first opens the `__init__` of a package."""
        assert path.read_text().startswith('"""')


class TestNothingIsTooLong:
    """Long files have two reasons to exist; long functions do two things. Exceptions have a written reason."""

    def test_no_file_is_too_long(self):
        """A file has at most 400 lines."""
        long = {name(path) for path in python() if len(path.read_text().splitlines()) > FILE_LINES_MAX}

        assert long == set(EXCEPTIONS["files"])

    def test_no_function_is_too_long(self):
        """A function has at most 60 lines, docstring included."""
        long = {
            f"{name(path)}:{function}"
            for path in packaged()
            for function, lines in functions(path)
            if lines > FUNCTION_LINES_MAX
        }

        assert long == set(EXCEPTIONS["functions"])

    def test_no_folder_has_too_many_modules(self):
        """A list of 16 names is read at a glance; a longer one must be searched."""
        assert crowded(ROOT) == {}

    def test_a_planted_large_folder_is_caught(self, tmp_path):
        """The folder is nested and has one module more than allowed."""
        for number in range(MODULES_MAX + 1):
            file = tmp_path / "operator" / "planted" / f"module_{number}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()

        assert crowded(tmp_path) == {"operator/planted": MODULES_MAX + 1}

    @pytest.mark.parametrize("kind", ["files", "functions"])
    def test_every_exception_has_a_reason(self, kind):
        """A reason is a sentence, not a word."""
        assert [entry for entry, reason in EXCEPTIONS[kind].items() if len(reason.split()) < 5] == []
