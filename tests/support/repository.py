"""Paths and files of the repository, for the architecture suite."""

import ast
import importlib.util
import subprocess
import sys
from functools import cache
from pathlib import Path

from backfill_api.plugins import NOT_OFFERED

ROOT = Path(__file__).parent.parent.parent
SOURCE_ROOTS = ("crds", "operator", "spark_app")
CORE = ROOT / "spark_app" / "backfill_core"
SPARK = ROOT / "spark_app" / "backfill_spark"


def program(name):
    """Return a program of build-tools as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "build-tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # Dataclasses in the module look it up there.
    spec.loader.exec_module(module)
    return module


def tracked():
    """Return the files that are, or are about to be, in the repository; all files if there is no repository."""
    listing = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listing.returncode != 0:
        roots = [
            "crds",
            "operator",
            "spark_app",
            "tests",
            "docs",
            "examples",
            "requirements",
            "build-tools",
            "charts",
            ".ci",
        ]
        return [path for name in roots for path in (ROOT / name).rglob("*") if path.is_file()]
    return [path for line in listing.stdout.splitlines() if (path := ROOT / line).is_file()]


def packaged():
    """Return the Python files of the wheel."""
    return sorted(path for root in SOURCE_ROOTS for path in (ROOT / root).rglob("*.py"))


def python():
    """Return every Python file: packages, tests, build tools."""
    return [*packaged(), *sorted((ROOT / "tests").rglob("*.py")), *sorted((ROOT / "build-tools").rglob("*.py"))]


def name(path):
    """Return the path relative to the repository, with slashes."""
    return path.relative_to(ROOT).as_posix()


def functions(path):
    """Yield the name and the number of lines of every function of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or 0) - node.lineno + 1


def docstrings(tree):
    """Yield the constants of a module that are docstrings, those of variables too."""
    for node in ast.walk(tree):
        for statement in getattr(node, "body", None) if isinstance(getattr(node, "body", None), list) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                yield statement.value


def attribute_chains(path):
    """Return `a.b.c` for every attribute access of a file, and `a.b` for every imported name."""
    return _attribute_chains(path.read_text())


@cache
def _attribute_chains(text):
    chains = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute):
            chains.append(_dotted(node))
        elif isinstance(node, ast.ImportFrom):
            chains += [f"{node.module}.{alias.name}" for alias in node.names]
    return chains


def _dotted(node):
    """Return the source of an attribute access; `ast.unparse` takes fifty times as long for a plain name."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    start = node.id if isinstance(node, ast.Name) else ast.unparse(node)
    return ".".join([start, *reversed(names)])


def plugins():
    """Return the folders of strategies, sources and sinks; those that are not offered yet are left out."""
    kinds = (CORE / "strategies", SPARK / "sources", SPARK / "sinks")
    folders = [path for kind in kinds for path in kind.iterdir() if path.is_dir() and path.name != "__pycache__"]
    doors = {path: path / "__init__.py" for path in folders}
    return sorted(path for path, door in doors.items() if not (door.exists() and NOT_OFFERED in door.read_text()))
